"""One-way marginals: of numbers on fine grids that follow the rows, of other columns level by level; and what they say
of a column's bins together with its class-by-bin marginals.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ....privacy.accounting.calibration import Plan
from ....privacy.queries.measurements import Measurements
from ....privacy.queries.rows import Axes
from ....row_count import NoisyTotal, likely_rows
from ....schema import Schema
from ....transforms.grid import Grid
from ...shared.bins import Bins
from ...shared.conditionals import Counts
from ...shared.cuts import fine_grid, grids
from ...shared.decoder import DIGITS_OF, decoder_axes, digit_shares
from ...shared.labels import ONE_WAY
from .adaptive_grids import FINE_CELLS, Survey, surveys
from .class_ratios import ClassCounts, noise_of_a_bin
from .smoothness import shares_of_cells, shares_of_levels
from .weights import centred, noise_of_cells, weights_by_size

Floats = NDArray[np.float64]
LEVELS_OF = "\0levels of "  # names the marginal of a column whose values are few; no column is named so
DIGITS_WEIGHT = 0.3  # of the marginal of a column's digits, beside one of as many cells
COARSE_OF = "\0coarse "  # names the marginal of a number's coarse cells beside that of its fine ones
COARSE_WEIGHT = 0.7  # of it, beside one of as many fine cells
EMPTY = 1e-9  # share of a cell of a tail that was cut off
TINY = 1e-9  # noise of a fit without any


@dataclass(frozen=True, kw_only=True)
class OneWayMarginals:
    """Shares of the cells of number columns on their fine `grids`, and of the kinds of numbers by preferred digits.

    `surveys` are what the coarse measurements say of these columns; `counts` and `std` are the noisy tables, by name,
    and the standard deviations of their noise. `rows`: of the table, by the declared number and the `totals` of these.
    """

    grids: dict[str, Grid]
    shares: dict[str, Floats]
    surveys: dict[str, Survey]
    counts: dict[str, Floats]
    std: dict[str, float]
    rows: float
    totals: tuple[NoisyTotal, ...]

    @classmethod
    def measure(
        cls, vault: Measurements, schema: Schema, plan: Plan, bins: int, like: OneWayMarginals | None = None
    ) -> OneWayMarginals:
        """Of number columns with more than `bins` values: coarsely, their frequent values, then finely; of the others
        level by level.

        A row adds its weight to one cell of each table: sensitivity the root of the sum of squared weights. Tables of
        levels are centred, since all rows are in them and their number is known. `like`: marginals on whose fine grids
        these are.
        """
        numbers = grids(schema, bins)
        found = surveys(vault, plan, {name: schema.columns[name] for name in numbers})
        fine = {name: survey.fine_grid() for name, survey in found.items()} if like is None else like.grids
        few = {name: column for name, column in schema.columns.items() if name not in fine}
        axes: dict[str, Axes] = {LEVELS_OF + name: [(name, fine_grid(column))] for name, column in few.items()}
        axes |= decoder_axes(schema, fine)
        noisy, std, told = _tables(vault, ONE_WAY, plan.noise(ONE_WAY), axes, fine)
        totals = [NoisyTotal.of(survey.counts, survey.std) for survey in found.values()]
        totals += [NoisyTotal.of(noisy[name], std[name]) for name in fine]
        rows = likely_rows(plan.rows, totals, plan.rows_std)
        noisy |= {name: noisy[name] + rows / count for name, count in told.items()}
        shares = {n: survey.shares(fine[n], noisy[n], rows, std[n]) for n, survey in found.items()}
        digits = digit_shares(schema, noisy, std, rows, fine, shares)
        return cls(
            grids=fine, shares=shares | digits, surveys=found, counts=noisy, std=std, rows=rows, totals=tuple(totals)
        )

    def of_rows(self, rows: float) -> OneWayMarginals:
        """The same of a table of so many rows, as more measurements tell: levels are known beside their mean count."""
        told = {name: counts for name, counts in self.counts.items() if name.startswith(LEVELS_OF) and len(counts) > 1}
        more = {name: counts + (rows - self.rows) / len(counts) for name, counts in told.items()}
        return replace(self, counts=self.counts | more, rows=rows)

    def measured_again(
        self, vault: Measurements, label: str, multiplier: float, levels: Mapping[str, Grid]
    ) -> OneWayMarginals:
        """These, with the coarse and fine tables of numbers and those of the columns `levels` measured once more.

        Both measurements of a cell count, each by its noise. Sensitivity as in `measure`.
        """
        axes: dict[str, Axes] = {name: [(name, grid)] for name, grid in self.grids.items()}
        axes |= {LEVELS_OF + name: [(name, grid)] for name, grid in levels.items()}
        axes |= {COARSE_OF + name: [(name, survey.coarse)] for name, survey in self.surveys.items()}
        noisy, std, told = _tables(vault, label, multiplier, axes, self.grids)
        noisy |= {name: noisy[name] + self.rows / count for name, count in told.items()}
        counts, noise, found = dict(self.counts), dict(self.std), dict(self.surveys)
        for name in counts.keys() & axes.keys():
            counts[name], noise[name] = both(counts[name], noise[name], noisy[name], std[name])
        for name, survey in self.surveys.items():
            table, error = both(survey.counts, survey.std, noisy[COARSE_OF + name], std[COARSE_OF + name])
            found[name] = replace(survey, counts=table, std=error)
        first = {n: some.shares(self.grids[n], counts[n], self.rows, noise[n]) for n, some in found.items()}
        return replace(self, counts=counts, std=noise, surveys=found, shares=self.shares | first)

    def of_levels(self, name: str) -> list[ClassCounts]:
        """A column's rows by level, as counts of classes: none of a column on a grid."""
        level = LEVELS_OF + name
        if level not in self.counts:
            return []
        return [ClassCounts.of_bins(self.counts[level][:, None], self.std[level])]

    def with_classes(
        self, name: str, bins: Bins, by_class: Sequence[ClassCounts], rows: float
    ) -> tuple[Bins, Floats, float]:
        """A column by all that was measured of it: its one-way marginals, and its counts by class, whose sums over
        classes are more of them.

        Returns its bins, with shares of fine cells that add up to those of the bins; the shares of the bins, (bins,);
        and the noise of such a count.
        """
        sums = [one.inside(bins.place).of_all for one in by_class]
        of_a_bin = noise_of_a_bin(by_class) * math.sqrt(len(by_class[0].table))
        if name in self.surveys:
            shares = self._on_grid(name, sums, rows)
            noise = self.std[name] * math.sqrt(np.bincount(bins.place[shares > 0], minlength=bins.cells).mean())
            whole = np.bincount(bins.place, np.maximum(shares, EMPTY), bins.cells)
        else:
            level = LEVELS_OF + name
            own = [Counts.of_cells(self.counts[level], self.std[level])] if level in self.counts else []
            noise = self.std.get(level, math.inf)
            whole = np.bincount(bins.place, shares_of_levels([*own, *sums], rows), bins.cells)
            before = np.maximum(np.bincount(bins.place, bins.shares, bins.cells), 1e-12)
            shares = bins.shares * (whole / before)[bins.place]
        return replace(bins, shares=shares), whole / whole.sum(), (noise**-2 + of_a_bin**-2) ** -0.5

    def _on_grid(self, name: str, sums: Sequence[Counts], rows: float) -> Floats:
        """Shares of the cells of a column's fine grid, (cells,), by its one-way marginals and the `sums` over classes;
        none in tails that were cut off.
        """
        survey, fine = self.surveys[name], self.grids[name]
        first = self.shares[name]
        inside = first > 0
        own = survey.measured(fine, self.counts[name], self.std[name])
        measured = [one.on(inside) for one in (*own, *sums)]
        shares = np.zeros(len(first))
        shares[inside] = shares_of_cells(
            measured, rows, survey.widths(fine)[inside], rows * first[inside], survey.along(fine)[inside]
        )
        return shares


