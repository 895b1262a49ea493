"""Shares of a number's fine cells: as smooth as their noisy counts say, never smoother than rows are by chance."""

import numpy as np
import pytest
from numpy.typing import NDArray

from medsynth.methods.marginals import Counts, cleaned
from medsynth.mixture.grids import shares_of_cells

Floats = NDArray[np.float64]
ROWS, CELLS = 4000, 60
EVEN = np.full(CELLS, 1 / CELLS)
ALL = np.ones(CELLS, np.bool_)


def bell() -> Floats:
    """Shares of a smooth column."""
    found = np.exp(-((np.arange(CELLS) - 25) ** 2) / 300.0) + 0.05
    return np.asarray(found / found.sum())


def spiky(rng: np.random.Generator) -> Floats:
    """Shares of a column in which each cell has its own."""
    found = bell() * np.exp(rng.normal(0, 2.0, CELLS))
    return np.asarray(found / found.sum())


def found(counts: Floats, std: float, rows: float = ROWS, along: NDArray[np.bool_] = ALL) -> Floats:
    """Shares by noisy counts of cells."""
    return shares_of_cells([Counts.of_cells(counts, std)], rows, EVEN, rows * EVEN, along)


def error_kept(shares: list[Floats], std: float, rng: np.random.Generator) -> float:
    """Total variation from the rows, as a part of that of shares without smoothing: 20 tables."""
    far = np.zeros(2)
    for own in shares:
        rows = rng.multinomial(ROWS, own)
        counts = rows + rng.normal(0, std, CELLS)
        alone = cleaned(counts, ROWS)
        far += [np.abs(some - rows / ROWS).sum() for some in (found(counts, std), alone)]
    return float(far[0] / far[1])


@pytest.mark.statistical
def test_a_smooth_column_loses_most_of_its_noise(rng: np.random.Generator) -> None:
    """Noise of 40 rows a cell, five times what rows differ by chance: a third of the error is left. Seed fixed."""
    assert error_kept([bell()] * 20, 40.0, rng) < 0.4


@pytest.mark.statistical
def test_a_rough_column_is_not_smoothed(rng: np.random.Generator) -> None:
    """Cells that differ from their neighbours by more than the noise keep their counts. The seed is fixed."""
    assert error_kept([spiky(rng) for _ in range(20)], 15.0, rng) < 1.05


@pytest.mark.statistical
def test_nothing_is_smoother_than_rows_are_by_chance(rng: np.random.Generator) -> None:
    """Noise as large as what rows differ by: the root of a half is the best, the smooth density itself has 1."""
    assert error_kept([bell()] * 20, 8.0, rng) < 0.78


def test_a_cell_apart_tells_nothing_of_its_neighbours() -> None:
    """A frequent value keeps its rows, and its neighbours theirs."""
    rows = ROWS * bell()
    rows[25] = 800.0
    along = np.arange(CELLS) != 25
    shares = found(rows, 10.0, rows.sum(), along)
    assert shares[25] == pytest.approx(800 / rows.sum(), rel=0.03)
    assert shares[[24, 26]] == pytest.approx(rows[[24, 26]] / rows.sum(), rel=0.1)


def test_two_cells_have_no_curve() -> None:
    """Too few cells for a second difference."""
    counts = Counts.of_cells(np.array([30.0, 70.0]), 1.0)
    half = np.array([0.5, 0.5])
    assert shares_of_cells([counts], 100, half, 100 * half, half > 0) == pytest.approx([0.3, 0.7], abs=0.02)
