"""Patients' rows in the declared order, and figures of successive rows of one or two tables."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd

from ...answers.regression import on_scale
from ...arrays import Floats, Mask, Whole
from ...rng import Stream
from ...schema import Schema
from ...similarity import similarity
from .columns import comparable, words
from .statistics import Patients, mean_similarity, similarity_gap
from .tables import MOST_ROWS, patient_numbers
from .verdict import Estimate

FEWEST_PAIRS = 10  # Pairs of known values that a correlation needs.


@dataclass(frozen=True)
class Sequences:
    """Rows sorted by patient, and each patient's rows in their order.

    rows: (rows, columns), numbers on their declared scales, levels as text, NaN or None if missing. patient: (rows,),
    the number of each row's patient, ascending. time: (rows,), the order column in days or in its own unit; None for an
    identifier, which has no distances. numbers: columns of numbers. changing: columns that may change from row to row.
    """

    rows: pd.DataFrame
    patient: Patients
    time: Floats | None
    numbers: frozenset[str]
    changing: tuple[str, ...]

    @cached_property
    def place(self) -> Whole:
        """Return the position of each row among its patient's rows, from 0: (rows,)."""
        return np.arange(len(self.patient)) - np.searchsorted(self.patient, self.patient)

    @cached_property
    def now(self) -> Whole:
        """Return the rows that have a previous row of the same patient: (pairs,)."""
        return np.flatnonzero(self.place > 0)

    @property
    def last(self) -> Whole:
        """Return the row before each of `now`: (pairs,)."""
        return self.now - 1

    @cached_property
    def time_since_last(self) -> Floats:
        """Return the time from the previous row to each of `now`: (pairs,); NaN without times."""
        time = np.full(len(self.patient), np.nan) if self.time is None else self.time
        return np.asarray(time[self.now] - time[self.last], np.float64)

    @cached_property
    def sizes(self) -> Whole:
        """Return the number of rows of each patient: (patients,)."""
        return np.unique(self.patient, return_counts=True)[1]

    def of(self, kept: Mask) -> Sequences:
        """Return the sequences of the rows marked in `kept`, (rows,)."""
        time = None if self.time is None else self.time[kept]
        rows = self.rows[kept].reset_index(drop=True)
        return replace(self, rows=rows, patient=self.patient[kept], time=time)

    def some(self, patients: int, rng: Stream) -> Sequences:
        """Return the sequences of this number of patients, drawn uniformly; of all if there are fewer."""
        every = np.unique(self.patient)
        if len(every) <= patients:
            return self
        return self.of(np.isin(self.patient, rng.choice(every, patients, replace=False)))

    def capped(self, rng: Stream, most: int = MOST_ROWS) -> Sequences:
        """Return whole patients, drawn uniformly, with at most `most` rows in total."""
        if len(self.patient) <= most:
            return self
        every = np.unique(self.patient)
        order = rng.permutation(len(every))
        return self.of(np.isin(self.patient, every[order[np.cumsum(self.sizes[order]) <= most]]))


def changing(schema: Schema) -> list[str]:
    """Return the columns that may change from row to row: all except keys, constants, dates and the order."""
    return [name for name in compared(schema) if name not in schema.constant and not schema.columns[name].dated]


def compared(schema: Schema) -> list[str]:
    """Return the columns of a sequence: all except keys and the order."""
    left = {schema.order, schema.unit}
    return [name for name, column in schema.columns.items() if column.modelled and column.size and name not in left]


def sequences(
    real: pd.DataFrame | None, synthetic: pd.DataFrame, train: pd.DataFrame | None, schema: Schema | None
) -> dict[str, Sequences]:
    """Return the patients of each table of texts by the table's name; {} if there are no sequences.

    There are none without a declared order, or if a table lacks the column of the order or of the patients. Each
    patient has at most the first `max_rows` rows, as in the fit. Patients in `real` are removed from `train`.
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
    """Return the sequences of a table of texts in the columns `names`; `patient`, (rows,), has each row's patient.

    A row without a position in the order comes after the other rows of its patient.
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
    time = place[order] if column.modelled else None
    followed = set(changing(schema))
    made = Sequences(rows.iloc[order].reset_index(drop=True), patient[order], time, numbers,
                     tuple(name for name in names if name in followed))  # fmt: skip
    return made.of(made.place < schema.max_rows)


def autocorrelation(made: Sequences, name: str) -> float | None:
    """Return the Pearson correlation of a number column over pairs of successive rows with both values known.

    It includes differences between patients as well as change within them. None for fewer than FEWEST_PAIRS pairs, or
    if one side does not vary.
    """
    values = made.rows[name].to_numpy(np.float64)
    last, now = values[made.last], values[made.now]
    known = np.isfinite(last) & np.isfinite(now)
    if known.sum() < FEWEST_PAIRS or last[known].std() == 0 or now[known].std() == 0:
        return None
    return float(np.corrcoef(last[known], now[known])[0, 1])


