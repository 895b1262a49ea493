"""Queries that count: contingency tables, their distances to public guesses, rows per patient."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import numpy as np

from ...errors import BudgetError
from .content import check_answer, check_numbers, check_size, require
from .query import Result, RowQuery, Scale
from .rows import Axes, CodedRows, Floats, Whole

DISTANCE_UNIT = 2.0**-20  # guesses of tables are rounded to it, so that distances are whole multiples of it
LARGEST_GUESS = 2.0**32  # of rows in a table: a vault has 2^29 at most
LARGEST_WEIGHT = 2.0**20  # of a table; the smallest is one over it
MOST_ROWS_OF_A_PATIENT = 1 << 20
MOST_CENTRED = 1 << 12  # cells along the centred axes of an averaged table: its counts stay below 2^62

BLOCK_ROWS = 1 << 16  # whose cells are kept while all tables count them
WHOLE_PATIENT = 1 << 20  # what the rows of a patient add up to, at most, where tables are averaged


def counts(tables: Collection[Axes], rows: CodedRows, *, averaged: bool = False) -> list[Whole]:
    """The exact contingency table of some columns for each of `tables`, (cells of the first, cells of the second, ...).

    `averaged`: each patient's rows together add `WHOLE_PATIENT`, at most, in place of one each. Some rows at a time:
    their cells on an axis are computed once for all tables that have it.
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
            # Sums of whole numbers below 2^53, which doubles hold exactly.
            total += np.bincount(place, own, minlength=len(total)).astype(np.int64, copy=False)
    return [total.reshape(shape) for total, shape in zip(found, shapes, strict=True)]


def _most_rows(max_rows: int | None, *, averaged: bool) -> int:
    """By how many rows a unit of privacy may change a table. Raises BudgetError where there is none to average."""
    if averaged and max_rows is None:
        raise BudgetError("The row is the unit of privacy: there are no patients whose rows could be averaged.")
    return 1 if averaged else max_rows or 1


class _Tables(RowQuery[Result]):
    """What is counted in `tables`, of rows one by one or, `averaged`, of patients whose rows add one together."""

    tables: Mapping[str, Axes]
    averaged: bool

    def __post_init__(self) -> None:
        require(bool(self.tables), "A query of tables has no table.")
        require(all(len(axes) for axes in self.tables.values()), "A table of a query has no axis.")
        check_answer(*(tuple(cells.cells for _, cells in axes) for axes in self.tables.values()))

    @property
    def whole_patients(self) -> bool:
        """Whether rows are averaged: a patient's share is divided among all of them."""
        return self.averaged

    def exact(self, rows: CodedRows) -> list[Whole]:
        """The tables, those of averaged rows in multiples of 1 / `WHOLE_PATIENT`."""
        return counts(self.tables.values(), rows, averaged=self.averaged)


def centred_axes(count: int) -> range:
    """Return the axes that a centred table of this number of axes is centred along: all but a first one of classes."""
    return range(min(1, count - 1), count)


def centred_norm(cells: int) -> float:
    """The norm of what a row adds to a table that is centred along an axis of so many cells."""
    return math.sqrt(1 - 1 / cells)


@dataclass(frozen=True, eq=False)
class Marginals(_Tables[dict[str, Floats]]):
    """Contingency tables, by name: one axis a named column, of its map's cells.

    A row adds one to one cell of each table. Counts are multiplied by the table's weight, one if not given, noised
    and divided by it again: L2 sensitivity the root of the sum of squared weights, times the most rows of a patient.
    `averaged`: a patient's rows add one together, divided evenly among them, so that the sensitivity is that of one row
    however many there are. `centred`: tables that are released less their means along each axis but the first, or along
    their only axis. A row adds a vector of norm `centred_norm`, less than one, for each such axis: their product.

    Raises QueryError for tables that are empty or too large, for weights that are not those of the tables or lie beyond
    2^-20 to 2^20, and for a centred table with fewer than two cells along such an axis, or too many for 64 bits.
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
        """The axes that a table is centred along, if it is."""
        return centred_axes(len(self.tables[name])) if name in self.centred else range(0)

    def _centred_cells(self, name: str) -> list[int]:
        """The cells along each of these axes."""
        return [self.tables[name][axis][1].cells for axis in self._centred_axes(name)]

    def _reach(self, name: str) -> float:
        """The norm of what a row adds to a table, times the table's weight."""
        return self._weight(name) * math.prod(map(centred_norm, self._centred_cells(name)))

    def sensitivity(self, max_rows: int | None) -> float:
        """The root of the sum of squared norms of what a row adds to each table, weighted, times the most rows of a
        patient unless they are averaged.

        Raises BudgetError where rows are to be averaged and the row is the unit of privacy.
        """
        return _most_rows(max_rows, averaged=self.averaged) * math.hypot(*map(self._reach, self.tables))

    def exact(self, rows: CodedRows) -> list[Whole]:
        """The tables; of centred ones, for each axis in turn, its cells times each number, less the sum along it."""
        found = []
        for name, table in zip(self.tables, super().exact(rows), strict=True):
            for axis in self._centred_axes(name):
                table = table * table.shape[axis] - table.sum(axis, keepdims=True)
            found.append(table)
        return found

    def scales(self, std: float) -> list[Scale]:
        """In inverse proportion to a table's weight."""
        unit = 1 / WHOLE_PATIENT if self.averaged else 1.0
        return [Scale(std / self._weight(name), unit / math.prod(self._centred_cells(name))) for name in self.tables]

    def result(self, arrays: list[Floats]) -> dict[str, Floats]:
        """The noisy tables by name."""
        return dict(zip(self.tables, arrays, strict=True))


