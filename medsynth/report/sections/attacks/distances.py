"""Distances to the nearest rows, which several attacks use."""

from __future__ import annotations

import numpy as np
from sklearn.neighbors import NearestNeighbors

from .registry import Points


def distance(rows: Points, others: Points, k: int = 1) -> Points:
    """Distance from each row to its k-th nearest of `others`: (rows,)."""
    return nearest(rows, others, k)[:, -1]


def nearest(rows: Points, others: Points, k: int) -> Points:
    """Distances from each row to its k nearest of `others`, or to all if they are fewer: (rows, k)."""
    k = min(k, len(others))
    return np.asarray(NearestNeighbors(n_neighbors=k).fit(others).kneighbors(rows)[0])
