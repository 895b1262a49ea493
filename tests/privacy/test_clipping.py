"""Closed-form clipping equals the one-row loop and Opacus' per-sample gradients, and keeps its bound."""

from collections.abc import Iterable
from typing import Any

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from medsynth.errors import BudgetError
from medsynth.privacy.clipping import ClippedSum, _Recorder, clipped_gradient_sum, clipped_means, gradients_of_groups
from medsynth.privacy.networks import Mlp


def bce(output: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.softplus(-output[:, 0])


def make(sizes: list[int], activation: Any, bias: bool, rows: int, seed: int) -> tuple[Mlp, torch.Tensor]:
    stream = torch.Generator().manual_seed(seed)
    return Mlp(sizes, activation, stream, bias=bias), torch.randn(rows, sizes[0], generator=stream) * 2


def row_gradients(critic: Mlp, x: torch.Tensor) -> torch.Tensor:
    """One backward pass a row: (rows, all parameters)."""
    grads = []
    for row in x:
        g = torch.autograd.grad(bce(critic(row[None])).sum(), list(critic.parameters()))
        grads.append(torch.cat([p.flatten() for p in g]))
    return torch.stack(grads)


def assume_no_kink(critic: Mlp, x: torch.Tensor) -> None:
    """Leave out networks whose activations are so near their kink that rounding to a grid could cross it."""
    for layer in critic.layers[:-1]:
        x = layer(x)
        assume(bool((x.abs() > 1e-4).all()))
        x = critic.activate(x)


def near(found: torch.Tensor, expected: torch.Tensor, size: float) -> bool:
    """Whether sums agree to one part in 10,000 of `size`, their summands' norms: summands may cancel, roundings not."""
    return float((found - expected).norm()) <= 1e-4 * size + 5e-5


def flat(tensors: Iterable[torch.Tensor]) -> torch.Tensor:
    return torch.cat([t.flatten() for t in tensors])


networks = st.tuples(
    st.lists(st.integers(1, 9), min_size=1, max_size=3),
    st.sampled_from(["relu", "leaky_relu", "tanh"]),
    st.booleans(),
    st.integers(1, 12),
    st.integers(0, 10_000),
    st.floats(0.01, 5),
)


@given(networks)
def test_equals_the_one_row_loop(case: Any) -> None:
    """Exact sums round inputs, weights and the loss's derivative to grids."""
    widths, activation, bias, rows, seed, bound = case
    critic, x = make([*widths, 1], activation, bias, rows, seed)
    assume_no_kink(critic, x)
    g = row_gradients(critic, x)
    each = g * (bound / g.norm(dim=1, keepdim=True)).clamp(max=1)
    got = flat(clipped_gradient_sum(critic, bce, x, bound).tensors)
    assert near(got, each.sum(0), float(each.norm(dim=1).sum()))


def in_groups(critic: Any, loss: Any, rows: Any, bound: float, groups: Any, count: int) -> ClippedSum:
    """The clipped means of microbatches, as a query computes them."""
    sums = gradients_of_groups(critic, loss, rows, groups, count)
    return clipped_means(critic, sums, torch.bincount(groups, minlength=count), bound)


@given(networks, st.integers(1, 6))
def test_microbatches_equal_the_loop_over_groups(case: Any, count: Any) -> None:
    widths, activation, bias, rows, seed, bound = case
    critic, x = make([*widths, 1], activation, bias, rows, seed)
    assume_no_kink(critic, x)
    groups = torch.arange(rows) * 7919 % count
    g = row_gradients(critic, x)
    expected, size = torch.zeros(g.shape[1]), 0.0
    for k in groups.unique().tolist():
        mean = g[groups == k].mean(0)
        factor = min(1.0, bound / float(mean.norm().clamp(min=1e-30)))
        expected, size = expected + mean * factor, size + factor * float(g[groups == k].norm(dim=1).mean())
    got = in_groups(critic, bce, x, bound, groups, count)
    assert near(flat(got.tensors), expected, size)
    assert got.l2 == 2 * bound


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(4))
def test_equals_opacus(seed: int) -> None:
    from opacus import GradSampleModule  # imports for seconds, which each worker would spend when it collects tests

    critic, x = make([6, 8, 1], "relu", True, 10, seed)
    twin = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    twin.load_state_dict(dict(zip(twin.state_dict(), critic.state_dict().values(), strict=True)))
    hooked = GradSampleModule(twin)
    torch.autograd.backward(bce(hooked(x)).sum())
    g = torch.cat([p.grad_sample.flatten(1) for p in hooked.parameters()], 1)
    expected = (g * (0.3 / g.norm(dim=1, keepdim=True)).clamp(max=1)).sum(0)
    assert torch.allclose(flat(clipped_gradient_sum(critic, bce, x, 0.3).tensors), expected, atol=1e-5)


