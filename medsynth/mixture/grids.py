"""One-way marginals on fine grids that follow the rows: many cells where a coarse noisy histogram sees rows, a cell of
its own for a value that many rows share. On even grids most cells lie where no rows are, and their noise makes tails.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ..methods.marginals import Condition, Counts, cleaned, mean_over_priors, posterior_mode
from ..privacy.accounting.calibration import Plan
from ..privacy.queries.cells import EveryCode
from ..privacy.queries.measurements import Measurements
from ..privacy.queries.rows import Axes
from ..schema import Column
from ..schema.columns.grid import Grid, grid
from ..schema.columns.number import Quantity
from ..schema.magnitudes import clear_stds
from . import constants as k
from .constants import COARSE, VALUES

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
TINY = 1e-12


@dataclass(frozen=True, kw_only=True)
class Survey:
    """What the coarse measurements say of a column: noisy `counts` of `coarse` cells, and the `frequent` values."""

    coarse: Grid
    counts: Floats
    std: float
    frequent: Whole

    @property
    def values(self) -> int:
        """Coarse cells of values; those of missing ones come after."""
        return self.coarse.cells - self.coarse.gaps

    def fine_grid(self) -> Grid:
        """Coarse cells cut into cells of even whole widths, in proportion to their rows; frequent values alone."""
        mass = np.maximum(self.counts[: self.values] - self.std, 0)
        share = mass / max(mass.sum(), 1e-12)
        edges = [np.concatenate([self.frequent, self.frequent + 1, self.coarse.edges])]
        for first, last, part in zip(self.coarse.edges, self.coarse.edges[1:], share, strict=False):
            pieces = int(np.clip(round(k.FINE_CELLS * part), 1, last - first))
            edges.append(np.arange(first, last, -(-int(last - first) // pieces)))
        return Grid(np.unique(np.concatenate(edges)), self.coarse.gaps)

    def parents(self, fine: Grid) -> Whole:
        """The coarse cell of each cell of `fine`: (cells,)."""
        return np.asarray(np.searchsorted(self.coarse.ends, fine.ends[:-1], side="right") - 1)

    def measured(self, fine: Grid, counts: Floats, std: float) -> list[Counts]:
        """Both measurements as counts of groups of the cells of `fine`."""
        return [Counts.of_cells(counts, std), Counts(self.parents(fine), self.counts, self.std)]

    def rough(self, fine: Grid, counts: Floats, rows: float, std: float) -> Floats:
        """Rough shares of the cells of `fine`, (cells,), by which bins are cut: sums of noisy counts, and no fit.

        A query that follows from them is the same on every machine.
        """
        parent = self.parents(fine)
        pieces = np.bincount(parent)
        off = (self.counts - np.bincount(parent, counts)) / (pieces + (self.std / max(std, TINY)) ** 2)
        both = np.where(self.inside(fine, counts, std, rows), counts + off[parent], 0.0)
        return cleaned(both, rows)

    def inside(self, fine: Grid, counts: Floats, std: float, rows: float) -> NDArray[np.bool_]:
        """Which cells of `fine` lie in no tail of noise, (cells,)."""
        parent = self.parents(fine)
        pieces, sums = np.bincount(parent), np.bincount(parent, counts)
        precision = (
            pieces * std**2 / np.maximum(pieces * std**2 + self.std**2, TINY)
        )  # of the coarse count, as its pieces' sum
        # The noise of a coarse cell that is one fine cell, as those of tails are, by both measurements.
        alone = std * self.std / max(math.hypot(std, self.std), TINY)
        return self._kept(sums + precision * (self.counts - sums), alone, rows)[parent]

    def shares(self, fine: Grid, counts: Floats, rows: float, std: float) -> Floats:
        """Shares of the cells of `fine`, (cells,), by their noisy counts and the coarse ones.

        The likeliest log densities that curve little, frequent values apart; tails that do not rise above the noise of
        the coarse cells are cut off: what is left of it at the far end of the bounds would be outliers.
        """
        measured = self.measured(fine, counts, std)
        shares = np.exp(posterior_mode(measured, rows, np.log(self.widths(fine)), self._prior(fine)))
        inside = self.inside(fine, counts, std, rows)
        some = [one.on(inside) for one in measured]
        found = np.zeros(fine.cells)
        found[inside] = shares_of_cells(
            some, rows, self.widths(fine)[inside], rows * shares[inside], self.along(fine)[inside]
        )
        return found

    def widths(self, fine: Grid) -> Floats:
        """Shares of the cells of `fine`, (cells,), were the density even."""
        widths = np.diff(fine.ends).astype(np.float64)
        return np.asarray(widths / widths.sum())

    def along(self, fine: Grid) -> NDArray[np.bool_]:
        """Which cells of `fine` have a density like their neighbours': those of values that are not frequent."""
        return ~np.isin(fine.ends[:-1], self.frequent) & (np.arange(fine.cells) < fine.cells - fine.gaps)

    def _prior(self, fine: Grid) -> Floats:
        smooth = np.flatnonzero(self.along(fine))
        curvature = np.zeros((max(len(smooth) - 2, 0), fine.cells))
        curvature[:, smooth] = np.diff(np.eye(len(smooth)), 2, axis=0)
        return np.asarray(k.FLAT * np.eye(fine.cells) + curvature.T @ curvature / max(k.CURVATURES) ** 2)

    def _kept(self, counts: Floats, std: float, rows: float) -> NDArray[np.bool_]:
        """The coarse cells that lie in no tail of noise, by their noisy `counts`: (cells,).

        The outermost cells that are clear at either end, and beyond them as many as may hold more than TAIL_SHARE of
        the rows, or TAIL_STDS of the noise where these are fewer: what is cut off holds no more, as far as it shows.
        """
        kept, limit = np.ones(len(counts), np.bool_), k.TAIL_STDS * std
        most = min(k.TAIL_SHARE * rows, k.TAIL_STDS * std)
        for order in (np.arange(self.values), np.arange(self.values)[::-1]):
            rises = counts[order] > limit
            rises |= np.cumsum(counts[order]) > limit * np.sqrt(np.arange(1, self.values + 1))
            first = int(rises.argmax())
            beyond = expected_beyond(counts[order[:first]][::-1], float(counts[order[first : first + 2]].mean()), std)
            kept[order[: first - int((beyond > most).sum())]] = False
        return kept if kept[: self.values].any() else np.ones_like(kept)  # where nothing stands out there is no tail


