"""Gradients of pairs with their penalty: clipped in groups, noised once, one release of sensitivity sqrt(k)."""

import copy
import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from medsynth.errors import BudgetError
from medsynth.methods.dp_gan import groups_of
from medsynth.privacy import clipping
from medsynth.privacy.accounting import accountant
from medsynth.privacy.accounting.events import Event, SubsampledGaussian
from medsynth.privacy.accounting.ledger import Ledger
from medsynth.privacy.clipping import (
    ONE_GRADIENT,
    Groups,
    LocalTraining,
    clipped_pair_sum,
    halves_below,
    pair_gradients,
)
from medsynth.privacy.contribution import PrivacyUnits
from medsynth.privacy.exact_sums import exact_sum
from medsynth.privacy.networks import Mlp
from medsynth.privacy.release import Releases
from medsynth.privacy.vault import Vault
from medsynth.rng import SeededEntropy

BOUNDS = {"global": (0.8,), "weight-bias": (0.8, 0.3), "clustered": (0.8, 0.3, 0.05)}
ROWS, RATE = 300, 0.3
LOCAL = [ONE_GRADIENT, LocalTraining(3, 0.05)]
Case = tuple[Mlp, torch.Tensor, torch.Tensor, torch.Tensor]  # critic, real and generated rows, coefficients


def loss(score: Any, real: Any, fake: Any, mix: Any) -> Any:
    between = mix * real + (1 - mix) * fake
    slope = torch.func.grad(score)(between)
    return score(fake) - score(real) + 10 * ((exact_sum(slope.square()) + 1e-12).sqrt() - 1).square()


def make(rows: int = 17, seed: int = 0, sizes: tuple[int, ...] = (6, 9, 1), activation: Any = "tanh") -> Case:
    stream = torch.Generator().manual_seed(seed)
    critic = Mlp(list(sizes), activation, stream)
    real, fake = (torch.randn(rows, sizes[0], generator=stream) for _ in range(2))
    return critic, real, fake, torch.rand(rows, generator=stream)


def set_gradients(critic: Mlp, real: torch.Tensor, fake: torch.Tensor, mix: torch.Tensor) -> None:
    """Those of one pair, by autograd through the penalty's own gradient."""
    between = (mix * real + (1 - mix) * fake).requires_grad_()
    (slope,) = torch.autograd.grad(critic(between[None]).sum(), between, create_graph=True)
    penalty = 10 * ((slope.square().sum() + 1e-12).sqrt() - 1).square()
    whole = (critic(fake[None]) - critic(real[None])).sum() + penalty
    grads = torch.autograd.grad(whole, list(critic.parameters()), allow_unused=True)
    for p, g in zip(critic.parameters(), grads, strict=True):
        p.grad = torch.zeros_like(p) if g is None else g


def looped(
    critic: Mlp, real: torch.Tensor, fake: torch.Tensor, mix: torch.Tensor, local: LocalTraining
) -> torch.Tensor:
    """One pair at a time, each on a copy of the critic of its own, whose steps are those of PyTorch's SGD."""
    found = []
    for pair in zip(real, fake, mix, strict=True):
        own, total = copy.deepcopy(critic), torch.zeros(sum(p.numel() for p in critic.parameters()))
        sgd = torch.optim.SGD(own.parameters(), local.rate)
        for _ in range(local.steps):
            set_gradients(own, *pair)
            total += torch.cat([p.grad.flatten() for p in own.parameters() if p.grad is not None])
            sgd.step()
        found.append(total)
    return torch.stack(found)


def total(case: Case, groups: Groups, local: LocalTraining = ONE_GRADIENT) -> torch.Tensor:
    """The clipped sum as numbers."""
    return clipped_pair_sum(case[0], loss, *case[1:], groups, local) * groups.spread(groups.units)


def grouped(kind: Any, case: Case) -> Groups:
    critic, real, fake, mix = case
    return Groups(groups_of(kind, critic, pair_gradients(critic, loss, real, fake, mix)), BOUNDS[kind])


