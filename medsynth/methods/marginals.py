"""Estimate from noisy histograms: shares of cells under a smooth prior, normal scores, and classes of a target.

All of this is public: it reads only noisy counts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr, ndtri

from ..arrays import Codes, Floats, Mask, Whole
from ..privacy.queries.cells import ALL_CODES, Regrouped
from ..schema import Column, Schema
from ..schema.columns.grid import Grid, grid

ONE_WAY, CLASSES = "one-way marginals", "class marginal"  # labels of these measurements in plan and ledger
GRID_CELLS = 128  # cells of a number's public grid
TAIL_PROBABILITY = 0.0015  # normal scores are cut at this tail probability, about 3 standard deviations
NUMERIC_CLASSES = 8  # most quantile bins of a numeric target
CURVATURE_STD = 0.35  # prior standard deviation of the second difference of log shares between cells of a histogram
REFERENCE_CELLS = 128  # cells for which CURVATURE_STD holds; finer cells have smaller second differences
TAIL_SHARE = 0.02  # largest share of rows in a tail that is cut off, unless it rises above the noise
TAIL_THRESHOLD = 3.0  # standard deviations of noise that a tail must exceed to be kept
NEWTON_STEPS = 60
SPURIOUS_STDS = 3.0  # standard deviations of noise that a count of missing values must exceed to be believed


def cleaned(counts: Floats, total: float) -> Floats:
    """Turn noisy counts into shares: subtract a constant and cut at zero, so that counts sum to `total`.

    This is the Euclidean projection ("norm-sub"). Cutting alone would keep the positive half of the noise.
    The returned shares sum to one, and none of them is zero.

    >>> cleaned(np.array([6.0, 4.0, -1.0]), 8.0).round(3).tolist()
    [0.625, 0.375, 0.0]
    """
    ordered = np.sort(counts)[::-1]
    excess = (np.cumsum(ordered) - max(total, 1.0)) / np.arange(1, len(counts) + 1)
    kept = np.nonzero(ordered > excess)[0][-1]
    shares = np.maximum(counts - excess[kept], 0) + 1e-9
    return np.asarray(shares / shares.sum())


def normal_scores(codes: Codes, edges: Whole, cdf: Floats) -> Floats:
    """Return normal scores of codes by the distribution `cdf` at `edges`, (cells + 1,) both.

    The code interpolates each number by itself, because `np.interp` starts its search at the previous row's cell.
    """
    cell = Grid(edges, 0).cell_of(codes)
    rank = np.diff(cdf)[cell] / np.diff(edges)[cell] * (codes + 0.5 - edges[cell]) + cdf[cell]
    return np.asarray(ndtri(np.clip(rank, TAIL_PROBABILITY, 1 - TAIL_PROBABILITY)))


@dataclass(frozen=True)
class Marginal:
    """A column's distribution from a noisy histogram. `shares`: of values, (cells,). `gaps`: of kinds of missing."""

    column: Column
    grid: Grid
    shares: Floats
    gaps: Floats

    @classmethod
    def of(cls, column: Column, counts: Floats, total: float, cells: Grid | None = None) -> Marginal:
        """Return the marginal for noisy `counts` over `cells`, by default the usual grid, and a number of rows."""
        shares = cleaned(counts, total)
        values, gaps = np.split(shares, [len(shares) - column.gaps])
        return cls(column, cells or grid(column, GRID_CELLS), values / values.sum(), gaps)

    @property
    def missing_share(self) -> float:
        """The share of missing values of any kind."""
        return float(self.gaps.sum())

    @property
    def cdf(self) -> Floats:
        """The cumulative distribution at the edges, from 0 to 1: (cells + 1,)."""
        steps = np.concatenate([[0.0], np.cumsum(self.shares)])
        return np.asarray(steps / steps[-1])

    def codes(self, scores: Floats, uniforms: Floats) -> Codes:
        """Return codes of normal scores. Scores are cut at the tail, so `uniforms` spread the values there."""
        rank = np.asarray(ndtr(scores))
        low, high = rank <= TAIL_PROBABILITY, rank >= 1 - TAIL_PROBABILITY
        rank = np.where(low, TAIL_PROBABILITY * uniforms, np.where(high, 1 - TAIL_PROBABILITY * uniforms, rank))
        return self.codes_at(rank)

    def codes_at(self, rank: Floats) -> Codes:
        """Return the codes at the quantiles `rank`."""
        place = np.interp(rank, self.cdf, self.grid.edges)
        last = self.grid.edges[-1] - 1
        return np.clip(np.floor(place), 0, last).astype(np.int32)


