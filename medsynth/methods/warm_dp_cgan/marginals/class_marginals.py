"""Class-by-bin marginals, measured again on finer bins for the few columns whose shares differ most between classes.

The rows of a rare class are often in the tails of these columns, which coarse bins blur. Of numbers runs of bins are
counted too: of a rare class the noise of many bins would hide which part of a column it keeps to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ....privacy.accounting.calibration import Plan
from ....privacy.queries.measurements import Measurements
from ....privacy.queries.rows import Axes, CellMap
from ....row_count import NoisyTotal, likely_rows
from ....schema import Schema
from ...shared.bins import Bins
from ...shared.labels import BY_CLASS, REMEASURED
from ...shared.marginals import without_spurious_missing
from ..rules.derived_columns import DerivedColumn
from .class_ratios import ClassCounts, conditionals, noise_of_a_bin
from .merged_bins import MergedBins
from .one_way_marginals import OneWayMarginals
from .weights import centred, noise_of_cells, weights_by_size

Floats = NDArray[np.float64]
SEPARATION_TO_REMEASURE = 0.5  # of the best column's difference between classes, from which a column is measured again
LEAST_SEPARATION = 0.6  # of the best column, about an AuROC of 0.7 by it alone, of classes that all count whole
SEPARATION_NOISE = 3.0  # standard deviations of a bin's noise: a class of so many rows counts half in that difference
FINER_BINS = 60  # of such a column, of even mass where all classes have the same weight
CLASSES_ALONE = "\0classes"  # names the marginal of the classes alone; no column is named so
ALONE_WEIGHT = 2.0  # of it: tables that are centred do not tell how many rows a class has
RUNS_OF = "\0runs of "  # names the marginal of runs of a number's bins; no column is named so
RUNS_WEIGHT = 0.7  # of it, beside that of the bins


@dataclass(frozen=True, kw_only=True)
class ClassMarginals:
    """Noisy counts by class of a column's bins, and of runs of them, and the standard deviation of a bin's noise.

    `base`: log p(bin | class) by them, (classes, bins) a column. `totals`: rows of each class, (classes,). `whole_std`:
    the noise of a bin's rows of all classes, by these counts and the one-way marginals `numbers`. `again`: the columns
    that were measured again.
    """

    bins: dict[str, Bins]
    counts: dict[str, list[ClassCounts]]
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
        cls, bins: dict[str, Bins], counts: dict[str, list[ClassCounts]], totals: Floats, numbers: OneWayMarginals
    ) -> ClassMarginals:
        """With shares cleaned of the noise, which add up over classes to those of the whole table."""
        rows = float(totals.sum())
        found = {name: numbers.with_classes(name, bins[name], some, rows) for name, some in counts.items()}
        ordered = {name: bins[name].ordered for name in counts}
        return cls(
            bins=bins | {name: kept for name, (kept, _, _) in found.items()},
            counts=counts, std={name: noise_of_a_bin(some) for name, some in counts.items()},
            totals=totals, numbers=numbers,
            base=conditionals(counts, totals, ordered, {name: whole for name, (_, whole, _) in found.items()}),
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
        levels = centred({n: cells for n, cells in most.items() if n not in derived and n not in numbers.grids})
        weights = weights_by_size(most, levels)  # by planned sizes: how many bins there are follows from noisy counts
        runs = runs_of({name: bins[name] for name in columns if name in numbers.grids})
        axes |= {RUNS_OF + name: [given, (name, merged)] for name, merged in runs.items()}
        weights |= {RUNS_OF + name: RUNS_WEIGHT * weights[name] for name in runs}
        if levels:
            axes[CLASSES_ALONE], weights[CLASSES_ALONE] = [given], ALONE_WEIGHT
        noisy = vault.measure_marginals(BY_CLASS, axes, weights, centred=tuple(levels))
        std = noise_of_cells(weights, plan.noise(BY_CLASS), levels)
        target = schema.target or ""
        categorical = target and schema.columns[target].categorical  # else its classes are bins of its values
        told = [_by_class(noisy[name], std[name]) for name in axes if name not in levels]
        known = [*numbers.totals, *(NoisyTotal.of(one.table, one.std) for one in told)]
        numbers = numbers.of_rows(likely_rows(plan.rows, known, plan.rows_std))
        totals, noise = class_totals([*told, *numbers.of_levels(target if categorical else "")], numbers.rows)
        totals = without_spurious_missing(totals, schema.columns.get(target), noise)
        noisy |= {name: noisy[name] + totals[:, None] / cells for name, cells in levels.items()}
        counts = {name: [ClassCounts.of_bins(noisy[name], std[name])] for name in most}
        for name, merged in runs.items():
            counts[name].append(ClassCounts(merged.part, noisy[RUNS_OF + name], std[RUNS_OF + name]))
        found = cls.of(bins, counts, totals, numbers)
        if REMEASURED not in plan.events:
            return found
        return found.remeasured(vault, plan.noise(REMEASURED), given, columns, like)

    def separating(self, columns: Sequence[str]) -> list[str]:
        """Those of `columns` whose shares differ between classes nearly as much as the best one's: none where no
        column's do clearly.

        Classes weigh the same but those of few rows beside the noise, whose shares it would make differ.
        """
        distance = {name: self._separation(name) for name in columns}
        best = max(distance, key=distance.__getitem__)
        if distance[best] < LEAST_SEPARATION * self._class_weights(best).mean():
            return []
        return [name for name, far in distance.items() if far >= SEPARATION_TO_REMEASURE * distance[best]]

    def _class_weights(self, column: str) -> Floats:
        """How much each class counts, (classes,) from zero to one: half at three times a bin's noise."""
        noise = SEPARATION_NOISE * self.std[column] + 1e-9  # a fit without noise may have a class without rows
        return self.totals / (self.totals + noise)

    def _separation(self, column: str) -> float:
        shares = np.exp(self.base[column])
        return float(self._class_weights(column) @ np.abs(shares - shares.mean(0)).sum(1))

    def remeasured(
        self, vault: Measurements, multiplier: float, given: tuple[str, CellMap], columns: Sequence[str],
        like: ClassMarginals | None = None,
    ) -> ClassMarginals:  # fmt: skip
        """With the separating ones of `columns` measured again, beside what was measured of them before.

        Where none separates the classes, it is all columns' one-way marginals that are measured again.
        """
        bins, counts = dict(self.bins), dict[str, list[ClassCounts]]()
        chosen = self.separating(columns) if like is None else list(like.again)
        if not chosen:
            others = {name: bins[name].grid for name in columns if name not in self.numbers.grids}
            numbers = self.numbers.measured_again(vault, REMEASURED, multiplier, others)
            return ClassMarginals.of(bins, self.counts, self.totals, numbers)
        for name in chosen:
            if like is not None:
                bins[name] = replace(bins[name], place=like.bins[name].place)
                continue
            weight = self.bins[name].inside(self.base[name])
            bins[name] = self.bins[name].split((weight / weight.sum(1, keepdims=True)).mean(0), FINER_BINS)
        runs = runs_of({name: bins[name] for name in chosen if bins[name].ordered})
        axes: dict[str, Axes] = {name: [given, (name, bins[name])] for name in chosen}
        axes |= {RUNS_OF + name: [given, (name, merged)] for name, merged in runs.items()}
        weights = {key: RUNS_WEIGHT if key.startswith(RUNS_OF) else 1.0 for key in axes}
        levels = centred({name: bins[name].cells for name in chosen if name not in self.numbers.grids})
        noisy = vault.measure_marginals(REMEASURED, axes, weights, centred=tuple(levels))
        noisy |= {name: noisy[name] + self.totals[:, None] / cells for name, cells in levels.items()}
        std = noise_of_cells(weights, multiplier, levels)
        for name in chosen:
            first = np.searchsorted(bins[name].place, np.arange(bins[name].cells))
            before = [one.inside(self.bins[name].place[first]) for one in self.counts[name]]
            counts[name] = [ClassCounts.of_bins(noisy[name], std[name]), *before]
            if name in runs:
                counts[name].append(ClassCounts(runs[name].part, noisy[RUNS_OF + name], std[RUNS_OF + name]))
        some = ClassMarginals.of(bins, counts, self.totals, self.numbers)
        return replace(
            some, counts=self.counts | counts, std=self.std | some.std, base=self.base | some.base,
            whole_std=self.whole_std | some.whole_std, again=tuple(chosen),
        )  # fmt: skip


def runs_of(bins: dict[str, Bins]) -> dict[str, MergedBins]:
    """The runs of bins that are counted beside the bins, a column each."""
    return {name: MergedBins.runs(own) for name, own in bins.items()}


def _by_class(table: Floats, std: float) -> ClassCounts:
    """A noisy table, (classes, cells) or (classes,), as counts by class."""
    return ClassCounts.of_bins(table.reshape(len(table), -1), std)


def class_totals(measured: Sequence[ClassCounts], rows: float) -> tuple[Floats, float]:
    """Rows of each class, (classes,), and the noise of one: counts by class add up to them, with noise by how many
    groups of bins they have.
    """
    weight = np.array([1 / (one.table.shape[1] * one.std**2) for one in measured])
    sums = np.array([one.table.sum(1) for one in measured])
    found = np.maximum(np.tensordot(weight, sums, 1) / weight.sum(), 0.0)
    totals = found * rows / found.sum() if found.sum() > 0 else np.full(len(found), rows / len(found))
    return np.asarray(totals), float(weight.sum() ** -0.5)
