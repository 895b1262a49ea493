"""Clipped gradients are whole numbers: a row's are the same in whatever lot, within the bound, and their sums exact."""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from medsynth.errors import BudgetError
from medsynth.privacy import clipping
from medsynth.privacy import exact_sums as sums
from medsynth.privacy.clipping import (
    ONE_GRADIENT,
    ClippedSum,
    Groups,
    LocalTraining,
    clipped_gradient_sum,
    clipped_means,
    clipped_pair_sum,
    gradients_of_groups,
    halves_below,
    pair_gradients,
    units,
)
from medsynth.privacy.exact_sums import LongSum, exact_sum, norms, product
from medsynth.privacy.networks import ACTIVATIONS, Mlp
from medsynth.privacy.queries.cells import EveryCode
from medsynth.privacy.queries.gradients import GradientSum
from medsynth.privacy.queries.rows import CodedRows
from medsynth.privacy.shards import clipped, unit_of

SIZES = [[7, 1], [6, 9, 1], [5, 12, 8, 1]]
EXTREMES = [0.0, 1.0, -1.0, 1e-30, 1e6, -1e30, math.nan, math.inf]


def softplus(output: Tensor) -> Tensor:
    return torch.nn.functional.softplus(-output[:, 0])


def squares(output: Tensor) -> Tensor:
    return (output[:, 0] - 0.3).square()


LOSSES: list[Callable[[Tensor], Tensor]] = [softplus, squares, lambda output: -output[:, 0]]


def flat(found: ClippedSum) -> Tensor:
    return torch.cat([part.flatten() for part in found.whole])


def square(whole: Tensor) -> int:
    """The exact square of a norm."""
    return sum(int(number) ** 2 for number in whole.tolist())


