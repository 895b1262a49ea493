"""Queries that count: contingency tables, their distances to public guesses, rows per patient."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from ...arrays import Floats, Whole
from ...errors import BudgetError
from .content import check_answer, check_numbers, check_size, require
from .query import NoiseScale, Result, RowQuery
from .rows import Axes, CodedRows

DISTANCE_UNIT = 2.0**-20  # Guesses of tables are rounded to it, so that distances are whole multiples of it.
LARGEST_GUESS = 2.0**32  # Rows in a guessed table. A vault has at most 2^29.
LARGEST_WEIGHT = 2.0**20  # Largest weight of a table. The smallest is one over it.
MOST_ROWS_OF_A_PATIENT = 1 << 20
MOST_CENTRED = 1 << 12  # Cells along the centred axes of an averaged table, so that counts stay below 2^62.

BLOCK_ROWS = 1 << 16  # Rows whose cells are kept while all tables count them.
WHOLE_PATIENT = 1 << 20  # The sum for a patient's rows, at most, in averaged tables.


def counts(tables: Collection[Axes], rows: CodedRows, *, averaged: bool = False) -> list[Whole]:
    """Return the exact contingency tables of `tables`, each (cells of the first, cells of the second, ...).

    `averaged`: each patient's rows together add at most `WHOLE_PATIENT` instead of one each. Rows are read in blocks,
    and their cells on an axis are computed once for all tables with that axis.
    """
    shapes = [tuple(cells.cells for _, cells in axes) for axes in tables]
    found = [np.zeros(math.prod(shape), np.int64) for shape in shapes]
    weights, first = None, 0
    if averaged:
        assert rows.units is not None
        whose = rows.units.of_row
        weights = (WHOLE_PATIENT // np.bincount(whose, minlength=1).clip(min=1))[whose]
    for block in rows.blocks(max([BLOCK_ROWS, *(len(total) for total in found)])):
        own = None if weights is None else weights[first : first + len(block.codes)]
        first += len(block.codes)
        known = dict[tuple[str | tuple[str, ...], int], Whole]()
        for axes, total in zip(tables, found, strict=True):
            place = np.zeros(len(block.codes), np.int64)
            for name, cells in axes:
                key = name, id(cells)
                if key not in known:
                    known[key] = block.cells(name, cells)
                place = place * cells.cells + known[key]
            # Sums of whole numbers below 2^53, which doubles represent exactly.
            total += np.bincount(place, own, minlength=len(total)).astype(np.int64, copy=False)
    return [total.reshape(shape) for total, shape in zip(found, shapes, strict=True)]


def _most_rows(max_rows: int | None, *, averaged: bool) -> int:
    """Return by how many rows a unit may change a table. Raises BudgetError if there are no patients to average."""
    if averaged and max_rows is None:
        raise BudgetError("The row is the unit of privacy: there are no patients whose rows could be averaged.")
    return 1 if averaged else max_rows or 1


class _Tables(RowQuery[Result]):
    """Counts in `tables`: of single rows or, `averaged`, of patients whose rows together add one."""

    tables: Mapping[str, Axes]
    averaged: bool

    def __post_init__(self) -> None:
        require(bool(self.tables), "A query of tables has no table.")
        require(all(len(axes) for axes in self.tables.values()), "A table of a query has no axis.")
        check_answer(*(tuple(cells.cells for _, cells in axes) for axes in self.tables.values()))

    @property
    def whole_patients(self) -> bool:
        """Return whether rows are averaged, since a patient's share is then divided among all of them."""
        return self.averaged

    def exact(self, rows: CodedRows) -> list[Whole]:
        """Return the tables; with averaged rows in multiples of 1 / `WHOLE_PATIENT`."""
        return counts(self.tables.values(), rows, averaged=self.averaged)


def centred_axes(count: int) -> range:
    """Return the axes along which a table of this number of axes is centred: all except a first one of classes."""
    return range(min(1, count - 1), count)


def centred_norm(cells: int) -> float:
    """Return the norm of a row's contribution to a table that is centred along an axis with this number of cells."""
    return math.sqrt(1 - 1 / cells)


