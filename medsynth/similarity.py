"""Compare two columns by the shares of their values in common cells, as the report shows it and a plan expects it."""

from __future__ import annotations

import numpy as np

from .arrays import Floats, Whole

CELLS = 12  # of a number's known values; a value that many rows share has a cell of its own


def edges_of(values: Floats, cells: int = CELLS) -> Floats:
    """Return the edges between `cells` cells that have about as many of the known values: (edges,); [] without one."""
    return np.unique(np.quantile(values, np.linspace(0, 1, cells + 1)[1:-1])) if len(values) else values


def cells_in(values: Floats, edges: Floats) -> Whole:
    """Return the cell of each value, (rows,); NaN has the last one, `count_of(edges)` - 1.

    A value equal to an edge has its own cell, so that a value that many rows share, such as zero, stays sharp.

    >>> cells_in(np.array([-1.0, 0.0, 7.0, np.nan]), np.array([0.0])).tolist()
    [0, 1, 2, 3]
    """
    cell = np.searchsorted(edges, values, side="left") + np.searchsorted(edges, values, side="right")
    return np.asarray(np.where(np.isnan(values), count_of(edges) - 1, cell), np.int64)


def count_of(edges: Floats) -> int:
    """Return the number of cells, including that of missing values."""
    return 2 * len(edges) + 2


def similarity(one: Whole, other: Whole, cells: int) -> float:
    """Return 1 minus the total-variation distance of two columns' cells, both (rows,)."""
    shares = [np.bincount(column, minlength=cells) / len(column) for column in (one, other)]
    return float(1 - np.abs(shares[0] - shares[1]).sum() / 2)
