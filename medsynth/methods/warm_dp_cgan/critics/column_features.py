"""The features of one column that a critic of pairs multiplies with those of another."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ...shared.bins import MERGED_WIDE, Bins

Floats = NDArray[np.float64]
FREQUENCIES = 2  # of a number, each as cosine and sine
FEWEST_BINS = 3  # of a number with waves
MOST_LEVELS = 8  # of a column that have features, the most frequent ones
COMMON_LEVELS = 2  # the first of these, of which more rows tell
TREND, WAVE, GAP, COMMON, RARE = range(5)  # kinds of features
BALL_STEPS = 300  # towards the centre of the smallest ball: its radius is found to about one part in so many


def column_features(bins: Bins, mass: Floats) -> Floats:
    """The features of each bin, (bins, features), of norm one at most. `mass`: (bins,).

    Of a number cosines and sines of where the bin lies, and whether it is missing; of a level its place among the most
    frequent ones. Less the centre of the smallest ball around all bins, in units of its radius: a centre changes
    nothing that two columns say of one another beyond each by itself, and a smaller norm leaves it larger beside noise.
    """
    found = _uncentred(bins, mass)
    centre, radius = smallest_ball(found)
    return np.asarray((found - centre) / radius) if radius else np.zeros_like(found)


def _uncentred(bins: Bins, mass: Floats) -> Floats:
    values = bins.ordered
    if values < FEWEST_BINS and bins.cells == 2:
        return np.array([[-1.0], [1.0]])
    if values < FEWEST_BINS:
        return np.eye(bins.cells)[:, np.argsort(-mass, kind="stable")[:MOST_LEVELS]]
    turns = math.pi * bins.middles(MERGED_WIDE)[:, None] * np.arange(1, FREQUENCIES + 1)
    waves = np.concatenate([np.cos(turns), np.sin(turns)], 1) / math.sqrt(FREQUENCIES)
    features = np.zeros((bins.cells, 2 * FREQUENCIES + bins.cells - values))
    features[:values, : 2 * FREQUENCIES] = waves
    features[values:, 2 * FREQUENCIES :] = np.eye(bins.cells - values)
    return features


def smallest_ball(points: Floats) -> tuple[Floats, float]:
    """The centre of nearly the smallest ball around `points`, (points, width), and its radius, within which they all
    lie: again and again a step towards the point farthest away (Badoiu and Clarkson 2003).

    >>> centre, radius = smallest_ball(np.array([[0.0], [1.0], [2.0]]))
    >>> round(float(centre[0]), 1), round(radius, 1)
    (1.0, 1.0)
    """
    some = np.unique(points, axis=0)
    centre = some.mean(0)
    for step in range(BALL_STEPS):
        farthest = some[np.square(some - centre).sum(1).argmax()]
        centre = centre + (farthest - centre) / (step + 2)
    return centre, float(np.sqrt(np.square(some - centre).sum(1).max()))


def kinds_of_features(bins: Bins, features: int) -> list[int]:
    """The kind of each of a column's features: a number's first cosine rises or falls, a level is common or rare."""
    if bins.ordered >= FEWEST_BINS:
        return [TREND, *[WAVE] * (2 * FREQUENCIES - 1), *[GAP] * (features - 2 * FREQUENCIES)]
    return [COMMON if k < COMMON_LEVELS else RARE for k in range(features)]