def _tables(
    vault: Measurements, label: str, multiplier: float, axes: dict[str, Axes], fine: Collection[str]
) -> tuple[dict[str, Floats], dict[str, float], dict[str, int]]:
    """Noisy one-way tables of one measurement, the noise of a cell of each, and the cells of those that are centred.

    By planned sizes: those of `fine` grids follow from noisy counts, and sensitivities are to be public beforehand.
    """
    cells = {name: axis[0][1].cells for name, axis in axes.items()}
    told = centred({name: count for name, count in cells.items() if name.startswith(LEVELS_OF)})
    weights = weights_by_size({n: FINE_CELLS if n in fine else count for n, count in cells.items()}, told)
    for kind, weight in ((DIGITS_OF, DIGITS_WEIGHT), (COARSE_OF, COARSE_WEIGHT)):
        weights |= {name: weight * weights[name] for name in axes if name.startswith(kind)}
    noisy = vault.measure_marginals(label, axes, weights, centred=tuple(told))
    return noisy, noise_of_cells(weights, multiplier, told), told


def both(one: Floats, std: float, other: Floats, other_std: float) -> tuple[Floats, float]:
    """Two measurements of the same counts as one, and the standard deviation of its noise.

    >>> both(np.array([0.0]), 1.0, np.array([1.0]), 2.0)
    (array([0.2]), 0.8944271909999159)
    """
    weight, more = max(std, TINY) ** -2, max(other_std, TINY) ** -2
    return np.asarray((weight * one + more * other) / (weight + more)), (weight + more) ** -0.5
