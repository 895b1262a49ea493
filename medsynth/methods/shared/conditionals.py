"""Shares of cells from noisy counts: the likeliest ones under the noise and a smooth prior. Free of privacy cost."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
CURVATURE_STD = 0.35  # prior standard deviation of the second difference of log shares between cells of a histogram
REFERENCE_CELLS = 128  # of a histogram; between finer cells second differences are smaller
TAIL_SHARE = 0.02  # of the rows: a tail of so few is cut off where it does not rise above the noise
TAIL_THRESHOLD = 3.0  # standard deviations of noise that a tail must exceed to be kept
NEWTON_STEPS = 60


@dataclass(frozen=True)
class Counts:
    """Noisy counts of groups of cells: `group` (cells,) is the group of each; noise of standard deviation `std`."""

    group: Whole
    counts: Floats
    std: float

    @classmethod
    def of_cells(cls, counts: Floats, std: float) -> Counts:
        """Counts of the cells themselves."""
        return cls(np.arange(len(counts)), counts, std)

    @property
    def even(self) -> Floats:
        """Rows of each cell, (cells,), were those of a group spread evenly, and none too few for its noise."""
        cells = np.bincount(self.group, minlength=len(self.counts))
        return np.asarray((np.maximum(self.counts, self.std) / np.maximum(cells, 1))[self.group])

    def on(self, inside: NDArray[np.bool_]) -> Counts:
        """These counts where only the cells `inside` have rows."""
        return Counts(self.group[inside], self.counts, self.std)

    @property
    def matrix(self) -> Floats:
        """What adds cells up to groups, in standard deviations of the noise: (groups, cells)."""
        return np.asarray((self.group == np.arange(len(self.counts))[:, None]) / self.std)


def posterior_mode(measured: Sequence[Counts], total: float, base: Floats, precision: Floats) -> Floats:
    """Log shares, (cells,), that are likeliest given noisy counts of `total` rows in groups of cells.

    Counts are `total` times shares plus Gaussian noise; the log shares are `base` plus a tilt with a normal
    prior of the given `precision`, (cells, cells). Damped Gauss-Newton steps, which begin at the counts: from a base
    far away they may end beside the mode.

    Subtracting a constant from counts and cutting at zero, the usual projection, leaves the noise standing in every
    empty cell of a tail and of a rare class; here a cell whose rows are few against the noise follows the prior.
    """
    sums = total * np.concatenate([one.matrix for one in measured])
    counts = np.concatenate([one.counts / one.std for one in measured])
    normal, seen = sums.T @ sums, counts @ sums
    start = np.log(np.mean([one.even for one in measured], axis=0))
    tilt, damping = start - start.mean() - base + base.mean(), 1.0
    damped = np.eye(len(base))

    def cost(t: Floats) -> float:
        gap = counts - sums @ np.exp(log_softmax(base + t))
        return float(gap @ gap / 2 + t @ precision @ t / 2)

    now = cost(tilt)
    for _ in range(NEWTON_STEPS):
        shares = np.exp(log_softmax(base + tilt))
        expected = normal @ shares
        gap = seen - expected
        gradient = precision @ tilt - shares * (gap - shares @ gap)
        curve = curvature(normal, expected, shares) + precision + damping * damped
        step = np.linalg.solve(curve, gradient)
        new = cost(tilt - step)
        if new < now:
            tilt, damping = tilt - step, damping / 3
            if now - new < 1e-6 * (1 + now):
                break
            now = new
        elif new - now < 1e-12 * (1 + now):  # rounding alone: no step from the mode falls any further
            break
        else:
            damping *= 4
    return np.asarray(log_softmax(base + tilt))


def curvature(normal: Floats, expected: Floats, shares: Floats) -> Floats:
    """What squared errors of sums of shares curve by, (cells, cells), along the logarithms of the shares.

    `normal`: the sums' matrix times itself; `expected`: that times the shares. The slopes' own product is the same,
    but takes time by how many sums there are.
    """
    inner = normal - expected[:, None] - expected + shares @ expected
    return np.asarray(inner * shares[:, None] * shares)


def log_softmax(x: Floats) -> Floats:
    """Logarithms of the softmax of `x`, (cells,): scipy's has checks that take longer than so few numbers."""
    above = x - x.max()
    return np.asarray(above - np.log(np.exp(above).sum()))


def log_evidence(measured: Sequence[Counts], total: float, shares: Floats, tilt: Floats, precision: Floats) -> float:
    """Logarithm of the density of noisy counts of `total` rows, but for a constant, by Laplace's approximation at
    `tilt`, (cells,). Shares do not know a constant in the tilt: it is where the prior has it.
    """
    tilt = tilt - (precision.sum(0) @ tilt) / precision.sum()
    sums = total * np.concatenate([one.matrix for one in measured])
    gap = np.concatenate([one.counts / one.std for one in measured]) - sums @ shares
    normal = sums.T @ sums
    known = curvature(normal, normal @ shares, shares)
    curves = np.linalg.slogdet(precision)[1] - np.linalg.slogdet(known + precision)[1]
    return float(curves - gap @ gap - tilt @ precision @ tilt) / 2


def mean_over_priors(measured: Sequence[Counts], total: float, base: Floats, precisions: Iterable[Floats]) -> Floats:
    """Shares, (cells,), by noisy counts of `total` rows: the means over priors of such `precisions`, each as likely as
    it makes the counts (adaptive shrinkage, Stephens 2017). Else as for `posterior_mode`.
    """
    found, evidence = list[Floats](), list[float]()
    for precision in precisions:
        mode = posterior_mode(measured, total, base, precision)
        found.append(np.exp(mode))
        evidence.append(log_evidence(measured, total, found[-1], mode - base, precision))
    likely = np.exp(np.array(evidence) - max(evidence))
    return np.asarray(likely / likely.sum() @ np.stack(found))


def difference_precision(cells: int, ordered: int, order: int, spread: float) -> Floats:
    """Precision of a prior in which `order`-th differences of the first `ordered` cells have a standard deviation."""
    if ordered <= order:
        return np.zeros((cells, cells))
    steps = np.zeros((ordered - order, cells))
    steps[:, :ordered] = np.diff(np.eye(ordered), order, axis=0)
    return np.asarray(steps.T @ steps / spread**2)


def smoothed(counts: Floats, rows: float, std: float, gaps: int) -> Floats:
    """Shares, (cells,), of a number's histogram: log shares curve little, and tails hidden by the noise are cut off.

    What is left of the noise at the far end of the bounds would be outliers, and a linear model would follow them.
    A tail is kept where its rows exceed its noise, as they do in large tables.
    """
    cells, values = len(counts), len(counts) - gaps
    spread = CURVATURE_STD * min(1.0, REFERENCE_CELLS / values) ** 1.5
    precision = 1e-3 * np.eye(cells) + difference_precision(cells, values, 2, spread)
    shares = np.exp(posterior_mode([Counts.of_cells(counts, std)], rows, np.zeros(cells), precision))
    for end in (1, -1):
        shares[:values] = _trimmed(counts[:values][::end], shares[:values][::end], std)[::end]
    return np.asarray(shares / shares.sum())


def _trimmed(counts: Floats, shares: Floats, std: float) -> Floats:
    """Shares without the outer cells that hold little and whose rows do not rise above the noise."""
    seen = np.cumsum(counts) > TAIL_THRESHOLD * std * np.sqrt(np.arange(1, len(counts) + 1))
    keep = (np.cumsum(shares) > TAIL_SHARE * shares.sum()) | np.logical_or.accumulate(seen)
    return np.where(keep, shares, 0.0)
