"""Bins of a column from one noisy histogram, values inside a bin by that same histogram, and a model's decoder of bins.

All of it is public. Bins of even mass alone put a tail into one or two of them. Slopes live in tails: between bins of a
tail that is not told apart from its neighbours nothing correlates, and a regression on the generated rows comes back
shrunk. So numbers are cut where rows are and, in part, where values are far apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..privacy.queries.cells import Regrouped
from ..privacy.queries.rows import Axes, Codes, Floats, Whole
from ..rng import Stream
from ..schema import Column, Schema
from ..schema.columns.grid import Grid, grid, scale_edges
from .digit_preference import digit_kinds, draw_numbers, kind_shares, kind_weights
from .marginals import GRID_CELLS, Condition, Marginal, smoothed
from .registry import Arrays
from .stratified import strata, uniforms

WIDE, MERGED_WIDE = 0.5, 0.75  # the part of width in where a number is cut into bins, and in where these are merged
LARGEST_LOG_RATIO = 4.0  # of a class to the whole table inside a bin
TAIL = 0.005  # of the rows at either end: an outermost bin of fewer would hold noise alone
DIGITS_OF = "digits of "  # names the marginal of a column's kinds of numbers


def fine_grid(column: Column) -> Grid:
    """The fine public grid of a column: where values are many, edges that no cell should blur may lie anywhere."""
    return grid(column, 2 * GRID_CELLS if column.size > 8 * GRID_CELLS else GRID_CELLS)


def grids(schema: Schema, most: int) -> dict[str, Grid]:
    """The fine public grid of every number column whose values outnumber its bins."""
    return {
        name: fine_grid(column)
        for name, column in schema.columns.items()
        if not column.categorical and column.size > most
    }


def even_parts(mass: Floats, parts: int) -> Whole:
    """The part of each cell when cells are cut into parts of even mass.

    A cell joins the part in which its middle lies, so that a preferred number stays in one part.
    """
    return np.asarray(np.searchsorted(np.linspace(0, 1, parts + 1)[1:-1], middles(mass)))


def middles(mass: Floats) -> Floats:
    """Where the middle of each cell lies in the mass of all, from 0 to 1: (cells,)."""
    cumulative = np.cumsum(mass)
    return np.asarray((cumulative - mass / 2) / cumulative[-1])


def mass_and_width(column: Column, fine: Grid, shares: Floats, wide: float) -> Floats:
    """What even bins divide, (cells of values,): the `shares` of rows, and for a part `wide` the width of the cells.

    The width counts as far as rows are there: the third root of their density, by which quantisation loses least of the
    variance (Panter and Dite 1951). Widths are those of the column's scale.
    """
    values = fine.cells - column.gaps
    mass = shares[:values] / max(shares[:values].sum(), 1e-300)
    width = np.diff(scale_edges(column, fine))
    below = np.cumsum(mass)
    spread = np.where((below > TAIL) & (below - mass < 1 - TAIL), np.cbrt(mass * np.square(width)), 0.0)
    return np.asarray((1 - wide) * mass + wide * spread / max(spread.sum(), 1e-300))


@dataclass(frozen=True)
class Bins:
    """A column's bins, a public map from codes: `place` (fine cells,) is the bin of each cell of the fine grid.

    `shares` (fine cells,) are the noisy shares of rows, `digits` (kinds + 1,) those of the kinds of numbers by their
    preferred digits, or None. Missing values have bins of their own, the last, one a kind.
    """

    column: Column
    grid: Grid
    place: Whole
    shares: Floats
    digits: Floats | None

    @classmethod
    def of(
        cls, column: Column, shares: Floats | None, digits: Floats | None, most: int, fine: Grid | None = None,
        wide: float = 0.0,
    ) -> Bins:  # fmt: skip
        """At most `most` bins of roughly equal mass; where values are few, each is a bin. `fine` is the grid.

        `wide`: the part in which the width of bins counts in place of their mass.
        """
        fine = fine or fine_grid(column)
        place = np.arange(fine.cells)
        if shares is not None:
            inside = np.unique(even_parts(mass_and_width(column, fine, shares, wide), most), return_inverse=True)[1]
            place = np.append(inside, inside[-1] + 1 + np.arange(column.gaps))
        return cls(column, fine, place, np.ones(fine.cells) if shares is None else shares, digits)

    @property
    def cells(self) -> int:
        """Number of bins."""
        return int(self.place[-1]) + 1

    @property
    def ordered(self) -> int:
        """How many first bins are neighbours in value: none of a column of levels."""
        return self.cells - self.column.gaps if self.column.ordered else 0

    def cell_of(self, codes: Codes) -> Whole:
        """The bin of each code."""
        return self.place[self.grid.cell_of(codes)]

    def plain(self) -> Regrouped:
        """The same map without what else is known of the column."""
        return Regrouped(self.grid, self.place.astype(np.int64), self.cells)

    def middles(self, wide: float) -> Floats:
        """Where each bin of values lies from 0 to 1 in the mass of all, and for a part `wide` in their widths."""
        weights = mass_and_width(self.column, self.grid, self.shares, wide)
        return middles(np.bincount(self.place[: len(weights)], weights, self.ordered).astype(np.float64))

    def merged(self, most: int, mass: Floats) -> Whole:
        """A coarser bin, at most about `most`, for each bin: neighbours of a number, the rarest levels; missing alone.

        `mass`: (bins,), the shares of rows. Of a number's parts the width counts more than the mass.
        """
        if self.cells <= most:
            return np.arange(self.cells)
        values = self.cells - self.column.gaps
        if self.ordered:
            part = np.unique(
                np.minimum((self.middles(MERGED_WIDE) * (most - 1)).astype(np.int64), most - 2), return_inverse=True
            )[1]
        else:
            rank = np.argsort(np.argsort(-mass[:values], kind="stable"))
            part = np.minimum(rank, most - 2)
        return np.append(part, part.max() + 1 + np.arange(self.column.gaps))

    def overlap(self, first: int, last: int) -> Floats:
        """The part of each fine cell's codes that lies from `first` to `last`: (fine cells,)."""
        edges = self.grid.ends
        common = np.minimum(edges[1:], last + 1) - np.maximum(edges[:-1], first)
        return np.asarray(np.maximum(common, 0) / np.diff(edges))

    def shares_of(self, inside: Floats, allowed: Floats) -> Floats:
        """The share of each bin on `allowed` (fine cells,), by the classes' weights inside: (classes, bins)."""
        return np.stack([
            np.bincount(self.place, w * allowed, self.cells) / np.bincount(self.place, w, self.cells) for w in inside
        ])  # fmt: skip

    def inside(self, log_shares: Floats) -> Floats:
        """Weights of the fine cells for each class, (classes, fine cells), given log p(bin | class), (classes, bins).

        The fine histogram is of all classes. A class's log ratio to it is known at the bins' middles and taken as
        linear in between and beyond: in the highest bin, a class that grows rarer towards it stays at its lower edge.
        """
        weight = np.tile(self.shares + 1e-12, (len(log_shares), 1))
        if self.ordered < 3:
            return weight
        cells = np.arange(int((self.place < self.ordered).sum()))
        at = self.place[cells]
        mass = np.bincount(at, weight[0, cells], self.ordered)
        middle = np.bincount(at, weight[0, cells] * cells, self.ordered) / mass
        ratio = log_shares[:, : self.ordered] - np.log(mass)
        for k, tilt in enumerate(ratio):
            line = np.interp(cells, middle, tilt)
            for end, inner in ((0, 1), (-1, -2)):
                slope = (tilt[end] - tilt[inner]) / max(abs(middle[end] - middle[inner]), 1e-9)
                beyond = np.maximum(0.0, (cells - middle[end]) * (1 if end else -1))
                line = line + slope * beyond
            weight[k, cells] *= np.exp(np.clip(line - tilt[at], -LARGEST_LOG_RATIO, LARGEST_LOG_RATIO))
        return weight

    def draw(
        self, bins: Whole, classes: Whole, inside: Floats, rng: Stream,
        span: tuple[int, int] | None = None,
    ) -> Codes:  # fmt: skip
        """A code for each bin and class, by the weights `inside` it and the digit preference of the column.

        With a `span` of codes, only those, which the weights must allow.
        """
        fine = self._fine_cells(bins, classes, inside, rng)
        edges = self.grid.ends
        first, last = edges[fine], edges[fine + 1] - 1
        if span is not None:
            first, last = np.maximum(first, span[0]), np.minimum(last, span[1])
        if self.digits is None:
            return np.asarray(first + np.floor(uniforms(fine, rng) * (last - first + 1)), np.int32)
        low, values = self.column.units[0], self.grid.cells - self.column.gaps
        weights = kind_weights(edges + low, self.shares[:values], self.digits)
        units = draw_numbers(first + low, last + low, weights, rng) - low
        return np.asarray(np.where(first < self.grid.edges[-1], units, first), np.int32)

    def drawn_inside(self, places: Whole, rng: Stream) -> Codes:
        """A code in each of the bins `places`, by the column's one-way marginal."""
        return self.draw(places, np.zeros(len(places), np.int64), self.shares[None] + 1e-12, rng)

    def _fine_cells(self, bins: Whole, classes: Whole, inside: Floats, rng: Stream) -> Whole:
        """A fine cell for each row's bin and class, by the weights `inside` of the class."""
        order, groups, ranks = strata(classes * self.cells + bins, rng)
        # The weights of all classes on one line, where each class and bin has its part.
        line = np.concatenate([[0.0], np.cumsum(inside)])
        starts = np.arange(len(inside))[:, None] * inside.shape[1] + np.searchsorted(self.place, np.arange(self.cells))
        starts = np.append(starts, inside.size)
        first, last, low = starts[:-1], starts[1:] - 1, line[starts]
        at = low[groups] + ranks * np.diff(low)[groups]
        fine = np.empty(len(bins), np.int64)
        fine[order] = np.clip(np.searchsorted(line, at, side="right") - 1, first[groups], last[groups])
        return np.asarray(fine % inside.shape[1])


