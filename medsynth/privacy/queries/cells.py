"""Public maps from codes to cells that hold no more than a query needs of them.

Maps that know more, such as the bins of a column with their shares, give their like of these by `plain`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...schema.definitions import Definition
from ...transforms.grid import Grid
from .kinds import kind
from .rows import CellMap, Codes, Whole

kind("grid")(Grid)
ALL_CODES = Grid(np.array([0, np.iinfo(np.int32).max]), 0)  # one cell: of a map that counts rows


@kind("regrouped")
@dataclass(frozen=True, eq=False)
class Regrouped:
    """The cells of a grid put together: `place`, (cells of the grid,), is the cell of each, below `cells`."""

    grid: Grid
    place: Whole
    cells: int

    def cell_of(self, codes: Codes) -> Whole:
        """The cell of each code."""
        return self.place[self.grid.cell_of(codes)]


@kind("every code")
@dataclass(frozen=True)
class EveryCode:
    """Each of so many codes in a cell of its own."""

    cells: int

    def cell_of(self, codes: Codes) -> Whole:
        """The code itself."""
        return codes.astype(np.int64)


@kind("computed column")
@dataclass(frozen=True)
class Computed:
    """The cells of a column that the schema computes from others, by the codes of these: (rows, inputs)."""

    definition: Definition
    map: CellMap

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return self.map.cells

    def cell_of(self, codes: Codes) -> NDArray[np.integer]:
        """The cell of each row."""
        return self.map.cell_of(self.definition.codes(codes))


@kind("beside the last")
@dataclass(frozen=True, eq=False)
class Beside:
    """The cells of a column's codes in this row and in the last, (rows, 2), by a public table of both's cells.

    `table`: (cells of `map` in the last row, in this one) and `equal`: (cells of `map`), where both codes are equal.
    """

    map: CellMap
    table: Whole
    equal: Whole
    cells: int

    def cell_of(self, codes: Codes) -> Whole:
        """The cell of each row."""
        now, last = codes.T
        before = self.map.cell_of(last)
        found: Whole = np.where(now == last, self.equal[before], self.table[before, self.map.cell_of(now)])
        return found
