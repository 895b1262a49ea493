"""The cells in which a column of later rows is modelled, and the coarser groups in which it is measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..arrays import Codes, Floats, Whole
from ..methods.bins import Bins, fine_grid
from ..privacy.queries.cells import Beside, Regrouped
from ..privacy.queries.rows import CellMap
from ..rng import Stream
from ..schema import Column
from ..schema.columns.grid import Grid, grid
from .split_rows import GAP, LAST, NOW, OF, named

Axis = tuple[str | tuple[str, ...], CellMap]
MOST_LEVELS = 24  # of a column of levels; the rarest share another cell
SMALLEST_SHARE = 1e-6
GAP_CELLS = 48  # of the fine grid of gaps


def fine_cells(name: str, column: Column) -> Grid:
    """Return the fine public grid of a column of later rows."""
    return grid(column, GAP_CELLS) if name == GAP else fine_grid(column)


@dataclass(frozen=True, eq=False)
class Variable:
    """A column of later rows. `group`: (bins,) the cell of each bin, which has the share `shares`, (bins,), in it.

    Two-way tables use its `coarse` groups, and those with its own last value `medium` ones, (cells of values,) each.
    `repeats`: whether "as in the last row" is a cell of its own, the last: if medium groups contain more than one
    value.
    """

    name: str
    bins: Bins
    group: Whole
    shares: Floats
    medium: Whole
    coarse: Whole
    repeats: bool

    @classmethod
    def of(cls, name: str, column: Column, bins: Bins, most: tuple[int, int], *, moves: bool) -> Variable:
        """Create a variable with about `most` medium and coarse groups. `moves`: whether it changes over rows."""
        shares = np.bincount(bins.place, bins.shares, bins.cells).astype(np.float64)
        group = bins.merged(MOST_LEVELS, shares) if column.categorical else np.arange(bins.cells)
        medium, coarse = (np.zeros(int(group.max()) + 1, np.int64) for _ in most)
        for found, count in zip((medium, coarse), most, strict=True):
            found[group] = bins.merged(count, shares)
        return cls(name, bins, group, shares, medium, coarse, moves and cls.blurs(column, medium))

    @staticmethod
    def blurs(column: Column, medium: NDArray[Any]) -> bool:
        """Return whether some medium group has several values."""
        return int(medium.max()) + 1 < column.size + column.gaps

    @property
    def values(self) -> int:
        """The number of cells of values, including those of missing ones."""
        return len(self.medium)

    @property
    def cells(self) -> int:
        """The number of cells: those of values, and "as in the last row" if it is one."""
        return self.values + self.repeats

    def ordered(self, part: Whole) -> int:
        """Return the number of first groups of `part`, (cells of values,), that are neighbours in value."""
        last = int(self.group[: self.bins.ordered].max(initial=-1))
        return int(part[: last + 1].max(initial=-1)) + 1

    def response(self, part: Whole) -> Whole:
        """Return the group of each cell, (cells,): values have that of `part`, "as in the last row" its own."""
        return np.append(part, part.max() + 1) if self.repeats else part

    def map(self, part: Whole) -> Regrouped:
        """Return the map from codes to groups of values."""
        return self.bins.grouped(part[self.group])

    def axis(self, part: Whole) -> Axis:
        """Return the axis of the groups of `part` in this row, in a contingency table."""
        now = named(OF if self.name == GAP else NOW, self.name)
        cells = int(part.max()) + 2
        if not self.repeats:
            return now, self.map(part)
        table = np.tile(part, (self.values, 1))
        return (now, named(LAST, self.name)), Beside(
            self.map(np.arange(self.values)), table, table[0] * 0 + cells - 1, cells
        )

    @property
    def reached(self) -> Whole:
        """The coarse group that each cell leads to, (cells of values in the last row, cells)."""
        found = np.tile(self.coarse, (self.values, 1))
        return np.column_stack([found, self.coarse]) if self.repeats else found

    @property
    def base(self) -> Floats:
        """Log shares of the cells, (cells,), by their one-way marginal; "as in the last row" counts as one value."""
        shares = np.bincount(self.group, self.shares, self.values)
        found = np.log(np.maximum(shares / shares.sum(), SMALLEST_SHARE))
        return np.append(found, np.log(1 / self.values)) if self.repeats else np.asarray(found)

    def draw(self, cells: Whole, last: Codes, rng: Stream) -> Codes:
        """Return codes of drawn cells, (rows,); `last`: those of the last row."""
        same = cells == self.values
        wanted = np.where(same, 0, cells)
        order = np.argsort(self.group, kind="stable")
        above = np.cumsum(self.shares[order] + 1e-12)
        ends = np.searchsorted(self.group[order], np.arange(self.values + 1))
        edges = np.append(0.0, above)[ends]
        at = edges[wanted] + rng.random(len(cells)) * (edges[wanted + 1] - edges[wanted])
        place = np.searchsorted(above, at, side="right").clip(ends[wanted], ends[wanted + 1] - 1)
        return np.where(same, last, self.bins.drawn_inside(order[place], rng)).astype(np.int32)
