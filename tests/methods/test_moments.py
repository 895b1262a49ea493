"""Second moments of the strongest relations: norm one at most, exact expectations, and slopes that come back."""

from typing import Any

import numpy as np
import pytest
import torch

from medsynth.methods.shared.bins import Bins
from medsynth.methods.shared.cuts import fine_grid
from medsynth.methods.warm_dp_cgan.critics.moments import MomentCritic, standardised
from medsynth.methods.warm_dp_cgan.critics.pairs import Item, PairCritic, column_features
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
    return PairCritic(bins, mass, NAMES, ("y", Classes()), SCHEMA.names, torch_stream(0, "critic"))


def codes(rows: int) -> Any:
    rng = np.random.default_rng(0)
    return np.stack([rng.integers(0, size, rows) for size in SIZES], 1).astype(np.int32)


def test_a_row_has_norm_one_at_most_and_none_reads_another(pairs: PairCritic) -> None:
    """The sum's sensitivity is one without any clipping: the worst row there is has every value at an end."""
    critic, rows = MomentCritic(pairs, PAIRS), codes(3000)
    found = critic.features(rows)
    assert found.shape == (3000, 3) and (found.double().norm(dim=1) <= 1 + 1e-6).all()
    assert torch.equal(critic.features(rows[7:8])[0], found[7])
    most = {name: float(table.abs().max()) for name, table in critic.products.tables.items()}
    assert sum((most[one] * most[other]) ** 2 for (one, _), (other, _) in PAIRS) / len(PAIRS) <= 1 + 1e-6


def test_values_are_centred_ascend_and_end_at_one(bins: dict[str, Bins]) -> None:
    for name in ("a", "b", "c"):
        values, some = standardised(bins[name]), bins[name]
        ordered = values[: some.ordered]
        assert np.all(np.diff(ordered) >= 0) and np.abs(values).max() <= 1 and np.abs(values).max() > 0.5
        assert (values[some.ordered :] == 0).all()  # missing values
        mass = np.bincount(some.place, some.shares, some.cells)[: some.ordered]
        assert abs(mass @ ordered / mass.sum()) < 1e-6


def test_a_lone_far_value_does_not_set_the_scale() -> None:
    """One row in a thousand at the bound: values are clipped, so that the noise of a product stays small against it."""
    column = SCHEMA.columns["b"]
    shares = np.zeros(201)
    shares[10:31], shares[200] = 0.999 / 21, 0.001
    values = standardised(Bins.of(column, shares, None, 20, wide=0.5))
    assert np.std(values) > 0.4


def test_expected_products_are_those_of_the_joint_tables(bins: dict[str, Bins], pairs: PairCritic) -> None:
    rng = np.random.default_rng(1)
    base = {name: np.log(rng.dirichlet(np.ones(some.cells), 2)) for name, some in bins.items()}
    functions = {n: smooth_functions(some.middles(0.0), some.cells, 4) for n, some in bins.items()}
    generator = Generator(base, functions, 5, torch_stream(0, "init"))
    generator.common += torch.randn(generator.common.shape, generator=torch_stream(2, "shift"))
    critic = MomentCritic(pairs, PAIRS)
    expected = critic.expectation(generator).of(generator.by_bin()).double()
    shares = generator.by_bin().double()
    features = column_features(bins["d"], np.ones(3))
    for k, pair in enumerate(PAIRS):
        one, other = (standardised(bins[n]) if f is None else features[:, f] for n, f in pair)
        (first, _), (second, _) = pair
        joint = torch.einsum("akz,bkz->kab", shares[generator.spans[first]], shares[generator.spans[second]]) / 5
        table = torch.tensor(np.outer(one, other)) / len(PAIRS) ** 0.5
        assert torch.allclose(expected[:, k], (joint * table).sum((1, 2)), atol=1e-6)


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
