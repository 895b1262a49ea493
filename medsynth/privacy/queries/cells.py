"""Public maps from codes to cells that contain only what a query needs.

Maps that contain more, such as the bins of a column with their shares, convert themselves by `plain`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...arrays import Codes, Whole
from ...schema.columns.grid import MOST_CODES, Grid
from ...schema.rules import Definition
from .content import MOST_NUMBERS, check_places, check_size, require
from .rows import CellMap, cells_of

ALL_CODES = Grid(np.array([0, np.iinfo(np.int32).max]), 0)  # One cell, for a map that counts rows.


@dataclass(frozen=True, eq=False)
class Regrouped:
    """The cells of a grid in groups: `place`, (cells of the grid,), is the group of each, below `cells`.

    Raises QueryError unless every cell of the grid has a place below `cells`.
    """

    grid: Grid
    place: Whole
    cells: int

    def __post_init__(self) -> None:
        check_size(self.cells, MOST_NUMBERS, what="The cells of a map")
        check_places(self.place, (self.grid.cells,), self.cells, what="The places of a grid's cells")

    def cell_of(self, codes: Codes) -> Whole:
        """Return the cell of each code."""
        return self.place[self.grid.cell_of(codes)]


@dataclass(frozen=True)
class EveryCode:
    """Each of this number of codes in its own cell. Raises QueryError without a code, or for too many."""

    cells: int

    def __post_init__(self) -> None:
        check_size(self.cells, MOST_CODES, what="The codes of a map")

    def cell_of(self, codes: Codes) -> Whole:
        """Return the code itself."""
        return codes.astype(np.int64)


@dataclass(frozen=True)
class Computed:
    """The cells of a column that the schema computes from others, by the codes of these: (rows, inputs).

    Raises QueryError for a `map` that reads several columns.
    """

    definition: Definition
    map: CellMap

    def __post_init__(self) -> None:
        _check_reads_one_column(self.map)

    @property
    def cells(self) -> int:
        """Return the number of cells."""
        return self.map.cells

    def cell_of(self, codes: Codes) -> NDArray[np.integer]:
        """Return the cell of each row."""
        return cells_of(self.map, self.definition.codes(codes))


@dataclass(frozen=True, eq=False)
class Beside:
    """The cells of a column's codes in this row and in the previous one, (rows, 2), by a public table of both cells.

    `table`: (cells of `map` in the previous row, in this one). `equal`: (cells of `map`), for equal codes. Raises
    QueryError unless both are complete, with places below `cells`, and for a `map` that reads several columns.
    """

    map: CellMap
    table: Whole
    equal: Whole
    cells: int

    def __post_init__(self) -> None:
        _check_reads_one_column(self.map)
        size = self.map.cells
        check_size(self.cells, MOST_NUMBERS, what="The cells of a map")
        check_places(self.table, (size, size), self.cells, what="The cells of two rows")
        check_places(self.equal, (size,), self.cells, what="The cells of equal codes")

    def cell_of(self, codes: Codes) -> Whole:
        """Return the cell of each row."""
        now, last = codes[:, 0], codes[:, 1]
        before = cells_of(self.map, last)
        found: Whole = np.where(now == last, self.equal[before], self.table[before, cells_of(self.map, now)])
        return found


def _check_reads_one_column(cells: CellMap) -> None:
    require(not isinstance(cells, Computed | Beside), "A map inside another map must read one column.")
