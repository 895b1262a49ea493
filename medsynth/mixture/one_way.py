"""Measure one-way marginals: numbers on fine grids that follow the rows, other columns level by level."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..arrays import Floats
from ..methods.bins import DIGITS_OF, decoder_axes, digit_shares, fine_grid, grids
from ..methods.marginals import ONE_WAY
from ..privacy.accounting.calibration import Plan
from ..privacy.queries.rows import Axes
from ..row_count import NoisyTotal, likely_rows
from ..schema import Schema
from ..schema.columns.grid import Grid
from . import constants as k
from .grids import Survey, surveys
from .weights import centred, noise_of_cells, weights_by_size

if TYPE_CHECKING:  # it imports PyTorch, which a plan does not need
    from ..privacy.queries.measurements import Measurements

LEVELS_OF = "\0levels of "  # prefix of the marginal of a column with few values; no column has this name


@dataclass(frozen=True, kw_only=True)
class OneWayMarginals:
    """Shares of the cells of number columns on their fine `grids`, and of the kinds of numbers by preferred digits.

    `rough`: shares of the same cells from sums of counts alone, to cut bins. `surveys`: the coarse measurements of
    these columns. `counts`: the noisy tables by name. `std`: the standard deviations of their noise. `rows`: the
    estimated row count of the table, from the declared number and the `totals` of these tables.
    """

    grids: dict[str, Grid]
    shares: dict[str, Floats]
    rough: dict[str, Floats]
    surveys: dict[str, Survey]
    counts: dict[str, Floats]
    std: dict[str, float]
    rows: float
    totals: tuple[NoisyTotal, ...]

    @classmethod
    def measure(
        cls, vault: Measurements, schema: Schema, plan: Plan, bins: int, like: OneWayMarginals | None = None
    ) -> OneWayMarginals:
        """Measure number columns with more than `bins` values coarsely, their frequent values, and then finely. Measure
        other columns level by level.

        A row adds its weight to one cell of each table, so the sensitivity is the root of the sum of squared weights.
        Tables of levels are centred, since they contain all rows and the row count is known. `like`: marginals whose
        fine grids are used again.
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
        rough = {n: survey.rough(fine[n], noisy[n], rows, std[n]) for n, survey in found.items()}
        digits = digit_shares(schema, noisy, std, rows, fine, shares)
        return cls(
            grids=fine,
            shares=shares | digits,
            rough=rough,
            surveys=found,
            counts=noisy,
            std=std,
            rows=rows,
            totals=tuple(totals),
        )

    def of_rows(self, rows: float) -> OneWayMarginals:
        """Move all counts to another number of rows. For levels, only deviations from their mean were measured."""
        told = {name: counts for name, counts in self.counts.items() if name.startswith(LEVELS_OF) and len(counts) > 1}
        more = {name: counts + (rows - self.rows) / len(counts) for name, counts in told.items()}
        return replace(self, counts=self.counts | more, rows=rows)

    def of_levels(self, name: str) -> tuple[Floats, float] | None:
        """Return a column's rows by level and their noise, or None for a column on a grid."""
        level = LEVELS_OF + name
        return (self.counts[level], self.std[level]) if level in self.counts else None


def _tables(
    vault: Measurements, label: str, multiplier: float, axes: dict[str, Axes], fine: Collection[str]
) -> tuple[dict[str, Floats], dict[str, float], dict[str, int]]:
    """Return noisy one-way tables of one measurement, the noise of each, and the cell counts of centred tables.

    Weights use planned sizes: the sizes of `fine` grids depend on noisy counts, but sensitivities must be public.
    """
    cells = {name: axis[0][1].cells for name, axis in axes.items()}
    told = centred({name: count for name, count in cells.items() if name.startswith(LEVELS_OF)})
    weights = weights_by_size({n: k.FINE_CELLS if n in fine else count for n, count in cells.items()}, told)
    weights |= {name: k.DIGITS_WEIGHT * weights[name] for name in axes if name.startswith(DIGITS_OF)}
    noisy = vault.measure_marginals(label, axes, weights, centred=tuple(told))
    return noisy, noise_of_cells(weights, multiplier, told), told
