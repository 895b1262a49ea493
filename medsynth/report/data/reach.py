"""Compute how far an attacker can get by what was measured. Plans use it, too, so it imports no section."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ...arrays import Floats
from ...privacy.accounting import accountant
from ...privacy.accounting.events import Event
from .verdict import Record

POINTS = 41  # Points of the trade-off curve.


class Reach(Record):
    """How far an attacker can get at most, by the measurements. `guess_right`: the best chance to guess whether a unit
    was in the table.

    `curve` bounds any attacker's true-positive rate (second) at each false-positive rate (first). From it follow
    `advantage`, the largest 2 AuROC - 1 of any attack, and `at_one_percent`, the rate at 1 % false alarms.
    """

    epsilon: float
    delta: float
    guess_right: float
    generic_guess_right: float
    advantage: float
    at_one_percent: float
    curve: list[tuple[float, float]]


def reach(events: Sequence[tuple[Event, int]], epsilon: float, delta: float, by: accountant.Accountant) -> Reach:
    """Return the limits that measurements, of a ledger or of a plan, set to attackers; `by` names the accountant."""
    deltas = [*np.geomspace(delta, 0.05, 10), *np.linspace(0.08, 0.92, 15)]
    pairs = [(epsilon, delta), *accountant.profile(events, [float(d) for d in deltas], by)]  # all valid at once
    # The generic bound is for any (epsilon, delta)-private mechanism. The ledger's own curve is much tighter.
    generic = (math.exp(epsilon) + delta) / (1 + math.exp(epsilon))
    fine = _curve(2001, pairs)
    return Reach(
        epsilon=epsilon,
        delta=delta,
        guess_right=min(generic, max((1 - x + y) / 2 for x, y in fine)),
        generic_guess_right=generic,
        # The curve rises, so the mean of right ends is no less than the area under it.
        advantage=min(1.0, 2 * sum(y for _, y in fine[1:]) / (len(fine) - 1) - 1),
        at_one_percent=float(_power(0.01, pairs)),
        curve=[(round(x, 4), round(y, 4)) for x, y in _curve(POINTS, pairs)],
    )


def guess(unit: str, right: float, verb: str = "is") -> str:
    """Return how often a guess about one unit is right at most, with the condition of these odds."""
    return (
        f"If both answers are equally likely at first, a guess whether one {unit} is in the table {verb} right at most "
        f"{right:.0%} of the time."
    )


def _power(false: float | Floats, pairs: list[tuple[float, float]]) -> Floats:
    """Return the largest true-positive rate at each false-positive rate that no pair rules out, in either direction."""
    bounds = [np.minimum(d + math.exp(e) * false, 1 - math.exp(-e) * (1 - d - false)) for e, d in pairs]
    return np.asarray(np.maximum(false, np.minimum(1.0, np.min(bounds, axis=0))))


def _curve(points: int, pairs: list[tuple[float, float]]) -> list[tuple[float, float]]:
    rates = np.linspace(0, 1, points)
    return list(zip(rates.tolist(), _power(rates, pairs).tolist(), strict=True))
