"""Two-way marginals, by class or of all rows: their axes, and what the generator expects of their tables."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...privacy.queries.rows import Axes, CellMap
from ...rng import Stream
from ..shared.bins import Bins
from .generator import Generator
from .marginals.merged_bins import MergedBins

Floats = NDArray[np.float64]
PRODUCTS_PER_CELL = 8  # of all coarse bins with all, for each cell of a table: more, and tables are computed by shape


@dataclass(frozen=True, eq=False)
class ColumnPair:
    """Two columns, the coarse bin of each of their bins, and whether their table is one for each class."""

    one: str
    other: str
    part_one: NDArray[np.int64]
    part_other: NDArray[np.int64]
    by_class: bool

    @property
    def key(self) -> str:
        """A name for the pair's measurements."""
        return f"{self.one} x {self.other}"

    def axes(self, given: tuple[str, CellMap], merged: Mapping[str, MergedBins]) -> Axes:
        """The axes of its table: class, if it is by class; coarse bin of the one, coarse bin of the other."""
        columns: Axes = [(self.one, merged[self.one]), (self.other, merged[self.other])]
        return [given, *columns] if self.by_class else columns

    def ordered(self, bins: dict[str, Bins]) -> tuple[int, int]:
        """How many first coarse bins of each column are neighbours in value."""
        one, other = bins[self.one].ordered, bins[self.other].ordered
        return int(self.part_one[:one].max(initial=-1)) + 1, int(self.part_other[:other].max(initial=-1)) + 1


class Candidates:
    """The pairs of columns that were not measured yet; once all were, all pairs.

    `coarse`: the coarse bin of each bin of each column; `public`: the stream by which candidates are drawn.
    """

    def __init__(self, coarse: dict[str, NDArray[np.int64]], public: Stream, *, by_class: bool) -> None:
        self._coarse, self._public, self._by_class = coarse, public, by_class
        self._ones, self._others = np.triu_indices(len(coarse), 1)
        self._left, self._drawn = np.arange(len(self._ones)), dict[str, int]()

    def drawn(self, most: int) -> list[ColumnPair]:
        """At most so many of them, in a random order."""
        names, some = list(self._coarse), self._left if len(self._left) else np.arange(len(self._ones))
        drawn, pairs = self._public.permutation(some)[:most], list[ColumnPair]()
        for k in drawn.tolist():
            pairs.append(self.pair(names[self._ones[k]], names[self._others[k]]))
        self._drawn = {pair.key: k for pair, k in zip(pairs, drawn.tolist(), strict=True)}
        return pairs

    def pair(self, one: str, other: str) -> ColumnPair:
        """The pair of these two columns."""
        return ColumnPair(one, other, self._coarse[one], self._coarse[other], self._by_class)

    def leave_out(self, measured: Sequence[ColumnPair]) -> None:
        """Take out those of the pairs drawn last that were measured."""
        self._left = np.setdiff1d(self._left, [self._drawn[pair.key] for pair in measured if pair.key in self._drawn])


def merged_bins(pairs: Sequence[ColumnPair], bins: Mapping[str, Bins]) -> dict[str, MergedBins]:
    """The coarse bins of each column of some pairs: one map a column, which is read once for all its pairs."""
    parts = {p.one: p.part_one for p in pairs} | {p.other: p.part_other for p in pairs}
    return {name: MergedBins(bins[name], part) for name, part in parts.items()}


@dataclass(frozen=True, eq=False)
class TwoWayMarginal:
    """A pair's noisy table, (classes or 1, coarse bins, coarse bins), and its noise's standard deviation."""

    pair: ColumnPair
    table: Floats
    std: float