def shares_of_cells(
    measured: Sequence[Counts], rows: float, widths: Floats, expected: Floats, along: NDArray[np.bool_]
) -> Floats:
    """Return the shares of a number's cells, (cells,), as smooth along it as their counts say they are.

    Ages are smooth, and a cell's neighbours tell nearly as much of it as its own count. Of other columns each cell
    differs from the next. So shares are means over priors of the log density: how much it curves, and how much cells
    differ from the curve, each as likely as it makes the counts. No prior is firmer than chance: the rows in a cell
    differ from any density as a Poisson number does.

    Args: `widths`: shares if the density were even; `expected`: rows of each cell by a first look; `along`: cells that
    follow the curve. The others are frequent values and missing ones.
    """
    order, cells = np.flatnonzero(along), len(widths)
    steps = np.diff(np.eye(len(order)), 2, axis=0)
    chance = 1 / np.maximum(expected[order], 1.0)  # variance of the logarithm of a Poisson number

    def precisions() -> Iterator[Floats]:
        for curvature, roughness in product(k.CURVATURES, k.ROUGHNESSES):
            spread = np.eye(cells) / k.FLAT
            curve = np.linalg.inv(steps.T @ steps / curvature**2 + k.FLAT * np.eye(len(order)))
            spread[np.ix_(order, order)] = curve + np.diag(chance + roughness**2)
            yield np.asarray(np.linalg.inv(spread))

    return mean_over_priors(measured, rows, np.log(widths), precisions())


