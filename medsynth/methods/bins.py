"""Cut a column into bins by a noisy histogram, draw values inside bins by the same histogram, and decode bins.

All inputs are public. Bins of equal mass would put a whole tail into one or two bins. Values inside a bin correlate
with nothing, so a regression on the generated rows would have too small slopes. Therefore bins follow the mass and, in
part, the width of the values.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ..arrays import Arrays, Codes, Floats, Whole
from ..privacy.queries.cells import Regrouped
from ..privacy.queries.rows import Axes
from ..rng import Stream
from ..schema import Column, Schema
from ..schema.columns.grid import Grid, grid, scale_edges
from .digit_preference import draw_numbers, kind_shares, kind_weights, kinds_of, preferred_kinds
from .marginals import GRID_CELLS, Conditioning, Marginal, smoothed
from .stratified import strata, uniforms

WIDE, MERGED_WIDE = 0.5, 0.75  # weight of the width when a number is cut into bins, and when bins are merged
LARGEST_LOG_RATIO = 4.0  # of a class's density to the whole table's inside a bin
TAIL = 0.005  # share of rows at either end; an outermost bin with fewer rows would be all noise
DIGITS_OF = "digits of "  # prefix of the marginal of a column's kinds of numbers


def fine_grid(column: Column) -> Grid:
    """Return the fine public grid of a column. Columns with many values get more cells, which blur edges less."""
    return grid(column, 2 * GRID_CELLS if column.size > 8 * GRID_CELLS else GRID_CELLS)


def grids(schema: Schema, most: int) -> dict[str, Grid]:
    """Return the fine public grid of each number column with more than `most` values."""
    return {
        name: fine_grid(column)
        for name, column in schema.columns.items()
        if not column.categorical and column.size > most
    }


def even_parts(mass: Floats, parts: int) -> Whole:
    """Return the part of each cell when cells are cut into `parts` of equal mass.

    A cell joins the part that contains its middle, so that a preferred number stays in one part.
    """
    return np.asarray(np.searchsorted(np.linspace(0, 1, parts + 1)[1:-1], middles(mass)))


def middles(mass: Floats) -> Floats:
    """Return the position of each cell's middle in the cumulative mass, from 0 to 1: (cells,)."""
    cumulative = np.cumsum(mass)
    return np.asarray((cumulative - mass / 2) / cumulative[-1])


def mass_and_width(column: Column, fine: Grid, shares: Floats, wide: float) -> Floats:
    """Return the quantity that bins divide evenly, (cells of values,): a mix of row `shares` and of cell widths.

    `wide`: the weight of the widths. A width counts with the third root of the rows' density, so that quantisation
    loses least of the variance (Panter and Dite 1951). Widths are measured on the column's scale.
    """
    values = fine.cells - column.gaps
    mass = shares[:values] / max(shares[:values].sum(), 1e-300)
    width = np.diff(scale_edges(column, fine))
    below = np.cumsum(mass)
    spread = np.where((below > TAIL) & (below - mass < 1 - TAIL), np.cbrt(mass * np.square(width)), 0.0)
    return np.asarray((1 - wide) * mass + wide * spread / max(spread.sum(), 1e-300))