def decoder_axes(schema: Schema, grids: Mapping[str, Grid]) -> dict[str, Axes]:
    """The one-way marginals that a decoder needs: numbers on fine `grids`, and their kinds by preferred digits."""
    histograms: dict[str, Axes] = {name: [(name, cells)] for name, cells in grids.items()}
    return histograms | {f"{DIGITS_OF}{name}": [(name, kinds)] for name, kinds in digit_kinds(schema).items()}


def cleaned_histograms(schema: Schema, noisy: dict[str, Floats], rows: float, std: float) -> dict[str, Floats]:
    """Shares from the noisy histograms of columns, and of the kinds of numbers by their preferred digits."""
    shares = {n: smoothed(noisy[n], rows, std, column.gaps) for n, column in schema.columns.items() if n in noisy}
    fine = {name: fine_grid(schema.columns[name]) for name in shares}
    return shares | digit_shares(schema, noisy, dict.fromkeys(noisy, std), rows, fine, shares)


def digit_shares(
    schema: Schema, noisy: Mapping[str, Floats], std: Mapping[str, float], rows: float, grids: Mapping[str, Grid],
    shares: Mapping[str, Floats],
) -> dict[str, Floats]:  # fmt: skip
    """Shares of kinds of numbers by preferred digits, by marginal: of columns with such `shares` on their `grids`."""
    return {
        DIGITS_OF + name: kind_shares(
            noisy[DIGITS_OF + name], std[DIGITS_OF + name], rows, cells.edges + schema.columns[name].units[0],
            shares[name],
        )
        for name, cells in grids.items()
        if DIGITS_OF + name in noisy
    }  # fmt: skip