def expected_beyond(counts: Floats, level: float, std: float) -> Floats:
    """Rows that are expected in each cell of a tail and all cells beyond it, by noisy `counts` outwards: (cells,).

    `level`: of the cells before the tail. A tail that falls evenly from a part of it to none, over a number of cells
    that is as likely as any other before the noisy counts are seen; the mean over what they leave likely.
    """
    if not len(counts):
        return np.zeros(0)
    places, lengths = np.arange(1, len(counts) + 1), np.arange(len(counts) + 1)
    shapes = np.maximum(1 - places / (lengths[:, None] + 1), 0) * max(level, 0.0)
    tails = np.concatenate([part * shapes for part in k.TAIL_PARTS])
    odds = (tails @ counts - (tails**2).sum(1) / 2) / std**2  # their logarithms
    likely = np.exp(odds - odds.max())
    return np.asarray(np.cumsum((likely / likely.sum() @ tails)[::-1])[::-1])


def coarse_grid(column: Column) -> Grid:
    """The grid of a column's coarse measurement: even cells; with cut points, cells that end at these.

    Then even cells are fewer, so that the parts between cut points are counted in few cells, and those that end
    within half a cell of a cut point are left out.
    """
    if not isinstance(column, Quantity) or not column.cut_codes:
        return grid(column, k.COARSE_CELLS)
    even, cuts = grid(column, k.BINS), np.array(column.cut_codes, np.int64)
    place = np.interp(cuts, even.edges, np.arange(len(even.edges)))
    inner = np.arange(1, len(even.edges) - 1)
    apart = (np.abs(inner[:, None] - place) > 0.5).all(1)
    return Grid(np.unique(np.concatenate([even.edges[[0, -1]], even.edges[inner[apart]], cuts])), even.gaps)


def surveys(vault: Measurements, plan: Plan, columns: dict[str, Column]) -> dict[str, Survey]:
    """What the coarse measurements say of number `columns`."""
    coarse = {name: coarse_grid(column) for name, column in columns.items()}
    counts, std = _measured(vault, COARSE, plan, {name: [(name, cells)] for name, cells in coarse.items()})
    every = _every_value(columns)
    values, values_std = _measured(vault, VALUES, plan, every)
    none = np.empty(0, np.int64)
    return {
        name: Survey(
            coarse=cells,
            counts=counts[name],
            std=std,
            frequent=_frequent(values[name][: columns[name].size], values_std) if name in every else none,
        )
        for name, cells in coarse.items()
    }


def _every_value(columns: dict[str, Column]) -> dict[str, Axes]:
    """Every value of the columns with the fewest, as many as fit into memory."""
    by_size = sorted(columns, key=lambda name: columns[name].size)
    total = np.cumsum([columns[name].size for name in by_size])
    some = by_size[: int((total <= k.MOST_VALUES).sum())]
    return {name: [(name, EveryCode(columns[name].size + columns[name].gaps))] for name in some}


def _measured(vault: Measurements, label: str, plan: Plan, axes: dict[str, Axes]) -> tuple[dict[str, Floats], float]:
    """Noisy tables and the standard deviation of their noise. Rows are counted where there is no table: the plan,
    which knows no schema, holds the measurement.
    """
    tables = axes or {"rows": [("", Condition(None, None, np.empty(0), 1))]}
    return vault.measure_marginals(label, tables), plan.noise(label) * math.sqrt(len(tables))


def _frequent(counts: Floats, std: float) -> Whole:
    """The values whose noisy counts noise alone would hardly reach in any of them, the most frequent ones."""
    clear = np.flatnonzero(counts > std * clear_stds(len(counts), k.FREQUENT_CHANCE))
    return np.sort(clear[np.argsort(-counts[clear], kind="stable")][: k.MOST_FREQUENT])
