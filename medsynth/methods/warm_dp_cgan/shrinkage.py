"""What noisy measurements say beyond what was expected of them, with the noise taken out as far as it can be told.

Most pairs of columns have little to do with one another, so most deviations from what was expected are noise, and a few
are large. How many of which size there are is learned from the noisy deviations themselves: a normal prior whose scale
is one of a few, each with a weight (adaptive shrinkage, Stephens 2017).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct

from ...rng import Stream

Floats = NDArray[np.float64]
SCALES = np.concatenate([[0.0], 2.0 ** np.arange(-1, 9)])  # of the prior, in standard deviations of the noise
ROUNDS = 100  # of expectation and maximisation


def shrunk(deviations: Floats, std: float) -> Floats:
    """The posterior means of (numbers,) deviations under noise of `std`."""
    spread = 1 + SCALES**2
    return np.asarray(deviations * (_chances(deviations, std) @ (SCALES**2 / spread)))


def drawn(deviations: Floats, std: float, rng: Stream) -> Floats:
    """One draw of each of (numbers,) deviations from its posterior, under noise of `std`."""
    below = np.cumsum(_chances(deviations, std), 1)
    chosen = SCALES[(rng.random((len(deviations), 1)) > below).sum(1).clip(max=len(SCALES) - 1)]
    kept = chosen**2 / (1 + chosen**2)
    return np.asarray(kept * deviations + std * np.sqrt(kept) * rng.standard_normal(len(deviations)))


def _chances(deviations: Floats, std: float) -> Floats:
    """How likely each scale of the prior is for each deviation: (numbers, scales)."""
    spread = 1 + SCALES**2
    squared = (deviations[:, None] / std) ** 2
    log_likelihood = -0.5 * (squared / spread + np.log(spread))
    likelihood = np.exp(log_likelihood - log_likelihood.max(1, keepdims=True))
    weights = np.full(len(SCALES), 1 / len(SCALES))
    for _ in range(ROUNDS):
        chance = likelihood * weights
        chance /= chance.sum(1, keepdims=True)
        weights = chance.mean(0)
    return np.asarray(chance)


def shrunk_table(
    deviations: Floats, std: float, ordered: tuple[int, int], posterior: Callable[[Floats, float], Floats] = shrunk
) -> Floats:
    """The same of a table, (classes, bins of one column, bins of the other), by its waves along bins in an order.

    A relation of two numbers is smooth, and lies in few of its table's waves. `ordered`: how many first bins of each
    column are neighbours in value. Classes have priors of their own. `posterior`: means, or draws.
    """
    one, other = (_waves(bins, count) for bins, count in zip(deviations.shape[1:], ordered, strict=True))
    turned = one @ deviations @ other.T
    return np.asarray(one.T @ np.stack([posterior(part.ravel(), std).reshape(part.shape) for part in turned]) @ other)


def _waves(bins: int, ordered: int) -> Floats:
    """An orthonormal change of coordinates, (bins, bins): cosine waves along the first `ordered` bins."""
    found = np.eye(bins)
    if ordered:
        found[:ordered, :ordered] = dct(np.eye(ordered), axis=0, norm="ortho")
    return found
