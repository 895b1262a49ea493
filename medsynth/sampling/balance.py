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
MOST_PAIRS, MOST_ROWS = 16, 4  # looked at before the counts are updated: more are faster and balance a little worse
MOST_ALONE = 16_000  # candidates of which each pair and each row is looked at alone
BLOCK = 2048  # candidates whose cells are computed at once


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

        def counted(known: _CountedTables | None) -> _CountedTables:
            return known if known and known.all else _CountedTables(bins, fine, _pairs(len(names), target, stream))

        tables = None
        while len(kept) > count:
            order = stream.permutation(kept)
            kept = _halved(order, tables := counted(tables))
        kept = _exchanged(kept, counted(tables), stream)
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
    of columns by `bins`; all cells in one line. `all`: whether no pair is left out. `total`: rows in each cell.
    """

    def __init__(self, bins: Whole, fine: Whole, pairs: Whole) -> None:
        sizes, (one, other) = bins.max(0) + 1, pairs.T
        self.rows, self.all = len(bins), len(pairs) == len(sizes) * (len(sizes) - 1) // 2
        cells = np.concatenate([sizes[one] * sizes[other], sizes, fine.max(0) + 1])
        self._starts = np.cumsum(cells) - cells
        self._inside = np.empty((len(bins), len(cells)), np.uint16)  # the row's cell in each table: MOST_BINS squared
        self.cells = int(cells.sum())
        for start in range(0, len(bins), BLOCK):
            own = bins[start : start + BLOCK]
            both = own.take(one, 1) * sizes[other] + own.take(other, 1)
            self._inside[start : start + BLOCK] = np.concatenate([both, own, fine[start : start + BLOCK]], 1)
        self.total = self.counts(np.arange(len(bins)))

    def counts(self, rows: Whole) -> Whole:
        """Return the number of `rows`, (rows,), in each cell: (cells,)."""
        blocks = (rows[start : start + BLOCK] for start in range(0, len(rows), BLOCK))
        return sum((np.bincount(self.of(some).ravel(), minlength=self.cells) for some in blocks), np.zeros(1, np.int64))

    def of(self, rows: Whole) -> Whole:
        """Return the cells of each of `rows`: their shape and (tables,)."""
        return np.asarray(self._inside.take(rows, 0) + self._starts)


def _halved(order: Whole, tables: _CountedTables) -> Whole:
    """Return one of each pair of neighbours in `order`, (rows,): (rows / 2,)."""
    pairs, kept = order.reshape(-1, 2), []
    few = tables.rows <= MOST_ALONE
    counts = tables.counts(order) if few else tables.total * (len(order) / tables.rows)
    weights = 1 / (1 + counts / 2)  # for squared errors: Pearson's chi-square
    gap = np.zeros(len(weights))  # weighted counts of kept minus left-out rows
    at_once = 1 if few else MOST_PAIRS
    for start in range(0, len(pairs), at_once):
        some = pairs[start : start + at_once]
        cells, at = tables.of(some), np.arange(len(some))
        ones, others = gap.take(cells).sum(2).T
        keep = (ones > others).astype(np.int64)
        for side, add in ((keep, np.add), (1 - keep, np.subtract)):
            own = cells[at, side].ravel()
            add.at(gap, own, weights.take(own))
        kept.append(some[at, keep])
    return np.concatenate(kept)


def _exchanged(kept: Whole, tables: _CountedTables, stream: Stream) -> Whole:
    """Exchange some `kept` rows for other candidates, so that the tables come closer to those of all candidates.

    A cell with less than one expected row keeps its count from the halvings: rare rows are not moved to where more rows
    are.
    """
    sweeps = min(MOST_SWEEPS, MOST_EXCHANGES // len(kept))
    if not sweeps:
        return kept
    expected = tables.total * (len(kept) / tables.rows)
    gap = np.where(expected < 1, 0.0, tables.counts(kept) - expected)
    weights = 1 / (1 + expected)
    cost = (2 * gap + 1) * weights  # of one more row in each cell
    kept, inside, chooser = kept.copy(), np.isin(np.arange(tables.rows), kept), np.zeros(tables.rows, np.int64)
    at_once = 1 if tables.rows <= MOST_ALONE else MOST_ROWS

    def move(rows: Whole, add: np.ufunc) -> None:
        cells = tables.of(rows).ravel()
        add.at(gap, cells, 1.0)  # a whole number takes twenty times as long
        cost[cells] = (2 * gap.take(cells) + 1) * weights.take(cells)

    for _ in range(sweeps):
        tries, order = stream.integers(0, tables.rows, (len(kept), TRIES)), stream.permutation(len(kept))
        for start in range(0, len(kept), at_once):
            some = order[start : start + at_once]
            own, at = kept[some], np.arange(len(some))
            move(own, np.subtract)
            found = np.concatenate([own[:, None], tries[some]], 1)
            costs = cost.take(tables.of(found)).sum(2)
            costs[:, 1:][inside[found[:, 1:]]] = np.inf
            best = found[at, costs.argmin(1)]
            chooser[best] = at  # of several rows with the same candidate, one takes it
            best = np.where(chooser[best] == at, best, own)
            move(best, np.add)
            inside[own], inside[best], kept[some] = False, True, best
    return kept