def decoder(
    schema: Schema, histograms: dict[str, Floats], rows: float, most: int = 1, grids: dict[str, Grid] | None = None,
    wide: float = 0.0,
) -> tuple[dict[str, Bins], Condition]:  # fmt: skip
    """Bins of every column, at most `most` of a number's, and the target's classes, from the noisy histograms.

    `grids`: of the histograms that are not on their column's public grid; `wide`: as for `Bins.of`.
    """
    fine = grids or {}
    bins = {
        name: Bins.of(column, histograms.get(name), histograms.get(f"{DIGITS_OF}{name}"), most, fine.get(name), wide)
        for name, column in schema.columns.items()
    }
    target = schema.target or ""
    if not target:
        return bins, Condition.of(schema, {})
    column, cells = schema.columns[target], bins[target].grid.cells
    marginal = Marginal.of(column, rows * histograms.get(target, np.full(cells, 1 / cells)), rows, bins[target].grid)
    return bins, Condition.of(schema, {target: marginal})


def decoder_tensors(histograms: dict[str, Floats], bins: dict[str, Bins], names: list[str]) -> Arrays:
    """What a model keeps of its decoder: the histograms, and the bin of each fine cell of the columns `names`."""
    kept = {f"histogram.{name}": shares.astype(np.float32) for name, shares in histograms.items()}
    return kept | {f"place.{name}": bins[name].place.astype(np.float32) for name in names}


def grid_tensors(grids: dict[str, Grid]) -> Arrays:
    """Edges of grids as a model keeps them, (2, edges)."""
    return {f"edges.{name}": whole_tensor(grid.edges) for name, grid in grids.items()}


def restored_grids(tensors: Arrays, schema: Schema) -> dict[str, Grid]:
    """The grids that `grid_tensors` were taken from."""
    found = {k.removeprefix("edges."): whole_numbers(t) for k, t in tensors.items() if k.startswith("edges.")}
    return {name: Grid(edges, schema.columns[name].gaps) for name, edges in found.items()}


def whole_tensor(numbers: Whole) -> NDArray[np.float32]:
    """Whole numbers as a model keeps them, (2, numbers): multiples of 2^16 and the rest, which float32 holds."""
    return np.stack([numbers >> 16, numbers & 0xFFFF]).astype(np.float32)


def whole_numbers(tensor: NDArray[np.float32]) -> Whole:
    """The numbers that `whole_tensor` was taken from."""
    high, low = tensor.astype(np.int64)
    return np.asarray((high << 16) + low)
