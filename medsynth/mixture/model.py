"""Define the model. Given the class and a latent point, the columns are independent:

    p(row | class c) = mean over z of  product over columns j of  softmax(base_j + class_jc + features_j @ latent_jcz)

The `features` of a number are cosines of a bin's position. Each level has its own feature. The latent coefficients are
the sum of a part common to all classes and a part for the class. Expected tables are exact means of outer products.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ..arrays import Floats, Whole
from ..rng import first_normals
from . import constants as k

Numbers = NDArray[np.floating]
NUMBERS: type[np.floating] = np.float32  # of parameters and shares
MANY = 32  # From this many numbers of a bin on, one sum per column is faster than sums of all columns at once.


@dataclass(frozen=True, eq=False)
class Layout:
    """The bins of all columns, one column after another.

    `sizes`: the number of bins by column. `ordered`: the number of leading bins that are neighbours in value. `parts`:
    the part of each bin, (bins,); rare levels share a part. `features`: of each part of a column, (parts, features).
    """

    sizes: Mapping[str, int]
    ordered: Mapping[str, int]
    parts: Mapping[str, Whole]
    features: Mapping[str, Floats]
    spans: dict[str, slice] = field(init=False)

    def __post_init__(self) -> None:
        stops = np.cumsum([*self.sizes.values()]).tolist()
        spans = {name: slice(a, b) for name, a, b in zip(self.sizes, [0, *stops], stops, strict=False)}
        object.__setattr__(self, "spans", spans)

    @property
    def bins(self) -> int:
        """The number of bins of all columns together."""
        return sum(self.sizes.values())

    @property
    def column_of(self) -> Whole:
        """The place of the column of each bin, (bins,)."""
        return np.repeat(np.arange(len(self.sizes)), [*self.sizes.values()])


def wave_features(middles: Floats, bins: int, waves: int, gaps: int = 0) -> Floats:
    """Return the features of a column's bins or parts, (bins, features).

    Args: `middles`: the position of each ordered bin, from 0 to 1; `waves`: the number of cosines. The n-th cosine is
    divided by n ** DECAY, so that fine waves are less likely under the same prior. The last `gaps` bins are missing
    values. Their features are larger, so that columns missing together are more likely under the same prior.
    """
    ordered = len(middles) if len(middles) > 2 else 0
    frequencies = np.arange(1, min(waves, max(ordered - 1, 0)) + 1)
    cosines = math.sqrt(2) * np.cos(math.pi * middles[:ordered, None] * frequencies) / frequencies**k.DECAY
    found = np.zeros((bins, len(frequencies) + bins - ordered))
    found[:ordered, : len(frequencies)] = cosines
    found[ordered:, len(frequencies) :] = np.eye(bins - ordered)
    found[bins - gaps :] *= k.GAP_SIZE
    return found


class MixtureModel:
    """A mixture, before or after its fit.

    Logits: `base`, (bins, 1), and `by_class`, (bins, classes). Latent coefficients: `common`, (features, 1, points),
    and `own`, (features, classes, points). `sizes`: rows of each class, (classes,). `seed`: of the first coefficients.
    """

    def __init__(self, layout: Layout, sizes: Floats, points: int, seed: int) -> None:
        self.layout = layout
        self.points = points
        self.classes = len(sizes)
        self.sizes: Numbers = sizes.astype(NUMBERS)
        self._column = layout.column_of
        self._starts = np.array([span.start for span in layout.spans.values()])
        self._features = list[tuple[slice, slice, Numbers]]()  # of each bin, with the places of bins and features
        features = 0
        for name, span in layout.spans.items():
            if count := layout.features[name].shape[1]:
                own = layout.features[name][layout.parts[name]].astype(NUMBERS)
                self._features.append((span, slice(features, features + count), own))
                features += count
        self.base: Numbers = np.zeros((layout.bins, 1), NUMBERS)
        self.by_class: Numbers = np.zeros((layout.bins, self.classes), NUMBERS)
        first = first_normals(seed, features * (1 + self.classes) * points)
        start: Numbers = k.START_STD * first.astype(NUMBERS).reshape(features, 1 + self.classes, points)
        self.common, self.own = start[:, :1].copy(), start[:, 1:].copy()

    def by_column(self, operation: np.ufunc, values: Numbers) -> Numbers:
        """Return the sum, or another result, over each column's bins, at each of its bins: (bins, n) to (bins, n)."""
        if values.shape[1] < MANY:
            found = operation.reduceat(values, self._starts, axis=0)
        else:
            found = np.stack([operation.reduce(values[span]) for span in self.layout.spans.values()])
        return np.asarray(found[self._column])

    def shares(self) -> Numbers:
        """Return p(bin | class, latent point), (bins, classes, points)."""
        latent = (0.5 * (self.common + self.own)).reshape(len(self.own), -1)
        logits = np.zeros((self.layout.bins, self.classes * self.points), NUMBERS)
        for span, place, features in self._features:
            np.matmul(features, latent[place], out=logits[span])
        found = logits.reshape(-1, self.classes, self.points)
        found += (self.base + self.by_class)[:, :, None]
        logits -= self.by_column(np.maximum, logits)
        np.exp(logits, out=logits)
        logits /= self.by_column(np.add, logits)
        return found

    def slopes(self, shares: Numbers, slopes: Numbers) -> list[Numbers]:
        """Return derivatives by the parameters, from `slopes`, derivatives by the shares: (bins, classes, points)."""
        moved = shares * slopes
        flat = moved.reshape(len(moved), -1)
        flat -= shares.reshape(flat.shape) * self.by_column(np.add, flat)
        latent = np.zeros((len(self.own), flat.shape[1]), NUMBERS)
        for span, place, features in self._features:
            np.matmul(features.T, flat[span], out=latent[place])
        own = (0.5 * latent).reshape(self.own.shape)
        by_class = moved.sum(2)
        return [by_class.sum(1, keepdims=True), by_class, own.sum(1, keepdims=True), own]

    def copy(self, sizes: Floats) -> MixtureModel:
        """Return a mixture with copies of the parameters, for other `sizes` of classes."""
        found = copy.copy(self)
        found.sizes = sizes.astype(NUMBERS)
        found.base, found.by_class, found.common, found.own = (parameter.copy() for parameter in self.parameters())
        return found

    def parameters(self) -> list[Numbers]:
        """Return the arrays that a fit changes."""
        return [self.base, self.by_class, self.common, self.own]
