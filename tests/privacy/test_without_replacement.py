"""Secretly sampled shards: Renyi bounds and privacy loss against an independent accountant and brute force.

And what goes wrong otherwise: one sample counted as many, critics that train only when they are sampled.
"""

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import binom, norm

from medsynth.errors import BudgetError
from medsynth.privacy.accounting import accountant, shard_sampling
from medsynth.privacy.accounting.calibration import Charge, make_plan
from medsynth.privacy.accounting.events import (
    Event,
    Gaussian,
    PublicOrderGaussian,
    ShardSampledGaussian,
    SubsampledGaussian,
    Thresholded,
    from_json,
    to_json,
)
from tests.benchmarks import paper_epsilons

DELTA = 1e-5
GRID = [(z, n) for z in (0.3, 0.7, 1.0, 2.0, 8.0) for n in (2, 20, 1000)]


@pytest.mark.parametrize("multiplier, parties", GRID)
def test_renyi_bounds_are_those_of_dp_accounting(multiplier: Any, parties: Any) -> None:
    pytest.importorskip("dp_accounting")
    import dp_accounting
    from dp_accounting.rdp import RdpAccountant

    one = dp_accounting.SampledWithoutReplacementDpEvent(parties, 1, dp_accounting.GaussianDpEvent(multiplier))
    for order in (1.1, 1.5, 2, 2.7, 3, 5, 8, 16, 32, 128, 512):
        theirs = RdpAccountant([order], dp_accounting.NeighboringRelation.REPLACE_ONE).compose(one)._rdp[0]
        ours = shard_sampling.rdp(multiplier, parties, [order])[0]
        if order <= 32:
            assert ours == pytest.approx(theirs, rel=1e-6)
        # Beyond 64 it takes the coarser terms; beyond 256 theirs does, for all of them.
        assert order > 256 or ours >= theirs * (1 - 1e-6)


def test_one_party_is_a_plain_gaussian() -> None:
    assert shard_sampling.rdp(2.0, 1, [3.0])[0] == pytest.approx(3 / 8)
    one, plain = [(ShardSampledGaussian(multiplier=2.0, shards=1), 5)], [(Gaussian(multiplier=2.0), 5)]
    assert accountant.epsilon(one, DELTA, "rdp") == pytest.approx(accountant.epsilon(plain, DELTA, "rdp"))
    assert accountant.epsilon(one, DELTA) == pytest.approx(accountant.epsilon(plain, DELTA), rel=0.01)


def test_even_moments_are_closed_forms() -> None:
    """E (p/q - 1)^2 is exp(1/z^2) - 1; the quadrature has it to rounding, also where differences would cancel."""
    for z in (0.3, 1.0, 10.0, 1000.0):
        assert shard_sampling._even_moments(z)[0] == pytest.approx(math.log(math.expm1(z**-2)), rel=1e-8)
    # p/q - 1 is nearly x / z at large z: its fourth moment is 3 z^-4.
    assert shard_sampling._even_moments(1e5)[1] == pytest.approx(math.log(3) - 4 * math.log(1e5), abs=1e-4)


@pytest.mark.matrix
@pytest.mark.parametrize(
    "multiplier, parties, times", [(5, 2, 10), (0.98, 100, 1000), (0.5, 1000, 500), (3.0, 10, 200)]
)
def test_epsilon_agrees_with_an_independent_accountant(multiplier: float, parties: int, times: int) -> None:
    """Above dp-accounting's by a little, above Poisson lots, which are amplified more, and below the Renyi bound."""
    pytest.importorskip("dp_accounting")
    plain = (Gaussian(multiplier=4.0), 1)
    events: list[tuple[Event, int]] = [(ShardSampledGaussian(multiplier=multiplier, shards=parties), times), plain]
    ours, theirs = accountant.epsilon(events, DELTA), accountant.cross_check(events, DELTA)
    assert theirs <= ours + 0.005 * ours and ours <= 1.02 * theirs + 0.01
    lots: list[tuple[Event, int]] = [(SubsampledGaussian(multiplier=multiplier, rate=1 / parties), times), plain]
    assert accountant.cross_check(lots, DELTA) <= ours <= accountant.epsilon(events, DELTA, "rdp")


def tail(loss: Any, e: Any) -> Any:
    """Pr[L > e] and E[exp(-L); L > e], by sums over a fine mesh: the two parts of a hockey-stick divergence."""
    t = np.linspace(-30, 30, 60_001)
    mass = np.diff(loss.cdf(t))
    middle = (t[1:] + t[:-1]) / 2
    over = middle > e
    return mass[over].sum(), (mass * np.exp(-middle))[over].sum()


