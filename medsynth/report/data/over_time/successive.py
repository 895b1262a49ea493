"""What successive rows of patients say: transitions, autocorrelation, gaps; of two tables, how far they lie apart."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..statistics import Floats, Whole
from .sequences import Sequences

FEWEST_PAIRS = 10  # of known values, for a correlation


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
    found = made.time[made.now] - made.time[made.last]
    return np.asarray(found[np.isfinite(found)], np.float64)


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
