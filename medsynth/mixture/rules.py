"""Rules of the schema in the fit: columns that are computed from two others, and cells that no row may be in.

A computed column, such as a quotient, is measured by class and tells of both inputs at once. Rows that break a rule are
drawn again when a table is sampled. Where a model makes many of them, what is left has other shares than were measured.
So it is fitted to make few.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..methods.bins import WIDE, Bins, fine_grid
from ..methods.stratified import uniforms
from ..privacy.queries.cells import Computed
from ..privacy.queries.rows import Axes, CellMap, Codes
from ..rng import Stream
from ..schema import Schema
from ..schema.rules import Constraint, Definition
from . import constants as k

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class DerivedColumn:
    """The `definition` of a column and its `bins`."""

    definition: Definition
    bins: Bins

    @property
    def cells(self) -> int:
        """Number of bins."""
        return self.bins.cells

    def cell_of(self, codes: Codes) -> NDArray[np.int64]:
        """The bin of each row, by the codes of the inputs: (rows, inputs) to (rows,)."""
        return self.bins.cell_of(self.definition.codes(codes))

    def plain(self) -> Computed:
        """The same map without what else is known of the column."""
        return Computed(self.definition, self.bins.plain())

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns that it follows from."""
        return tuple(self.definition.inputs)

    def axes(self, given: tuple[str, CellMap]) -> Axes:
        """The axes of its table: class and bin."""
        return [given, (self.inputs, self)]

    def of_inputs(self, bins: Mapping[str, Bins], rng: Stream) -> Floats:
        """The share of each of its bins in each cell of its inputs' table: (bins of the one, of the other, its own)."""
        sizes, cell, codes = drawn_in_cells(bins, self.inputs, k.DRAWN_PER_CELL, rng)
        found = np.bincount(cell * self.cells + self.cell_of(codes), minlength=math.prod(sizes) * self.cells)
        return np.asarray(found.reshape(*sizes, self.cells) / k.DRAWN_PER_CELL)


def derived_columns(schema: Schema, bins: Mapping[str, Bins], most: int, rng: Stream) -> dict[str, DerivedColumn]:
    """Those of a core schema, with at most `most` bins, of about even mass were their inputs independent.

    A column that is computed from the target is left out: the model has the columns given it.
    """
    found = {}
    for name, definition in schema.definitions.items():
        followed = len(definition.inputs) == 2 and schema.target not in definition.inputs
        if not followed or definition.column.size <= most:
            continue
        own = [_drawn(bins[column], rng) for column in definition.inputs]
        fine = fine_grid(definition.column)
        counts = np.bincount(fine.cell_of(definition.codes(np.stack(own, 1))), minlength=fine.cells)
        own_bins = Bins.of(definition.column, counts / k.DRAWN_ROWS, None, most, fine, WIDE)
        found[name] = DerivedColumn(definition, own_bins)
    return found


def drawn_in_cells(
    bins: Mapping[str, Bins], names: Sequence[str], each: int, rng: Stream
) -> tuple[list[int], NDArray[np.int64], Codes]:
    """Draw rows, `each` in a cell of the table of some columns, values in bins as one-way marginals say.

    Returns the columns' bins, the cell of each row, (rows,), and the rows, (rows, columns).
    """
    sizes = [bins[name].cells for name in names]
    cell = np.repeat(np.arange(math.prod(sizes)), each)
    places = np.unravel_index(cell, sizes)
    return sizes, cell, np.stack([bins[n].drawn_inside(at, rng) for n, at in zip(names, places, strict=True)], 1)


def _drawn(bins: Bins, rng: Stream) -> Codes:
    """Codes by a column's one-way marginal."""
    fine = rng.choice(len(bins.shares), k.DRAWN_ROWS, p=bins.shares / bins.shares.sum())
    return _even(bins, fine, rng)


def _even(bins: Bins, fine: NDArray[np.int64], rng: Stream) -> Codes:
    ends = bins.grid.ends
    first, last = ends[fine], ends[fine + 1] - 1
    return np.asarray(first + np.floor(uniforms(fine, rng) * (last - first + 1)), np.int32)


def chances_of_breaking(
    schema: Schema, bins: Mapping[str, Bins], rng: Stream
) -> Iterator[tuple[tuple[str, ...], Floats]]:
    """Yield the columns of each rule that some cells of their table break and others do not, and `chance_of_breaking`.

    Leaves out rules that read the target, and those whose table would be too large.
    """
    for constraint in schema.constraints:
        names = tuple(constraint.inputs)
        small = len(names) <= k.MOST_INPUTS and math.prod(bins[name].cells for name in names) <= k.MOST_RULE_CELLS
        if small and schema.target not in names:
            chance = chance_of_breaking(constraint, bins, rng)
            if 0 < chance.mean() < 1:
                yield names, chance


def chance_of_breaking(constraint: Constraint, bins: Mapping[str, Bins], rng: Stream) -> Floats:
    """The share of rows that break it in each cell of its inputs' table, values in bins as one-way marginals say."""
    names = tuple(constraint.inputs)
    count = max(1, min(k.DRAWN_PER_CELL, k.MOST_DRAWN // math.prod(bins[name].cells for name in names)))
    sizes, cell, codes = drawn_in_cells(bins, names, count, rng)
    return np.asarray(np.bincount(cell, constraint.broken(codes), math.prod(sizes)).reshape(sizes) / count)
