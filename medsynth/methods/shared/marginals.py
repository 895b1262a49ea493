"""What one noisy histogram a column gives: shares of levels, normal scores of numbers, classes of a target."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from ...privacy.queries.cells import ALL_CODES, Regrouped
from ...schema import Column, Schema
from ...schema.columns.grid import Grid, grid

Floats = NDArray[np.float64]
Codes = NDArray[np.int32]
GRID_CELLS = 128  # of a number's public grid
TAIL_PROBABILITY = 0.0015  # normal scores are cut at this tail probability, about 3 standard deviations
NUMERIC_CLASSES = 8  # a numeric target is conditioned on by at most as many quantile bins


def cleaned(counts: Floats, total: float) -> Floats:
    """Noisy counts made shares: a constant is subtracted and the rest cut at zero so that they sum to `total`.

    The Euclidean projection ("norm-sub"); cutting at zero alone would leave the noise's positive half standing.
    Returns shares that sum to one, none of them zero.

    >>> cleaned(np.array([6.0, 4.0, -1.0]), 8.0).round(3).tolist()
    [0.625, 0.375, 0.0]
    """
    ordered = np.sort(counts)[::-1]
    excess = (np.cumsum(ordered) - max(total, 1.0)) / np.arange(1, len(counts) + 1)
    kept = np.nonzero(ordered > excess)[0][-1]
    shares = np.maximum(counts - excess[kept], 0) + 1e-9
    return np.asarray(shares / shares.sum())


def normal_scores(codes: Codes, edges: NDArray[np.int64], cdf: Floats) -> Floats:
    """Normal scores of codes by the distribution `cdf` at `edges`, (cells + 1,) both.

    The line through the code's cell is read number by number: `np.interp` searches a row's cell from the row before.
    """
    cell = Grid(edges, 0).cell_of(codes)
    rank = np.diff(cdf)[cell] / np.diff(edges)[cell] * (codes + 0.5 - edges[cell]) + cdf[cell]
    return np.asarray(ndtri(np.clip(rank, TAIL_PROBABILITY, 1 - TAIL_PROBABILITY)))


@dataclass(frozen=True)
class Marginal:
    """One column's distribution by its noisy histogram. `shares`: (cells,) of values; `gaps` of kinds of missing."""

    column: Column
    grid: Grid
    shares: Floats
    gaps: Floats

    @classmethod
    def of(cls, column: Column, counts: Floats, total: float, cells: Grid | None = None) -> Marginal:
        """From noisy `counts` over a grid of the column, by default the usual one, and the declared number of rows."""
        shares = cleaned(counts, total)
        values, gaps = np.split(shares, [len(shares) - column.gaps])
        return cls(column, cells or grid(column, GRID_CELLS), values / values.sum(), gaps)

    @property
    def missing_share(self) -> float:
        """The share of missing values of any kind."""
        return float(self.gaps.sum())

    @property
    def cdf(self) -> Floats:
        """(cells + 1,), from 0 to 1."""
        steps = np.concatenate([[0.0], np.cumsum(self.shares)])
        return np.asarray(steps / steps[-1])

    def scores(self, codes: Codes) -> Floats:
        """Normal scores of non-missing codes, shape as given."""
        return normal_scores(codes, self.grid.edges, self.cdf)

    def codes(self, scores: Floats, uniforms: Floats) -> Codes:
        """Codes of normal scores. Scores are cut at the tail, so `uniforms` spreads what lies beyond it."""
        rank = np.asarray(ndtr(scores))
        low, high = rank <= TAIL_PROBABILITY, rank >= 1 - TAIL_PROBABILITY
        rank = np.where(low, TAIL_PROBABILITY * uniforms, np.where(high, 1 - TAIL_PROBABILITY * uniforms, rank))
        return self.codes_at(rank)

    def codes_at(self, rank: Floats) -> Codes:
        """Codes at the quantiles `rank`."""
        place = np.interp(rank, self.cdf, self.grid.edges)
        last = self.grid.edges[-1] - 1
        return np.clip(np.floor(place), 0, last).astype(np.int32)