@dataclass(frozen=True)
class Conditioning:
    """The condition of generated rows: the target's classes, a numeric target's quantile bins, or nothing.

    `cuts`: the inner quantiles of a numeric target's bins. `index`: the place of the target's column, or None.
    """

    index: int | None
    marginal: Marginal | None
    cuts: Floats
    classes: int

    @classmethod
    def of(cls, schema: Schema, marginals: dict[str, Marginal]) -> Conditioning:
        """Return the condition for a schema and its noisy histograms."""
        if schema.target is None:
            return cls(None, None, np.empty(0), 1)
        marginal = marginals[schema.target]
        index = schema.names.index(schema.target)
        if marginal.column.categorical:
            return cls(index, marginal, np.empty(0), marginal.grid.cells)
        inner = np.interp(np.linspace(0, 1, NUMERIC_CLASSES + 1)[1:-1], marginal.cdf, marginal.grid.edges)
        cuts = np.unique(np.ceil(inner))
        return cls(index, marginal, cuts, len(cuts) + 1 + marginal.column.gaps)

    @property
    def cells(self) -> int:
        """The number of classes."""
        return self.classes

    def cell_of(self, codes: Codes) -> Codes:
        """Return the class of each code of the target column, (rows,)."""
        if self.marginal is None:
            return np.zeros(len(codes), np.int32)
        if not len(self.cuts) and self.marginal.column.categorical:
            return codes
        gap = codes - self.marginal.grid.edges[-1]
        found = np.where(gap >= 0, len(self.cuts) + 1 + gap, np.searchsorted(self.cuts, codes, side="right"))
        return found.astype(np.int32)

    def plain(self) -> Grid | Regrouped:
        """Return this map as a query may hold it: grid and places only, no shares."""
        if self.marginal is None:
            return ALL_CODES
        if self.marginal.column.categorical:
            return self.marginal.grid
        gaps = self.marginal.column.gaps
        edges = np.array([0, *self.cuts.astype(np.int64).tolist(), self.marginal.grid.edges[-1]])
        if edges[-2] < edges[-1]:
            return Grid(edges, gaps)
        # The last value has more mass than the last quantile, so that its cut leaves a class without a code.
        return Regrouped(Grid(edges[:-1], gaps), np.delete(np.arange(self.classes), len(self.cuts)), self.classes)

    def allowed(self, first: int, last: int) -> Floats:
        """Return the share of each class with target codes from `first` to `last`: (classes,)."""
        if self.marginal is None or self.marginal.column.categorical:
            place = np.arange(self.classes)
            return np.asarray((place >= first) & (place <= last), np.float64)
        whole, part = self._ranks(), self._ranks((first, last))
        share = np.maximum(part[1] - part[0], 0) / np.maximum(whole[1] - whole[0], 1e-12)
        gap = self.marginal.grid.edges[-1] + np.arange(self.marginal.column.gaps)
        return np.append(share, (gap >= first) & (gap <= last))

    def _ranks(self, span: tuple[int, int] | None = None) -> tuple[Floats, Floats]:
        """Return the quantiles at which each class's bin starts and ends, or the part of it inside `span`."""
        assert self.marginal is not None
        edges, cdf = self.marginal.grid.edges, self.marginal.cdf
        rank = np.interp(np.concatenate([[edges[0]], self.cuts, [edges[-1]]]), edges, cdf)
        low, high = (0.0, 1.0) if span is None else np.interp([span[0], span[1] + 1], edges, cdf)
        return np.maximum(rank[:-1], low), np.minimum(rank[1:], high)

    def codes(self, classes: Codes, uniforms: Floats, span: tuple[int, int] | None = None) -> Codes:
        """Return target codes of `classes`: the level, or a draw inside bin and `span` by the noisy histogram."""
        if self.marginal is None or self.marginal.column.categorical:
            return classes
        edges = self.marginal.grid.edges
        low, high = self._ranks(span)
        inside = np.minimum(classes, len(low) - 1)
        codes = self.marginal.codes_at(low[inside] + uniforms * (high[inside] - low[inside]))
        codes = codes if span is None else np.clip(codes, span[0], min(span[1], edges[-1] - 1))
        gap = classes - len(low)
        return np.where(gap >= 0, edges[-1] + gap, codes).astype(np.int32)


