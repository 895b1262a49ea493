"""The generator is fitted to the columns that some measurement reads beside others, in bounded work."""

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from medsynth.methods.shared.adam import DECAY, SQUARED_DECAY, Adam
from medsynth.methods.shared.mixture import Mixture, mixture_tensors
from medsynth.methods.warm_dp_cgan import two_way_marginals
from medsynth.methods.warm_dp_cgan.budget_rule import FEWEST_STEPS, MOST_CELLS, MOST_WORK, STEPS_PER_ROUND, allocate
from medsynth.methods.warm_dp_cgan.generator import TAIL_STD, Generator, smooth_functions
from medsynth.methods.warm_dp_cgan.generator_fit import fit
from medsynth.methods.warm_dp_cgan.two_way_marginals import ColumnPair, ExpectedTables, TwoWayMarginal, expected_tables
from medsynth.rng import torch_stream

SIZES = {"a": 5, "b": 2, "c": 3, "d": 2, "e": 5}
TOTALS = np.array([60.0, 40.0])
PARTS = {name: np.minimum(np.arange(size), 2) for name, size in SIZES.items()}


MIDDLES = {"a": np.linspace(0.1, 0.9, 5), "e": np.linspace(0.1, 0.9, 5)}  # of the columns whose bins have an order


@pytest.fixture
def generator() -> Generator:
    draw = np.random.default_rng(0)
    base = {name: np.log(draw.dirichlet(np.ones(size), 2)) for name, size in SIZES.items()}
    functions = {name: smooth_functions(MIDDLES.get(name, np.empty(0)), size, 4) for name, size in SIZES.items()}
    return Generator(base, functions, 6, torch_stream(1, "init"))


@pytest.fixture
def moved(generator: Generator) -> Generator:
    for coefficients in (generator.common, generator.own):
        coefficients += torch.randn(coefficients.shape, generator=torch_stream(2, "shift"))
    return generator


def shares_of(generator: Generator) -> dict[str, Any]:
    """p(bin | point, class) of each column by the tensors that a model keeps: (points, classes, bins)."""
    base = {name: generator.base[:, span].double().numpy() for name, span in generator.spans.items()}
    return dict(Mixture.of(mixture_tensors(base, generator.residuals()), generator.names).shares)


def _pair(one: str, other: str, *, by_class: bool = True) -> ColumnPair:
    return ColumnPair(one, other, PARTS[one], PARTS[other], by_class=by_class)


def test_a_part_has_the_shares_that_a_model_is_drawn_from(moved: Generator) -> None:
    whole, part = shares_of(moved), moved.part({"e", "d", "a"})
    shares = part.by_bin()
    for name, span in part.spans.items():
        np.testing.assert_allclose(shares[span].permute(2, 1, 0), whole[name], atol=1e-6)
    assert list(part.spans) == ["d", "a", "e"]  # as many bins, side by side


