"""Distances by coarse tables: those of the merged tables, less what noise adds."""

from __future__ import annotations

import numpy as np
import pytest

from medsynth.federated.coarse_tables import PARTS, CoarseTables
from medsynth.privacy.queries.cells import EveryCode, Regrouped
from medsynth.privacy.queries.rows import Axes, CodedRows
from medsynth.privacy.queries.tables import Distances, Marginals
from medsynth.transforms.grid import Grid

FINE, FEW = Grid(np.arange(11), 0), Grid(np.arange(4), 0)
HALVES = Regrouped(FINE, np.arange(10) // 2, 5)
RNG = np.random.default_rng(0)
CODES = np.column_stack([RNG.integers(0, 10, 500), RNG.integers(0, 3, 500)]).astype(np.int32)
TABLES: dict[str, Axes] = {"a": [("a", FINE)], "ab": [("a", FINE), ("b", FEW)], "h": [("b", FEW), ("a", HALVES)]}
GUESSES = {"a": RNG.random(10) * 50, "ab": RNG.random((10, 3)) * 20, "h": RNG.random((3, 5)) * 40}
ROWS = CodedRows(CODES, ("a", "b"), np.zeros((500, 0), np.uint64))


def test_they_are_distances_of_merged_tables_and_their_guesses() -> None:
    """Without noise; merging can only bring a table nearer to its guess, and its rows stay its rows."""
    query = Distances(TABLES, GUESSES)
    coarse = CoarseTables.of(query)
    noisy = dict(zip(TABLES, coarse.query.exact(ROWS), strict=True))
    exact = dict(zip(TABLES, Marginals(TABLES).exact(ROWS), strict=True))
    found = coarse.distances({key: table.astype(np.float64) for key, table in noisy.items()}, 0.0)
    for key, table in exact.items():
        assert noisy[key].sum() == table.sum() == 500
        assert coarse.guesses[key].sum() == pytest.approx(GUESSES[key].sum())
        assert max(noisy[key].shape) <= PARTS and noisy[key].shape == coarse.guesses[key].shape
        assert found[key] <= np.abs(table - GUESSES[key]).sum() + 1e-9
    place = np.arange(10) * PARTS // 10
    by_hand = np.bincount(place[CODES[:, 0]], minlength=PARTS) - np.bincount(place, GUESSES["a"], PARTS)
    assert found["a"] == pytest.approx(np.abs(by_hand).sum())
    assert coarse.query.sensitivity(None) == query.sensitivity(None)


def test_a_map_of_no_cells_in_order_stays_as_it_is() -> None:
    coarse = CoarseTables.of(Distances({"x": [("b", EveryCode(6))]}, {"x": np.ones(6)}))
    assert coarse.guesses["x"].shape == (6,)


@pytest.mark.statistical
def test_noise_adds_nothing_in_the_mean() -> None:
    """Tables that are their guesses, 4,000 times: within five standard errors of zero. The seed is fixed."""
    coarse = CoarseTables.of(Distances({"ab": TABLES["ab"]}, {"ab": GUESSES["ab"]}))
    rng = np.random.default_rng(1)
    drawn = np.array([
        coarse.distances({"ab": coarse.guesses["ab"] + rng.normal(0, 7, (PARTS, 3))}, 7.0)["ab"] for _ in range(4000)
    ])  # fmt: skip
    assert abs(drawn.mean()) < 5 * drawn.std() / np.sqrt(4000)
