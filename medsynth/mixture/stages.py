"""Measure in stages: columns, columns by class, all pairs by class, the strongest pairs again, declared regressions.

Each stage needs what the stages before it released. For `age`, `sex` and the target `ill` this happens, in this order:

1. `one_way` counts each column. It cuts age into at most 20 bins by these counts, and makes the map from `ill` to
   classes. From here on all queries use these bins.
2. `by_class` counts ill, (ill, age), (ill, sex) and each column that a rule computes. Now the rows of the table and of
   each class are known more precisely (`_count_rows`), and each bin's rough share in each class (`_look_at`).
3. `pairs` counts (ill, age, sex), in coarser bins: as fine as the noise allows. Bins of a number are merged by their
   mass and width in stage 1, rare levels by their mass.
4. `strongest` finds the pairs that are farthest from independence in 3. It counts these again, without the class. A
   replicate counts the pairs that its fit chose.
5. `crossed` measures products of two and of three columns, if the setting `products` asks for it (`crossed.py`).
6. `declared` measures sums of products, if the user declared regressions (`declared.py`).

The results are measurements (`measurement.py`), to which `estimate.py` fits the model. A wide table has no pairs:
`matrix.py` replaces stages 3 and 4. The plan fixes the noise of each stage before a row is read, so every planned
stage measures something, even if nothing is left to ask (`in_vain`).

The cells of a query are computed from released numbers, by sums and sorting alone. So the same numbers give the same
query on any machine. This is how a replicate asks the queries of its fit again: its `Stages` has the fit's as `like`,
and takes bins, cells and chosen pairs from there, but values from its own perturbed measurements.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from ..arrays import Floats, Whole
from ..methods.bins import WIDE, Bins, decoder
from ..methods.marginals import TOGETHER, Conditioning, cleaned, spurious_missing, without_spurious_missing
from ..methods.regressions import Regression
from ..privacy.accounting.calibration import Plan
from ..privacy.noise import MEAN_SIZE
from ..privacy.queries.measurements import Measurements
from ..privacy.queries.rows import Axes, CellMap
from ..privacy.queries.tables import Marginals
from ..rng import numpy_stream
from ..row_count import NoisyTotal, likely_rows
from ..schema import Schema
from . import constants as k
from .constants import BY_CLASS, CROSSED, DECLARED, PAIRS, STRONGEST
from .measurement import Measured, Measurement, MomentMeasurement, RuleMeasurement, contrasts
from .one_way import LEVELS_OF, OneWayMarginals
from .rules import DerivedColumn, derived_columns
from .weights import weights_by_size

CLASSES = "\0classes"  # the name of the table of classes; no column has this name
TINY = 1e-9  # noise assumed in a fit without noise


@dataclass(eq=False, kw_only=True)
class Stages:
    """The measurements of one fit, in order.

    `regressions`: the declared ones. `like`: the measurements of another fit, whose bins and choices are used again.
    `one_way` sets `bins` of each column, `cut` (the same bins with rough shares, from which queries are made) and
    `condition` (the map from the target's codes to classes).
    `by_class` sets the table's `rows` and `sizes`, the rows of each class, (classes,), with the standard deviation of
    their noise. It also sets rough estimates to choose cells: `mass`, the rows of each bin of a column, (bins,), and
    `shares`, p(bin | class), (classes, bins).
    `absent`: the bins of missing values that noise alone explains, in columns whose unreadable cells are missing.
    """

    schema: Schema
    vault: Measurements
    plan: Plan
    seed: int
    regressions: Sequence[Regression] = ()
    like: Stages | None = None
    numbers: OneWayMarginals = field(init=False)
    bins: dict[str, Bins] = field(init=False)
    cut: dict[str, Bins] = field(init=False)
    condition: Conditioning = field(init=False)
    rows: float = field(init=False)
    sizes: Floats = field(init=False)
    sizes_std: float = field(init=False)
    derived: dict[str, DerivedColumn] = field(init=False)
    mass: dict[str, Floats] = field(init=False, default_factory=dict)
    shares: dict[str, Floats] = field(init=False, default_factory=dict)
    absent: dict[str, Whole] = field(init=False, default_factory=dict)
    chosen: list[tuple[str, ...]] = field(init=False, default_factory=list)

    def measured(self) -> list[Measured]:
        """Return all measurements of a fit, stage by stage."""
        found: list[Measured] = [*self.one_way(), *self.by_class()]
        pairs = self.pairs()
        return [*found, *pairs, *self.strongest(pairs), *self.crossed(), *self.declared()]

    @property
    def columns(self) -> list[str]:
        """All columns except the target."""
        return [name for name in self.schema.names if name != self.schema.target]

    @property
    def given(self) -> tuple[str, CellMap]:
        """The target's name and the map to classes. Without a target there is one class."""
        return self.schema.target or "", self.condition

    def one_way(self) -> list[Measurement]:
        """Run stage 1: count every column, numbers on grids that follow the rows, and cut numbers into bins."""
        like = self.like.numbers if self.like else None
        own = self.numbers = OneWayMarginals.measure(self.vault, self.schema, self.plan, k.BINS, like)
        if self.like:
            # Same bins, other shares: a replicate's values must be of the cells that were measured.
            self.cut = self.like.cut
            self.bins = {n: replace(b, shares=own.shares.get(n, b.shares)) for n, b in self.like.bins.items()}
            self.condition = self.like.condition
        else:
            rough = own.shares | own.rough
            self.cut, self.condition = decoder(self.schema, rough, own.rows, k.BINS, own.grids, WIDE)
            self.bins = {n: replace(b, shares=own.shares.get(n, b.shares)) for n, b in self.cut.items()}
        tables = []
        for name in self.columns:
            counts, std = self._own_counts(name)
            centred = name not in own.grids
            tables.append(Measurement(columns=(name,), values=counts[None], std=std[None], centred=centred))
        return tables

    def _own_counts(self, name: str) -> tuple[Floats, Floats]:
        """Return noisy one-way counts of a column's bins, and the standard deviation of the noise of each, (bins,)."""
        bins, own = self.bins[name], self.numbers
        if name in own.grids:
            counts = np.bincount(bins.place, own.counts[name], bins.cells).astype(np.float64)
            return counts, own.std[name] * np.sqrt(np.bincount(bins.place, minlength=bins.cells))
        return own.counts[LEVELS_OF + name], np.full(bins.cells, own.std[LEVELS_OF + name])

    def by_class(self) -> list[Measurement | RuleMeasurement]:
        """Run stage 2: count the classes, and by class every column and every column that a rule computes."""
        if self.like:
            self.derived = self.like.derived
        else:
            stream = numpy_stream(self.seed, "derived")
            self.derived = derived_columns(self.schema, self.cut, k.BINS, stream)
        derived = self.derived
        axes: dict[str, Axes] = {CLASSES: [self.given]}
        axes |= {name: [self.given, (name, self.bins[name])] for name in self.columns}
        axes |= {name: column.axes(self.given) for name, column in derived.items()}
        levels = [n for n in self.columns if n not in self.numbers.grids and self.bins[n].cells > 1]
        free = {name: math.prod(cells.cells for _, cells in own) for name, own in axes.items()}
        # Tables with more free cells get less noise in each (weights.py).
        # Planned sizes, because the number of bins of a number depends on noisy counts.
        free |= {n: self.condition.cells * k.BINS for n in [*self.numbers.grids, *derived] if n in axes}
        noisy, std = self._measured(BY_CLASS, axes, free, levels)
        whole = {name: noisy[name].reshape(self.condition.cells, -1) for name in axes if name not in levels}
        self._count_rows(whole, std)
        tables = list[Measurement | RuleMeasurement]()
        for name in self.columns:
            cells = self.bins[name].cells
            centred = name in levels  # released minus its mean: put the mean back, which follows from the class's rows
            self._look_at(name, noisy[name] + (self.sizes[:, None] / cells if centred else 0.0), std[name])
            tables.append(Measurement(columns=(name,), values=noisy[name], std=np.array(std[name]), centred=centred))
        for name, column in derived.items():
            inside = column.of_inputs(self.bins, numpy_stream(self.seed, "derived"))
            tables.append(RuleMeasurement(columns=column.inputs, map=inside, values=noisy[name], std=std[name]))
        return tables

    def _look_at(self, name: str, table: Floats, std: float) -> None:
        """Set a column's mass and shares from its noisy table by class, (classes, bins), and its one-way marginal."""
        whole, noise = self._own_counts(name)
        # Two counts of the same rows, weighted by their precision.
        one, other = (np.maximum(error, TINY) ** -2 for error in (noise, std * math.sqrt(len(table))))
        both = (one * whole + other * table.sum(0)) / (one + other)
        self.mass[name] = self.rows * cleaned(both, self.rows)
        self.absent[name] = spurious_missing(both, (one + other) ** -0.5, self.schema.columns[name])
        self.shares[name] = np.stack([cleaned(row, size) for row, size in zip(table, self.sizes, strict=True)])

    def _count_rows(self, whole: Mapping[str, Floats], std: Mapping[str, float]) -> None:
        """Estimate the rows of the table and of each class from all tables of all rows, (classes, cells) each.

        The sum of a table of n cells has n times the variance of one cell, so tables of few cells count most.
        """
        # First the table's rows, from all tables of either stage; then their parts in each class, which add up to them.
        known = [NoisyTotal.of(table, std[name]) for name, table in whole.items()]
        self.rows = likely_rows(self.plan.rows, [*self.numbers.totals, *known], self.plan.rows_std)
        self.numbers = self.numbers.of_rows(self.rows)
        target = self.schema.columns.get(self.schema.target or "")
        categorical = target is not None and target.categorical  # otherwise its classes are bins of its values
        levels = self.numbers.of_levels((self.schema.target or "") if categorical else "")
        counted = [(table, std[name]) for name, table in whole.items()]
        counted += [(levels[0][:, None], levels[1])] if levels else []
        precision = np.array([1 / (table.shape[1] * max(noise, TINY) ** 2) for table, noise in counted])
        found = np.maximum(np.average([table.sum(1) for table, _ in counted], 0, precision), 0.0)
        noise = self.sizes_std = float(precision.sum() ** -0.5)
        self.sizes = scaled(without_spurious_missing(scaled(found, self.rows), target, noise), self.rows)

    def pairs(self) -> list[Measurement]:
        """Run stage 3: count all pairs of columns by class."""
        names = [name for name in self.columns if self.bins[name].cells > 1]
        pairs = list(itertools.combinations(names, 2))
        if PAIRS not in self.plan.events:
            return []
        return self._of_pairs(PAIRS, pairs, self.given) if pairs else self.in_vain(PAIRS)

    def strongest(self, pairs: Sequence[Measurement]) -> list[Measurement]:
        """Run stage 4: count the pairs that are farthest from independence again, for all classes together.

        The noise of the first count adds its variance to the squared distance in each cell, so it is subtracted.
        """
        if STRONGEST not in self.plan.events:
            return []
        if not pairs:
            return self.in_vain(STRONGEST)
        far = dict[tuple[str, ...], float]()
        for pair in pairs:
            gap = pair.values - pair.if_independent(self.shares, self.sizes)
            far[pair.columns] = float(np.square(gap).sum() - gap.size * pair.std**2)
        chosen = sorted(far, key=far.__getitem__, reverse=True)[: k.STRONG_PAIRS]
        self.chosen = self.like.chosen if self.like else chosen
        return self._of_pairs(STRONGEST, self.chosen, TOGETHER)

    def in_vain(self, label: str) -> list[Measurement]:
        """Count the classes under this label, and return nothing.

        A fit measures all that it planned. But columns that turn out to have one value leave nothing to ask about.
        """
        self._measured(label, {CLASSES: [self.given]}, {CLASSES: self.condition.cells}, ())
        return []

    def crossed(self) -> list[MomentMeasurement]:
        """Run stage 5, if it is planned: measure products of two and of three columns."""
        if CROSSED not in self.plan.events:
            return []
        from .crossed import crossed_moments  # imports PyTorch

        noise, own = self.plan.noise(CROSSED), self.like or self
        moments = crossed_moments(own.weighed(), self.schema.names, noise, self.plan.rows)  # features are the fit's
        if moments is None:
            self.in_vain(CROSSED)
            return []
        return [moments.measure(self.vault, CROSSED, noise, self.bins, k.CROSSED_FIRMNESS)]

    def weighed(self) -> dict[str, Bins]:
        """Return the bins of all columns with shares of rows by fine cell, also for columns of levels."""
        found = {name: self.bins[name] for name in self.columns}
        for name in self.columns:
            if name not in self.numbers.grids:
                place = found[name].place
                found[name] = replace(found[name], shares=(self.mass[name] / np.bincount(place))[place])
        return found

    def declared(self) -> list[MomentMeasurement]:
        """Run stage 6: measure means, squares and products of the columns of declared regressions."""
        if DECLARED not in self.plan.events:
            return []
        from .declared import declared_moments  # imports PyTorch

        noise = self.plan.noise(DECLARED)
        bins = (self.like or self).bins  # the multiplied values are those of the fit
        moments = declared_moments(self.regressions, bins, self.given, self.schema.names, noise, self.plan.rows)
        # The error that counts here is that of the coefficients, so these sums get a larger weight than their noise.
        return [moments.measure(self.vault, DECLARED, noise, self.bins, k.DECLARED_FIRMNESS)]

    def _of_pairs(self, label: str, pairs: Sequence[tuple[str, ...]], given: tuple[str, CellMap]) -> list[Measurement]:
        """Count some pairs, centred along both columns, in bins as fine as the noise allows."""
        own = self.like or self
        classes = given[1].cells
        names = list(dict.fromkeys(name for pair in pairs for name in pair))
        fine = bins_by_noise(own.rows, self.plan.noise(label) * math.sqrt(len(pairs)), classes)
        most = {name: fine if self.bins[name].ordered else max(fine, k.PAIR_LEVELS) for name in names}
        parts = {name: own.parts(name, most[name]) for name in names}
        merged = {name: own.cut[name].grouped(parts[name]) for name in names}
        axes: dict[str, Axes] = {"\0".join(p): [given, *((name, merged[name]) for name in p)] for p in pairs}
        free = {key: classes * math.prod(cells.cells - 1 for _, cells in both[1:]) for key, both in axes.items()}
        noisy, std = self._measured(label, axes, free, list(axes))
        # A centred table says nothing about its own margins: keep only the components that it measures.
        basis = {name: contrasts(merged[name].cells) for name in names}
        maps = {name: basis[name][:, parts[name]] for name in names}
        tables = []
        for pair, (key, table) in zip(pairs, noisy.items(), strict=True):
            one, other = pair
            values = basis[one] @ table @ basis[other].T
            tables.append(
                Measurement(columns=pair, maps=(maps[one], maps[other]), values=values, std=np.array(std[key]))
            )
        return tables

    def parts(self, name: str, most: int) -> Whole:
        """Return a coarser bin for each bin of a column. Absent missing values join the commonest bin: a cell of their
        own would add noise alone.
        """
        part = self.cut[name].merged(most, self.mass[name])
        gone = self.absent[name]
        left = np.delete(np.arange(len(part)), gone)
        if len(np.unique(part[left])) > 1:
            part[gone] = part[left[self.mass[name][left].argmax()]]
        return np.unique(part, return_inverse=True)[1]

    def _measured(
        self, label: str, axes: Mapping[str, Axes], free: Mapping[str, int], centred: Sequence[str]
    ) -> tuple[dict[str, Floats], dict[str, float]]:
        """Return noisy tables, and the standard deviation of the noise of a cell in each."""
        query = Marginals(axes, weights_by_size(free), centred=tuple(centred))
        scales = query.scales(self.plan.noise(label) * query.sensitivity(None))
        return self.vault.measure(label, query), dict(zip(axes, (scale.std for scale in scales), strict=True))


def scaled(counts: Floats, total: float) -> Floats:
    """Return counts scaled to the sum `total`, or even counts if all are zero."""
    whole = counts.sum()
    return np.asarray(counts * total / whole if whole > 0 else np.full(len(counts), total / len(counts)))


def bins_by_noise(rows: float, std: float, classes: int) -> int:
    """Return the number of bins of a number in a pair, at least FEWEST_BINS.

    With more than these, the L1 noise of a pair's table stays below PAIR_NOISE.

    Args: `std`: the noise of a cell, if all pairs have equally many cells. Classes are similar, so the mean of their
    tables' noise counts.
    """
    cells = k.PAIR_NOISE * rows / max(MEAN_SIZE * std * math.sqrt(classes), TINY)
    return min(max(1 + math.floor(math.sqrt(cells)), k.FEWEST_BINS), k.BINS)
