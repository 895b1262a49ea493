"""Shares of a column's cells by all that was counted of it; of a number as smooth along it as the counts say it is.

Ages are smooth, and a cell's neighbours tell nearly as much of it as its own noisy count; of other columns each cell
differs from the next. How many rows are in a cell differs from any smooth density by chance alone, as a Poisson number
does: no prior is firmer than that, for it is these rows that are described.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ...shared.conditionals import Counts, mean_over_priors, posterior_mode

Floats = NDArray[np.float64]
CURVATURES = (0.05, 0.2, 1.0)  # prior standard deviation of the log density's second difference between fine cells
ROUGHNESSES = (0.0, 0.2, 1.0, 3.0)  # of a cell's log density beside that curve
WEAK_PRECISION = 0.02  # of the log share of a cell that no neighbour tells of
LEVEL_PRECISION = 1e-3  # of the curve's level and slope


def shares_of_levels(measured: Sequence[Counts], rows: float) -> Floats:
    """Shares, (levels,), by noisy counts of `rows` rows: no level tells of another."""
    levels = len(measured[0].group)
    return np.exp(posterior_mode(measured, rows, np.zeros(levels), WEAK_PRECISION * np.eye(levels)))


def shares_of_cells(
    measured: Sequence[Counts], rows: float, widths: Floats, expected: Floats, along: NDArray[np.bool_]
) -> Floats:
    """Shares, (cells,), by noisy counts of `rows` rows: the means over priors, each as likely as it makes the counts.

    `widths`: shares were the density even. `expected`: rows of each cell by a first look. `along`: the cells in the
    order of their values that follow a curve; the others are frequent values and missing ones.
    """
    base, order = np.log(widths), np.flatnonzero(along)
    steps = np.diff(np.eye(len(order)), 2, axis=0)
    chance = 1 / np.maximum(expected[order], 1.0)  # variance of the logarithm of a Poisson number

    def precisions() -> Iterator[Floats]:
        for curvature, roughness in product(CURVATURES, ROUGHNESSES):
            spread = np.eye(len(base)) / WEAK_PRECISION
            curve = np.linalg.inv(steps.T @ steps / curvature**2 + LEVEL_PRECISION * np.eye(len(order)))
            spread[np.ix_(order, order)] = curve + np.diag(chance + roughness**2)
            yield np.linalg.inv(spread).astype(np.float64)

    return mean_over_priors(measured, rows, base, precisions())