@dataclass(frozen=True, eq=False)
class Distances(_Tables[dict[str, float]]):
    """L1 distances between contingency tables and public guesses of them, by name.

    A row changes one cell of each of the k tables by one, so each distance by at most one: L2 sensitivity sqrt(k),
    times the most rows of a patient. `averaged`: a patient's rows add one together, and sqrt(k) it is. The tables are
    added up over parts; the distance is that of the sums. Guesses are rounded to 2^-20. Raises QueryError for tables
    that are empty or too large, and for guesses that are not tables of rows of the same shapes.
    """

    tables: Mapping[str, Axes]
    guesses: Mapping[str, Floats]
    averaged: bool = False

    @property
    def adds_up(self) -> bool:
        """No: the distance of a sum is not the sum of distances."""
        return False

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.guesses.keys() == self.tables.keys(), "Guesses must be given for each table, and for no other.")
        for name, axes in self.tables.items():
            shape, guess = tuple(cells.cells for _, cells in axes), self.guesses[name]
            check_numbers(guess, shape, np.float64, LARGEST_GUESS, what="A guess of a contingency table")
            held = np.abs(guess).sum() < LARGEST_GUESS
            require(bool(held), "A guess of a contingency table must hold numbers of rows.")

    def sensitivity(self, max_rows: int | None) -> float:
        """sqrt(k) for k tables, times the most rows of a patient unless they are averaged.

        Raises BudgetError where rows are to be averaged and the row is the unit of privacy.
        """
        return _most_rows(max_rows, averaged=self.averaged) * math.sqrt(len(self.tables))

    def finished(self, total: list[Whole]) -> list[Whole]:
        """All distances in one array, in whole multiples of `DISTANCE_UNIT`."""
        one = round(1 / DISTANCE_UNIT)
        each = one // WHOLE_PATIENT if self.averaged else one
        gaps = (
            table * each - np.rint(self.guesses[key] * one).astype(np.int64)
            for key, table in zip(self.tables, total, strict=True)
        )
        return [np.array([np.abs(gap).sum() for gap in gaps], np.int64)]

    def scales(self, std: float) -> list[Scale]:
        """All alike."""
        return [Scale(std, DISTANCE_UNIT)]

    def result(self, arrays: list[Floats]) -> dict[str, float]:
        """The noisy distances by name."""
        return dict(zip(self.tables, arrays[0].tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class RowsPerPatient(RowQuery[Floats]):
    """How many patients have one, two, ... `most` rows. A patient adds one to one cell: sensitivity 1.

    Raises QueryError unless `most` is a number of rows.
    """

    most: int

    def __post_init__(self) -> None:
        check_size(self.most, MOST_ROWS_OF_A_PATIENT, what="The most rows of a patient")

    @property
    def of_patients(self) -> bool:
        """It reads nothing else."""
        return True

    def sensitivity(self, max_rows: int | None) -> float:
        """One, whatever a patient's rows. Raises BudgetError where the row is the unit of privacy."""
        if max_rows is None:
            raise BudgetError("The row is the unit of privacy: there are no patients to count.")
        return 1.0

    def exact(self, rows: CodedRows) -> list[Whole]:
        """The rows of every patient, those whose rows lie in other parts included: (patients,)."""
        assert rows.units is not None
        return [np.bincount(rows.units.of_row, minlength=rows.units.count)]

    def finished(self, total: list[Whole]) -> list[Whole]:
        """Patients by their number of rows, from one: (most,)."""
        return [np.bincount(np.minimum(total[0], self.most), minlength=self.most + 1)[1:]]

    def scales(self, std: float) -> list[Scale]:
        """All alike."""
        return [Scale(std)]
