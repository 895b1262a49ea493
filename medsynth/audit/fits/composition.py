"""The trade-off curve that a whole plan claims, by simulation: Gaussian measurements, and lots of a rate.

Of each measurement the ideal attacker sees one number of the Gaussian with the target or without, and adds up the log
likelihood ratios. Plans whose noise is all smaller by one factor make a family: its member that just allows what an
attacker did is what was proven.
"""

from __future__ import annotations

import contextlib
from dataclasses import replace

import numpy as np

from ...privacy.accounting import accountant
from ...privacy.accounting.calibration import PRV_FAILURES, Plan
from ...privacy.accounting.events import Event, SubsampledGaussian
from ...rng import numpy_stream
from ..statistics import Errors, Floats

DRAWS = 50_000  # simulated fits a side: many more than an audit makes
HALVINGS = 9


def proven_epsilon(plan: Plan, errors: Errors, delta: float) -> float:
    """The epsilon of the plan with so much more noise that an attacker's `errors` are just possible."""
    low, high = 0.0, 4.0
    for _ in range(HALVINGS):
        middle = (low + high) / 2
        if _false_negatives(plan, middle, errors.false_positive) > errors.false_negative:
            low = middle  # under so much noise no attacker does so well
        else:
            high = middle
    if not low:
        return 0.0
    with contextlib.suppress(*PRV_FAILURES):  # so little noise that PRV accounting finds no bound
        return accountant.epsilon(_louder(plan, low), delta, plan.accountant)
    return accountant.epsilon(_louder(plan, low), delta, "rdp")


def _louder(plan: Plan, scale: float) -> list[tuple[Event, int]]:
    """The plan's events with their noise divided by `scale`."""
    return [(replace(event, multiplier=event.multiplier / scale), times) for event, times in plan.events.values()]


def _false_negatives(plan: Plan, scale: float, false_positive: float) -> float:
    """The least rate of false negatives at one of false positives."""
    stream = numpy_stream(0, "trade-off curve")
    without, present = np.zeros(DRAWS), np.zeros(DRAWS)
    for event, times in _louder(plan, scale):
        rate = event.rate if isinstance(event, SubsampledGaussian) else 1.0
        mu, times = (1 / event.multiplier, times) if rate < 1 else (times**0.5 / event.multiplier, 1)
        for _ in range(times):
            joined = stream.random(DRAWS) < rate
            without += _evidence(stream.standard_normal(DRAWS), mu, rate)
            present += _evidence(stream.standard_normal(DRAWS) + mu * joined, mu, rate)
    return float((present <= np.quantile(without, 1 - false_positive)).mean())


def _evidence(seen: Floats, mu: float, rate: float) -> Floats:
    """The log likelihood ratio of presence given a number of unit noise."""
    return np.asarray(np.log1p(rate * np.expm1(np.minimum(mu * seen - mu**2 / 2, 500.0))))