TOGETHER = "", Conditioning(None, None, np.empty(0), 1)  # no target: all rows are one class


def without_spurious_missing(counts: Floats, target: Column | None, std: float) -> Floats:
    """Return noisy class counts, (classes,). A missing target's count is zero if noise of `std` explains it."""
    found = counts.copy()
    gaps = target.gaps if target else 0
    found[len(found) - gaps :] *= found[len(found) - gaps :] >= SPURIOUS_STDS * std
    return found


def spurious_missing(counts: Floats, std: Floats, column: Column) -> Whole:
    """Return the cells of missing values that noise of `std` explains, by noisy counts of a column's cells, (cells,).

    Only for a column whose unreadable cells are missing: in a learned schema nobody has declared that any is missing.
    """
    gaps = np.arange(len(counts) - column.gaps, len(counts))
    if not column.reads_as_missing:
        return gaps[:0]
    return np.asarray(gaps[counts[gaps] < SPURIOUS_STDS * std[gaps]])


@dataclass(frozen=True)
class Counts:
    """Noisy counts of groups of cells. `group`: of each cell, (cells,). `std`: standard deviation of the noise."""

    group: Whole
    counts: Floats
    std: float

    @classmethod
    def of_cells(cls, counts: Floats, std: float) -> Counts:
        """Return counts of single cells."""
        return cls(np.arange(len(counts)), counts, std)

    @property
    def even(self) -> Floats:
        """Rows of each cell, (cells,), if a group's rows were spread evenly. Each group has at least `std` rows."""
        cells = np.bincount(self.group, minlength=len(self.counts))
        return np.asarray((np.maximum(self.counts, self.std) / np.maximum(cells, 1))[self.group])

    def on(self, inside: Mask) -> Counts:
        """Return the counts of the same groups if only the cells `inside` have rows."""
        return Counts(self.group[inside], self.counts, self.std)

    @property
    def matrix(self) -> Floats:
        """The matrix that adds cells up to groups, divided by the noise's standard deviation: (groups, cells)."""
        return np.asarray((self.group == np.arange(len(self.counts))[:, None]) / self.std)


class Sums:
    """What all posteriors of the same counts need: rows times the counts' matrices, (groups, cells), the counts, over
    their noise, the matrix' product with itself and with the counts, and even counts, (cells,).
    """

    def __init__(self, measured: Sequence[Counts], total: float) -> None:
        self.matrix = total * np.concatenate([one.matrix for one in measured])
        self.counts = np.concatenate([one.counts / one.std for one in measured])
        self.normal, self.seen = self.matrix.T @ self.matrix, self.counts @ self.matrix
        self.even = np.mean([one.even for one in measured], axis=0)


def posterior_mode(own: Sums, base: Floats, precision: Floats) -> Floats:
    """Return the most likely log shares, (cells,), given noisy counts in groups of cells: see `posterior_modes`."""
    return np.asarray(posterior_modes(own, base, precision[None])[0])


def posterior_modes(own: Sums, base: Floats, precisions: Floats) -> Floats:
    """Return the most likely log shares for each prior, (priors, cells), given noisy counts in groups of cells.

    Counts are rows times shares plus Gaussian noise. The log shares are `base` plus a tilt, which has a normal prior of
    one of the given `precisions`, (priors, cells, cells). Damped Gauss-Newton steps start at the counts, because they
    may miss the mode from a distant base.

    The usual projection subtracts a constant and cuts at zero. It keeps the noise in every empty cell of a tail or of a
    rare class. Here a cell with few rows compared with the noise follows the prior.
    """
    start = np.log(own.even)
    tilts = np.tile(start - start.mean() - base + base.mean(), (len(precisions), 1))
    damped, damping = np.eye(len(base)), np.ones(len(precisions))

    def costs(tilt: Floats, precision: Floats) -> Floats:
        gap = own.counts - np.exp(log_softmax(base + tilt)) @ own.matrix.T
        prior = ((tilt[:, None] @ precision)[:, 0] * tilt).sum(1)
        return np.asarray(((gap * gap).sum(1) + prior) / 2)

    now, left = costs(tilts, precisions), np.arange(len(precisions))
    for _ in range(NEWTON_STEPS):
        tilt, precision = tilts[left], precisions[left]
        shares = np.exp(log_softmax(base + tilt))
        expected = shares @ own.normal
        gap = own.seen - expected
        gradient = (precision @ tilt[..., None])[..., 0] - shares * (gap - (shares * gap).sum(1, keepdims=True))
        curve = curvature(own.normal, expected, shares) + precision + damping[left, None, None] * damped
        try:
            step = np.linalg.solve(curve, gradient[..., None])[..., 0]
        except np.linalg.LinAlgError:  # counts of a hostile server can be so large that nothing else is seen
            damping[left] *= 4
            continue
        before, new = now[left], costs(tilt - step, precision)
        better = new < before
        tilts[left[better]], now[left[better]] = (tilt - step)[better], new[better]
        damping[left] *= np.where(better, 1 / 3, 4)
        # Of a worse step, only rounding: no step from the mode can reduce the cost.
        done = np.where(better, before - new < 1e-6 * (1 + before), new - before < 1e-12 * (1 + before))
        left = left[~done]
        if not len(left):
            break
    return np.asarray(log_softmax(base + tilts))


