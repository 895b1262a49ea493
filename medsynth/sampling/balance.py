"""Choose rows among many candidates so that their one- and two-way tables match those of the candidates.

Independent rows add multinomial noise to every table, which privacy does not need. Here 2^k times as many candidates
are drawn and halved k times. Candidates are paired at random. From each pair we keep the row that brings the tables of
the kept rows closer to those of the others (greedy vector balancing; kernel halving of Dwivedi and Mackey 2021, without
its kernel). The procedure is symmetric in the rows of every pair, so each candidate is kept with a chance of exactly
one half: a single row still has the model's distribution. In small samples some rows are then exchanged for unused
candidates, towards the expected counts of all but rare cells. The rows together are not independent.
"""

from __future__ import annotations

import numpy as np

from ..arrays import Codes, Whole
from ..rng import Stream
from ..schema import Schema

MOST_CANDIDATES, MOST_CELLS, MOST_HALVINGS = 80_000, 4_000_000, 4
MOST_BINS = 20  # of a column, in the tables
MOST_FINE = 100  # of a column's own one-way table: values inside a bin, and levels that share a bin
MOST_TABLES = 600  # two-way tables per halving; for a wide table each halving draws others
MOST_SWEEPS, MOST_EXCHANGES = 2, 10_000  # passes over all kept rows; rows looked at in all passes
TRIES = 32  # candidates to exchange a kept row for, per pass
BLOCK_PAIRS = 4096  # pairs of candidates whose cells are in memory at once