@dataclass(frozen=True, eq=False)
class Marginals(_Tables[dict[str, Floats]]):
    """Contingency tables by name, with one axis per column and the cells of its map.

    A row adds one to one cell of each table. Counts are multiplied by the table's weight (default one), noised and
    divided by it again. The L2 sensitivity is the root of the sum of squared weights, times a patient's maximum number
    of rows. `averaged`: a patient's rows add one together, divided evenly, so that the sensitivity is that of one row.
    `centred`: tables that are released minus their means along each axis but the first, or along their only axis. A row
    then adds a vector whose norm is the product of `centred_norm`, which is below one, over these axes.

    Raises QueryError for tables that are empty or too large, and for weights of other tables or outside 2^-20 to 2^20.
    It also does for a centred table with fewer than two cells along such an axis, or with too many for 64 bits.
    """

    tables: Mapping[str, Axes]
    weights: Mapping[str, float] | None = None
    averaged: bool = False
    centred: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        weights = dict.fromkeys(self.tables, 1.0) if self.weights is None else self.weights
        require(weights.keys() == self.tables.keys(), "Weights must be given for each table, and for no other.")
        allowed = all(1 / LARGEST_WEIGHT <= weight <= LARGEST_WEIGHT for weight in weights.values())
        require(allowed, "The weights of tables must be above zero, from 2^-20 to 2^20.")
        require(set(self.centred) <= self.tables.keys(), "A table that is centred is not among the tables.")
        least = min((cells for name in self.centred for cells in self._centred_cells(name)), default=2)
        require(least > 1, "A table that is centred must have two cells or more along each axis but the first.")
        most = max((math.prod(self._centred_cells(name)) for name in self.centred), default=2)
        require(not self.averaged or most <= MOST_CENTRED, "A table that is centred and averaged has too many cells.")

    def _weight(self, name: str) -> float:
        return 1.0 if self.weights is None else self.weights[name]

    def _centred_axes(self, name: str) -> range:
        return centred_axes(len(self.tables[name])) if name in self.centred else range(0)

    def _centred_cells(self, name: str) -> list[int]:
        return [self.tables[name][axis][1].cells for axis in self._centred_axes(name)]

    def _reach(self, name: str) -> float:
        """Return the norm of a row's contribution to a table, times the table's weight."""
        return self._weight(name) * math.prod(map(centred_norm, self._centred_cells(name)))

    def sensitivity(self, max_rows: int | None) -> float:
        """Return the norm of a row's weighted contributions to all tables; times a patient's rows unless averaged.

        Raises BudgetError if rows are to be averaged and the row is the unit of privacy.
        """
        return _most_rows(max_rows, averaged=self.averaged) * math.hypot(*map(self._reach, self.tables))

    def exact(self, rows: CodedRows) -> list[Whole]:
        """Return the tables; centred ones, for each axis in turn, times its cells and minus the sum along it."""
        found = []
        for name, table in zip(self.tables, super().exact(rows), strict=True):
            for axis in self._centred_axes(name):
                table = table * table.shape[axis] - table.sum(axis, keepdims=True)
            found.append(table)
        return found

    def scales(self, std: float) -> list[NoiseScale]:
        """Return scales in inverse proportion to the tables' weights."""
        unit = 1 / WHOLE_PATIENT if self.averaged else 1.0
        units = {name: unit / math.prod(self._centred_cells(name)) for name in self.tables}
        return [NoiseScale(std / self._weight(name), units[name]) for name in self.tables]

    def result(self, arrays: list[Floats]) -> dict[str, Floats]:
        """Return the noisy tables by name."""
        return dict(zip(self.tables, arrays, strict=True))


@dataclass(frozen=True, eq=False)
class Distances(_Tables[dict[str, float]]):
    """L1 distances between contingency tables and public guesses of them, by name.

    A row changes one cell of each of the k tables by one, and so each distance by at most one. The L2 sensitivity is
    sqrt(k) times a patient's maximum number of rows. `averaged`: a patient's rows add one together, and it is sqrt(k).
    The tables are added up over parts before the distance is computed. Guesses are rounded to 2^-20. Raises QueryError
    for tables that are empty or too large, and for guesses that are not tables of rows of the same shapes.
    """

    tables: Mapping[str, Axes]
    guesses: Mapping[str, Floats]
    averaged: bool = False

    @property
    def adds_up(self) -> bool:
        """Return false, since the distance of a sum is not the sum of distances."""
        return False

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.guesses.keys() == self.tables.keys(), "Guesses must be given for each table, and for no other.")
        for name, axes in self.tables.items():
            shape = tuple(cells.cells for _, cells in axes)
            guess = self.guesses[name]
            check_numbers(guess, shape, np.float64, LARGEST_GUESS, what="A guess of a contingency table")
            held = np.abs(guess).sum() < LARGEST_GUESS
            require(bool(held), "A guess of a contingency table must hold numbers of rows.")

    def sensitivity(self, max_rows: int | None) -> float:
        """Return sqrt(k) for k tables, times a patient's maximum number of rows unless these are averaged.

        Raises BudgetError if rows are to be averaged and the row is the unit of privacy.
        """
        return _most_rows(max_rows, averaged=self.averaged) * math.sqrt(len(self.tables))

    def finished(self, total: list[Whole]) -> list[Whole]:
        """Return all distances in one array, in whole multiples of `DISTANCE_UNIT`."""
        one = round(1 / DISTANCE_UNIT)
        each = one // WHOLE_PATIENT if self.averaged else one
        gaps = (
            table * each - np.rint(self.guesses[key] * one).astype(np.int64)
            for key, table in zip(self.tables, total, strict=True)
        )
        return [np.array([np.abs(gap).sum() for gap in gaps], np.int64)]

    def scales(self, std: float) -> list[NoiseScale]:
        """Return the scale of all distances."""
        return [NoiseScale(std, DISTANCE_UNIT)]

    def result(self, arrays: list[Floats]) -> dict[str, float]:
        """Return the noisy distances by name."""
        return dict(zip(self.tables, arrays[0].tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class RowsPerPatient(RowQuery[Floats]):
    """Numbers of patients with one, two, ... `most` rows. A patient adds one to one cell: sensitivity 1.

    Raises QueryError unless `most` is a valid number of rows.
    """

    most: int

    def __post_init__(self) -> None:
        check_size(self.most, MOST_ROWS_OF_A_PATIENT, what="The most rows of a patient")

    @property
    def of_patients(self) -> bool:
        """Return true: it reads nothing else."""
        return True

    def sensitivity(self, max_rows: int | None) -> float:
        """Return the sensitivity, one. Raises BudgetError if the row is the unit of privacy."""
        if max_rows is None:
            raise BudgetError("The row is the unit of privacy: there are no patients to count.")
        return 1.0

    def exact(self, rows: CodedRows) -> list[Whole]:
        """Return the number of rows of every patient, including patients whose rows are in other parts: (patients,)."""
        assert rows.units is not None
        return [np.bincount(rows.units.of_row, minlength=rows.units.count)]

    def finished(self, total: list[Whole]) -> list[Whole]:
        """Return the numbers of patients by their number of rows, from one: (most,)."""
        return [np.bincount(np.minimum(total[0], self.most), minlength=self.most + 1)[1:]]

    def scales(self, std: float) -> list[NoiseScale]:
        """Return the scale of the only array."""
        return [NoiseScale(std)]
