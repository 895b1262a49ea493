"""Counts asked again, on finer bins, of the few columns that tell classes apart: a rare class lives in their tails."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...privacy.vault import CellMap, Vault
from ..shared.bins import Bins
from ..shared.conditionals import conditionals

Floats = NDArray[np.float64]
ENOUGH = 0.7  # of the best column's difference between classes makes another worth asking again
PIECES = 60  # bins of such a column, even in mass over classes that count alike


@dataclass(frozen=True)
class Counts:
    """Noisy tables class by bin, (classes, bins) a column, the bins that they count in, and their noise's std.

    `base`: log p(bin | class) by them, (classes, bins) a column. `totals`: rows of each class, (classes,).
    """

    bins: dict[str, Bins]
    tables: dict[str, Floats]
    std: dict[str, float]
    totals: Floats
    base: dict[str, Floats]

    @classmethod
    def of(cls, bins: dict[str, Bins], tables: dict[str, Floats], std: dict[str, float], totals: Floats) -> Counts:
        """With shares cleaned of the noise."""
        base = conditionals(tables, totals, std, {name: bins[name].ordered for name in tables})
        return cls(bins, tables, std, totals, base)

    def telling(self) -> list[str]:
        """The columns that tell classes apart nearly as well as the one that does best; each class counts alike."""
        apart = {name: float(np.abs(np.exp(b) - np.exp(b).mean(0)).sum()) for name, b in self.base.items()}
        return [name for name, far in apart.items() if far >= ENOUGH * max(apart.values())]

    def refined(self, vault: Vault, label: str, multiplier: float, given: tuple[str, CellMap]) -> Counts:
        """With the telling columns asked again, and what both answers say of each bin put together."""
        bins, tables, std = dict(self.bins), dict(self.tables), dict(self.std)
        for name in (chosen := self.telling()):
            weight = self.bins[name].inside(self.base[name])
            bins[name] = self.bins[name].split((weight / weight.sum(1, keepdims=True)).mean(0), PIECES)
        noise = multiplier * math.sqrt(len(chosen))
        answers = vault.measure_marginals(label, {name: [given, (name, bins[name])] for name in chosen})
        for name, new in answers.items():
            first = np.searchsorted(bins[name].place, np.arange(bins[name].cells))
            parent = self.bins[name].place[first]
            pieces = np.bincount(parent)
            sums = np.stack([np.bincount(parent, row, len(pieces)) for row in new])
            # A bin's first count is one more, noisier, answer on the sum of its pieces.
            trust = pieces * noise**2 / (pieces * noise**2 + std[name] ** 2)
            tables[name] = new + (trust * (tables[name] - sums) / pieces)[:, parent]
            std[name] = noise * math.sqrt(1 - (trust / pieces)[parent].mean())
        return Counts.of(bins, tables, std, self.totals)
