"""Second moments of the strongest relations: values of fine cells, exact expectations, relations held by their size."""

from typing import Any

import numpy as np
import pytest
import torch

from medsynth.methods.shared.bins import Bins
from medsynth.methods.shared.cuts import fine_grid
from medsynth.methods.shared.labels import CRITIC_GRADIENTS, MOMENTS
from medsynth.methods.warm_dp_cgan.budget_rule import MOMENTS_FIRMNESS
from medsynth.methods.warm_dp_cgan.critics.linear import FeatureSums
from medsynth.methods.warm_dp_cgan.critics.measured import MeasuredCritics
from medsynth.methods.warm_dp_cgan.critics.moments import (
    FAR,
    NORM_NOISE,
    NORMS,
    MomentCritic,
    fine_values,
    item_values,
    standardised,
)
from medsynth.methods.warm_dp_cgan.critics.pairs import Item, PairCritic
from medsynth.methods.warm_dp_cgan.generator import Generator, smooth_functions
from medsynth.rng import torch_stream
from medsynth.schema import Schema

COLUMNS: dict[str, dict[str, Any]] = {
    "a": {"kind": "continuous", "bounds": [0, 1000], "decimals": 0, "missing": True},
    "b": {"kind": "count", "bounds": [0, 200]},
    "c": {"kind": "continuous", "bounds": [1, 1000], "decimals": 0, "scale": "log"},
    "d": {"kind": "categorical", "levels": ["u", "v", "w"]},
    "y": {"kind": "binary", "levels": ["no", "yes"]},
}
SCHEMA = Schema.from_dict({"name": "t", "target": "y", "columns": COLUMNS})
NAMES, SIZES = ["a", "b", "c", "d"], (1002, 201, 1000, 3, 2)
PAIRS: list[tuple[Item, Item]] = [(("a", None), ("b", None)), (("a", None), ("d", 1)), (("d", 2), ("c", None))]


class Classes:
    """The target's codes are its classes."""

    cells = 2

    def cell_of(self, codes: Any) -> Any:
        return np.asarray(codes, np.int64)


@pytest.fixture
def bins() -> dict[str, Bins]:
    rng, found = np.random.default_rng(3), {}
    for name in NAMES:
        column = SCHEMA.columns[name]
        shares = None if name == "d" else rng.dirichlet(np.ones(fine_grid(column).cells))
        found[name] = Bins.of(column, shares, None, 10, wide=0.5)
    return found


@pytest.fixture
def pairs(bins: dict[str, Bins]) -> PairCritic:
    mass = {name: np.ones(some.cells) for name, some in bins.items()}
    return PairCritic(bins, mass, NAMES, ("y", Classes()), SCHEMA.names, torch_stream(0, "critic"), 0.0)


def codes(rows: int) -> Any:
    rng = np.random.default_rng(0)
    return np.stack([rng.integers(0, size, rows) for size in SIZES], 1).astype(np.int32)


def test_products_are_of_standardised_values_and_no_row_reads_another(bins: dict[str, Bins], pairs: PairCritic) -> None:
    critic, rows = MomentCritic(pairs, PAIRS, 1.0, 0), codes(3000)
    found = critic.features(rows)
    assert found.shape == (3000, 3)
    assert torch.equal(critic.features(rows[7:8])[0], found[7])
    for k, pair in enumerate(PAIRS):
        one, other = (
            item_values(pairs, item)[bins[item[0]].grid.cell_of(rows[:, NAMES.index(item[0])])] for item in pair
        )
        np.testing.assert_allclose(NORMS[0] * found[:, k].numpy(), one * other, rtol=1e-4, atol=1e-5)


def test_values_are_centred_ascend_and_have_a_standard_deviation_of_one(bins: dict[str, Bins]) -> None:
    for name in ("a", "b", "c"):
        values, some = standardised(bins[name]), bins[name]
        share = some.shares[: len(values)] / some.shares[: len(values)].sum()
        assert np.all(np.diff(values) >= 0) and np.abs(values).max() <= 2 * FAR[2]
        assert abs(share @ values) < 1e-9 and 0.9 < np.sqrt(share @ values**2) < 1.2
        ends = fine_values(some)
        assert np.all(np.diff(ends) >= 0) and 0.5 < np.abs(ends).max() <= 1


def test_a_lone_far_value_does_not_set_the_scale() -> None:
    """One row in a thousand at the bound: values are clipped, so that the noise of a product stays small against it."""
    column = SCHEMA.columns["b"]
    shares = np.zeros(fine_grid(column).cells)
    shares[10:31], shares[-1] = 0.999 / 21, 0.001
    bins = Bins.of(column, shares, None, 20, wide=0.5)
    assert np.std(fine_values(bins)[shares > 0]) > 0.4
    assert 7 < standardised(bins).max() < FAR[2] + 1 and 1.5 < standardised(bins)[30] < 2


def test_a_level_is_one_less_its_share(bins: dict[str, Bins], pairs: PairCritic) -> None:
    found = item_values(pairs, ("d", 1))
    share = bins["d"].shares / bins["d"].shares.sum()
    assert abs(share @ found) < 1e-6 and share @ found**2 == pytest.approx(1)
    assert np.argmax(found) == np.argmax(pairs.tables["d"][:, 1].numpy())


