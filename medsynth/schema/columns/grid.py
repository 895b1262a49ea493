"""Public grids: group a column's fine codes into cells, from its declared bounds alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...arrays import Floats, Whole
from ...errors import QueryError
from .column import Column

MOST_CODES = 1 << 31  # of a column: codes have 32 bits
MOST_GAPS = 1 << 16  # kinds of missing values of a column
TABLE_CODES = 1 << 16  # grids with at most this many codes keep a table of them, which is faster than a search


@dataclass(frozen=True)
class Grid:
    """Cell i has the codes edges[i] to edges[i+1] - 1; one cell per kind of missing value follows.

    Raises QueryError unless the edges are whole numbers that ascend strictly from zero, within the range of codes.
    """

    edges: Whole
    gaps: int

    def __post_init__(self) -> None:
        edges = self.edges
        if edges.dtype != np.int64 or edges.ndim != 1 or len(edges) < 2 or edges[0] != 0:
            raise QueryError("A grid needs two or more edges: 64-bit whole numbers, the first of them zero.")
        # Edges are compared, not subtracted: a difference of 64-bit numbers can overflow.
        if not (edges[1:] > edges[:-1]).all() or edges[-1] > MOST_CODES or not 0 <= self.gaps <= MOST_GAPS:
            raise QueryError("The edges of a grid must ascend strictly, within the range of codes.")

    @property
    def cells(self) -> int:
        """The number of cells, including those of missing values."""
        return len(self.edges) - 1 + self.gaps

    @property
    def ends(self) -> Whole:
        """The edges of all cells, including those of missing values with one code each: (cells + 1,)."""
        return np.append(self.edges, self.edges[-1] + 1 + np.arange(self.gaps))

    def cell_of(self, codes: NDArray[np.int32]) -> Whole:
        """Return the cell of each code. Codes above all values are missing; codes above those get the last cell.

        The choice between table and search depends on the grid alone, never on the number of rows.
        """
        if self._table is None:
            return self._search(codes)
        return self._table.take(codes.astype(np.int64), mode="clip")  # 64-bit indices are looked up fastest

    def _search(self, codes: NDArray[np.integer]) -> Whole:
        return np.searchsorted(self.ends[1:-1], codes, side="right")

    @cached_property
    def _table(self) -> Whole | None:
        """The cell of every code, if there are few: the same search, done once for all rows."""
        return self._search(np.arange(self.ends[-1])) if self.ends[-1] <= TABLE_CODES else None


def grid(column: Column, cells: int) -> Grid:
    """Return at most `cells` cells over a column's values, evenly spaced on its scale.

    Each level has its own cell, and so have each limit of an assay, and each value if there are at most `cells`. On a
    log scale zero has its own cell.
    """
    if column.categorical or column.size <= cells:
        return Grid(np.arange(column.size + 1), column.gaps)
    low, high = column.number_units
    count = high - low + 1
    before = low - column.units[0]
    after = column.units[1] - high
    cells -= before + after
    if column.scale == "linear":
        # Equal whole widths if values are few: a mix of one- and two-value cells would look like a digit preference.
        few = count < 8 * cells
        edges = np.append(np.arange(0, count, -(-count // cells)), count) if few else np.linspace(0, count, cells + 1)
    else:
        start = max(low, 1)  # in units; zero, if within the bounds, gets its own cell below
        edges = np.geomspace(start, high + 1, cells + (low > 0)) - low
        edges = np.concatenate([[0], edges]) if low == 0 else edges
    inner = np.unique(np.round(edges).astype(np.int64)) + before
    return Grid(np.concatenate([np.arange(before), inner, inner[-1] + 1 + np.arange(after)]), column.gaps)


def scale_edges(column: Column, cells: Grid) -> Floats:
    """Return the edges of cells of values on a number column's scale: (cells of values + 1,)."""
    units = (cells.edges + column.units[0]).astype(np.float64)
    return units if column.scale == "linear" else np.log(np.maximum(units, 0.5))  # zero counts as half a unit


def scale_middles(column: Column, cells: Grid) -> Floats:
    """Return the middle value of each cell of values on a number column's scale: (cells of values,)."""
    units = (cells.edges[:-1] + cells.edges[1:] - 1) / 2 + column.units[0]
    return np.asarray(units if column.scale == "linear" else np.log(np.maximum(units, 0.5)))
