"""Measure products of two and of three columns in one query: weak slopes, and structure that no pair shows.

Pairs in bins blur a weak slope, and three columns whose pairs are independent, such as c = (a differs from b), leave no
trace in any pair. Each column has two features by fine cell, both with mean zero and variance one by the released
shares: its value, and its sign (above the median, or the most frequent level). A row has the products of any two values
and of any three signs. `Moments` clips them at one norm and sums them over the rows.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch

from ..arrays import Floats
from ..methods.bins import Bins
from ..methods.marginals import TOGETHER
from . import constants as k
from .declared import fine_values
from .moments import Moments


def column_features(bins: Bins) -> Floats | None:
    """Return a column's value, sign and the constant one, by fine cell, (cells, 3).

    None for a column of which one level has nearly all rows: its standardised features are wild.
    """
    share = bins.shares / bins.shares.sum()
    mass = np.bincount(bins.place, share, bins.cells)
    if mass.max() > k.NEARLY_ALL:
        return None
    values = fine_values(bins) if bins.column.ordered else np.empty(0)
    if len(values):
        side = np.zeros(len(share))
        below = np.cumsum(share[: len(values)]) - share[: len(values)] / 2
        side[: len(values)] = np.where(below < share[: len(values)].sum() / 2, -1.0, 1.0)
        value = np.append(values, np.zeros(len(share) - len(values)))
    else:
        value = side = np.where(bins.place == mass.argmax(), -1.0, 1.0)
    return np.stack([_standard(value, share), _standard(side, share), np.ones(len(share))], 1)


def feature_words(name: str) -> list[str]:
    """Return the words for the features of a column, as `column_features` orders them: empty for the constant."""
    return [name, f"sign of {name}", ""]


def _standard(feature: Floats, share: Floats) -> Floats:
    """Return a feature by fine cell, (cells,), with mean zero, and variance one except for what is clipped."""
    centred = feature - share @ feature
    clipped = np.clip(centred / max(math.sqrt(share @ centred**2), 1e-6), -k.FEATURE_CLIP, k.FEATURE_CLIP)
    return np.asarray(clipped - share @ clipped)


def crossed_moments(bins: Mapping[str, Bins], order: Sequence[str], noise: float, rows: int) -> Moments | None:
    """Return the products of any two values and any three signs of columns; None for fewer than two columns.

    If there were more than `MOST_PRODUCTS`, they are those of two values. The arguments are those of `Moments.clipped`.
    """
    fine = {name: own for name in bins if (own := column_features(bins[name])) is not None}
    if len(fine) < 2:
        return None
    places = range(len(fine))
    two = [(3 * one, 3 * other, 2) for one, other in itertools.combinations(places, 2)]  # times the constant one
    three = [tuple(3 * one + 1 for one in own) for own in itertools.combinations(places, 3)]
    three = three if len(two) + len(three) <= k.MOST_PRODUCTS else []
    weights = np.repeat([1.0, k.TRIPLE_WEIGHT], [len(two), len(three)])
    return Moments.clipped(fine, torch.tensor([*two, *three]).T, bins, TOGETHER, order, noise, rows, weights)
