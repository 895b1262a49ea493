"""Columns of low rank, of a wide table: a bin's share at a latent point is that of a Gaussian copula."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from ..protocol import Arrays

Floats = NDArray[np.float64]


def low_rank_tensors(loadings: Mapping[str, Floats], ordered: Mapping[str, int], latent: Floats) -> Arrays:
    """What `Mixture.of` needs, beside their base, of columns of low rank.

    `loadings`: (classes, rank) of each; `ordered`: how many first bins are neighbours in value; `latent`: (points,
    rank).
    """
    kept = {f"loading.{name}": loading.astype(np.float32) for name, loading in loadings.items()}
    kept |= {f"ordered.{name}": np.array([ordered[name]], np.float32) for name in loadings}
    return kept | {"latent": latent.astype(np.float32)}


def normal_cuts(shares: Floats) -> Floats:
    """Where a standard normal variable is cut into parts of `shares`, (classes, bins): (classes, bins + 1)."""
    below = np.cumsum(shares, 1) / shares.sum(1, keepdims=True)
    return np.asarray(np.pad(ndtri(below[:, :-1]), ((0, 0), (1, 1)), constant_values=(-np.inf, np.inf)))


def copula_shares(shares: Floats, ordered: int, loading: Floats, latent: Floats) -> Floats:
    """p(bin | latent point, class), (points, classes, bins): of the part of a normal variable that `loading` leaves.

    `shares`: (classes, bins), of which the first `ordered` follow the points; `loading`: (classes, rank), of norms
    below one.
    """
    found = np.tile(shares, (len(latent), 1, 1))
    rest = np.sqrt(1 - np.square(loading).sum(1))
    below = ndtr((normal_cuts(shares[:, :ordered]) - (latent @ loading.T)[:, :, None]) / rest[:, None])
    found[:, :, :ordered] = np.diff(below) * shares[:, :ordered].sum(1)[:, None]
    return np.asarray(found)
