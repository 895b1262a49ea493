"""Methods that sample lots: whole fits prove part of the claim and never more; planted faults are convicted."""

import functools

import numpy as np
import pytest
import torch
from scipy.stats import norm

from medsynth.audit import pipeline, whole_fits
from medsynth.audit.statistics import Errors
from medsynth.audit.whole_fits import Done, WatchedVault, WholeFits, proven_epsilon
from medsynth.privacy.accounting.calibration import Charge, Plan, make_plan
from medsynth.privacy.networks import Mlp
from medsynth.privacy.noise import noised
from medsynth.privacy.queries import query
from medsynth.rng import SeededEntropy
from medsynth.schema import Schema

EXAMPLE = Schema.from_dict(pipeline.EXAMPLE)
LABEL, LOTS, BOUND = "gradients", 10, 0.5


@functools.cache
def plan_of_lots() -> Plan:
    """Plan ten lots of half of the rows. Composing them takes more than a second, so not when tests are collected."""
    return make_plan([Charge(label=LABEL, weight=1.0, rate=0.5, times=LOTS)], epsilon=12.0, delta=1e-5, rows=100)


def evidence(present: bool, entropy: SeededEntropy) -> float:
    """Ten lots of a linear critic: the last row's gradient is clipped, and the others have gradients of their own."""
    codes = np.array([[k % 3] for k in range(20)] + [[7]], np.int32)
    watched = WatchedVault(codes, present, ("c",), plan_of_lots(), entropy)
    critic = Mlp([8, 1], bias=False)
    with pytest.raises(Done):
        for _ in range(LOTS + 1):
            watched.measure_gradient_sum(
                LABEL, critic, lambda out: out[:, 0], lambda c: torch.eye(8)[c[:, 0].astype(np.int64)], BOUND
            )
    return watched.evidence


def proven(trials: int) -> float:
    entropy = SeededEntropy(11)
    scores = np.array([[*(evidence(side, entropy) for side in (False, True)), 0.0] for _ in range(trials)])
    fits = WholeFits.of("dp-cgan", EXAMPLE)
    found = fits.__class__(
        method="lots", schema=EXAMPLE, module=fits.module, config=fits.config, plan=plan_of_lots()
    ).conclude(scores, 0.999)
    assert found.claimed_epsilon == plan_of_lots().epsilon and found.proven_epsilon is not None
    return found.proven_epsilon


@pytest.mark.nightly
@pytest.mark.statistical
def test_lots_prove_most_of_their_claim_and_never_more() -> None:
    """The seed is fixed; the chance that the bound lies above the truth is 1e-3 by the confidence."""
    assert 0.25 * plan_of_lots().epsilon <= proven(150) <= plan_of_lots().epsilon


@pytest.mark.nightly
@pytest.mark.statistical
def test_lots_with_half_the_noise_are_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "noised", lambda values, std, entropy: noised(values, std / 2, entropy))
    assert proven(200) > plan_of_lots().epsilon


def test_the_plans_own_curve_proves_the_plan() -> None:
    """Plain Gaussian measurements: the errors of the best attacker at the plan's noise prove its epsilon, nearly."""
    plan = make_plan([Charge(label=LABEL, weight=1.0, times=4)], epsilon=5.0, delta=1e-5, rows=100)
    mu = 2 / plan.events[LABEL][0].multiplier
    errors = Errors(false_positive=float(norm.sf(mu / 2)), false_negative=float(norm.sf(mu / 2)))
    assert proven_epsilon(plan, errors) == pytest.approx(plan.epsilon, rel=0.05)


@pytest.mark.nightly
@pytest.mark.parametrize("method", ["dp-cgan", "dp-gan"])
def test_whole_fits_of_methods_that_sample_lots_are_watched(method: str) -> None:
    fits = WholeFits.of(method, EXAMPLE, {**whole_fits.LOTS[method], "rate": 0.5})
    without, present, _ = fits.scores(SeededEntropy(2))
    assert np.isfinite([without, present]).all() and fits.mu is None