@pytest.mark.parametrize("multiplier, parties", [(0.5, 2), (1.0, 3), (1.0, 20), (2.0, 2)])
def test_no_measurements_of_parties_differ_by_more_than_is_charged(multiplier: float, parties: int) -> None:
    """Brute force: parties' values anywhere within one sensitivity on a line, one of them moved; both directions."""
    loss, rng = shard_sampling.ShardSamplingLoss(multiplier, 1 / parties), np.random.default_rng(0)
    assert tail(loss, -100.0)[1] == pytest.approx(1, abs=1e-3)
    x = np.linspace(-9 * multiplier, 9 * multiplier + 1, 8_001)
    cell = x[1] - x[0]
    tight = 0
    for trial in range(8):
        at = rng.random(parties) if trial else np.zeros(parties)
        moved = np.concatenate([[1.0 if trial == 0 else rng.choice([0.0, 1.0, rng.random()])], at[1:]])
        p, q = (norm.pdf(x[:, None], m, multiplier).mean(1) for m in (at, moved))
        for one, other in ((p, q), (q, p)):
            for e in (0.0, 0.05, 0.3, 1.0):
                most = np.subtract(*np.multiply((1, math.exp(e)), tail(loss, e)))
                found = np.clip(one - math.exp(e) * other, 0, None).sum() * cell
                assert found <= most + 1e-4
                tight += most > 1e-3 and found > 0.99 * most
    assert tight > 0  # it is met: no smaller curve would do


@pytest.mark.nightly_for("0.5", "20.0")
@pytest.mark.parametrize("epsilon", [0.5, 3.7, 20.0])
def test_plans_with_shards_spend_nearly_all_and_are_verified(epsilon: float) -> None:
    pytest.importorskip("dp_accounting")
    queries = [Charge(label="h", weight=3.0), Charge(label="u", weight=0.5, times=300, shards=30)]
    plan = make_plan(queries, epsilon=epsilon, delta=DELTA, rows=100, max_rows=3)
    assert plan.accountant == "prv" and 0.99 * epsilon < plan.epsilon <= epsilon
    assert accountant.cross_check(plan.events.values(), DELTA) <= epsilon * 1.005
    event = plan.events["u"][0]
    assert isinstance(event, ShardSampledGaussian) and isinstance(event.shards, int)
    assert from_json(to_json(event)) == event
    assert plan.noise("u") == event.multiplier  # a patient is in one shard: no factor
    assert plan.noise("h") == 3 * plan.events["h"][0].multiplier
    assert sum(plan.shares().values()) == pytest.approx(1)
    assert len(accountant.profile(plan.events.values(), [1e-6, 1e-3, 0.1], plan.accountant)) == 3


