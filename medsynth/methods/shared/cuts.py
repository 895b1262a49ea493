"""Where a column of numbers is cut into bins: where rows are, and, in part, where values are far apart.

Bins of even mass alone put a tail into one or two of them. Slopes live in tails: between bins of a tail that is not
told apart from its neighbours nothing correlates, and a regression on the generated rows comes back shrunk.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...schema import Column, Schema
from ...schema.columns.grid import Grid, grid, scale_edges
from .marginals import GRID_CELLS

Floats = NDArray[np.float64]
TAIL = 0.005  # of the rows at either end: an outermost bin of fewer would hold noise alone


def fine_grid(column: Column) -> Grid:
    """The fine public grid of a column: where values are many, edges that no cell should blur may lie anywhere."""
    return grid(column, 2 * GRID_CELLS if column.size > 8 * GRID_CELLS else GRID_CELLS)


def grids(schema: Schema, most: int) -> dict[str, Grid]:
    """The fine public grid of every number column whose values outnumber its bins."""
    return {
        name: fine_grid(column)
        for name, column in schema.columns.items()
        if not column.categorical and column.size > most
    }


def even_parts(mass: Floats, parts: int) -> NDArray[np.int64]:
    """The part of each cell when cells are cut into parts of even mass.

    A cell joins the part in which its middle lies, so that a preferred number stays in one part.
    """
    return np.asarray(np.searchsorted(np.linspace(0, 1, parts + 1)[1:-1], middles(mass)))


def middles(mass: Floats) -> Floats:
    """Where the middle of each cell lies in the mass of all, from 0 to 1: (cells,)."""
    cumulative = np.cumsum(mass)
    return np.asarray((cumulative - mass / 2) / cumulative[-1])


def mass_and_width(column: Column, fine: Grid, shares: Floats, wide: float) -> Floats:
    """What even bins divide, (cells of values,): the `shares` of rows, and for a part `wide` the width of the cells.

    The width counts as far as rows are there: the third root of their density, by which quantisation loses least of the
    variance (Panter and Dite 1951). Widths are those of the column's scale.
    """
    values = fine.cells - column.gaps
    mass = shares[:values] / max(shares[:values].sum(), 1e-300)
    width = np.diff(scale_edges(column, fine))
    below = np.cumsum(mass)
    spread = np.where((below > TAIL) & (below - mass < 1 - TAIL), np.cbrt(mass * np.square(width)), 0.0)
    return np.asarray((1 - wide) * mass + wide * spread / max(spread.sum(), 1e-300))
