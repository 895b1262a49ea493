"""The features of one column that a critic of pairs multiplies with those of another."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ...shared.bins import MERGED_WIDE, Bins

Floats = NDArray[np.float64]
FREQUENCIES = 2  # of a number, each as cosine and sine
FEWEST_BINS = 3  # of a number with waves
COMMON_LEVELS, RARE_LEVELS = 2, 8  # the most frequent ones, of which more rows tell, and those that follow up to here
TREND, WAVE, GAP, COMMON, RARE, RAREST = range(6)  # kinds of features
BALL_STEPS = 300  # towards the centre of the smallest ball: its radius is found to about one part in so many


def column_features(bins: Bins, mass: Floats, least: float, most_levels: int) -> Floats:
    """The features of each bin, (bins, features), of norm one at most. `mass`: (bins,) rows.

    Of a number cosines and sines of where the bin lies, and whether it is missing; of a level its place among the
    `most_levels` most frequent ones, as far as these have `least` rows: of the others there is nothing to be seen
    beside the noise. Less the centre of the smallest ball around all bins, in units of its radius: a centre changes
    nothing that two columns say of one another beyond each by itself, and a smaller norm leaves it larger beside noise.
    """
    found = _uncentred(bins, mass, least, most_levels)
    centre, radius = smallest_ball(found)
    return np.asarray((found - centre) / radius) if radius else np.zeros_like(found)


def _uncentred(bins: Bins, mass: Floats, least: float, most_levels: int) -> Floats:
    values = bins.ordered
    if values < FEWEST_BINS and bins.cells == 2:
        return np.array([[-1.0], [1.0]])
    if values < FEWEST_BINS:
        enough = min(max(int((mass >= least).sum()), 1), most_levels)
        return np.eye(bins.cells)[:, np.argsort(-mass, kind="stable")[:enough]]
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
    """The kind of each of a column's features: a number's first cosine rises or falls, levels are common or rare."""
    if bins.ordered >= FEWEST_BINS:
        return [TREND, *[WAVE] * (2 * FREQUENCIES - 1), *[GAP] * (features - 2 * FREQUENCIES)]
    return [COMMON if k < COMMON_LEVELS else RARE if k < RARE_LEVELS else RAREST for k in range(features)]