class ExpectedTables:
    """Expected tables of pairs, as functions of the shares of a generator, which has their columns.

    Tables of one shape are computed at once: `groups` are the places of their pairs in the list. Where the columns are
    few beside their pairs, all tables are blocks of one product of all coarse bins with all, which is much quicker.
    """

    def __init__(self, pairs: Sequence[ColumnPair], totals: Floats, generator: Generator) -> None:
        device = generator.base.device
        self._totals = torch.tensor(totals, dtype=torch.float32, device=device)[:, None, None]
        parts = {p.one: p.part_one for p in pairs} | {p.other: p.part_other for p in pairs}
        sizes = {name: int(part.max()) + 1 for name, part in parts.items()}
        first = dict(zip(sizes, np.cumsum([0, *sizes.values()]).tolist(), strict=False))
        self._coarse_bins = sum(sizes.values())
        place = np.full(generator.base.shape[1], self._coarse_bins)  # of a column that is in no pair: in none
        for name, part in parts.items():
            place[generator.spans[name]] = first[name] + part
        self._place = torch.from_numpy(place).to(device)
        shapes: dict[tuple[int, int, bool], list[int]] = {}
        for k, p in enumerate(pairs):
            shapes.setdefault((sizes[p.one], sizes[p.other], p.by_class), []).append(k)
        self.groups, self._by_class = list(shapes.values()), [by_class for _, _, by_class in shapes]
        self._sides = [(len(group), size) for (*shape, _), group in shapes.items() for size in shape]
        classes = [len(totals) if by_class else 1 for by_class in self._by_class]
        self._shapes = [(len(g), c, *shape[:2]) for (shape, g), c in zip(shapes.items(), classes, strict=True)]
        rows, cells = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
        for group, (_, count, one, other) in zip(self.groups, self._shapes, strict=True):
            ones, others = [[first[pairs[k].one]] for k in group], [[first[pairs[k].other]] for k in group]
            sides = [np.array(ones) + np.arange(one), np.array(others) + np.arange(other)]
            rows += [side.ravel() for side in sides]
            places = self._coarse_bins * sides[0][:, None, :, None] + sides[1][:, None, None, :]
            cells.append((places + self._coarse_bins**2 * np.arange(count)[:, None, None]).ravel())
        self._rows, self._cells = (torch.from_numpy(np.concatenate(some)).to(device) for some in (rows, cells))
        few = self._coarse_bins**2 * max(classes, default=1) <= PRODUCTS_PER_CELL * len(self._cells)
        self.as_blocks = few and len(set(classes)) == 1

    def cells(self, shares: Tensor) -> Tensor:
        """The cells of all tables, group by group, from (all bins, classes, points): class totals times the mean over
        latent points of outer products.
        """
        coarse = shares.new_zeros(self._coarse_bins + 1, *shares.shape[1:]).index_add(0, self._place, shares)
        if self.as_blocks:
            return self._blocks(coarse[:-1])
        parts = torch.split(coarse.index_select(0, self._rows), [count * size for count, size in self._sides])
        sides = [part.reshape(*shape, *shares.shape[1:]) for part, shape in zip(parts, self._sides, strict=True)]
        scale = self._totals / shares.shape[-1]
        found = [shares.new_zeros(0)]
        for one, other, by_class in zip(sides[::2], sides[1::2], self._by_class, strict=True):
            tables = scale * torch.einsum("nakz,nbkz->nkab", one, other)
            found.append((tables if by_class else tables.sum(1)).flatten())
        return torch.cat(found)

    def _blocks(self, coarse: Tensor) -> Tensor:
        """The same from (coarse bins, classes, points), by one product, of each class or of all."""
        weighted = coarse * (self._totals[:, 0] / coarse.shape[-1])
        if self._by_class[0]:
            products = weighted.transpose(0, 1) @ coarse.permute(1, 2, 0)
        else:
            products = weighted.flatten(1) @ coarse.flatten(1).T
        return products.flatten().index_select(0, self._cells)

    def tables(self, shares: Tensor) -> list[Tensor]:
        """The same as (pairs, classes or 1, bins, bins) of each group."""
        parts = torch.split(self.cells(shares), [math.prod(shape) for shape in self._shapes])
        return [part.reshape(shape) for part, shape in zip(parts, self._shapes, strict=True)]


def expected_tables(generator: Generator, totals: Floats, pairs: Sequence[ColumnPair]) -> dict[str, Floats]:
    """What the generator expects of each pair's table."""
    part = generator.part({name for pair in pairs for name in (pair.one, pair.other)})
    expected = ExpectedTables(pairs, totals, part)
    with torch.no_grad():
        groups = expected.tables(part.by_bin())
    found = {
        k: table
        for group, tables in zip(expected.groups, groups, strict=True)
        for k, table in zip(group, tables.double().cpu().numpy(), strict=True)
    }
    return {pair.key: found[k] for k, pair in enumerate(pairs)}
