"""Patients' rows in the order that the schema declares, and what successive rows say of one table or of two."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...rng import Stream
from ...schema import Schema
from .columns import comparable, on_scale, words
from .statistics import Floats, Patients, Whole
from .tables import MOST_ROWS, patient_numbers

FEWEST_PAIRS = 10  # of known values, for a correlation


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
    def time_since_last(self) -> Floats:
        """Time from the row before to each of `now`: (pairs,); NaN without times."""
        time = np.full(len(self.patient), np.nan) if self.time is None else self.time
        return np.asarray(time[self.now] - time[self.last], np.float64)

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
    rows = values[list(names)].copy()
    for name in names:
        number = name in numbers
        rows[name] = (
            on_scale(values[name].to_numpy(np.float64), schema.columns[name]) if number else words(values[name])
        )
    time, followed = place[order] if column.modelled else None, set(changing(schema))
    made = Sequences(rows.iloc[order].reset_index(drop=True), patient[order], time, numbers,
                     tuple(name for name in names if name in followed))  # fmt: skip
    return made.of(made.place < schema.max_rows)


def autocorrelation(made: Sequences, name: str) -> float | None:
    """Pearson correlation of a number column in successive rows of patients, over all pairs in which both are known.

    It holds what patients keep for themselves and what one row says of the next. None for fewer than FEWEST_PAIRS
    pairs, or where one side does not vary.
    """
    values = made.rows[name].to_numpy(np.float64)
    last, now = values[made.last], values[made.now]
    known = np.isfinite(last) & np.isfinite(now)
    if known.sum() < FEWEST_PAIRS or last[known].std() == 0 or now[known].std() == 0:
        return None
    return float(np.corrcoef(last[known], now[known])[0, 1])


def unchanged(made: Sequences, name: str) -> float | None:
    """Of the pairs of successive rows in which both values are known, the share in which they are equal."""
    values = made.rows[name]
    known = values.notna().to_numpy()
    both = known[made.last] & known[made.now]
    same = values.to_numpy()[made.last] == values.to_numpy()[made.now]
    return float(np.asarray(same)[both].mean()) if both.any() else None


def transitions(made: Sequences, codes: Whole, cells: int) -> NDArray[np.float64]:
    """How many pairs of successive rows go from each cell (row) to each (column): (cells, cells); `codes` (rows,)."""
    pairs = codes[made.last] * cells + codes[made.now]
    return np.bincount(pairs, minlength=cells * cells).reshape(cells, cells).astype(np.float64)


def transition_distance(one: Floats, other: Floats) -> float | None:
    """Mean total-variation distance of the rows of two transition matrices, given as counts (cells, cells).

    Rows are weighted by how often `one` leaves from their cell. A cell that `other` never leaves from counts as wholly
    different. None where `one` has no pair.
    """
    if not one.sum():
        return None
    weight = one.sum(1) / one.sum()
    shares = [table / np.maximum(table.sum(1, keepdims=True), 1) for table in (one, other)]
    apart = np.where(other.sum(1) > 0, np.abs(shares[0] - shares[1]).sum(1) / 2, 1.0)
    return float(weight @ apart)


def total_variation(one: Floats, other: Floats) -> float | None:
    """Total-variation distance of two tables of counts, each made to sum to one; None where one has none."""
    if not one.sum() or not other.sum():
        return None
    return float(np.abs(one / one.sum() - other / other.sum()).sum() / 2)


def rows_counts(made: Sequences, most: int) -> Floats:
    """How many patients have 1, 2, ... rows, those with more than `most` among the last: (most,)."""
    return np.bincount(np.minimum(made.sizes, most) - 1, minlength=most).astype(np.float64)


def gaps(made: Sequences) -> Floats | None:
    """Time from each row to the next one of its patient, where both times are known; None without times."""
    if made.time is None:
        return None
    found = made.time_since_last
    return found[np.isfinite(found)]


def gap_counts(made: Sequences, edges: Floats) -> Floats:
    """How many gaps fall into [edges[k], edges[k + 1]), those beyond the ends among the outermost: (edges - 1,)."""
    found = gaps(made)
    if found is None:
        return np.zeros(len(edges) - 1)
    inside = np.clip(np.searchsorted(edges, found, side="right") - 1, 0, len(edges) - 2)
    return np.bincount(inside, minlength=len(edges) - 1).astype(np.float64)


def waiting(made: Sequences, times: Floats) -> Floats:
    """Share of rows that no other row of the patient follows within each of `times`: (times,).

    A last row is followed by none, whatever the reason: the curve ends at the share of last rows.
    """
    found = gaps(made)
    if found is None or not len(made.patient):
        return np.full(len(times), np.nan)
    return np.asarray(1 - np.searchsorted(np.sort(found), times, side="right") / len(made.patient), np.float64)


def lagged(one: Sequences, other: Sequences, codes: tuple[Whole, Whole], cells: list[int]) -> tuple[Floats, float]:
    """Similarity, 1 less total variation, of the tables of a column in the last row by a column in this row.

    codes: (rows, columns) of each table. Returns that of each column by itself, (columns,), and the mean over the pairs
    of two columns (of one column, over itself). Zero where a table has no pair of successive rows.
    """
    count = len(cells)
    found = np.zeros((count, count))
    sides = [(code[made.last], code[made.now]) for made, code in zip((one, other), codes, strict=True)]
    for i in range(count):
        for j in range(count):
            size = cells[i] * cells[j]
            tables = [np.bincount(last[:, i] * cells[j] + now[:, j], minlength=size) for last, now in sides]
            apart = total_variation(*(table.astype(np.float64) for table in tables))
            found[i, j] = 0.0 if apart is None else 1 - apart
    across = found[~np.eye(count, dtype=bool)]
    return np.diag(found).copy(), float(across.mean() if len(across) else found.mean())
