"""Shares of cells from noisy counts: the likeliest ones under the noise and a smooth prior. Free of privacy cost."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax

Floats = NDArray[np.float64]
BEND = 0.35  # prior standard deviation of the second difference of log shares between cells of a histogram
USUAL = 128  # cells; finer ones bend less from one to the next
OUTER = 0.02  # of the rows: a tail of so few is cut off where the noise hides it
SURE = 3.0  # standard deviations by which a tail must rise above its noise to stand
SPREAD = 4.0  # of a class's log ratio to the whole table, a bin
SMOOTH = 1.0  # of the difference of such log ratios between neighbouring bins of a number
ITERATIONS = 60


def posterior(counts: Floats, total: float, std: float, base: Floats, precision: Floats) -> Floats:
    """Log shares, (cells,), that are likeliest given noisy `counts` of `total` rows.

    Counts are `total` times shares plus Gaussian noise of `std`; the log shares are `base` plus a tilt with a normal
    prior of the given `precision`, (cells, cells). Damped Gauss-Newton steps.

    Subtracting a constant from counts and cutting at zero, the usual projection, leaves the noise standing in every
    empty cell of a tail and of a rare class; here a cell in which the noise drowns the rows follows the prior.
    """
    tilt, damping = np.zeros(len(counts)), 1.0

    def cost(t: Floats) -> float:
        gap = counts - total * np.exp(log_softmax(base + t))
        return float(gap @ gap / (2 * std**2) + t @ precision @ t / 2)

    now = cost(tilt)
    for _ in range(ITERATIONS):
        shares = np.exp(log_softmax(base + tilt))
        slope = total * (np.diag(shares) - np.outer(shares, shares))
        gradient = precision @ tilt - slope @ (counts - total * shares) / std**2
        curve = slope @ slope / std**2 + precision + damping * np.eye(len(counts))
        step = np.linalg.solve(curve, gradient)
        new = cost(tilt - step)
        if new < now:
            tilt, damping = tilt - step, damping / 3
            if now - new < 1e-6 * (1 + now):
                break
            now = new
        else:
            damping *= 4
    return np.asarray(log_softmax(base + tilt))


def _rough(cells: int, ordered: int, order: int, spread: float) -> Floats:
    """Precision of a prior in which `order`-th differences of the first `ordered` cells have a standard deviation."""
    if ordered <= order:
        return np.zeros((cells, cells))
    steps = np.zeros((ordered - order, cells))
    steps[:, :ordered] = np.diff(np.eye(ordered), order, axis=0)
    return np.asarray(steps.T @ steps / spread**2)


def smoothed(counts: Floats, rows: int, std: float, gaps: int) -> Floats:
    """Shares, (cells,), of a number's histogram: log shares bend little, and tails that the noise hides are cut off.

    What is left of the noise at the far end of the bounds would be outliers, and a linear model would follow them.
    A tail stands where its rows rise above its noise, as they do in large tables.
    """
    cells, values = len(counts), len(counts) - gaps
    precision = 1e-3 * np.eye(cells)
    bends = np.diff(np.eye(values), 2, axis=0)
    precision[:values, :values] += bends.T @ bends / (BEND * min(1.0, USUAL / values) ** 1.5) ** 2
    shares = np.exp(posterior(counts, rows, std, np.zeros(cells), precision))
    for turn in (1, -1):
        shares[:values] = _trimmed(counts[:values][::turn], shares[:values][::turn], std)[::turn]
    return np.asarray(shares / shares.sum())


def _trimmed(counts: Floats, shares: Floats, std: float) -> Floats:
    """Shares without the outer cells that hold little and whose rows do not rise above the noise."""
    seen = np.cumsum(counts) > SURE * std * np.sqrt(np.arange(1, len(counts) + 1))
    keep = (np.cumsum(shares) > OUTER * shares.sum()) | np.logical_or.accumulate(seen)
    return np.where(keep, shares, 0.0)


def class_totals(tables: dict[str, Floats], rows: int) -> Floats:
    """Rows of each class, (classes,), from all class-by-bin tables: each sums to them, with noise by its bins."""
    weight = np.array([1 / t.shape[1] for t in tables.values()])
    sums = np.array([t.sum(1) for t in tables.values()])
    found = np.maximum(np.tensordot(weight, sums, 1) / weight.sum(), 0.0)
    return np.asarray(found * rows / found.sum()) if found.sum() > 0 else np.full(len(found), rows / len(found))


def conditionals(
    tables: dict[str, Floats], totals: Floats, std: dict[str, float], ordered: dict[str, int]
) -> dict[str, Floats]:
    """Log p(bin | class), (classes, bins) a column, each near the whole table's shares unless its counts say otherwise.

    `std`: of each column's noise. `ordered`: how many first bins of a column are neighbours in value.
    """
    found = {}
    for name, table in tables.items():
        bins = table.shape[1]
        rough = _rough(bins, ordered[name], 1, SMOOTH)
        whole = posterior(
            table.sum(0), totals.sum(), std[name] * len(totals) ** 0.5, np.zeros(bins), 0.02 * np.eye(bins)
        )
        precision = np.eye(bins) / SPREAD**2 + rough
        found[name] = np.stack(
            [posterior(row, total, std[name], whole, precision) for row, total in zip(table, totals, strict=True)]
        )
    return found
