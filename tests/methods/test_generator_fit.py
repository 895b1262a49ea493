"""The generator is fitted to the columns that some measurement reads beside others, in bounded work."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from medsynth.methods.shared.mixture import GeneratorSize, MixtureOfProducts
from medsynth.methods.warm_dp_cgan.budget_rule import (
    MOST_CELLS,
    MOST_WORK,
    STEPS_PER_ROUND,
    allocate,
)
from medsynth.methods.warm_dp_cgan.generator_fit import _Adam, fit
from medsynth.methods.warm_dp_cgan.two_way_marginals import ColumnPair, TwoWayMarginal, expected_tables
from medsynth.rng import torch_stream

SIZES = {"a": 5, "b": 2, "c": 3, "d": 2, "e": 5}
TOTALS = np.array([60.0, 40.0])
PARTS = {name: np.minimum(np.arange(size), 2) for name, size in SIZES.items()}


@pytest.fixture
def mixture() -> MixtureOfProducts:
    draw = np.random.default_rng(0)
    base = {name: np.log(draw.dirichlet(np.ones(size), 2)) for name, size in SIZES.items()}
    return MixtureOfProducts(base, GeneratorSize(points=6), torch_stream(1, "init"))


@pytest.fixture
def moved(mixture: MixtureOfProducts) -> MixtureOfProducts:
    with torch.no_grad():
        for parameter in mixture.net.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=torch_stream(2, "shift")))
    return mixture


def _pair(one: str, other: str) -> ColumnPair:
    return ColumnPair(one, other, PARTS[one], PARTS[other], by_class=True)


def test_a_part_has_the_shares_of_its_columns(moved: MixtureOfProducts) -> None:
    with torch.no_grad():
        whole, part = moved.shares(moved.residual()), moved.part({"e", "d", "a"})
        shares = part.by_bin()[1]
    for name, span in part.spans.items():
        assert torch.allclose(shares[span].permute(2, 1, 0), whole[name], atol=1e-6)
    assert list(part.spans) == ["d", "a", "e"]  # as many bins, side by side


def test_expected_tables_are_those_of_each_pair_by_itself(moved: MixtureOfProducts) -> None:
    pairs = [_pair("a", "b"), _pair("c", "a"), _pair("d", "b"), _pair("e", "b")]
    found = expected_tables(moved, TOTALS, pairs)
    shares = {name: s.detach().double().numpy() for name, s in moved.shares(moved.residual()).items()}
    for pair in pairs:
        hot = [np.eye(int(part.max()) + 1)[part] for part in (pair.part_one, pair.part_other)]
        table = np.einsum("zka,zkb,am,bn->kmn", shares[pair.one], shares[pair.other], *hot) / len(moved.latent)
        np.testing.assert_allclose(found[pair.key], TOTALS[:, None, None] * table, rtol=1e-5)


def test_only_columns_that_are_measured_together_leave_their_shares(mixture: MixtureOfProducts) -> None:
    """The others' residual is zero to the last bit; the pair's table comes nearer to what was measured."""
    base = {name: mixture.base[:, span].double().numpy() for name, span in mixture.spans.items()}
    noise = dict.fromkeys(SIZES, 5.0)
    start: Any = SimpleNamespace(totals=TOTALS, base=base, std=noise, whole_std=noise)
    derived: Any = SimpleNamespace(inputs={}, shares=lambda shares: {})
    pair = _pair("a", "e")
    before = expected_tables(mixture, TOTALS, [pair])["a x e"]
    moved = 0.8 * np.minimum(before[:, 0, 1], before[:, 1, 0])[:, None, None]
    table = before + moved * np.outer([1, -1, 0], [1, -1, 0])  # the same sums of rows and columns
    fit(mixture, start, [TwoWayMarginal(pair, table, 0.05)], 100, None, derived, lambda done, of: None)
    residual = mixture.residual()
    for name, span in mixture.spans.items():
        assert bool((residual[..., span] == 0).all()) == (name not in ("a", "e"))
    after = expected_tables(mixture, TOTALS, [pair])["a x e"]
    assert np.abs(after - table).sum() < 0.8 * np.abs(before - table).sum()


@pytest.mark.parametrize(("rows", "columns"), [(7200, 22), (50_000, 21), (569, 31)])
def test_usual_tables_are_not_bounded(rows: int, columns: int) -> None:
    found = allocate(rows, columns, 3.7)
    assert found.within_reach(3, [20] * (columns - 1)) == found
    assert found.steps_per_round == STEPS_PER_ROUND


@pytest.mark.parametrize(("classes", "columns"), [(10, 784), (2, 3000), (400, 50), (3, 300)])
def test_work_is_bounded_by_public_numbers(classes: int, columns: int) -> None:
    """Far beyond the least of points and steps, both limits hold; what is measured stays as planned."""
    planned = allocate(60_000, columns + 1, 3.7)
    found = planned.within_reach(classes, [20] * columns)
    cells = classes * 20 * planned.columns_read(columns)
    assert found.latent_points == 32 or found.latent_points * cells <= MOST_CELLS
    assert found.steps == 300 or found.steps * found.latent_points * cells <= MOST_WORK
    assert found.latent_points <= planned.latent_points and found.steps <= planned.steps
    assert (found.count, found.rounds, found.share, found.bins) == (
        planned.count, planned.rounds, planned.share, planned.bins,
    )  # fmt: skip


def test_the_steps_are_those_of_adam() -> None:
    """PyTorch's own is the oracle, but for where its small number stands."""
    ours, theirs = (torch.nn.Parameter(torch.tensor([1.0, -2.0, 3.0])) for _ in range(2))
    own, other = _Adam([ours]), torch.optim.Adam([theirs], betas=(0.9, 0.99))
    for step in range(50):
        rate = 0.1 / (1 + step)
        own.step((ours**4).sum() + ours[0] * ours[1], rate)
        other.param_groups[0]["lr"] = rate
        other.zero_grad()
        torch.autograd.backward((theirs**4).sum() + theirs[0] * theirs[1])
        other.step()
    assert torch.allclose(ours, theirs, atol=1e-5)