@pytest.mark.matrix
@pytest.mark.parametrize("kind", BOUNDS)
@pytest.mark.parametrize("activation", ["tanh", "leaky_relu"])
@pytest.mark.parametrize("local", LOCAL, ids=["one gradient", "local training"])
def test_equals_the_loop_over_pairs(
    kind: Any, activation: str, local: LocalTraining, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(clipping, "PAIR_NUMBERS", 300)  # so that the rows come in several chunks
    case = make(7, activation=activation)
    each, groups = looped(*case, local), grouped(kind, case)
    assert torch.allclose(pair_gradients(case[0], loss, *case[1:], local).float(), each, atol=5e-5)
    expected = torch.zeros(each.shape[1], dtype=torch.float64)
    for row in each:
        for j, bound in enumerate(groups.bounds):
            part = torch.where(groups.of == j, row, 0.0)
            expected += part * min(1.0, bound / float(part.norm().clamp(min=1e-30)))
    assert torch.allclose(total(case, groups, local), expected, atol=5e-5)


@pytest.mark.parametrize("steps, rate", [(0, 0.1), (65, 0.1), (2, 0.0), (2, math.inf)])
def test_local_training_out_of_range_is_refused(steps: int, rate: float) -> None:
    with pytest.raises(BudgetError, match="1 to 64 steps"):
        LocalTraining(steps, rate)


@pytest.mark.nightly_for("local training-global", "local training-weight-bias")
@pytest.mark.parametrize("kind", BOUNDS)
@pytest.mark.parametrize("local", LOCAL, ids=["one gradient", "local training"])
def test_one_pair_moves_each_group_by_its_bound_and_the_scaled_sum_by_sqrt_k(kind: Any, local: LocalTraining) -> None:
    case = make(12)
    critic, real, fake, mix = case
    groups, worst = grouped(kind, case), 0.0
    before = total(case, groups, local)
    scale = torch.tensor(groups.bounds, dtype=torch.float64)[groups.of]
    for factor in (1.0, 30.0, 1e6):
        big = torch.cat([real, real[:1] * factor])
        more = (critic, big, torch.cat([fake, fake[:1]]), torch.cat([mix, mix[:1]]))
        moved = total(more, groups, local) - before
        for j, bound in enumerate(groups.bounds):
            assert moved[groups.of == j].norm() <= bound
        worst = max(worst, float((moved / scale).norm()))
    assert worst <= groups.sensitivity and groups.sensitivity == pytest.approx(math.sqrt(len(groups.bounds)))
    if len(groups.bounds) > 1:
        assert worst > 1.1  # more than one group's bound does happen: charging one group alone would be wrong


def test_a_pair_touches_no_other_pair() -> None:
    critic, real, fake, mix = make(12)
    other = real.clone()
    other[5] += 3
    one, two = (pair_gradients(critic, loss, r, fake, mix) for r in (real, other))
    rest = torch.arange(12) != 5
    assert torch.equal(one[rest], two[rest]) and not torch.equal(one[5], two[5])


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_pair_that_is_no_number_counts_nothing(bad: float) -> None:
    critic, real, fake, mix = make(6)
    groups = grouped("weight-bias", (critic, real, fake, mix))
    spoilt = torch.cat([real, torch.full((1, 6), bad)])
    got = clipped_pair_sum(critic, loss, spoilt, torch.cat([fake, fake[:1]]), torch.cat([mix, mix[:1]]), groups)
    assert torch.equal(got, clipped_pair_sum(critic, loss, real, fake, mix, groups))


def test_more_pairs_than_exact_sums_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before any is summed: a sum that overflows would be silent."""
    case = make(3)
    monkeypatch.setattr(clipping, "MOST_PAIRS", 2)
    with pytest.raises(BudgetError, match="too large for exact sums"):
        clipped_pair_sum(case[0], loss, *case[1:], Groups(torch.zeros(73, dtype=torch.int64), (1.0,)))


def test_an_empty_lot_sums_to_zero() -> None:
    case = make(0)
    groups = Groups(torch.zeros(73, dtype=torch.int64), (1.0,))
    assert not clipped_pair_sum(case[0], loss, *case[1:], groups).any()
    assert not halves_below(case[0], loss, *case[1:], groups).any()


def test_one_pair_moves_the_halves_by_half_a_root_of_k() -> None:
    critic, real, fake, mix = case = make(9)
    groups = grouped("clustered", case)
    less = halves_below(critic, loss, real[1:], fake[1:], mix[1:], groups)
    assert (halves_below(critic, loss, *case[1:], groups) - less).abs().tolist() == [1, 1, 1]  # in halves


@pytest.mark.parametrize("bounds", [(), (0.0,), (-1.0,), (math.inf,), (math.nan,)])
def test_bounds_must_be_positive_numbers(bounds: tuple[float, ...]) -> None:
    with pytest.raises(BudgetError):
        Groups(torch.zeros(4, dtype=torch.int64), bounds)
    with pytest.raises(BudgetError):
        Groups(torch.ones(4, dtype=torch.int64), (1.0,))


def test_k_groups_are_one_gaussian_of_sigma_over_root_k() -> None:
    """By dp-accounting: k releases of the same lot at sigma each cost what one at sigma / sqrt(k) does.

    Without sampling the k releases compose as plain Gaussians. The paper charges one of them (parallel composition):
    that theorem is about disjoint rows, and the figure that it gives is too small.
    """
    dp_accounting = pytest.importorskip("dp_accounting")
    from dp_accounting.pld import PLDAccountant

    def epsilon(sigma: Any, times: Any) -> Any:
        ledger = PLDAccountant(value_discretization_interval=1e-3)
        return ledger.compose(dp_accounting.GaussianDpEvent(sigma), times).get_epsilon(1e-5)

    sigma, k = 4.0, 5
    together = epsilon(sigma / math.sqrt(k), 1)
    assert epsilon(sigma, k) == pytest.approx(together, rel=1e-3)
    assert together > 2 * epsilon(sigma, 1)
    # Sampled: one coin serves all groups, so that sigma / sqrt(k) stands inside the sampled step.
    paper, due = (
        accountant.cross_check([(SubsampledGaussian(multiplier=m, rate=0.01), 1000)], 1e-5)
        for m in (2.0, 2.0 / math.sqrt(k))
    )
    assert due > 3 * paper


class Counting(SeededEntropy):
    """Seeded entropy that counts what was drawn."""

    drawn = 0

    def bytes(self, count: Any) -> Any:
        self.drawn += count
        return super().bytes(count)


STEP = SubsampledGaussian(multiplier=2.0, rate=RATE)


def vault(codes: Any, units: Any = None, seed: int = 0) -> Any:
    """A vault that allows nine steps of each kind, with noise that no budget decides: to plan it takes seconds."""
    allowance: dict[str, tuple[Event, int]] = {"g": (STEP, 9), "b": (STEP, 9)}
    entropy = Counting(seed)
    ledger = Ledger(delta=1e-5, accountant="prv", random_source=entropy.source, allowance=allowance,
                    max_rows=units.max_rows if units else None)  # fmt: skip
    return Vault(codes, ("a", "b"), Releases(ledger, entropy), units), ledger, entropy


def features(codes: Any) -> torch.Tensor:
    return torch.from_numpy(codes.astype(np.float32))


@pytest.mark.statistical
@pytest.mark.parametrize("most", [None, 3])
def test_the_noise_of_a_group_is_multiplier_times_root_k_times_its_bound(most: int | None) -> None:
    """The release of an empty table is noise alone, drawn once for the sum.

    The seed is fixed: it cannot fail by chance.
    """
    units = PrivacyUnits(np.zeros(1, np.int64), most) if most else None
    codes = np.zeros((1 if most else 0, 2), np.int32)
    room, ledger, entropy = vault(codes, units)
    critic = Mlp([2, 6000, 1])
    of = torch.cat([torch.full((p.numel(),), p.dim() % 2) for p in critic.parameters()])
    groups = Groups(of, (0.7, 0.2))
    released = room.measure_pair_gradient_sum(
        "g", critic, lambda a, r, f, m: 0 * a(r), features, torch.zeros(4, 2), groups
    )
    flat = torch.cat([t.flatten() for t in released]).numpy()
    for j, bound in enumerate(groups.bounds):
        std = STEP.multiplier * (most or 1) * math.sqrt(2) * bound
        assert stats.kstest(flat[of.numpy() == j] / std, "norm").pvalue > 1e-4
    assert ledger.entries[0].sensitivity == pytest.approx((most or 1) * math.sqrt(2)) and ledger.entries[0].count == 1
    assert entropy.drawn < 33 * len(flat) + 200  # two tries of 13 bytes a draw, one draw a parameter and none a row


@pytest.mark.statistical
def test_each_row_of_a_lot_meets_a_row_of_the_pool_and_a_coefficient_of_its_own() -> None:
    """The seed is fixed: it cannot fail by chance."""
    lots: list[int] = []
    met: list[tuple[torch.Tensor, torch.Tensor]] = []

    def watching(score: Any, real: Any, fake: Any, mix: Any) -> Any:
        return score(real) * 0

    room, *_ = vault(np.ones((ROWS, 2), np.int32))
    pool = torch.arange(8.0).repeat(2, 1).T
    true = clipping.pair_gradients

    def spy(critic: Any, loss: Any, real: Any, fake: Any, mix: Any, local: Any = ONE_GRADIENT) -> Any:
        lots.append(len(real))
        met.append((fake[:, 0], mix))
        return true(critic, loss, real, fake, mix, local)

    clipping.pair_gradients = spy
    try:
        for _ in range(9):
            room.measure_pair_gradient_sum(
                "g", Mlp([2, 1]), watching, features, pool, Groups(torch.zeros(3, dtype=torch.int64), (1.0,))
            )
    finally:
        clipping.pair_gradients = true
    chosen, mix = (torch.cat(drawn).numpy() for drawn in zip(*met, strict=True))
    assert len(set(lots)) > 3  # Poisson lots
    assert stats.chisquare(np.bincount(chosen.astype(int), minlength=8)).pvalue > 1e-4
    assert stats.kstest(mix, "uniform").pvalue > 1e-4


def test_patients_join_lots_whole() -> None:
    """Forty patients of three rows: each lot has all three rows of its patients, and the coins are a patient's."""
    lots = []

    def watching(codes: Any) -> torch.Tensor:
        lots.append(codes[:, 0])
        return features(codes)

    units = PrivacyUnits(np.repeat(np.arange(40), 3), 3)
    codes = np.stack([units.of_row, units.of_row], 1).astype(np.int32)
    room, *_ = vault(codes, units)
    groups = Groups(torch.zeros(3, dtype=torch.int64), (1.0,))
    for _ in range(3):
        room.measure_pair_gradient_sum("g", Mlp([2, 1]), loss, watching, torch.zeros(4, 2), groups)
        room.measure_norms_below("b", Mlp([2, 1]), loss, watching, torch.zeros(4, 2), groups)
    assert len(lots) == 6 and all((np.bincount(lot, minlength=40) % 3 == 0).all() for lot in lots)


@pytest.mark.statistical
def test_counts_below_a_bound_are_noised_and_charged() -> None:
    """The seed is fixed: it cannot fail by chance."""
    room, ledger, _ = vault(np.ones((ROWS, 2), np.int32))
    groups = Groups(torch.zeros(3, dtype=torch.int64), (1e9,))
    released = [
        room.measure_norms_below("b", Mlp([2, 1]), loss, features, torch.zeros(4, 2), groups)[0] for _ in range(9)
    ]
    std = STEP.multiplier / 2
    assert abs(np.mean(released) - ROWS * RATE / 2) < 5 * (std + 5)
    assert ledger.entries[0].sensitivity == 0.5 and ledger.entries[0].count == 9
    with pytest.raises(BudgetError):
        room.measure_norms_below("b", Mlp([2, 1]), loss, features, torch.zeros(4, 2), groups)


def test_no_pairs_have_no_gradients() -> None:
    critic, real, fake, mix = make(rows=0)
    found = pair_gradients(critic, loss, real, fake, mix)
    assert found.shape == (0, sum(p.numel() for p in critic.parameters()))