@dataclass(frozen=True)
class Condition:
    """What generated rows are conditioned on: the target's classes, a numeric target's quantile bins, or nothing.

    `cuts` are the inner quantiles of a numeric target's bins; `index` is the target's column, or None.
    """

    index: int | None
    marginal: Marginal | None
    cuts: Floats
    classes: int

    @classmethod
    def of(cls, schema: Schema, marginals: dict[str, Marginal]) -> Condition:
        """The condition that a schema and its noisy histograms imply."""
        if schema.target is None:
            return cls(None, None, np.empty(0), 1)
        marginal, index = marginals[schema.target], schema.names.index(schema.target)
        if marginal.column.categorical:
            return cls(index, marginal, np.empty(0), marginal.grid.cells)
        inner = np.interp(np.linspace(0, 1, NUMERIC_CLASSES + 1)[1:-1], marginal.cdf, marginal.grid.edges)
        cuts = np.unique(np.ceil(inner))
        return cls(index, marginal, cuts, len(cuts) + 1 + marginal.column.gaps)

    @property
    def cells(self) -> int:
        """Number of classes: what a vault's histogram counts over."""
        return self.classes

    def cell_of(self, codes: Codes) -> Codes:
        """Class of each code of the target column, shape (rows,)."""
        if self.marginal is None:
            return np.zeros(len(codes), np.int32)
        if not len(self.cuts) and self.marginal.column.categorical:
            return codes
        gap = codes - self.marginal.grid.edges[-1]
        found = np.where(gap >= 0, len(self.cuts) + 1 + gap, np.searchsorted(self.cuts, codes, side="right"))
        return found.astype(np.int32)

    def plain(self) -> Grid | Regrouped:
        """The same map without what else is known of the column."""
        if self.marginal is None:
            return ALL_CODES
        if self.marginal.column.categorical:
            return self.marginal.grid
        gaps = self.marginal.column.gaps
        edges = np.array([0, *self.cuts.astype(np.int64).tolist(), self.marginal.grid.edges[-1]])
        if edges[-2] < edges[-1]:
            return Grid(edges, gaps)
        # The last value holds more than the last quantile: its cut leaves a class without a code.
        return Regrouped(Grid(edges[:-1], gaps), np.delete(np.arange(self.classes), len(self.cuts)), self.classes)

    def allowed(self, first: int, last: int) -> Floats:
        """The share of each class whose target code lies from `first` to `last`: (classes,)."""
        if self.marginal is None or self.marginal.column.categorical:
            place = np.arange(self.classes)
            return np.asarray((place >= first) & (place <= last), np.float64)
        whole, part = self._ranks(), self._ranks((first, last))
        share = np.maximum(part[1] - part[0], 0) / np.maximum(whole[1] - whole[0], 1e-12)
        gap = self.marginal.grid.edges[-1] + np.arange(self.marginal.column.gaps)
        return np.append(share, (gap >= first) & (gap <= last))

    def _ranks(self, span: tuple[int, int] | None = None) -> tuple[Floats, Floats]:
        """Quantiles at which each class's bin of a number begins and ends, or the part of it inside `span`."""
        assert self.marginal is not None
        edges, cdf = self.marginal.grid.edges, self.marginal.cdf
        rank = np.interp(np.concatenate([[edges[0]], self.cuts, [edges[-1]]]), edges, cdf)
        low, high = (0.0, 1.0) if span is None else np.interp([span[0], span[1] + 1], edges, cdf)
        return np.maximum(rank[:-1], low), np.minimum(rank[1:], high)

    def codes(self, classes: Codes, uniforms: Floats, span: tuple[int, int] | None = None) -> Codes:
        """Target codes of `classes`: the level itself, or a draw inside the bin, and `span`, by the noisy histogram."""
        if self.marginal is None or self.marginal.column.categorical:
            return classes
        edges = self.marginal.grid.edges
        low, high = self._ranks(span)
        inside = np.minimum(classes, len(low) - 1)
        codes = self.marginal.codes_at(low[inside] + uniforms * (high[inside] - low[inside]))
        codes = codes if span is None else np.clip(codes, span[0], min(span[1], edges[-1] - 1))
        gap = classes - len(low)
        return np.where(gap >= 0, edges[-1] + gap, codes).astype(np.int32)


def without_spurious_missing(counts: Floats, target: Column | None, std: float) -> Floats:
    """Noisy class counts, (classes,): a missing target whose count is below three `std` of its noise is set to zero."""
    found, gaps = counts.copy(), target.gaps if target else 0
    found[len(found) - gaps :] *= found[len(found) - gaps :] >= 3 * std
    return found