def test_more_rows_let_a_row_count_for_more(pairs: PairCritic) -> None:
    """The norm at which a row is clipped grows with the rows that a product's noise is small beside, within bounds."""
    norms = [1 / MomentCritic(pairs, PAIRS, 4.0, rows).products.scales.item() for rows in (100, 4_000, 8_000, 10**6)]
    assert norms == pytest.approx([NORMS[0], NORMS[0], 8_000 * NORM_NOISE / 4, NORMS[1]])


def mean_by_bin(bins: Bins, values: np.ndarray) -> np.ndarray:
    """The mean of `values`, (fine cells,), in each bin, by the shares of the cells."""
    return np.array(
        [np.average(values[bins.place == k], weights=bins.shares[bins.place == k]) for k in range(bins.cells)]
    )


def test_expected_products_are_those_of_the_joint_tables(bins: dict[str, Bins], pairs: PairCritic) -> None:
    rng = np.random.default_rng(1)
    base = {name: np.log(rng.dirichlet(np.ones(some.cells), 2)) for name, some in bins.items()}
    functions = {n: smooth_functions(some.middles(0.0), some.cells, 4) for n, some in bins.items()}
    generator = Generator(base, functions, 5, torch_stream(0, "init"))
    generator.common += torch.randn(generator.common.shape, generator=torch_stream(2, "shift"))
    critic = MomentCritic(pairs, PAIRS, 1.0, 0)
    expected = critic.expectation(generator).of(generator.by_bin()).double()
    shares = generator.by_bin().double()
    for k, pair in enumerate(PAIRS):
        one, other = (mean_by_bin(bins[item[0]], item_values(pairs, item)) for item in pair)
        (first, _), (second, _) = pair
        joint = torch.einsum("akz,bkz->kab", shares[generator.spans[first]], shares[generator.spans[second]]) / 5
        table = torch.tensor(np.outer(one, other)) / NORMS[0]
        assert torch.allclose(expected[:, k], (joint * table).sum((1, 2)), atol=1e-6)


def test_what_bins_hide_of_a_relation_is_measured(bins: dict[str, Bins], pairs: PairCritic) -> None:
    """Rows whose values rise together inside a bin alone: their product says so, by bins alone it would be none."""
    place, cells = bins["a"].place, bins["b"].place
    inside = np.flatnonzero(place == 3)[:-1], np.flatnonzero(cells == 3)
    assert min(map(len, inside)) > 3
    low, high = (np.array([side[0] for side in inside]), np.array([side[-1] for side in inside]))
    table = np.zeros((2, 5), np.int32)
    for k, ends in enumerate((low, high)):
        table[k, :2] = [bins[name].grid.edges[end] for name, end in zip("ab", ends, strict=True)]
    apart = table.copy()
    apart[:, 1] = table[::-1, 1]
    critic = MomentCritic(pairs, PAIRS, 1.0, 0)
    together, crossed = (float(critic.features(rows)[:, 0].sum()) for rows in (table, apart))
    assert together - crossed > 1e-3


def test_a_clear_relation_is_held_more_firmly_than_one_in_the_noise(pairs: PairCritic) -> None:
    """As many times as its noise it is away from what columns without relation have, within bounds."""
    critic = MomentCritic(pairs, PAIRS, 1.0, 0)
    sums = FeatureSums(critic, torch.tensor([[1.0 + 0.5 * 4, 1.0 - 4.0 * 4, 1.0 + 40.0 * 4]]), 4.0)
    found = MeasuredCritics(raw={MOMENTS: sums}, expected={MOMENTS: np.ones((1, 3))})
    low, high = MOMENTS_FIRMNESS
    assert low < 4 < high
    assert found.firmness(MOMENTS).tolist() == [[low, 4.0, high]]  # type: ignore[union-attr]
    (target,) = found.targets()
    assert torch.equal(target.totals, sums.totals) and torch.equal(target.firmness, found.firmness(MOMENTS))  # type: ignore[arg-type]
    assert MeasuredCritics().firmness(CRITIC_GRADIENTS) == 1.0


def test_the_strongest_pairs_are_those_of_the_largest_products(pairs: PairCritic) -> None:
    items = pairs.items()
    assert items[:4] == [("a", None)] * 4 and items[4] == ("a", 4) and items[-1] == ("d", 2)
    products = np.zeros((2, pairs.width))
    names = [(items[i], items[j]) for i, j in pairs.products.factors.T.tolist()]
    for pair, size in (((("b", None), ("c", None)), 1.0), ((("a", 4), ("d", 0)), 5.0), ((("c", None), ("d", 1)), 3.0)):
        products[1, names.index(pair)] = size
    found = pairs.strongest(products, 5)
    assert found[0] == (("b", None), ("c", None))  # numbers first
    assert found[3:] == [(("a", 4), ("d", 0)), (("c", None), ("d", 1))]
    assert len(set(found)) == 5
