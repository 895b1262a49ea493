"""Bins of a column from one noisy histogram, and values inside a bin by that same histogram. All of it is public."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...privacy.queries.cells import Regrouped
from ...rng import Stream
from ...schema import Column
from ...schema.columns.grid import Grid
from .cuts import even_parts, fine_grid, mass_and_width, middles
from .digit_preference import draw_numbers, kind_weights
from .stratified import strata, uniforms

Floats = NDArray[np.float64]
Codes = NDArray[np.int32]
Whole = NDArray[np.int64]
WIDE, MERGED_WIDE = 0.5, 0.75  # the part of width in where a number is cut into bins, and in where these are merged
LARGEST_LOG_RATIO = 4.0  # of a class to the whole table inside a bin


@dataclass(frozen=True)
class Bins:
    """A column's bins, a public map from codes: `place` (fine cells,) is the bin of each cell of the fine grid.

    `shares` (fine cells,) are the noisy shares of rows, `digits` (kinds + 1,) those of the kinds of numbers by their
    preferred digits, or None. Missing values have bins of their own, the last, one a kind.
    """

    column: Column
    grid: Grid
    place: NDArray[np.int64]
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

    def split(self, mass: Floats, most: int) -> Bins:
        """These bins cut further where `mass`, (fine cells,), cut into `most` parts of even mass, has its cuts."""
        if not self.ordered:
            return self
        values = self.grid.cells - self.column.gaps
        both = self.place.astype(np.int64) * (most + 1)
        both[:values] += even_parts(mass[:values], most)
        return replace(self, place=np.unique(both, return_inverse=True)[1])

    @property
    def cells(self) -> int:
        """Number of bins."""
        return int(self.place[-1]) + 1

    @property
    def ordered(self) -> int:
        """How many first bins are neighbours in value: none of a column of levels."""
        return self.cells - self.column.gaps if self.column.ordered else 0

    def cell_of(self, codes: Codes) -> NDArray[np.int64]:
        """The bin of each code."""
        return self.place[self.grid.cell_of(codes)]

    def plain(self) -> Regrouped:
        """The same map without what else is known of the column."""
        return Regrouped(self.grid, self.place.astype(np.int64), self.cells)

    def middles(self, wide: float) -> Floats:
        """Where each bin of values lies from 0 to 1 in the mass of all, and for a part `wide` in their widths."""
        weights = mass_and_width(self.column, self.grid, self.shares, wide)
        return middles(np.bincount(self.place[: len(weights)], weights, self.ordered).astype(np.float64))

    def merged(self, most: int, mass: Floats) -> NDArray[np.int64]:
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


@dataclass(frozen=True)
class MergedBins:
    """Bins of a column merged by a public map: `part` (bins,) is the coarse bin of each."""

    bins: Bins
    part: NDArray[np.int64]

    @property
    def cells(self) -> int:
        """Number of coarse bins."""
        return int(self.part.max()) + 1

    def cell_of(self, codes: Codes) -> NDArray[np.int64]:
        """The coarse bin of each code."""
        return self.part[self.bins.cell_of(codes)]

    def plain(self) -> Regrouped:
        """The same map without what else is known of the column."""
        return Regrouped(self.bins.grid, self.part[self.bins.place].astype(np.int64), self.cells)
