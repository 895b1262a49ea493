"""Similarity of distributions and associations, from the cells of two tables."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
from numpy.typing import NDArray

PATTERNS = 8  # of missing values, shown
Codes = NDArray[np.int64]  # (rows,) or (rows, columns): the cell of each value


def similarity(one: Codes, other: Codes, cells: int) -> float:
    """1 less the total-variation distance of two columns' cells, both (rows,)."""
    shares = [np.bincount(x, minlength=cells) / len(x) for x in (one, other)]
    return float(1 - np.abs(shares[0] - shares[1]).sum() / 2)


def two_way(one: Codes, other: Codes, cells: list[int]) -> float:
    """Mean similarity over all pairs of columns; tables (rows, columns)."""
    found = []
    for i, j in itertools.combinations(range(len(cells)), 2):
        pair = [x[:, i] * cells[j] + x[:, j] for x in (one, other)]
        found.append(similarity(pair[0], pair[1], cells[i] * cells[j]))
    return float(np.mean(found))


def association(coded: Codes, cells: list[int]) -> NDArray[np.float64]:
    """Cramer's V of every pair of columns, corrected for the bias of small samples (Bergsma 2013)."""
    n, k = coded.shape
    found = np.eye(k)
    if n < 2:  # nothing varies together
        return found
    for i, j in itertools.combinations(range(k), 2):
        counts = np.bincount(coded[:, i] * cells[j] + coded[:, j], minlength=cells[i] * cells[j])
        table = counts.reshape(cells[i], cells[j]).astype(np.float64)
        table = table[table.sum(1) > 0][:, table.sum(0) > 0]
        r, c = table.shape
        expected = np.outer(table.sum(1), table.sum(0)) / n
        phi = max(0.0, float(((table - expected) ** 2 / expected).sum()) / n - (r - 1) * (c - 1) / (n - 1))
        smaller = min(r - (r - 1) ** 2 / (n - 1), c - (c - 1) ** 2 / (n - 1)) - 1
        found[i, j] = found[j, i] = min(1.0, float(np.sqrt(phi / smaller))) if smaller > 0 else 0.0
    return found


def missing_pairs(real: pd.DataFrame, other: pd.DataFrame) -> float | None:
    """Mean absolute difference of the shares of rows in which two columns are both missing; None if none ever is."""
    gone = [frame.isna() for frame in (real, other)]
    names = [name for name in real.columns if gone[0][name].any() or gone[1][name].any()]
    if not names:
        return None
    shares = [g[names].to_numpy(np.float64) for g in gone]
    joint = [s.T @ s / len(s) for s in shares]
    return float(np.abs(joint[0] - joint[1])[np.triu_indices(len(names))].mean())


def missing_patterns(real: pd.DataFrame, other: pd.DataFrame) -> list[tuple[list[str], float, float]]:
    """The most frequent sets of columns missing in the same row: names, shares of real and of other rows.

    Empty where no more than one column is ever missing.
    """
    gone = [frame.isna() for frame in (real, other)]
    names = [name for name in real.columns if gone[0][name].any() or gone[1][name].any()]
    if len(names) < 2:
        return []
    counts = [g[names].value_counts(normalize=True) for g in gone]
    both = counts[0].add(counts[1], fill_value=0.0).sort_values(ascending=False, kind="stable").index[:PATTERNS]
    patterns = [[n for n, missing in zip(names, key, strict=True) if missing] for key in both]
    shares = [counted.reindex(both).fillna(0.0).tolist() for counted in counts]
    return list(zip(patterns, *shares, strict=True))