@dataclass(frozen=True)
class Bins:
    """A column's bins, a public map from codes. `place`: the bin of each cell of the fine grid, (fine cells,).

    `shares`: noisy shares of rows, (fine cells,). `digits`: shares of the kinds of numbers by their preferred digits,
    (kinds + 1,), or None. Each kind of missing value has its own bin. These bins come last.
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
        """Return at most `most` bins of roughly equal mass. If values are few, each is a bin. `fine`: the grid.

        `wide`: the weight of the bins' width, as opposed to their mass.
        """
        fine = fine or fine_grid(column)
        place = np.arange(fine.cells)
        if shares is not None:
            inside = np.unique(even_parts(mass_and_width(column, fine, shares, wide), most), return_inverse=True)[1]
            place = np.append(inside, inside[-1] + 1 + np.arange(column.gaps))
        return cls(column, fine, place, np.ones(fine.cells) if shares is None else shares, digits)

    @property
    def cells(self) -> int:
        """The number of bins."""
        return int(self.place[-1]) + 1

    @property
    def ordered(self) -> int:
        """The number of leading bins that are neighbours in value. Zero for a column of levels."""
        return self.cells - self.column.gaps if self.column.ordered else 0

    def cell_of(self, codes: Codes) -> Whole:
        """Return the bin of each code."""
        return self.place[self.grid.cell_of(codes)]

    def plain(self) -> Regrouped:
        """Return this map as a query may hold it: grid and places only, no shares."""
        return self.grouped(np.arange(self.cells))

    def grouped(self, part: Whole) -> Regrouped:
        """Return the map from codes to groups of bins. `part`: the group of each bin, (bins,)."""
        return Regrouped(self.grid, part[self.place].astype(np.int64), int(part.max()) + 1)

    def middles(self, wide: float) -> Floats:
        """Return the position of each bin of values, from 0 to 1, in mass and, with weight `wide`, in width."""
        weights = mass_and_width(self.column, self.grid, self.shares, wide)
        return middles(np.bincount(self.place[: len(weights)], weights, self.ordered).astype(np.float64))

    def merged(self, most: int, mass: Floats) -> Whole:
        """Return a coarser bin for each bin, about `most` at most. Merge neighbours of a number, or the rarest levels.

        Bins of missing values stay alone. `mass`: shares of rows, (bins,). For numbers, width counts more than mass.
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
        """Return the part of each fine cell's codes between `first` and `last`: (fine cells,)."""
        edges = self.grid.ends
        common = np.minimum(edges[1:], last + 1) - np.maximum(edges[:-1], first)
        return np.asarray(np.maximum(common, 0) / np.diff(edges))

    def shares_of(self, inside: Floats, allowed: Floats) -> Floats:
        """Return the share of each bin that is `allowed`, (fine cells,), by the weights `inside`: (classes, bins)."""
        return np.stack([
            np.bincount(self.place, w * allowed, self.cells) / np.bincount(self.place, w, self.cells) for w in inside
        ])  # fmt: skip

    def inside(self, log_shares: Floats) -> Floats:
        """Return weights of fine cells by class, (classes, fine cells), given log p(bin | class), (classes, bins).

        The fine histogram covers all classes. A class's log ratio to it is known at the bins' middles, and is
        interpolated and extrapolated linearly. So a class that gets rarer upwards stays at the highest bin's lower end.
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
        """Draw a code for each bin and class, by the weights `inside` bins and the digit preference of the column.

        With a `span`, draw only codes in it. The weights must allow these.
        """
        fine = self._fine_cells(bins, classes, inside, rng)
        edges = self.grid.ends
        first, last = edges[fine], edges[fine + 1] - 1
        if span is not None:
            first = np.maximum(first, span[0])
            last = np.minimum(last, span[1])
        if self.digits is None:
            return np.asarray(first + np.floor(uniforms(fine, rng) * (last - first + 1)), np.int32)
        low = self.column.units[0]
        kinds = kinds_of(self.column, len(self.digits))
        units = draw_numbers(first + low, last + low, self._of_kinds, kinds, rng) - low
        return np.asarray(np.where(first < self.grid.edges[-1], units, first), np.int32)

    @cached_property
    def _of_kinds(self) -> Floats:
        """The weights of kinds of numbers by the digit preference, (kinds,); only for a column with `digits`."""
        edges, values = self.grid.ends + self.column.units[0], self.grid.cells - self.column.gaps
        if self.digits is None:
            return np.ones(0)
        return kind_weights(edges, self.shares[:values], self.digits, kinds_of(self.column, len(self.digits)))

    def drawn_inside(self, places: Whole, rng: Stream) -> Codes:
        """Draw a code in each of the bins `places`, by the column's one-way marginal."""
        return self.draw(places, np.zeros(len(places), np.int64), self.shares[None] + 1e-12, rng)

    def _fine_cells(self, bins: Whole, classes: Whole, inside: Floats, rng: Stream) -> Whole:
        """Draw a fine cell for each row's bin and class, by the weights `inside` of the class."""
        order, groups, ranks = strata(classes * self.cells + bins, rng)
        # The cumulative weights of all classes in one array. Each class and bin has a section of it.
        line = np.concatenate([[0.0], np.cumsum(inside)])
        starts = np.arange(len(inside))[:, None] * inside.shape[1] + np.searchsorted(self.place, np.arange(self.cells))
        starts = np.append(starts, inside.size)
        first, last, low = starts[:-1], starts[1:] - 1, line[starts]
        at = low[groups] + ranks * np.diff(low)[groups]
        fine = np.empty(len(bins), np.int64)
        fine[order] = np.clip(np.searchsorted(line, at, side="right") - 1, first[groups], last[groups])
        return np.asarray(fine % inside.shape[1])