def test_a_plan_with_shards_falls_back_to_renyi(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(history: Any, delta: Any, error: Any = None) -> None:
        raise ValueError("as in Opacus issue 601")

    monkeypatch.setattr(accountant, "_prv", broken)
    queries = [Charge(label="h", weight=3.0), Charge(label="u", weight=0.5, times=300, shards=30)]
    plan = make_plan(queries, epsilon=3.7, delta=DELTA, rows=100)
    assert plan.accountant == "rdp" and 0.98 * 3.7 < plan.epsilon <= 3.7


def test_partition_selection_beside_shards_uses_its_delta() -> None:
    some = [(ShardSampledGaussian(multiplier=2.0, shards=10), 20)]
    keys = (Thresholded(multiplier=3.0, delta=0.9 * DELTA), 1)
    assert accountant.epsilon([*some, keys], DELTA) > accountant.epsilon([*some, (Gaussian(multiplier=3.0), 1)], DELTA)


@pytest.mark.parametrize("shards", [0, 2.5, "3"])
def test_a_number_of_shards_is_whole(shards: Any) -> None:
    with pytest.raises(BudgetError):
        ShardSampledGaussian(multiplier=1.0, shards=shards)


def test_one_sample_counted_as_many_is_the_papers_epsilon() -> None:
    """1000 critics, noise 1.07, 32 rows a step, 20,000 steps: 9.24 only if each row had a sample of its own."""
    sigma, rows, steps, critics = 1.07, 32, 20_000, 1000
    # (The public accountant also takes a sensitivity of C, where the theorem has 2 C.)
    as_claimed = [(ShardSampledGaussian(multiplier=sigma, shards=critics), steps * rows)]
    assert accountant.epsilon(as_claimed, DELTA, "rdp") == pytest.approx(9.24, abs=0.01)
    # All rows of a step share its sample: its sensitivity is 2 sqrt(32). Say one critic's gradient is unlike all the
    # others', which agree. A test that counts gradients beyond a threshold finds that critic: a lower bound.
    noise = sigma / (2 * math.sqrt(rows))
    best = paper_epsilons.least(noise)
    assert 330 < best < math.inf
    assert accountant.epsilon([(ShardSampledGaussian(multiplier=noise, shards=critics), steps)], DELTA, "rdp") > 1e5


@pytest.mark.parametrize("odds, steps, more, claimed, true", [(2, 60, 8, 27.57, 28.29), (3, 200, 40, 166.4, 176.8)])
def test_critics_that_train_only_when_sampled_break_the_amplification(
    odds: int, steps: int, more: int, claimed: float, true: float
) -> None:
    """Two critics; a release is a bit, true with odds to one: log(odds)-private in the critic's rows and state.

    `steps` times the sampled critic's bit follows its rows, then `more` times how often it was sampled. Tables differ
    in the first critic's rows. Step by step, two fresh samples would cost log((1 + odds) / 2) each. But given the bits,
    the first critic was sampled more often under one table than under the other, and the later bits show it.
    """
    step = math.log((1 + odds) / 2)
    assert (steps + more) * step == pytest.approx(claimed, abs=0.06)
    yes, no = odds / (1 + odds), 1 / (1 + odds)
    best = 0.0
    for least in range(steps + 1):  # all bits are one; later ones are one for a first critic sampled so often
        chance = []
        for first in (yes, no):  # the first critic's bits; the second one's tend to zero
            often = binom.sf(least - 1, steps, first / (first + no))
            chance.append(often * yes**more + (1 - often) * no**more)
        best = max(best, steps * step + math.log(chance[0] / chance[1]))
    assert best >= true > claimed


def test_a_public_order_costs_what_one_shard_releases() -> None:
    """Nine releases of four parties in order: at most three of one party, three plain ones; entries may be split."""
    plain = accountant.epsilon([(Gaussian(multiplier=2.0), 3)], DELTA)
    event = PublicOrderGaussian(multiplier=2.0, shards=4)
    assert accountant.epsilon([(event, 9)], DELTA) == pytest.approx(plain)
    assert accountant.epsilon([(event, 5), (event, 4)], DELTA) == pytest.approx(plain)
    assert accountant.epsilon([(event, 8)], DELTA) < plain
    assert from_json(to_json(event)) == event
    with pytest.raises(BudgetError):
        PublicOrderGaussian(multiplier=1.0, shards=0)


def test_shards_follow_in_order_and_the_papers_epsilon_is_stated() -> None:
    import torch

    from medsynth.methods import registry
    from medsynth.privacy.accounting.ledger import Ledger
    from medsynth.privacy.release import Releases
    from medsynth.privacy.shards import CriticConfig, Shards
    from medsynth.rng import SeededEntropy

    rows = torch.eye(3).repeat(4, 1)  # four shards of three rows; the last column is the one class
    rows[:, 2] = 1
    event = PublicOrderGaussian(multiplier=1e-9, shards=4)
    ledger = Ledger(delta=1e-5, accountant="rdp", random_source="t", allowance={"u": (event, 9)})
    releases = Releases(ledger, SeededEntropy(0))
    shards = Shards(rows, np.repeat(np.arange(4), 3), 4, 1, CriticConfig(), releases)
    gradients = [shards.measure_upstream_gradient("u", torch.tensor([[1.0, 0.0, 1.0]]), 1.0).numpy() for _ in range(9)]
    for step, gradient in enumerate(gradients):
        assert np.allclose(gradient, gradients[step % 4], atol=1e-6)
        assert step % 4 == 0 or not np.allclose(gradient, gradients[0], atol=1e-3)
    public_order = registry.load("gs-wgan", "public-order")
    first, second, *_ = public_order.notes(public_order.Config(), 3000, 20, 3.7)
    assert "120 critics" in first and "25 times each" in first and "epsilon 1342" in second and "not 10" in second


def test_two_gaussians_far_apart_take_the_coarse_bound() -> None:
    """Behind next to no noise one sample of n costs nearly what an unsampled measurement does; n helps little."""
    orders = [2.0, 8.0]
    sampled, plain = shard_sampling.rdp(0.02, 10, orders), [order / (2 * 0.02**2) for order in orders]
    assert (sampled <= np.asarray(plain) * (1 + 1e-9) + 2).all() and (sampled > 0.9 * np.asarray(plain)).all()


def test_a_sum_of_losses_reaches_as_far_as_its_pairs() -> None:
    """The pair's own divergences bound the sampled loss from above, and are infinite beyond their mesh."""
    own = shard_sampling.ShardSamplingLoss(1.0, 0.1).rdp([2.0, 8.0, 64.0])
    assert own[0] < own[1] < math.inf and own[2] == math.inf
    # At order two the divergence of the pair is E exp(L): by sums over the same loss.
    t = np.linspace(-30, 30, 60_001)
    mass = np.diff(shard_sampling.ShardSamplingLoss(1.0, 0.1).cdf(t))
    assert own[0] >= math.log((mass * np.exp(t[:-1])).sum()) - 1e-3
    # Next to no noise: the top of the mesh is taken by its logarithm, where its exponential overflows.
    assert np.isfinite(shard_sampling.ShardSamplingLoss(0.08, 0.1).rdp([1.1])).all()
