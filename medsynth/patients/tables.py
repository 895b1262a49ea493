"""Read noisy tables of later rows: chances of a column's cells given a context, and which tables are worthwhile.

Most cells differ from the expected counts by noise alone, and a few differ by much. The noisy deviations themselves
teach how many of each size there are: a normal prior with one of a few scales, each with a weight (adaptive shrinkage,
Stephens 2017).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.fft import dct

from ..arrays import Floats, Whole
from ..methods.marginals import cleaned
from ..privacy.noise import MEAN_SIZE
from ..schema import Column

TAIL_ROWS = 1.0  # that a simulated table is assumed to have anywhere else
CLEAR_DISTANCE = 2.0  # standard deviations of its noise that a distance must exceed
CLEAR_OF_MANY = 3.5  # the same if patients are few
SCALES = np.concatenate([[0.0], 2.0 ** np.arange(-1, 9)])  # of the prior, in standard deviations of the noise
ROUNDS = 50  # of expectation and maximisation
CLEAR = 4.0  # standard deviations of noise that a count must exceed if first rows have nothing


def denoised(
    noisy: Floats, std: float, ordered: tuple[int, int], total: float, expected: Floats | None = None
) -> Floats:
    """Remove the noise from a noisy table of two columns as far as possible, given an `expected` table.

    Without one, independence is expected. `ordered`: how many first groups of each column are neighbours in value.
    Along these, the waves of the table are shrunk: a relation of two numbers is smooth, so few waves contain it.
    """
    if expected is None:
        expected = independent(noisy, total)
    one, other = (_waves(bins, count) for bins, count in zip(noisy.shape, ordered, strict=True))
    turned = one @ (noisy - expected) @ other.T
    return np.asarray(expected + one.T @ shrunk(turned.ravel(), std).reshape(turned.shape) @ other)


def independent(noisy: Floats, total: float) -> Floats:
    """Return the table of `total` rows with a noisy table's margins in which the two columns are independent."""
    one, other = (cleaned(noisy.sum(axis), total) for axis in (1, 0))
    return np.asarray(total * np.outer(one, other))


def later_shares(noisy: Floats, std: float, before: Whole, total: float, column: Column) -> Floats:
    """Return shares of a column's fine cells in later rows, from noisy counts of `total` rows and simulated first rows.

    The difference between later rows and the first rows, `before`, is shrunk. If first rows have nothing in a cell,
    later rows have something only if it clearly exceeds the noise.
    """
    expected = (before + TAIL_ROWS / len(before)) / (before.sum() + TAIL_ROWS) * total
    ordered = len(noisy) - column.gaps if column.ordered else 0
    found = denoised(noisy[None], std, (0, ordered), total, expected[None])[0]
    unclear = (before == 0) & (noisy < CLEAR * std)
    found = np.where(unclear, np.minimum(found, expected), found)
    return np.asarray((shares := np.maximum(found, 1e-3 * expected)) / shares.sum())


def worthwhile(
    distances: Mapping[str, float], std: float, expected: Mapping[str, Floats], multiplier: float, most: int,
    always: Sequence[str],
) -> list[str]:  # fmt: skip
    """Return the tables farthest from the expected ones, if a measurement would be clear of its noise; at least one.

    `std`: of the noise of the `distances`, which must clearly exceed it. With k measured tables, the noise of each has
    a standard deviation of sqrt(k) times the `multiplier`. Its mean L1 norm is sqrt(2 / pi) times that per cell (AIM,
    equation 1). If some are `always` measured, patients are few: others must also exceed their distance by chance.
    """
    found = list(always)
    by_chance = {
        key: MEAN_SIZE * float(np.sqrt(expected[key].clip(min=0)).sum()) if always else 0.0 for key in distances
    }
    beyond = {key: distances[key] - by_chance[key] for key in distances if key not in always}
    clear = (CLEAR_OF_MANY if always else CLEAR_DISTANCE) * std
    for key in sorted(beyond, key=beyond.__getitem__, reverse=True):
        noise = MEAN_SIZE * multiplier * math.sqrt(len(found) + 1) * expected[key].size
        if found and (beyond[key] < max(noise, clear) or len(found) >= most):
            break
        found.append(key)
    return found


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


def _waves(bins: int, ordered: int) -> Floats:
    """Return an orthonormal change of coordinates, (bins, bins): cosine waves along the first `ordered` bins."""
    found = np.eye(bins)
    if ordered:
        found[:ordered, :ordered] = dct(np.eye(ordered), axis=0, norm="ortho")
    return found