def decoder_axes(schema: Schema, grids: Mapping[str, Grid]) -> dict[str, Axes]:
    """Return the one-way marginals that a decoder needs: numbers on fine `grids`, and kinds of numbers by digits."""
    histograms: dict[str, Axes] = {name: [(name, cells)] for name, cells in grids.items()}
    return histograms | {f"{DIGITS_OF}{name}": [(name, kinds)] for name, kinds in preferred_kinds(schema).items()}


def cleaned_histograms(schema: Schema, noisy: dict[str, Floats], rows: float, std: float) -> dict[str, Floats]:
    """Return shares from noisy histograms: of columns, and of kinds of numbers by their preferred digits."""
    shares = {n: smoothed(noisy[n], rows, std, column.gaps) for n, column in schema.columns.items() if n in noisy}
    fine = {name: fine_grid(schema.columns[name]) for name in shares}
    return shares | digit_shares(schema, noisy, dict.fromkeys(noisy, std), rows, fine, shares)


def digit_shares(
    schema: Schema, noisy: Mapping[str, Floats], std: Mapping[str, float], rows: float, grids: Mapping[str, Grid],
    shares: Mapping[str, Floats],
) -> dict[str, Floats]:  # fmt: skip
    """Return shares of kinds of numbers by preferred digits, by marginal. `shares`: of cells of the `grids`."""
    return {
        DIGITS_OF + name: kind_shares(
            noisy[DIGITS_OF + name], std[DIGITS_OF + name], rows, cells.edges + schema.columns[name].units[0],
            shares[name], kinds_of(schema.columns[name]),
        )
        for name, cells in grids.items()
        if DIGITS_OF + name in noisy
    }  # fmt: skip


def decoder(
    schema: Schema, histograms: dict[str, Floats], rows: float, most: int = 1, grids: dict[str, Grid] | None = None,
    wide: float = 0.0,
) -> tuple[dict[str, Bins], Conditioning]:  # fmt: skip
    """Return the bins of every column, at most `most` for a number, and the target's classes, from noisy histograms.

    `grids`: grids of histograms that do not use their column's public grid. `wide`: as for `Bins.of`.
    """
    fine = grids or {}
    bins = {
        name: Bins.of(column, histograms.get(name), histograms.get(f"{DIGITS_OF}{name}"), most, fine.get(name), wide)
        for name, column in schema.columns.items()
    }
    target = schema.target or ""
    if not target:
        return bins, Conditioning.of(schema, {})
    column, cells = schema.columns[target], bins[target].grid.cells
    marginal = Marginal.of(column, rows * histograms.get(target, np.full(cells, 1 / cells)), rows, bins[target].grid)
    return bins, Conditioning.of(schema, {target: marginal})


def decoder_tensors(histograms: dict[str, Floats], bins: dict[str, Bins], names: list[str]) -> Arrays:
    """Return the tensors of a decoder: the histograms, and the bin of each fine cell of the columns `names`."""
    kept = {f"histogram.{name}": shares.astype(np.float32) for name, shares in histograms.items()}
    return kept | {f"place.{name}": bins[name].place.astype(np.float32) for name in names}


def grid_tensors(grids: dict[str, Grid]) -> Arrays:
    """Return the edges of grids as tensors of a model, (2, edges)."""
    return {f"edges.{name}": whole_tensor(grid.edges) for name, grid in grids.items()}


def restored_grids(tensors: Arrays, schema: Schema) -> dict[str, Grid]:
    """Return the grids in the tensors that `grid_tensors` made."""
    found = {k.removeprefix("edges."): whole_numbers(t) for k, t in tensors.items() if k.startswith("edges.")}
    return {name: Grid(edges, schema.columns[name].gaps) for name, edges in found.items()}


def whole_tensor(numbers: Whole) -> NDArray[np.float32]:
    """Return whole numbers as a tensor, (2, numbers): multiples of 2^16 and the rest. Both fit float32."""
    return np.stack([numbers >> 16, numbers & 0xFFFF]).astype(np.float32)


def whole_numbers(tensor: NDArray[np.float32]) -> Whole:
    """Return the numbers in a tensor that `whole_tensor` made."""
    high, low = tensor.astype(np.int64)
    return np.asarray((high << 16) + low)