def unchanged(made: Sequences, name: str) -> float | None:
    """Return the share of pairs of successive rows with equal values, among pairs with both values known."""
    values = made.rows[name]
    known = values.notna().to_numpy()
    both = known[made.last] & known[made.now]
    same = values.to_numpy()[made.last] == values.to_numpy()[made.now]
    return float(np.asarray(same)[both].mean()) if both.any() else None


def transitions(made: Sequences, codes: Whole, cells: int) -> Floats:
    """Return the number of pairs of successive rows from each cell to each: (cells, cells); `codes` is (rows,)."""
    pairs = codes[made.last] * cells + codes[made.now]
    return np.bincount(pairs, minlength=cells * cells).reshape(cells, cells).astype(np.float64)


def transition_distance(one: Floats, other: Floats) -> float | None:
    """Return the mean total-variation distance of the rows of two transition matrices of counts, (cells, cells).

    Each row's weight is how often `one` leaves its cell. A cell that `other` never leaves counts as entirely different.
    None if `one` has no pair.
    """
    if not one.sum():
        return None
    weight = one.sum(1) / one.sum()
    shares = [table / np.maximum(table.sum(1, keepdims=True), 1) for table in (one, other)]
    apart = np.where(other.sum(1) > 0, np.abs(shares[0] - shares[1]).sum(1) / 2, 1.0)
    return float(weight @ apart)


def total_variation(one: Floats, other: Floats) -> float | None:
    """Return the total-variation distance of two tables of counts, each normalised; None if one of them is empty."""
    if not one.sum() or not other.sum():
        return None
    return float(np.abs(one / one.sum() - other / other.sum()).sum() / 2)


def rows_counts(made: Sequences, most: int) -> Floats:
    """Return the number of patients with 1, 2, ... rows, (most,). The last entry includes those with more."""
    return np.bincount(np.minimum(made.sizes, most) - 1, minlength=most).astype(np.float64)


def gaps(made: Sequences) -> Floats | None:
    """Return the known times from each row to the next one of its patient; None without times."""
    if made.time is None:
        return None
    found = made.time_since_last
    return found[np.isfinite(found)]


def gap_counts(made: Sequences, edges: Floats) -> Floats:
    """Return the number of gaps in [edges[k], edges[k + 1]), (edges - 1,). The end bins include gaps beyond them."""
    found = gaps(made)
    if found is None:
        return np.zeros(len(edges) - 1)
    return np.histogram(np.clip(found, edges[0], edges[-1]), edges)[0].astype(np.float64)


def waiting(made: Sequences, times: Floats) -> Floats:
    """Return the share of rows that no other row of the patient follows within each of `times`: (times,).

    No row follows a patient's last one, so the curve ends at the share of last rows.
    """
    found = gaps(made)
    if found is None or not len(made.patient):
        return np.full(len(times), np.nan)
    return np.asarray(1 - np.searchsorted(np.sort(found), times, side="right") / len(made.patient), np.float64)


def lagged(one: Sequences, other: Sequences, codes: tuple[Whole, Whole], cells: list[int]) -> tuple[Floats, float]:
    """Return the similarity of two tables in each pair of a column in the previous row and a column in this row.

    Similarity is 1 minus total variation. codes: (rows, columns) of each table. Returns each column with itself,
    (columns,), and the mean over pairs of two columns (with one column: that column's). A table without successive rows
    scores 0.
    """
    count = len(cells)
    found = np.zeros((count, count))
    sides = [(code[made.last], code[made.now]) for made, code in zip((one, other), codes, strict=True)]
    for i in range(count):
        for j in range(count):
            pairs = [last[:, i] * cells[j] + now[:, j] for last, now in sides]
            found[i, j] = similarity(pairs[0], pairs[1], cells[i] * cells[j]) if all(map(len, pairs)) else 0.0
    across = found[~np.eye(count, dtype=bool)]
    return np.diag(found).copy(), float(across.mean() if len(across) else found.mean())


def lagged_gap(samples: Sequence[tuple[Sequences, Whole]], cells: list[int]) -> Estimate:
    """Return how far the similarity of successive rows is below that of a second real sample: its mean over columns,
    each with itself in the previous row.

    samples: the real, the synthetic and the second real patients, with their codes, (rows, columns). The interval
    allows for the chance of all three samples of patients.
    """
    pairs = [codes[one.last] * cells + codes[one.now] for one, codes in samples]
    made, twin = (
        mean_similarity((pairs[0][:, k], other[:, k], count**2) for k, count in enumerate(cells)) for other in pairs[1:]
    )
    return similarity_gap(made, twin, [one.patient[one.now] for one, _ in samples])