def rows_of(width: int, count: int, seed: int) -> Tensor:
    """Rows of all sizes, some of them extreme or no numbers, and some twice."""
    stream = torch.Generator().manual_seed(seed)
    rows = torch.randn(count, width, generator=stream) * 10 ** (4 * torch.rand(count, 1, generator=stream) - 2)
    for k in range(0, count, 5):
        rows[k, k % width] = EXTREMES[k // 5 % len(EXTREMES)]
    return torch.cat([rows, rows[:3]])


@settings(max_examples=12)
@given(st.sampled_from(SIZES), st.sampled_from(list(ACTIVATIONS)), st.booleans(), st.integers(0, 2),
       st.floats(0.01, 50), st.integers(0, 999))  # fmt: skip
def test_a_rows_gradient_is_a_function_of_that_row(
    sizes: list[int], activation: str, bias: bool, loss: int, bound: float, seed: int
) -> None:
    """S(A + {r}) - S(A) = S({r}) in whole numbers, for each r, in any order; and |S({r})| <= bound, exactly."""
    critic = Mlp(sizes, activation, torch.Generator().manual_seed(seed), bias=bias)
    rows = rows_of(sizes[0], 17, seed)

    def total(some: Tensor) -> Tensor:
        return flat(clipped_gradient_sum(critic, LOSSES[loss], some, bound))

    alone = [total(row[None]) for row in rows]
    unit = Fraction(units(bound)[0])
    assert all(square(one) * unit**2 <= Fraction(bound) ** 2 for one in alone)
    assert torch.equal(total(rows), torch.stack(alone).sum(0))
    order = torch.randperm(len(rows), generator=torch.Generator().manual_seed(seed))
    assert torch.equal(total(rows[order]), total(rows))
    for k in (1, 11, len(rows) - 1):
        assert torch.equal(total(rows[:k]), torch.stack(alone[:k]).sum(0))
        rest = torch.arange(len(rows)) != k
        assert torch.equal(total(rows) - total(rows[rest]), alone[k])


def test_aligned_rows_move_the_sum_by_one_row() -> None:
    """In float32 a row more moved the sum of 2,000,000 aligned ones by 1.042 where one was charged."""
    critic, bound = Mlp([3, 1], bias=False), 0.3
    row = torch.tensor([[0.2, -0.4, 0.4]])
    many = row.repeat(100_000, 1)

    def loss(output: Tensor) -> Tensor:
        return output[:, 0]

    one = flat(clipped_gradient_sum(critic, loss, row, bound))
    found = flat(clipped_gradient_sum(critic, loss, many, bound))
    assert torch.equal(found, one * len(many))
    assert torch.equal(flat(clipped_gradient_sum(critic, loss, torch.cat([many, row]), bound)) - found, one)
    # The sum as it was: in single precision, one row after another.
    single = np.add.accumulate(np.full(2_000_000, np.float32(0.3), np.float32))
    assert abs(float(single[-1]) - float(single[-2]) - 0.3) > 0.01


def test_a_faulty_rounding_of_weights_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Planted: inputs that are not on the grid. Sums of products then depend on what stands beside them."""
    monkeypatch.setattr(sums, "on_grid", lambda x, bits, most: (x * 2.0**bits).clamp(-most, most))
    critic, rows = Mlp([200, 64, 1], "tanh", torch.Generator().manual_seed(0)), torch.randn(100, 200)
    alone = torch.stack([flat(clipped_gradient_sum(critic, softplus, row[None], 0.5)) for row in rows]).sum(0)
    assert not torch.equal(flat(clipped_gradient_sum(critic, softplus, rows, 0.5)), alone)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("count", [1, 4])
def test_a_row_more_changes_one_group_by_at_most_twice_the_bound(sizes: list[int], count: int) -> None:
    critic, bound = Mlp(sizes, "leaky_relu", torch.Generator().manual_seed(1)), 0.4
    rows = rows_of(sizes[0], 20, 5)
    groups = torch.arange(len(rows)) * 7919 % count
    unit = Fraction(units(bound)[0])

    def total(some: Tensor) -> Tensor:
        sums = gradients_of_groups(critic, softplus, rows[some], groups[some], count)
        return flat(clipped_means(critic, sums, torch.bincount(groups[some], minlength=count), bound))

    everything = torch.arange(len(rows))
    each = [total(everything[groups == k]) for k in range(count)]
    assert torch.equal(total(everything), torch.stack(each).sum(0))
    assert all(square(one) * unit**2 <= Fraction(bound) ** 2 for one in each)
    assert torch.equal(total(everything.flip(0)), total(everything))
    for k in range(len(rows)):
        moved = total(everything) - total(everything[everything != k])
        assert square(moved) * unit**2 <= (2 * Fraction(bound)) ** 2


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_gradients_are_those_of_autograd_to_a_part_in_ten_thousand(activation: str) -> None:
    critic = Mlp([60, 40, 20, 1], activation, torch.Generator().manual_seed(2)).double()
    rows = torch.randn(40, 60, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    each = []
    for row in rows:
        found = torch.autograd.grad(softplus(critic(row[None])).sum(), list(critic.parameters()))
        each.append(torch.cat([g.flatten() for g in found]))
    gradients = torch.stack(each)
    expected = (gradients * (0.5 / gradients.norm(dim=1, keepdim=True)).clamp(max=1)).sum(0)
    total = flat(clipped_gradient_sum(critic, softplus, rows, 0.5)) * units(0.5)[0]
    assert (total - expected).norm() < 1e-4 * expected.norm()


@pytest.mark.parametrize("bound", [0.0, -1.0, math.inf, math.nan])
def test_a_bound_is_a_positive_number(bound: float) -> None:
    with pytest.raises(BudgetError, match="clipping norm"):
        clipped_gradient_sum(Mlp([2, 1]), softplus, torch.zeros(1, 2), bound)


def test_what_64_bits_do_not_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clipping, "MOST_ROWS", 3)
    with pytest.raises(BudgetError, match="too large"):
        clipped_gradient_sum(Mlp([2, 1]), softplus, torch.zeros(4, 2), 1.0)
    with pytest.raises(BudgetError, match="one output"):
        clipped_gradient_sum(Mlp([2, 2]), softplus, torch.zeros(1, 2), 1.0)


def test_rounding_the_sum_stays_within_the_clipping_margin() -> None:
    """Released sums are rounded to coarser units: with the most parameters that moves less than `factors` leaves."""
    for bound in (0.01, 0.5, 0.500001, 1.0, 77.0):
        fine, coarse = units(bound)
        assert coarse / fine == 2 ** (clipping.PRODUCT_BITS - clipping.SUM_BITS)
        assert math.sqrt(clipping.MOST_PARAMETERS) * coarse < 1e-6 * bound
        assert fine * 2 ** (clipping.PRODUCT_BITS - 1) <= bound < fine * 2**clipping.PRODUCT_BITS


def test_long_sums_are_exact() -> None:
    rng = np.random.default_rng(0)
    parts = rng.integers(-(2**61), 2**61, (40, 5))
    total = LongSum()
    for part in parts:
        total.add(torch.from_numpy(part))
    exact = [sum(int(part[k]) for part in parts) for k in range(5)]
    assert max(map(abs, exact)) > 2**62
    for bits in (10, 32):
        assert total.divided(bits).tolist() == [number >> bits for number in exact]


@pytest.mark.parametrize("scale", [1.0, 2.0**20, 2.0**25 + 12345, 2.0**40, 2.0**300])
def test_norms_are_not_below_the_truth_and_near_it(scale: float) -> None:
    rows = (torch.randn(30, 700, generator=torch.Generator().manual_seed(0), dtype=torch.float64) * 2**20).round()
    for row, found in zip(rows, norms(rows * scale).tolist(), strict=True):
        true = square(row)
        assert true <= (Fraction(found / scale) * (1 + Fraction(1, 2**50))) ** 2
        assert found / scale < math.sqrt(true) * (1 + 1e-6)
    assert norms(torch.tensor([[1.0, math.nan], [math.inf, 0], [0, 0]]).double()).tolist() == [math.inf, math.inf, 0.0]
    alone = torch.cat([norms(row[None] * scale) for row in rows])
    assert torch.equal(norms(rows * scale), alone)
    beside = torch.cat([rows * scale, torch.full((1, 700), 2.0**90, dtype=torch.float64)])
    assert torch.equal(norms(beside)[:-1], alone)  # Words of 64 bits, which a device always uses, change no norm.


@pytest.mark.parametrize("exponent", [-1022, -1, 0, 30, 1023])
def test_powers_of_two_are_exact(exponent: int) -> None:
    assert float(sums.power_of_two(torch.tensor(exponent, dtype=torch.int32))) == math.ldexp(1.0, exponent)


def test_products_do_not_depend_on_the_rows_beside() -> None:
    stream = torch.Generator().manual_seed(0)
    rows, weights = torch.randn(500, 333, generator=stream).double(), torch.randn(333, 65, generator=stream).double()
    found = product(rows, weights)
    assert all(torch.equal(product(rows[k : k + 1], weights)[0], found[k]) for k in range(0, 500, 7))
    assert (found - rows @ weights).abs().max() < 1e-3
    plain = rows.float() @ weights.float()
    assert any(not torch.equal((rows[k : k + 1].float() @ weights.float())[0], plain[k]) for k in range(500))
    assert exact_sum(rows[0]) == pytest.approx(float(rows[0].sum()), abs=1e-3)


def loss_of_pairs(score: Any, real: Tensor, fake: Tensor, mix: Tensor) -> Tensor:
    slope = torch.func.grad(score)(mix * real + (1 - mix) * fake)
    penalty: Tensor = 10 * ((exact_sum(slope.square()) + 1e-12).sqrt() - 1).square()
    found: Tensor = penalty + score(fake) - score(real)
    return found


@pytest.mark.matrix
@pytest.mark.nightly_for(*(f"local training-bounds{k}-{name}" for k in (0, 1) for name in list(ACTIVATIONS)[k:]))
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("bounds", [(0.4,), (0.3, 2.0)])
@pytest.mark.parametrize("local", [ONE_GRADIENT, LocalTraining(3, 0.1)], ids=["one gradient", "local training"])
def test_a_pairs_gradient_is_a_function_of_that_pair(
    activation: str, bounds: tuple[float, ...], local: LocalTraining
) -> None:
    critic = Mlp([30, 16, 1], activation, torch.Generator().manual_seed(3))
    of = torch.cat([torch.full((p.numel(),), k % len(bounds)) for k, p in enumerate(critic.parameters())])
    groups = Groups(of, bounds)
    stream = torch.Generator().manual_seed(4)
    real, fake = rows_of(30, 11, 6), torch.randn(14, 30, generator=stream)
    mix = torch.rand(14, generator=stream)

    def total(some: Tensor) -> Tensor:
        return clipped_pair_sum(critic, loss_of_pairs, real[some], fake[some], mix[some], groups, local)

    def below(some: Tensor) -> Tensor:
        return halves_below(critic, loss_of_pairs, real[some], fake[some], mix[some], groups, local)

    everything = torch.arange(14)
    alone = [total(everything[k : k + 1]) for k in range(14)]
    assert torch.equal(total(everything), torch.stack(alone).sum(0))
    assert torch.equal(total(everything.flip(0)), total(everything))
    assert torch.equal(below(everything), below(everything[:9]) + below(everything[9:]))
    for one in alone:
        for j, (bound, unit) in enumerate(zip(bounds, groups.units, strict=True)):
            assert square(one[of == j]) * Fraction(unit) ** 2 <= Fraction(bound) ** 2
    rest = total(everything[everything != 7])
    assert torch.equal(total(everything) - rest, alone[7])


@pytest.mark.parametrize("local", [ONE_GRADIENT, LocalTraining(4, 0.1)], ids=["one gradient", "local training"])
def test_gradients_of_pairs_do_not_depend_on_the_pairs_beside(local: LocalTraining) -> None:
    critic = Mlp([90, 16, 1], "leaky_relu", torch.Generator().manual_seed(3))
    stream = torch.Generator().manual_seed(4)
    real, fake = torch.randn(2, 300, 90, generator=stream)
    mix = torch.rand(300, generator=stream)
    found = pair_gradients(critic, loss_of_pairs, real, fake, mix, local)
    for part in (slice(0, 1), slice(7, 8), slice(100, 133), slice(299, 300)):
        assert torch.equal(pair_gradients(critic, loss_of_pairs, real[part], fake[part], mix[part], local), found[part])


@pytest.mark.parametrize("joint", [False, True])
def test_gradients_of_shards_are_within_the_bound_exactly(joint: bool) -> None:
    rng = torch.Generator().manual_seed(0)
    for trial in range(60):
        rows, bound = torch.randn(5, 9, generator=rng) * 10 ** (trial % 9 - 4), 0.1 + trial / 7
        whole, unit = clipped(rows, bound, joint), Fraction(unit_of(bound))
        for part in [whole.flatten()] if joint else whole:
            assert square(part) * unit**2 <= Fraction(bound) ** 2


@pytest.mark.parametrize("microbatches", [None, 3])
def test_the_classes_add_up_to_the_sum_of_rows_in_their_blocks(microbatches: int | None) -> None:
    """Each class by itself gives what the whole critic gives: to one part in 10,000, since its weights' grid is finer.

    Class 2 has no row, and one row's gradient is larger than the bound.
    """
    critic, levels = Mlp([3 * 4, 5, 1], "tanh", torch.Generator().manual_seed(3)), EveryCode(3)
    codes = np.random.default_rng(4).integers(0, 9, (30, 5)).astype(np.int32)
    codes[:, 0] %= 2
    codes[0, 1:] = 90

    def features(codes: Any) -> Tensor:
        return torch.from_numpy(codes[:, 1:].astype(np.float32)) / 9

    rows = CodedRows(codes, tuple("tabcd"), np.arange(30, dtype=np.uint64)[:, None])
    found = GradientSum(critic, softplus, features, 0.9, microbatches, ("t", levels))

    def placed(codes: Any) -> Tensor:
        return found.inputs(CodedRows(codes, rows.names, rows.draws))

    whole = GradientSum(critic, softplus, placed, 0.9, microbatches)
    one, two = (
        query.result([a * units(0.9)[1] for a in query.finished(query.exact(rows))]) for query in (found, whole)
    )
    for part, other, parameter in zip(one, two, critic.parameters(), strict=True):
        assert part.shape == parameter.shape and float((part - other).norm()) <= 1e-4 * 0.9 * 30
        assert float(part.norm()) > 0
    assert not one[0][:, 8:].any(), "no row is of class 2"


def test_blocks_of_classes_must_be_equal() -> None:
    with pytest.raises(BudgetError, match="equal"):
        GradientSum(Mlp([7, 1]), softplus, lambda codes: torch.zeros(0, 3), 1.0, given=("t", EveryCode(2)))
