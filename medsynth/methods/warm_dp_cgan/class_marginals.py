"""Class-by-bin marginals, measured again on finer bins for the few columns whose shares differ most between classes.

The rows of a rare class are often in the tails of these columns, which coarse bins blur.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...privacy.vault import CellMap, Vault
from ..shared.bins import Bins
from ..shared.conditionals import conditionals

Floats = NDArray[np.float64]
SEPARATION_TO_REMEASURE = 0.7  # of the best column's difference between classes, from which a column is measured again
FINER_BINS = 60  # of such a column, of even mass where all classes have the same weight


@dataclass(frozen=True)
class ClassMarginals:
    """Noisy tables class by bin, (classes, bins) a column, their bins, and the standard deviation of their noise.

    `base`: log p(bin | class) by them, (classes, bins) a column. `totals`: rows of each class, (classes,).
    """

    bins: dict[str, Bins]
    tables: dict[str, Floats]
    std: dict[str, float]
    totals: Floats
    base: dict[str, Floats]

    @classmethod
    def of(
        cls, bins: dict[str, Bins], tables: dict[str, Floats], std: dict[str, float], totals: Floats
    ) -> ClassMarginals:
        """With shares cleaned of the noise."""
        base = conditionals(tables, totals, std, {name: bins[name].ordered for name in tables})
        return cls(bins, tables, std, totals, base)

    def separating(self) -> list[str]:
        """The columns whose shares differ between classes nearly as much as the best one's; classes weigh the same."""
        distance = {name: float(np.abs(np.exp(b) - np.exp(b).mean(0)).sum()) for name, b in self.base.items()}
        return [name for name, far in distance.items() if far >= SEPARATION_TO_REMEASURE * max(distance.values())]

    def remeasured(self, vault: Vault, label: str, multiplier: float, given: tuple[str, CellMap]) -> ClassMarginals:
        """With the separating columns measured again, the two measurements of each bin combined by their precision."""
        bins, tables, std = dict(self.bins), dict(self.tables), dict(self.std)
        for name in (chosen := self.separating()):
            weight = self.bins[name].inside(self.base[name])
            bins[name] = self.bins[name].split((weight / weight.sum(1, keepdims=True)).mean(0), FINER_BINS)
        noise = multiplier * math.sqrt(len(chosen))
        finer = vault.measure_marginals(label, {name: [given, (name, bins[name])] for name in chosen})
        for name, new in finer.items():
            first = np.searchsorted(bins[name].place, np.arange(bins[name].cells))
            parent = self.bins[name].place[first]
            pieces = np.bincount(parent)
            sums = np.stack([np.bincount(parent, row, len(pieces)) for row in new])
            # A bin's first count is one more, noisier, measurement of the sum of its pieces.
            precision = pieces * noise**2 / (pieces * noise**2 + std[name] ** 2)
            tables[name] = new + (precision * (tables[name] - sums) / pieces)[:, parent]
            std[name] = noise * math.sqrt(1 - (precision / pieces)[parent].mean())
        return ClassMarginals.of(bins, tables, std, self.totals)
