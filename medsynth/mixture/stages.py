"""What a fit measures, in four stages: columns, columns by class, all pairs by class, the strongest pairs again.

Each stage asks one query of contingency tables. Which cells it counts follows from the numbers released before, by sums
and sorting alone: whoever has these numbers asks the same query, on any machine.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ..methods.shared.bins import Bins
from ..methods.shared.decoder import decoder
from ..methods.shared.labels import BY_CLASS
from ..methods.shared.marginals import Condition, cleaned, without_spurious_missing
from ..methods.warm_dp_cgan.marginals.merged_bins import MergedBins
from ..methods.warm_dp_cgan.marginals.one_way_marginals import LEVELS_OF, OneWayMarginals
from ..methods.warm_dp_cgan.rules.constraints import chance_of_breaking
from ..methods.warm_dp_cgan.rules.derived_columns import derived_columns
from ..privacy.accounting.calibration import Plan
from ..privacy.noise import MEAN_SIZE
from ..privacy.queries.measurements import Measurements
from ..privacy.queries.rows import Axes, CellMap
from ..privacy.queries.tables import Marginals
from ..rng import numpy_stream
from ..row_count import NoisyTotal, likely_rows
from ..schema import Schema
from . import constants as k
from .labels import PAIRS, STRONGEST
from .measurement import Floats, Measurement, RuleMeasurement, contrasts

CLASSES = "\0classes"  # the name of the table of classes alone; no column has it
WIDE = 0.5  # the part of a bin's width in where columns are cut, next to its mass
MOST_INPUTS, MOST_CELLS = 3, 1 << 14  # of a rule's columns and of their table; a larger rule is met by sampling alone
TINY = 1e-9  # noise of a fit without any


def weights(free: Mapping[str, int]) -> dict[str, float]:
    """Return the weight of each table by its number of free cells.

    The summed L1 error of all tables is least if noise is in inverse proportion to the third root.
    """
    return {name: round(max(count, 1) ** (1 / 3), 12) for name, count in free.items()}


@dataclass(eq=False, kw_only=True)
class Stages:
    """The measurements of one fit, in order.

    After `one_way`: `bins` of each column, and `condition`, the map from the target's codes to classes.
    After `by_class`: `rows` of the table and `sizes`, those of each class, (classes,). Of each column `mass`, the rows
    of each bin, (bins,), and `shares`, p(bin | class), (classes, bins): rough ones, by which cells are chosen.
    """

    schema: Schema
    vault: Measurements
    plan: Plan
    seed: int
    numbers: OneWayMarginals = field(init=False)
    bins: dict[str, Bins] = field(init=False)
    condition: Condition = field(init=False)
    rows: float = field(init=False)
    sizes: Floats = field(init=False)
    mass: dict[str, Floats] = field(default_factory=dict)
    shares: dict[str, Floats] = field(default_factory=dict)

    @property
    def columns(self) -> list[str]:
        """The columns but the target."""
        return [name for name in self.schema.names if name != self.schema.target]

    @property
    def given(self) -> tuple[str, CellMap]:
        """The target's name and its map to classes; any column and one class without a target."""
        return self.schema.target or "", self.condition

    def one_way(self) -> list[Measurement]:
        """Stage 1: count every column, numbers on grids that follow the rows, and cut numbers into bins."""
        own = self.numbers = OneWayMarginals.measure(self.vault, self.schema, self.plan, k.COLUMN_BINS)
        self.bins, self.condition = decoder(self.schema, own.shares, own.rows, k.COLUMN_BINS, own.grids, WIDE)
        tables = []
        for name in self.columns:
            bins = self.bins[name]
            if name in own.grids:
                counts = np.bincount(bins.place, own.counts[name], bins.cells).astype(np.float64)
                std = own.std[name] * np.sqrt(np.bincount(bins.place, minlength=bins.cells))
                tables.append(
                    Measurement(columns=(name,), maps=(np.eye(bins.cells),), values=counts[None], std=std[None])
                )
            elif bins.cells > 1:
                basis, std = contrasts(bins.cells), np.array(own.std[LEVELS_OF + name])
                values = basis @ own.counts[LEVELS_OF + name]
                tables.append(Measurement(columns=(name,), maps=(basis,), values=values[None], std=std))
        return tables

    def by_class(self) -> list[Measurement | RuleMeasurement]:
        """Stage 2: count every column, and every column that a rule computes, by class; and the classes themselves."""
        derived = derived_columns(self.schema, self.bins, k.COLUMN_BINS, numpy_stream(self.seed, "derived"))
        axes: dict[str, Axes] = {CLASSES: [self.given]}
        axes |= {name: [self.given, (name, self.bins[name])] for name in self.columns}
        axes |= {name: column.axes(self.given) for name, column in derived.items()}
        levels = [n for n in self.columns if n not in self.numbers.grids and self.bins[n].cells > 1]
        free = {name: math.prod(cells.cells for _, cells in own) for name, own in axes.items()}
        # By planned sizes: how many bins a number has follows from noisy counts.
        free |= {n: self.condition.cells * k.COLUMN_BINS for n in [*self.numbers.grids, *derived] if n in axes}
        noisy, std = self._measured(BY_CLASS, axes, free, levels)
        whole = {name: noisy[name].reshape(self.condition.cells, -1) for name in axes if name not in levels}
        self._count_rows(whole, std)
        tables = list[Measurement | RuleMeasurement]()
        for name in self.columns:
            cells = self.bins[name].cells
            self._look_at(name, noisy[name] + (self.sizes[:, None] / cells if name in levels else 0.0), std[name])
            basis = contrasts(cells) if name in levels else np.eye(cells)
            values, noise = noisy[name] @ basis.T, np.array(std[name])
            tables.append(Measurement(columns=(name,), maps=(basis,), values=values, std=noise))
        for name, column in derived.items():
            inside = column.of_inputs(self.bins, numpy_stream(self.seed, "derived"))
            tables.append(RuleMeasurement(columns=column.inputs, map=inside, values=noisy[name], std=std[name]))
        return tables + self._forbidden(min(std.values()))

    def _look_at(self, name: str, table: Floats, std: float) -> None:
        """Set a column's mass and shares by its noisy table by class, (classes, bins), and its one-way marginal."""
        bins, own = self.bins[name], self.numbers.of_rows(self.rows)
        if name in own.grids:
            whole = np.bincount(bins.place, own.counts[name], bins.cells).astype(np.float64)
            noise = own.std[name] * np.sqrt(np.bincount(bins.place, minlength=bins.cells))
        else:
            whole, noise = own.counts[LEVELS_OF + name], np.full(bins.cells, own.std[LEVELS_OF + name])
        one, other = (np.maximum(error, TINY) ** -2 for error in (noise, std * math.sqrt(len(table))))
        both = (one * whole + other * table.sum(0)) / (one + other)
        self.mass[name] = self.rows * cleaned(both, self.rows)
        self.shares[name] = np.stack([cleaned(row, size) for row, size in zip(table, self.sizes, strict=True)])

    def _count_rows(self, whole: Mapping[str, Floats], std: Mapping[str, float]) -> None:
        """Set the number of rows, and of each class, by all tables that every row is in, (classes, cells) each."""
        known = [NoisyTotal.of(table, std[name]) for name, table in whole.items()]
        self.rows = likely_rows(self.plan.rows, [*self.numbers.totals, *known], self.plan.rows_std)
        sums = [(table.sum(1), std[name] * math.sqrt(table.shape[1])) for name, table in whole.items()]
        target = self.schema.columns.get(self.schema.target or "")
        own = LEVELS_OF + (self.schema.target or "")
        if target is not None and target.categorical and own in self.numbers.counts:
            sums.append((self.numbers.of_rows(self.rows).counts[own], self.numbers.std[own]))
        precision = np.array([max(noise, TINY) ** -2 for _, noise in sums])
        found = np.maximum(precision @ np.stack([counts for counts, _ in sums]) / precision.sum(), 0.0)
        found = without_spurious_missing(found, target, float(precision.sum() ** -0.5))
        even = np.full(len(found), self.rows / len(found))
        self.sizes = found * self.rows / found.sum() if found.sum() > 0 else even

    def _forbidden(self, std: float) -> list[RuleMeasurement]:
        """Rows that a rule of the schema forbids, as cells known to be empty: by the least noise of any count."""
        found, rng = list[RuleMeasurement](), numpy_stream(self.seed, "known rules")
        for rule in self.schema.constraints:
            names = tuple(rule.inputs)
            small = len(names) <= MOST_INPUTS and math.prod(self.bins[n].cells for n in names) <= MOST_CELLS
            if small and self.schema.target not in names:
                chance = chance_of_breaking(rule, self.bins, rng)
                if 0 < chance.mean() < 1:
                    empty = np.zeros((self.condition.cells, 1))
                    found.append(RuleMeasurement(columns=names, map=chance[..., None], values=empty, std=std))
        return found

    def pairs(self) -> list[Measurement]:
        """Stage 3: count all pairs of columns by class."""
        names = [name for name in self.columns if self.bins[name].cells > 1]
        pairs = list(itertools.combinations(names, 2))
        if PAIRS not in self.plan.events or not pairs:
            return []
        if len(pairs) > k.MOST_PAIRS:
            drawn = numpy_stream(self.seed, "pairs").permutation(len(pairs))[: k.MOST_PAIRS]
            pairs = [pairs[place] for place in np.sort(drawn)]
        return self._of_pairs(PAIRS, pairs, self.given)

    def strongest(self, pairs: Sequence[Measurement]) -> list[Measurement]:
        """Stage 4: count the pairs that are farthest from independence again, for all classes together.

        The noise of the first count adds its variance in each cell to the squared distance: that is subtracted.
        """
        if STRONGEST not in self.plan.events or not pairs:
            return []
        far = dict[tuple[str, ...], float]()
        for pair in pairs:
            gap = pair.values - pair.if_independent(self.shares, self.sizes)
            far[pair.columns] = float(np.square(gap).sum() - gap.size * pair.std**2)
        chosen = sorted(far, key=far.__getitem__, reverse=True)[: k.STRONG_PAIRS]
        return self._of_pairs(STRONGEST, chosen, ("", Condition(None, None, np.empty(0), 1)))

    def _of_pairs(self, label: str, pairs: Sequence[tuple[str, ...]], given: tuple[str, CellMap]) -> list[Measurement]:
        """Count some pairs, centred along both columns, in bins as fine as the noise allows."""
        mass, classes = self.mass, given[1].cells
        names = list(dict.fromkeys(name for pair in pairs for name in pair))
        fine = bins_by_noise(self.rows, self.plan.noise(label) * math.sqrt(len(pairs)), classes)
        most = {name: fine if self.bins[name].ordered else max(fine, k.PAIR_LEVELS) for name in names}
        merged = {name: MergedBins(self.bins[name], self.bins[name].merged(most[name], mass[name])) for name in names}
        axes: dict[str, Axes] = {"\0".join(p): [given, *((name, merged[name]) for name in p)] for p in pairs}
        free = {key: classes * math.prod(cells.cells - 1 for _, cells in own[1:]) for key, own in axes.items()}
        noisy, std = self._measured(label, axes, free, list(axes))
        basis = {name: contrasts(merged[name].cells) for name in names}
        maps = {name: basis[name][:, merged[name].part] for name in names}
        tables = []
        for pair, (key, table) in zip(pairs, noisy.items(), strict=True):
            one, other = pair
            values = basis[one] @ table @ basis[other].T
            tables.append(
                Measurement(columns=pair, maps=(maps[one], maps[other]), values=values, std=np.array(std[key]))
            )
        return tables

    def _measured(
        self, label: str, axes: Mapping[str, Axes], free: Mapping[str, int], centred: Sequence[str]
    ) -> tuple[dict[str, Floats], dict[str, float]]:
        """Noisy tables, and the standard deviation of the noise of a cell of each."""
        query = Marginals(axes, weights(free), centred=tuple(centred))
        scales = query.scales(self.plan.noise(label) * query.sensitivity(None))
        return self.vault.measure(label, query), dict(zip(axes, (scale.std for scale in scales), strict=True))


def bins_by_noise(rows: float, std: float, classes: int) -> int:
    """Return how many bins a number has in a pair: as many as keep the L1 noise of a pair's table below PAIR_NOISE.

    Args: `std`: of the noise of a cell, if all pairs have as many cells. Classes have much in common, so the noise of
    their tables counts by its mean.
    """
    cells = k.PAIR_NOISE * rows / max(MEAN_SIZE * std * math.sqrt(classes), TINY)
    return min(max(1 + math.floor(math.sqrt(cells)), k.FEWEST_BINS), k.MOST_BINS)
