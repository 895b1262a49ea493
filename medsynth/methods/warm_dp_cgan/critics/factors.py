"""From noisy covariances of normal scores to a normal latent variable of few dimensions, and each column's loadings.

Given the latent variable columns are independent: Gaussian copulas on the noisy class-by-bin marginals.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh

from ....rng import Stream
from .matrix import Covariances

Floats = NDArray[np.float64]
RANK = 20  # of the latent variable
ROUNDS = 4  # in which the part of a column's variance that it shares with others is found
MOST_SHARED = 0.95  # of the variance of a column


def latent_points(count: int, rank: int, rng: Stream) -> Floats:
    """(count, rank) normal draws whose mean is zero and whose second moments are those of a standard normal variable.

    Each comes with its opposite, so that columns keep their shares nearly.
    """
    half = rng.standard_normal((count // 2, rank))
    half = np.linalg.qr(half)[0] * np.sqrt(len(half)) if len(half) >= rank else half
    return np.concatenate([half, -half])


def loadings(found: Covariances) -> Floats:
    """(classes, columns, rank). A class whose matrix shows nothing above its noise has those of all together."""
    weights = found.rows / found.rows.sum()
    together = np.einsum("k,kij->ij", weights, found.matrices)
    common = _factors(together, weights @ found.squares, float(np.sqrt(np.square(weights * found.std).sum())))
    each = [_factors(*one) for one in zip(found.matrices, found.squares, found.std.tolist(), strict=True)]
    return np.stack([own if own.any() else common for own in each])


def _factors(matrix: Floats, squares: Floats, std: float) -> Floats:
    """(columns, rank): loadings of the latent variables of normal scores with covariances `matrix`, noise `std`.

    `squares`: the scores' variances, below one by what bins hide; the covariance of two scores is about the product
    of both variances and the correlation of what is in the bins. The noise lifts an eigenvalue y to about y = x +
    (columns std^2) / x and turns its vector: sqrt(y^2 - 4 columns std^2) is nearest to what was there (Gavish and
    Donoho 2017), and nothing of what lies below.
    """
    columns, edge = len(squares), 2 * std * np.sqrt(len(squares))
    rank = min(RANK, columns)
    clipped = np.clip(np.trace(matrix) / max(squares.sum(), 1e-12), 0.25, 1.0)  # what clipping left of all variance
    work, level = matrix / clipped, edge / clipped
    shared = np.zeros(columns)
    factors = np.zeros((columns, RANK))
    for _ in range(ROUNDS):
        np.fill_diagonal(work, shared)
        values, vectors = eigh(work, subset_by_index=[columns - rank, columns - 1])
        kept = np.sqrt(np.maximum(np.square(np.maximum(values, 0)) - level**2, 0))
        factors[:, :rank] = vectors * np.sqrt(kept)
        shared = np.minimum(np.square(factors).sum(1), MOST_SHARED * squares)
    strength = np.maximum(np.square(factors).sum(0), 1e-12)
    size = strength / max(np.square(squares).sum(), 1e-12)  # of a squared loading of the factor, over columns
    noise = (level / 2) ** 2 / columns / strength
    found = factors * squares[:, None] * size / (np.square(squares)[:, None] * size + noise + 1e-12)
    length = np.sqrt(np.square(found).sum(1, keepdims=True))
    return np.asarray(found * np.minimum(1.0, np.sqrt(MOST_SHARED) / np.maximum(length, 1e-12)))