def halvings(count: int, columns: int) -> int:
    """Return how often candidates for `count` rows are halved: 0 for so large a sample that chance matters little."""
    candidates = min(MOST_CANDIDATES, MOST_CELLS // columns)
    return min(MOST_HALVINGS, max(0, (candidates // count).bit_length() - 1))


def balanced(codes: Codes, schema: Schema, count: int, stream: Stream) -> Codes:
    """Return `count` of the candidates `codes`, (count * 2^k, columns), in random order. Unmodelled keys are ignored.

    Raises ValueError unless the candidates are `count` times a power of two.
    """
    if len(codes) % count or (len(codes) // count).bit_count() != 1:
        raise ValueError("The number of candidates must be the number of rows times a power of two.")
    kept = np.arange(len(codes))
    if len(kept) > count:  # in a large sample all candidates are kept, and no table is needed
        names = [name for name, column in schema.columns.items() if column.modelled]
        columns = [codes[:, schema.names.index(name)] for name in names]
        bins, fine = (np.stack([_bins(column, most) for column in columns], 1) for most in (MOST_BINS, MOST_FINE))
        target = names.index(schema.target) if schema.target in names else None
        while len(kept) > count:
            kept = _halved(stream.permutation(kept), _CountedTables(bins, fine, _pairs(len(names), target, stream)))
        kept = _exchanged(kept, len(codes), _CountedTables(bins, fine, _pairs(len(names), target, stream)), stream)
    return np.asarray(codes[stream.permutation(kept)])


def _bins(codes: Codes, most: int) -> Whole:
    """Return at most `most` bins of a column, with about equal mass; a frequent value has its own bin."""
    values = np.unique(codes)
    if len(values) > most:
        values = np.unique(np.quantile(codes, np.linspace(0, 1, most + 1)[:-1], method="lower"))
    return np.searchsorted(values, codes, side="right") - 1


def _pairs(columns: int, target: int | None, stream: Stream) -> Whole:
    """Return the pairs of columns to balance, (pairs, 2): all, or those with the target and a random part."""
    pairs = np.stack(np.triu_indices(columns, 1), 1)
    if len(pairs) <= MOST_TABLES:
        return pairs
    first = (pairs == target).any(1) if target is not None else np.zeros(len(pairs), np.bool_)
    return np.asarray(pairs[np.lexsort((stream.random(len(pairs)), ~first))[:MOST_TABLES]])


class _CountedTables:
    """One-way tables of all columns by `bins` and by `fine` bins, (rows, columns) each, and two-way tables of `pairs`
    of columns by `bins`; all cells in one line.
    """

    def __init__(self, bins: Whole, fine: Whole, pairs: Whole) -> None:
        self._bins, self._fine, self._pairs = bins, fine, pairs
        self._sizes = bins.max(0) + 1
        of_pairs = self._sizes[pairs[:, 0]] * self._sizes[pairs[:, 1]]
        cells = np.concatenate([of_pairs, self._sizes, fine.max(0) + 1])
        self._starts = np.cumsum(cells) - cells
        self.cells = int(cells.sum())

    def of(self, rows: Whole) -> Whole:
        """Return the cells of each of `rows`, (rows,): (rows, tables)."""
        bins, (one, other) = self._bins[rows], self._pairs.T
        both = bins[:, one] * self._sizes[other] + bins[:, other]
        return np.asarray(self._starts + np.concatenate([both, bins, self._fine[rows]], 1))


def _halved(order: Whole, tables: _CountedTables) -> Whole:
    """Return one of each pair of neighbours in `order`, (rows,): (rows / 2,)."""
    pairs = order.reshape(-1, 2)
    blocks = np.array_split(pairs, max(1, len(pairs) // BLOCK_PAIRS))
    counts = np.zeros(tables.cells)
    for block in blocks:
        counts += np.bincount(tables.of(block.ravel()).ravel(), minlength=tables.cells)
    weights = 1 / (1 + counts / 2)  # for squared errors: Pearson's chi-square
    gap = np.zeros(tables.cells)  # weighted counts of kept minus left-out rows
    total = np.add.reduce  # `sum` without its checks, in a loop over all pairs
    kept = []
    for block in blocks:
        ones, others = (tables.of(side) for side in block.T)
        rows = zip(block.tolist(), ones, others, weights[ones], weights[others], strict=True)
        for (one, other), cells, other_cells, own, other_own in rows:
            if total(gap.take(cells)) > total(gap.take(other_cells)):
                gap[other_cells] += other_own
                gap[cells] -= own
                kept.append(other)
            else:
                gap[cells] += own
                gap[other_cells] -= other_own
                kept.append(one)
    return np.array(kept)


def _exchanged(kept: Whole, candidates: int, tables: _CountedTables, stream: Stream) -> Whole:
    """Exchange some `kept` rows for other candidates, so that the tables come closer to those of all candidates.

    A cell with less than one expected row keeps its count from the halvings: rare rows are not moved to where more rows
    are.
    """
    sweeps = min(MOST_SWEEPS, MOST_EXCHANGES // len(kept))
    if not sweeps:
        return kept
    blocks = np.array_split(np.arange(candidates), max(1, candidates // BLOCK_PAIRS))
    cells = np.concatenate([tables.of(block).astype(np.int32) for block in blocks])
    expected = np.bincount(cells.ravel(), minlength=tables.cells) * (len(kept) / candidates)
    now = np.bincount(cells[kept].ravel(), minlength=tables.cells)
    gap = np.where(expected < 1, 0.0, now - expected)
    weights = 1 / (1 + expected)
    cost = (2 * gap + 1) * weights  # of one more row in each cell
    kept, inside = kept.copy(), np.isin(np.arange(candidates), kept)

    def move(row: int, step: int) -> None:
        own = cells[row]
        gap[own] += step
        cost[own] = (2 * gap[own] + 1) * weights[own]

    for _ in range(sweeps):
        tries = stream.integers(0, candidates, (len(kept), TRIES))
        for k in stream.permutation(len(kept)).tolist():
            move(kept[k], -1)
            found = np.append(kept[k], tries[k][~inside[tries[k]]])
            best = found[cost.take(cells[found]).sum(1).argmin()]
            move(best, 1)
            inside[kept[k]], inside[best], kept[k] = False, True, best
    return kept