def curvature(normal: Floats, expected: Floats, shares: Floats) -> Floats:
    """Return the curvature of squared errors of sums of shares in the logarithms of the shares, (..., cells, cells).

    `normal`: the sums' matrix, transposed, times itself. `expected`: `normal` times the shares, (..., cells). The
    product of the slopes is the same, but its time grows with the number of sums.
    """
    inner = normal - expected[..., None] - expected[..., None, :] + (shares * expected).sum(-1)[..., None, None]
    return np.asarray(inner * shares[..., None] * shares[..., None, :])


def log_softmax(x: Floats) -> Floats:
    """Return the log softmax of `x`, (..., cells). For few numbers it is faster than scipy's, which has checks."""
    above = x - x.max(-1, keepdims=True)
    return np.asarray(above - np.log(np.exp(above).sum(-1, keepdims=True)))


def log_evidence(own: Sums, shares: Floats, tilt: Floats, precision: Floats) -> float:
    """Return the log density of noisy counts, up to a constant, by Laplace's approximation at `tilt`, (cells,). Shares
    do not determine a constant in the tilt, so the prior does.
    """
    tilt = tilt - (precision.sum(0) @ tilt) / precision.sum()
    gap = own.counts - own.matrix @ shares
    known = curvature(own.normal, own.normal @ shares, shares)
    curves = np.linalg.slogdet(precision)[1] - np.linalg.slogdet(known + precision)[1]
    return float(curves - gap @ gap - tilt @ precision @ tilt) / 2


def mean_over_priors(measured: Sequence[Counts], total: float, base: Floats, precisions: Floats) -> Floats:
    """Return shares, (cells,), by noisy counts of `total` rows: means over priors with these `precisions`, (priors,
    cells, cells), weighted by the likelihood of the counts (adaptive shrinkage, Stephens 2017). Otherwise as for
    `posterior_modes`.
    """
    own = Sums(measured, total)
    modes = posterior_modes(own, base, precisions)
    found = np.exp(modes)
    evidence = [log_evidence(own, *one) for one in zip(found, modes - base, precisions, strict=True)]
    likely = np.exp(np.array(evidence) - max(evidence))
    return np.asarray(likely / likely.sum() @ found)


def smoothed(counts: Floats, rows: float, std: float, gaps: int) -> Floats:
    """Return smooth shares of a number's histogram, (cells,), without tails that are hidden by the noise.

    Noise at the far end of the bounds would become outliers, and a linear model would follow them. A tail is kept if
    its rows exceed its noise, as in large tables.
    """
    cells = len(counts)
    values = len(counts) - gaps
    spread = CURVATURE_STD * min(1.0, REFERENCE_CELLS / values) ** 1.5
    steps = np.diff(np.eye(values, cells), 2, axis=0)
    precision = 1e-3 * np.eye(cells) + steps.T @ steps / spread**2
    shares = np.exp(posterior_mode(Sums([Counts.of_cells(counts, std)], rows), np.zeros(cells), precision))
    for end in (1, -1):
        shares[:values] = _trimmed(counts[:values][::end], shares[:values][::end], std)[::end]
    return np.asarray(shares / shares.sum())


def _trimmed(counts: Floats, shares: Floats, std: float) -> Floats:
    """Return shares without the outer cells that have few rows and do not rise above the noise."""
    seen = np.cumsum(counts) > TAIL_THRESHOLD * std * np.sqrt(np.arange(1, len(counts) + 1))
    keep = (np.cumsum(shares) > TAIL_SHARE * shares.sum()) | np.logical_or.accumulate(seen)
    return np.where(keep, shares, 0.0)
