"""Class-by-bin marginals, measured again on finer bins for the few columns whose shares differ most between classes.

The rows of a rare class are often in the tails of these columns, which coarse bins blur.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...privacy.accounting.calibration import Plan
from ...privacy.queries.measurements import Measurements
from ...privacy.queries.rows import Axes, CellMap
from ...schema import Schema
from ..shared.bins import Bins
from ..shared.conditionals import conditionals
from ..shared.labels import BY_CLASS, REMEASURED
from ..shared.marginals import without_spurious_missing
from .one_way_marginals import OneWayMarginals
from .rules.derived_columns import DerivedColumn
from .weights import noise_of_cells, weights_by_size

Floats = NDArray[np.float64]
SEPARATION_TO_REMEASURE = 0.7  # of the best column's difference between classes, from which a column is measured again
FINER_BINS = 60  # of such a column, of even mass where all classes have the same weight


@dataclass(frozen=True, kw_only=True)
class ClassMarginals:
    """Noisy tables class by bin, (classes, bins) a column, their bins, and the standard deviation of their noise.

    `base`: log p(bin | class) by them, (classes, bins) a column. `totals`: rows of each class, (classes,). `whole_std`:
    the noise of a bin's rows of all classes, by these tables and the one-way marginals `numbers`. `again`: the columns
    that were measured again.
    """

    bins: dict[str, Bins]
    tables: dict[str, Floats]
    std: dict[str, float]
    totals: Floats
    numbers: OneWayMarginals
    base: dict[str, Floats]
    whole_std: dict[str, float]
    again: tuple[str, ...] = ()

    @cached_property
    def mass(self) -> dict[str, Floats]:
        """Rows of each bin by these shares, (bins,) a column."""
        return {name: self.totals @ np.exp(shares) for name, shares in self.base.items()}

    @classmethod
    def of(
        cls, bins: dict[str, Bins], tables: dict[str, Floats], std: dict[str, float], totals: Floats,
        numbers: OneWayMarginals,
    ) -> ClassMarginals:  # fmt: skip
        """With shares cleaned of the noise, which add up over classes to those of the whole table."""
        rows = float(totals.sum())
        found = {n: numbers.with_classes(n, bins[n], table, std[n], rows) for n, table in tables.items()}
        ordered = {name: bins[name].ordered for name in tables}
        return cls(
            bins=bins | {name: kept for name, (kept, _, _) in found.items()},
            tables=tables, std=std, totals=totals, numbers=numbers,
            base=conditionals(tables, totals, std, ordered, {name: whole for name, (_, whole, _) in found.items()}),
            whole_std={name: noise for name, (_, _, noise) in found.items()},
        )  # fmt: skip

    @classmethod
    def measure(
        cls, vault: Measurements, plan: Plan, schema: Schema, given: tuple[str, CellMap], bins: dict[str, Bins],
        derived: dict[str, DerivedColumn], numbers: OneWayMarginals, planned: int, like: ClassMarginals | None = None,
    ) -> ClassMarginals:  # fmt: skip
        """Of columns beside the target and derived ones, by the classes `given`; then of the separating ones again.

        `planned`: the most bins of a number; `like`: marginals whose bins and separating columns these have.
        """
        columns = [name for name in schema.names if name != schema.target]
        axes: dict[str, Axes] = {name: [given, (name, bins[name])] for name in columns}
        axes |= {name: column.axes(given) for name, column in derived.items()}
        bins = bins | {name: column.bins for name, column in derived.items()}
        most = {name: planned if name in numbers.grids or name in derived else bins[name].cells for name in axes}
        weights = weights_by_size(most)  # by planned sizes: how many bins there are follows from noisy counts
        noisy, std = vault.measure_marginals(BY_CLASS, axes, weights), noise_of_cells(weights, plan.noise(BY_CLASS))
        target = schema.target or ""
        categorical = target and schema.columns[target].categorical  # else its classes are bins of its values
        levels, levels_std = numbers.of_levels(target if categorical else "")
        totals, noise = class_totals(noisy | levels, std | levels_std, plan.rows)
        totals = without_spurious_missing(totals, schema.columns.get(target), noise)
        found = cls.of(bins, noisy, std, totals, numbers)
        if REMEASURED not in plan.events:
            return found
        return found.remeasured(vault, plan.noise(REMEASURED), given, columns, like)

    def separating(self, columns: Sequence[str]) -> list[str]:
        """Those of `columns` whose shares differ between classes nearly as much as the best one's; classes weigh the
        same.
        """
        shares = {name: np.exp(self.base[name]) for name in columns}
        distance = {name: float(np.abs(found - found.mean(0)).sum()) for name, found in shares.items()}
        return [name for name, far in distance.items() if far >= SEPARATION_TO_REMEASURE * max(distance.values())]

    def remeasured(
        self, vault: Measurements, multiplier: float, given: tuple[str, CellMap], columns: Sequence[str],
        like: ClassMarginals | None = None,
    ) -> ClassMarginals:  # fmt: skip
        """With the separating ones of `columns` measured again, the two measurements of each bin combined by their
        precision.
        """
        bins, tables, std = dict(self.bins), dict(self.tables), dict(self.std)
        chosen = self.separating(columns) if like is None else list(like.again)
        for name in chosen:
            if like is not None:
                bins[name] = replace(bins[name], place=like.bins[name].place)
                continue
            weight = self.bins[name].inside(self.base[name])
            bins[name] = self.bins[name].split((weight / weight.sum(1, keepdims=True)).mean(0), FINER_BINS)
        axes: dict[str, Axes] = {name: [given, (name, bins[name])] for name in chosen}
        noise = multiplier * math.sqrt(len(chosen))
        for name, new in vault.measure_marginals(REMEASURED, axes).items():
            first = np.searchsorted(bins[name].place, np.arange(bins[name].cells))
            parent = self.bins[name].place[first]
            pieces = np.bincount(parent)
            sums = np.stack([np.bincount(parent, row, len(pieces)) for row in new])
            # A bin's first count is one more, noisier, measurement of the sum of its pieces.
            precision = pieces * noise**2 / (pieces * noise**2 + std[name] ** 2)
            tables[name] = new + (precision * (tables[name] - sums) / pieces)[:, parent]
            std[name] = noise * math.sqrt(1 - (precision / pieces)[parent].mean())
        some = ClassMarginals.of(bins, {n: tables[n] for n in chosen}, std, self.totals, self.numbers)
        base, whole_std = self.base | some.base, self.whole_std | some.whole_std
        return replace(some, tables=tables, base=base, whole_std=whole_std, again=tuple(chosen))


def class_totals(tables: dict[str, Floats], std: dict[str, float], rows: int) -> tuple[Floats, float]:
    """Rows of each class, (classes,), and the noise of one: each class-by-bin table sums to them, with noise by its
    bins and the standard deviation `std` of its cells.
    """
    weight = np.array([1 / (t.shape[1] * std[name] ** 2) for name, t in tables.items()])
    sums = np.array([t.sum(1) for t in tables.values()])
    found = np.maximum(np.tensordot(weight, sums, 1) / weight.sum(), 0.0)
    totals = found * rows / found.sum() if found.sum() > 0 else np.full(len(found), rows / len(found))
    return np.asarray(totals), float(weight.sum() ** -0.5)
