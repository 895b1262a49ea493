"""Public grids: a column's fine codes grouped into cells, from its declared bounds alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .column import Column


@dataclass(frozen=True)
class Grid:
    """Cell i has the codes edges[i] to edges[i+1] - 1; then comes a cell for each kind of missing value."""

    edges: NDArray[np.int64]
    gaps: int

    @property
    def cells(self) -> int:
        """How many cells, those of missing values included."""
        return len(self.edges) - 1 + self.gaps

    @property
    def ends(self) -> NDArray[np.int64]:
        """The edges of all cells, those of missing values, one code each, included: (cells + 1,)."""
        return np.append(self.edges, self.edges[-1] + 1 + np.arange(self.gaps))

    def cell_of(self, codes: NDArray[np.int32]) -> NDArray[np.int64]:
        """The cell of each code; codes past all values are missing."""
        ends = self.ends
        if ends[0] == 0 and len(codes) > ends[-1]:  # a table of all codes is quicker than a search for each row
            # Places of 64 bits are looked up ten times as fast as narrower ones.
            return np.repeat(np.arange(self.cells), np.diff(ends)).take(codes.astype(np.int64), mode="clip")
        return np.searchsorted(ends[:-1], codes, side="right") - 1


def grid(column: Column, cells: int) -> Grid:
    """At most `cells` cells over a column's values, evenly spaced on its scale.

    Levels are cells of their own, and so is every value where there are no more than `cells`. On a log scale zero
    is a cell of its own.
    """
    count = column.size
    if column.categorical or count <= cells:
        return Grid(np.arange(count + 1), column.gaps)
    low, high = column.units
    if column.scale == "linear":
        # Equal whole widths where values are few: a mix of cells of one and of two values resembles a digit preference.
        few = count < 8 * cells
        edges = np.append(np.arange(0, count, -(-count // cells)), count) if few else np.linspace(0, count, cells + 1)
    else:
        start = max(low, 1)  # in units; zero, if within the bounds, is cut off below
        edges = np.geomspace(start, high + 1, cells + (low > 0)) - low
        edges = np.concatenate([[0], edges]) if low == 0 else edges
    return Grid(np.unique(np.round(edges).astype(np.int64)), column.gaps)


def scale_edges(column: Column, cells: Grid) -> NDArray[np.float64]:
    """Where the edges of cells of values lie on a number column's scale: (cells of values + 1,)."""
    units = (cells.edges + column.units[0]).astype(np.float64)
    return units if column.scale == "linear" else np.log(np.maximum(units, 0.5))  # zero lies half a unit above itself


def scale_middles(column: Column, cells: Grid) -> NDArray[np.float64]:
    """Where the middle value of each cell of values lies on a number column's scale: (cells of values,)."""
    units = (cells.edges[:-1] + cells.edges[1:] - 1) / 2 + column.units[0]
    return np.asarray(units if column.scale == "linear" else np.log(np.maximum(units, 0.5)))
