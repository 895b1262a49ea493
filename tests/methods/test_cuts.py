"""Bins that see tails: slopes survive the loss of what is inside a bin."""

import numpy as np
import pytest
from numpy.typing import NDArray

from medsynth.methods.bins import TAIL, Bins, even_parts, mass_and_width, middles
from medsynth.schema import Continuous
from medsynth.schema.columns.grid import grid, scale_edges, scale_middles

COLUMN = Continuous(bounds=(0, 1000), decimals=0)
FINE = grid(COLUMN, 500)


def shares(codes: NDArray[np.int32]) -> NDArray[np.float64]:
    return np.bincount(FINE.cell_of(codes), minlength=FINE.cells) / len(codes)


@pytest.mark.statistical
def test_a_slope_that_lives_in_a_tail_survives_bins_that_see_width(rng: np.random.Generator) -> None:
    """5 % of the rows lie far out in both columns. Values are drawn anew inside the bins, columns apart.

    Bins of even mass lose a third of the slope, those that see width a tenth. The seed is fixed.
    """
    rows = 20_000
    far = rng.random(rows) < 0.05
    latent = np.where(far, rng.uniform(0, 600, rows), 0.0)
    one, other = (np.clip(rng.normal(200, 20, rows) + latent, 0, 1000).astype(np.int32) for _ in range(2))
    slopes = {}
    for wide in (0.0, 0.5):
        drawn = []
        for codes in (one, other):
            bins = Bins.of(COLUMN, shares(codes), None, 20, FINE, wide)
            places = bins.cell_of(codes)
            assert bins.cells <= 20
            drawn.append(bins.draw(places, np.zeros(rows, np.int64), bins.shares[None] + 1e-12, rng))
        slopes[wide] = np.cov(drawn[0], drawn[1])[0, 1] / np.var(drawn[0]) / (np.cov(one, other)[0, 1] / np.var(one))
    assert slopes[0.0] < 0.75 and slopes[0.5] > 0.9


def test_without_width_parts_have_even_mass() -> None:
    mass = np.ones(100)
    assert np.bincount(even_parts(mass, 10)).tolist() == [10] * 10
    assert np.allclose(middles(mass), (np.arange(100) + 0.5) / 100)
    some = np.zeros(FINE.cells)
    some[100:200] = 0.01
    assert np.allclose(mass_and_width(COLUMN, FINE, some, 0.0), some)


def test_width_counts_nothing_where_hardly_any_row_is() -> None:
    """A few rows at the far end, which may be noise, are one bin with those that are next to them."""
    some = np.zeros(FINE.cells)
    some[100:200] = (1 - TAIL / 2) / 100
    some[-1] = TAIL / 2
    assert mass_and_width(COLUMN, FINE, some, 1.0)[-1] == 0
    place = Bins.of(COLUMN, some, None, 20, FINE, 0.5).place
    assert place[-1] == place[199]


def test_scale_edges_and_middles_are_those_of_the_declared_scale() -> None:
    assert np.array_equal(scale_edges(COLUMN, FINE), FINE.edges)
    log = Continuous(bounds=(0, 100), decimals=1, scale="log")
    cells = grid(log, 30)
    edges = scale_edges(log, cells)
    assert np.all(np.diff(edges) > 0) and np.allclose(edges[1:], np.log(cells.edges[1:]))
    assert np.all((scale_middles(log, cells) >= edges[:-1]) & (scale_middles(log, cells) <= edges[1:]))
