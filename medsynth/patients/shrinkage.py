"""What noisy tables show beyond the expected counts, with most of the noise removed.

Most cells differ from the expected counts by noise alone, and a few differ by much. The noisy deviations themselves
teach how many of each size there are: a normal prior with one of a few scales, each with a weight (adaptive shrinkage,
Stephens 2017).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct

Floats = NDArray[np.float64]
SCALES = np.concatenate([[0.0], 2.0 ** np.arange(-1, 9)])  # of the prior, in standard deviations of the noise
ROUNDS = 50  # of expectation and maximisation


def shrunk(deviations: Floats, std: float) -> Floats:
    """Return the posterior means of (numbers,) deviations under noise of `std`."""
    return np.asarray(deviations * (chances(deviations, std) @ (SCALES**2 / (1 + SCALES**2))))


def chances(deviations: Floats, std: float) -> Floats:
    """Return how likely each scale is for each deviation, (numbers, scales)."""
    spread = 1 + SCALES**2
    logs = -0.5 * ((deviations[:, None] / std) ** 2 / spread + np.log(spread))
    likelihood = np.exp(logs - logs.max(1, keepdims=True))
    weights = np.full(len(SCALES), 1 / len(SCALES))
    for _ in range(ROUNDS + 1):
        found = likelihood * weights
        found /= found.sum(1, keepdims=True)
        weights = found.mean(0)
    return np.asarray(found)


def shrunk_table(deviations: Floats, std: float, ordered: tuple[int, int]) -> Floats:
    """Return the same for a table, (bins of one column, bins of the other), by its waves along ordered bins.

    A relation of two numbers is smooth, so few of its table's waves contain it. `ordered`: the number of first bins of
    each column that are neighbours in value.
    """
    one, other = (_waves(bins, count) for bins, count in zip(deviations.shape, ordered, strict=True))
    turned = one @ deviations @ other.T
    return np.asarray(one.T @ shrunk(turned.ravel(), std).reshape(turned.shape) @ other)


def _waves(bins: int, ordered: int) -> Floats:
    """Return an orthonormal change of coordinates, (bins, bins): cosine waves along the first `ordered` bins."""
    found = np.eye(bins)
    if ordered:
        found[:ordered, :ordered] = dct(np.eye(ordered), axis=0, norm="ortho")
    return found
