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
import torch
from scipy.linalg import block_diag
from torch import Tensor

from ..arrays import Floats, Whole
from . import constants as k

TINY = 1e-30  # least sum of a column's weights, against division by zero


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
    def part_of(self) -> Whole:
        """The place of the part of each bin among the parts of all columns, (bins,)."""
        counts = [len(self.features[name]) for name in self.sizes]
        firsts = np.cumsum([0, *counts])[:-1]
        return np.concatenate([first + self.parts[name] for name, first in zip(self.sizes, firsts, strict=True)])

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
    """A mixture, before or after its fit. All tensors are float32.

    Logits: `base`, (bins, 1), and `by_class`, (bins, classes). Latent coefficients: `common`, (features, 1, points),
    and `own`, (features, classes, points). `sizes`: rows of each class, (classes,). `sums`: one if a bin belongs to a
    column, (columns, bins); sparse in wide tables.
    """

    def __init__(self, layout: Layout, sizes: Floats, points: int, stream: torch.Generator, device: str) -> None:
        self.layout = layout
        self.points = points
        self.classes = len(sizes)
        self.device = device
        self.sizes = torch.tensor(sizes, dtype=torch.float32, device=device)
        features = sum(table.shape[1] for table in layout.features.values())
        self._features = self.tensor(block_diag(*layout.features.values()))
        self._column = torch.from_numpy(layout.column_of).to(device)
        self._part = torch.from_numpy(layout.part_of).to(device)
        places = torch.stack([self._column, torch.arange(layout.bins, device=device)])
        ones = torch.ones(layout.bins, device=device)
        self.sums = torch.sparse_coo_tensor(places, ones, check_invariants=True).coalesce()
        if len(layout.sizes) <= k.WIDE_COLUMNS:  # with thousands of columns, nearly all entries are zero
            self.sums = self.sums.to_dense()
        self.base = torch.zeros(layout.bins, 1, device=device)
        self.by_class = torch.zeros(layout.bins, self.classes, device=device)
        start = k.START_STD * torch.randn(features, 1 + self.classes, points, generator=stream).to(device)
        self.common, self.own = start[:, :1].clone(), start[:, 1:].clone()

    def tensor(self, values: Floats) -> Tensor:
        """Return numbers as float32 on the model's device."""
        return torch.tensor(values, dtype=torch.float32, device=self.device)

    def shares(self) -> Tensor:
        """Return p(bin | class, latent point), (bins, classes, points)."""
        latent = (self._features @ (0.5 * (self.common + self.own)).flatten(1)).index_select(0, self._part)
        logits = (self.base + self.by_class)[:, :, None] + latent.reshape(-1, self.classes, self.points)
        weights = torch.exp(logits - logits.detach().amax(0, keepdim=True).clamp(min=0))
        sums = (self.sums @ weights.flatten(1)).clamp(min=TINY)
        return weights / sums.index_select(0, self._column).reshape(weights.shape)

    def copy(self, sizes: Floats) -> MixtureModel:
        """Return a mixture with copies of the parameters, for other `sizes` of classes."""
        found = copy.copy(self)
        found.sizes = self.tensor(sizes)
        found.base, found.by_class, found.common, found.own = (parameter.clone() for parameter in self.parameters())
        return found

    def parameters(self) -> list[Tensor]:
        """Return the tensors that a fit changes."""
        return [self.base, self.by_class, self.common, self.own]
