"""Patients' rows in the order that the schema declares, in the form in which tables are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ....rng import Stream
from ....schema import Column, Schema
from ..columns import comparable
from ..statistics import Floats, Patients, Whole
from ..tables import MOST_ROWS, patient_numbers, words


@dataclass(frozen=True)
class Sequences:
    """Rows by patient, and of one patient in their order.

    rows: (rows, columns), numbers on their declared scales, levels as text, NaN or None where missing. patient:
    (rows,), the number of each row's patient, ascending. time: (rows,), the order column in days or in its own unit;
    None where it is an identifier, which has an order and no distances. numbers: columns of numbers. changing: columns
    that may change from row to row.
    """

    rows: pd.DataFrame
    patient: Patients
    time: Floats | None
    numbers: frozenset[str]
    changing: tuple[str, ...]

    @cached_property
    def place(self) -> Whole:
        """The place of each row among its patient's, from 0 on: (rows,)."""
        return np.arange(len(self.patient)) - np.searchsorted(self.patient, self.patient)

    @cached_property
    def now(self) -> Whole:
        """The rows that have one before them: (pairs,)."""
        return np.flatnonzero(self.place > 0)

    @property
    def last(self) -> Whole:
        """The row before each of `now`: (pairs,)."""
        return self.now - 1

    @cached_property
    def sizes(self) -> Whole:
        """Rows of each patient, (patients,)."""
        return np.unique(self.patient, return_counts=True)[1]

    def of(self, kept: NDArray[np.bool_]) -> Sequences:
        """The sequences of some rows, (rows,)."""
        time = None if self.time is None else self.time[kept]
        rows = self.rows[kept].reset_index(drop=True)
        return replace(self, rows=rows, patient=self.patient[kept], time=time)

    def some(self, patients: int, rng: Stream) -> Sequences:
        """The sequences of so many patients, drawn uniformly; all where there are no more."""
        every = np.unique(self.patient)
        if len(every) <= patients:
            return self
        return self.of(np.isin(self.patient, rng.choice(every, patients, replace=False)))

    def capped(self, rng: Stream) -> Sequences:
        """Whole patients, drawn uniformly, with at most MOST_ROWS rows together."""
        if len(self.patient) <= MOST_ROWS:
            return self
        every = np.unique(self.patient)
        order = rng.permutation(len(every))
        return self.of(np.isin(self.patient, every[order[np.cumsum(self.sizes[order]) <= MOST_ROWS]]))


def changing(schema: Schema) -> list[str]:
    """The columns that may change from row to row: all but keys, constants, dates and the order itself."""
    return [name for name in compared(schema) if name not in schema.constant and not schema.columns[name].dated]


def compared(schema: Schema) -> list[str]:
    """The columns of a sequence: all but keys and the order itself."""
    left = {schema.order, schema.unit}
    return [name for name, column in schema.columns.items() if column.modelled and column.size and name not in left]


def sequences(
    real: pd.DataFrame | None, synthetic: pd.DataFrame, train: pd.DataFrame | None, schema: Schema | None
) -> dict[str, Sequences]:
    """The patients of each table of texts, by the table's name; {} where no table can have sequences.

    That is so without a declared order, and where a table lacks the column of the order or of the patients. Of each
    patient the first `max_rows` rows count: no model has seen more. Patients of `train` who are in `real` are left out
    there.
    """
    tables = {"real": real, "train": train, "synthetic": synthetic}
    cells = {name: table for name, table in tables.items() if table is not None}
    if schema is None or schema.order is None or schema.unit is None:
        return {}
    if any(not {schema.order, schema.unit} <= set(table.columns) for table in cells.values()):
        return {}
    names = [name for name in compared(schema) if all(name in table for table in cells.values())]
    names = [name for name in names if set(schema.columns[name].depends_on) <= set(names)]
    numbers = patient_numbers(list(cells.values()), schema)
    found = {
        name: ordered(table, own, schema, names) for (name, table), own in zip(cells.items(), numbers, strict=True)
    }
    if "train" in found and "real" in found:
        found["train"] = found["train"].of(~np.isin(found["train"].patient, found["real"].patient))
    return found


def ordered(cells: pd.DataFrame, patient: Patients, schema: Schema, names: Sequence[str]) -> Sequences:
    """The sequences of a table of texts with an order, in the columns `names`; `patient` has each row's, (rows,).

    A row without a place in the order comes after the others of its patient.
    """
    assert schema.order is not None and schema.max_rows is not None
    column = schema.columns[schema.order]
    place = column.ranks(cells[schema.order])
    order = np.lexsort((np.arange(len(cells)), place, patient))
    numbers = frozenset(name for name in names if not schema.columns[name].categorical)
    values = comparable(cells[list(names)], schema, numbers, "table", [])
    rows = pd.DataFrame({n: _scaled(values[n], schema.columns[n]) if n in numbers else words(values[n]) for n in names})
    time, followed = place[order] if column.modelled else None, set(changing(schema))
    made = Sequences(rows.iloc[order].reset_index(drop=True), patient[order], time, numbers,
                     tuple(name for name in names if name in followed))  # fmt: skip
    return made.of(made.place < schema.max_rows)


def _scaled(values: pd.Series, column: Column) -> pd.Series:
    """Numbers on the column's scale: of a logarithmic one, logarithms; zero as half of the smallest number above it."""
    if column.dated or column.scale != "log":
        return values.astype(np.float64)
    return pd.Series(np.log(np.maximum(values.to_numpy(np.float64), 0.5 * 10.0**-column.places)), index=values.index)
