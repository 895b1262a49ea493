"""Measure one-way marginals on fine grids that follow the rows. A coarse noisy histogram shows where cells are needed,
and a frequent value gets its own cell. On an even grid, most cells would be empty, and their noise would make tails.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..arrays import Floats, Mask, Whole
from ..methods.marginals import TOGETHER, Counts, Sums, cleaned, mean_over_priors, posterior_mode
from ..privacy.accounting.calibration import Plan
from ..privacy.queries.cells import EveryCode
from ..privacy.queries.rows import Axes
from ..schema import Column
from ..schema.columns.grid import Grid, grid
from ..schema.columns.number import Quantity
from ..schema.magnitudes import clear_stds
from . import constants as k
from .constants import COARSE, VALUES

if TYPE_CHECKING:  # it imports PyTorch, which a plan does not need
    from ..privacy.queries.measurements import Measurements

TINY = 1e-12


@dataclass(frozen=True, kw_only=True)
class Survey:
    """The coarse measurements of a column: noisy `counts` of `coarse` cells, and the `frequent` values.

    `limits`: how many cells at each end are limits of an assay. They count as frequent, and such an end has no tail:
    numbers reach up to the limit.
    """

    coarse: Grid
    counts: Floats
    std: float
    frequent: Whole
    limits: tuple[int, int] = (0, 0)

    @property
    def values(self) -> int:
        """The number of coarse cells of values. Cells of missing values come after them."""
        return self.coarse.cells - self.coarse.gaps

    def fine_grid(self) -> Grid:
        """Return a grid of coarse cells cut in proportion to their rows, with a cell for each frequent value."""
        mass = np.maximum(self.counts[: self.values] - self.std, 0)
        share = mass / max(mass.sum(), 1e-12)
        edges = [np.concatenate([self.frequent, self.frequent + 1, self.coarse.edges])]
        for first, last, part in zip(self.coarse.edges, self.coarse.edges[1:], share, strict=False):
            pieces = int(np.clip(round(k.FINE_CELLS * part), 1, last - first))
            edges.append(np.arange(first, last, -(-int(last - first) // pieces)))
        return Grid(np.unique(np.concatenate(edges)), self.coarse.gaps)

    def parents(self, fine: Grid) -> Whole:
        """Return the coarse cell of each cell of `fine`: (cells,)."""
        return np.asarray(np.searchsorted(self.coarse.ends, fine.ends[:-1], side="right") - 1)

    def measured(self, fine: Grid, counts: Floats, std: float) -> list[Counts]:
        """Return the fine and the coarse counts as counts of groups of the cells of `fine`."""
        return [Counts.of_cells(counts, std), Counts(self.parents(fine), self.counts, self.std)]

    def rough(self, fine: Grid, counts: Floats, rows: float, std: float) -> Floats:
        """Return rough shares of the cells of `fine`, (cells,), from sums of noisy counts, to cut bins.

        They involve no fit, so that queries derived from them are the same on every machine.
        """
        parent = self.parents(fine)
        pieces = np.bincount(parent)
        off = (self.counts - np.bincount(parent, counts)) / (pieces + (self.std / max(std, TINY)) ** 2)
        both = np.where(self.inside(fine, counts, std, rows), counts + off[parent], 0.0)
        return cleaned(both, rows)

    def inside(self, fine: Grid, counts: Floats, std: float, rows: float) -> Mask:
        """Return which cells of `fine` are not in a tail of noise, (cells,)."""
        parent = self.parents(fine)
        pieces, sums = np.bincount(parent), np.bincount(parent, counts)
        # The weight of the coarse count compared with the sum of its pieces.
        precision = pieces * std**2 / np.maximum(pieces * std**2 + self.std**2, TINY)
        # The noise, by both measurements, of a coarse cell with one fine cell, as in tails.
        alone = std * self.std / max(math.hypot(std, self.std), TINY)
        return self._kept(sums + precision * (self.counts - sums), alone, rows)[parent]

    def shares(self, fine: Grid, counts: Floats, rows: float, std: float) -> Floats:
        """Return the shares of the cells of `fine`, (cells,), by their noisy counts and the coarse counts.

        These are the most likely smooth log densities; frequent values are separate. Tails that do not rise above the
        noise of the coarse cells are cut off, because noise at the far end of the bounds would become outliers.
        """
        measured = self.measured(fine, counts, std)
        shares = np.exp(posterior_mode(Sums(measured, rows), np.log(self.widths(fine)), self._prior(fine)))
        inside = self.inside(fine, counts, std, rows)
        some = [one.on(inside) for one in measured]
        found = np.zeros(fine.cells)
        found[inside] = shares_of_cells(
            some, rows, self.widths(fine)[inside], rows * shares[inside], self.along(fine)[inside]
        )
        return found

    def widths(self, fine: Grid) -> Floats:
        """Return the shares of the cells of `fine`, (cells,), if the density were even."""
        widths = np.diff(fine.ends).astype(np.float64)
        return np.asarray(widths / widths.sum())

    def along(self, fine: Grid) -> Mask:
        """Return which cells of `fine` should be smooth: those of values that are not frequent."""
        return ~np.isin(fine.ends[:-1], self.frequent) & (np.arange(fine.cells) < fine.cells - fine.gaps)

    def _prior(self, fine: Grid) -> Floats:
        smooth = np.flatnonzero(self.along(fine))
        curvature = np.zeros((max(len(smooth) - 2, 0), fine.cells))
        curvature[:, smooth] = np.diff(np.eye(len(smooth)), 2, axis=0)
        return np.asarray(k.FLAT * np.eye(fine.cells) + curvature.T @ curvature / max(k.CURVATURES) ** 2)

    def _kept(self, counts: Floats, std: float, rows: float) -> Mask:
        """Return which coarse cells are not in a tail of noise, by their noisy `counts`: (cells,).

        At each end, keep the outermost clear cell and all cells inside it. Cut off cells beyond it only if their
        expected rows are at most TAIL_SHARE of the rows, or TAIL_STDS of the noise if that is less.
        """
        kept = np.ones(len(counts), np.bool_)
        limit = k.TAIL_STDS * std
        most = min(k.TAIL_SHARE * rows, k.TAIL_STDS * std)
        ends = (np.arange(self.values), np.arange(self.values)[::-1])
        for order in [order for order, limits in zip(ends, self.limits, strict=True) if not limits]:
            rises = counts[order] > limit
            rises |= np.cumsum(counts[order]) > limit * np.sqrt(np.arange(1, self.values + 1))
            first = int(rises.argmax())
            beyond = expected_beyond(counts[order[:first]][::-1], float(counts[order[first : first + 2]].mean()), std)
            kept[order[: first - int((beyond > most).sum())]] = False
        return kept if kept[: self.values].any() else np.ones_like(kept)  # if no cell is clear, there is no tail


def shares_of_cells(measured: Sequence[Counts], rows: float, widths: Floats, expected: Floats, along: Mask) -> Floats:
    """Return the shares of a number's cells, (cells,), as smooth as their counts suggest.

    Ages are smooth: a cell's neighbours are nearly as informative as its own count. In other columns, each cell differs
    from the next. So shares are means over priors of the log density, weighted by the likelihood of the counts. Priors
    differ in curvature and in deviations of cells from the curve. They always allow the Poisson variation of the rows
    in a cell.

    Args: `widths`: shares if the density were even; `expected`: a first estimate of the rows of each cell; `along`:
    cells that follow the curve. The other cells are frequent and missing values.
    """
    order = np.flatnonzero(along)
    cells = len(widths)
    steps = np.diff(np.eye(len(order)), 2, axis=0)
    chance = 1 / np.maximum(expected[order], 1.0)  # variance of the logarithm of a Poisson number

    spreads = list[Floats]()
    for curvature in k.CURVATURES:
        curve = np.linalg.inv(steps.T @ steps / curvature**2 + k.FLAT * np.eye(len(order)))
        for roughness in k.ROUGHNESSES:
            spread = np.eye(cells) / k.FLAT
            spread[np.ix_(order, order)] = curve + np.diag(chance + roughness**2)
            spreads.append(spread)
    return mean_over_priors(measured, rows, np.log(widths), np.linalg.inv(np.stack(spreads)))


def expected_beyond(counts: Floats, level: float, std: float) -> Floats:
    """Return the rows expected in each cell of a tail and all cells beyond it, by noisy `counts` outwards: (cells,).

    `level`: the count of the cells before the tail. A tail falls linearly from a part of `level` to zero. All lengths
    are equally likely a priori. The result is the posterior mean given the noisy counts.
    """
    if not len(counts):
        return np.zeros(0)
    places, lengths = np.arange(1, len(counts) + 1), np.arange(len(counts) + 1)
    shapes = np.maximum(1 - places / (lengths[:, None] + 1), 0) * max(level, 0.0)
    tails = np.concatenate([part * shapes for part in k.TAIL_PARTS])
    odds = (tails @ counts - (tails**2).sum(1) / 2) / std**2  # log odds
    likely = np.exp(odds - odds.max())
    return np.asarray(np.cumsum((likely / likely.sum() @ tails)[::-1])[::-1])


def coarse_grid(column: Column) -> Grid:
    """Return the grid of a column's coarse measurement: even cells, or cells that end at the column's cut points.

    With cut points there are fewer even cells, so that the parts between cut points have few cells. Even edges within
    half a cell of a cut point are left out.
    """
    if not isinstance(column, Quantity) or not column.cut_codes:
        return grid(column, k.COARSE_CELLS)
    even = grid(column, k.BINS)
    cuts = np.array(column.cut_codes, np.int64)
    place = np.interp(cuts, even.edges, np.arange(len(even.edges)))
    inner = np.arange(1, len(even.edges) - 1)
    apart = (np.abs(inner[:, None] - place) > 0.5).all(1)
    return Grid(np.unique(np.concatenate([even.edges[[0, -1]], even.edges[inner[apart]], cuts])), even.gaps)


def surveys(vault: Measurements, plan: Plan, columns: dict[str, Column]) -> dict[str, Survey]:
    """Make the coarse measurements of number `columns`."""
    coarse = {name: coarse_grid(column) for name, column in columns.items()}
    counts, std = _measured(vault, COARSE, plan, {name: [(name, cells)] for name, cells in coarse.items()})
    every = _every_value(columns)
    values, values_std = _measured(vault, VALUES, plan, every)
    none = np.empty(0, np.int64)
    found = dict[str, Survey]()
    for name, cells in coarse.items():
        column = columns[name]
        frequent = _frequent(values[name][: column.size], values_std) if name in every else none
        (low, high), ends = column.number_units, column.units
        before, after = low - ends[0], ends[1] - high
        limits = np.concatenate([np.arange(before), column.size - after + np.arange(after)])
        found[name] = Survey(
            coarse=cells, counts=counts[name], std=std, frequent=np.union1d(frequent, limits), limits=(before, after)
        )
    return found


def _every_value(columns: dict[str, Column]) -> dict[str, Axes]:
    """Return axes over every value of the columns with the fewest values, as many as fit into memory."""
    by_size = sorted(columns, key=lambda name: columns[name].size)
    total = np.cumsum([columns[name].size for name in by_size])
    some = by_size[: int((total <= k.MOST_VALUES).sum())]
    return {name: [(name, EveryCode(columns[name].size + columns[name].gaps))] for name in some}


def _measured(vault: Measurements, label: str, plan: Plan, axes: dict[str, Axes]) -> tuple[dict[str, Floats], float]:
    """Return noisy tables and the standard deviation of their noise. Count rows if there is no table, because the
    plan is made without a schema and contains the measurement.
    """
    tables = axes or {"rows": [TOGETHER]}
    return vault.measure_marginals(label, tables), plan.noise(label) * math.sqrt(len(tables))


def _frequent(counts: Floats, std: float) -> Whole:
    """Return the most frequent of the values whose noisy counts are too high for noise alone."""
    clear = np.flatnonzero(counts > std * clear_stds(len(counts), k.FREQUENT_CHANCE))
    return np.sort(clear[np.argsort(-counts[clear], kind="stable")][: k.MOST_FREQUENT])