@pytest.mark.parametrize("kinds", [(True, True), (False, False), (True, False)])
@pytest.mark.parametrize("products", [0, 1000])
def test_expected_tables_are_those_of_each_pair_by_itself(
    products: int, kinds: tuple[bool, bool], moved: Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By class or of all rows, shape by shape or, where all are of one kind, as blocks of one product."""
    monkeypatch.setattr(two_way_marginals, "PRODUCTS_PER_CELL", products)
    ends = [("a", "b"), ("c", "a"), ("d", "b"), ("e", "b")]
    pairs = [_pair(*names, by_class=kinds[k % 2]) for k, names in enumerate(ends)]
    assert ExpectedTables(pairs, TOTALS, moved).as_blocks == (products > 0 and kinds[0] == kinds[1])
    found, shares = expected_tables(moved, TOTALS, pairs), shares_of(moved)
    for pair in pairs:
        hot = [np.eye(int(part.max()) + 1)[part] for part in (pair.part_one, pair.part_other)]
        table = np.einsum("zka,zkb,am,bn->kmn", shares[pair.one], shares[pair.other], *hot) / 6
        table = TOTALS[:, None, None] * table
        np.testing.assert_allclose(found[pair.key], table if pair.by_class else table.sum(0, keepdims=True), rtol=1e-5)


def test_only_columns_that_are_measured_together_leave_their_shares(generator: Generator) -> None:
    """The others keep theirs to the last bit; the pair's table comes nearer to what was measured."""
    base = {name: generator.base[:, span].double().numpy() for name, span in generator.spans.items()}
    noise = dict.fromkeys(SIZES, 5.0)
    start: Any = SimpleNamespace(totals=TOTALS, base=base, std=noise, whole_std=noise)
    derived: Any = SimpleNamespace(inputs={}, shares=lambda shares: {})
    pair = _pair("a", "e")
    before = expected_tables(generator, TOTALS, [pair])["a x e"]
    moved = 0.8 * np.minimum(before[:, 0, 1], before[:, 1, 0])[:, None, None]
    table = before + moved * np.outer([1, -1, 0], [1, -1, 0])  # the same sums of rows and columns
    rules: Any = SimpleNamespace(read=set(), chances=lambda shares: [])
    fit(generator, start, [TwoWayMarginal(pair, table, 0.05)], 100, [], derived, rules, lambda done, of: None)
    assert set(generator.residuals()) == {"a", "e"}
    after = expected_tables(generator, TOTALS, [pair])["a x e"]
    assert np.abs(after - table).sum() < 0.8 * np.abs(before - table).sum()


def test_a_second_fit_goes_on_from_the_first(generator: Generator) -> None:
    """Points that were fitted get no new random start, those of columns that were not do."""
    first = generator.part({"a"})
    first.begin()
    generator.take_back(first)
    both = generator.part({"a", "b"})
    kept = {name: both.part({name}).common.clone() for name in ("a", "b")}
    both.begin()
    assert torch.equal(both.part({"a"}).common, kept["a"]) and kept["a"].any()
    assert not kept["b"].any() and both.part({"b"}).common.any()


def test_functions_of_a_number_are_waves_that_fall_with_their_frequency_and_levels_stand_alone() -> None:
    found = smooth_functions((np.arange(400) + 0.5) / 400, 402, 3)
    assert found.shape == (402, 5) and np.array_equal(found[400:, 3:], np.eye(2)) and not found[:400, 3:].any()
    gram = found[:400, :3].T @ found[:400, :3] / 400
    np.testing.assert_allclose(gram, np.diag([1.0, 2**-3, 3**-3]), atol=1e-3)
    assert np.array_equal(smooth_functions(np.array([0.25, 0.75]), 2, 4), np.eye(2))  # fewer bins than waves


def test_functions_of_tails_rise_towards_either_end_alone() -> None:
    middles = (np.arange(400) + 0.5) / 400
    found = smooth_functions(middles, 402, 3, tails=True)
    assert found.shape == (402, 7) and np.array_equal(found[:, [0, 1, 2, 5, 6]], smooth_functions(middles, 402, 3))
    low, high = found[:, 3], found[:, 4]
    assert np.all(np.diff(low[:21]) < 0) and not low[20:].any() and low[0] == pytest.approx(TAIL_STD, rel=0.05)
    np.testing.assert_allclose(high[:400], low[:400][::-1], atol=1e-9)
    assert not high[400:].any()
    assert np.array_equal(smooth_functions(np.array([0.25, 0.75]), 2, 4, tails=True), np.eye(2))


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
    assert found.steps == FEWEST_STEPS or found.steps * found.latent_points * cells <= MOST_WORK
    assert found.latent_points <= planned.latent_points and found.steps <= planned.steps
    assert (found.count, found.rounds, found.share, found.bins) == (
        planned.count, planned.rounds, planned.share, planned.bins,
    )  # fmt: skip


def test_the_steps_are_those_of_adam() -> None:
    """PyTorch's own is the oracle, but for where its small number stands; the prior is a part of its loss."""
    ours, theirs = (torch.nn.Parameter(torch.tensor([1.0, -2.0, 3.0])) for _ in range(2))
    own, other = Adam([ours]), torch.optim.Adam([theirs], betas=(DECAY, SQUARED_DECAY))
    for step in range(50):
        rate = 0.1 / (1 + step)
        own.step((ours**4).sum() + ours[0] * ours[1], rate, 0.3)
        other.param_groups[0]["lr"] = rate
        other.zero_grad()
        torch.autograd.backward((theirs**4).sum() + theirs[0] * theirs[1] + 0.3 * theirs.square().sum() / 2)
        other.step()
    assert torch.allclose(ours, theirs, atol=1e-5)