def test_one_huge_row_moves_the_sum_by_at_most_the_bound() -> None:
    critic, x = make([5, 7, 1], "relu", True, 20, 0)
    before = flat(clipped_gradient_sum(critic, bce, x, 0.5).tensors)
    after = flat(clipped_gradient_sum(critic, bce, torch.cat([x, x[:1] * 1e6]), 0.5).tensors)
    assert (after - before).norm() <= 0.5 + 1e-5


def test_one_row_more_moves_microbatches_by_at_most_twice_the_bound() -> None:
    worst = 0.0
    for seed in range(60):
        critic, x = make([3, 1], "relu", False, 4, seed)
        groups = torch.tensor([0, 0, 1, 1])
        less = flat(in_groups(critic, lambda a: a[:, 0], x[:3], 0.5, groups[:3], 2).tensors)
        more = flat(in_groups(critic, lambda a: a[:, 0], x, 0.5, groups, 2).tensors)
        worst = max(worst, float((more - less).norm()))
    assert 0.5 < worst <= 1.0 + 1e-5  # more than the bound does happen: charging it alone would be wrong


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_row_that_is_no_number_counts_nothing(bad: float) -> None:
    critic, x = make([5, 7, 1], "tanh", True, 6, 1)
    spoilt = torch.cat([x, torch.full((1, 5), bad)])
    clean = clipped_gradient_sum(critic, bce, torch.cat([x, torch.zeros(1, 5)]), 1.0)
    got = clipped_gradient_sum(critic, bce, spoilt, 1.0)
    assert all(torch.isfinite(t).all() for t in got.tensors)
    assert (flat(got.tensors) - flat(clipped_gradient_sum(critic, bce, x, 1.0).tensors)).norm() < 1e-6
    assert clean.l2 == got.l2


def test_other_rows_are_bit_identical_when_one_is_perturbed() -> None:
    critic, x = make([6, 16, 1], "relu", True, 32, 3)
    y = x.clone()
    y[11] += 3
    others = torch.arange(32) != 11
    one, two = (_Recorder(critic, bce, x.device).record(rows) for rows in (x, y))
    assert torch.equal(one.norms()[others], two.norms()[others])
    for a, b in zip(one.inputs + one.grads, two.inputs + two.grads, strict=True):
        assert torch.equal(a[others], b[others])


def test_an_empty_lot_sums_to_zero() -> None:
    critic, x = make([4, 3, 1], "relu", True, 0, 0)
    assert float(flat(clipped_gradient_sum(critic, bce, x, 1.0).tensors).abs().sum()) == 0
    groups = torch.empty(0, dtype=torch.int64)
    assert float(flat(in_groups(critic, bce, x, 1.0, groups, 3).tensors).abs().sum()) == 0


def test_the_bound_must_be_positive() -> None:
    critic, x = make([4, 1], "relu", True, 2, 0)
    with pytest.raises(BudgetError):
        clipped_gradient_sum(critic, bce, x, 0.0)
