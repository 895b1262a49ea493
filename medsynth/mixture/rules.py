"""Use rules of the schema in the fit: columns that are computed from two others.

A computed column, such as a quotient, is measured by class and informs about both inputs at once. What rules forbid is
left to sampling, which keeps shares (`sampling/tilt.py`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..arrays import Codes, Floats, Whole
from ..methods.bins import WIDE, Bins, fine_grid
from ..methods.stratified import uniforms
from ..privacy.queries.cells import Computed
from ..privacy.queries.rows import Axes, CellMap
from ..rng import Stream
from ..schema import Schema
from ..schema.rules import Definition
from . import constants as k


@dataclass(frozen=True)
class DerivedColumn:
    """The `definition` of a column and its `bins`."""

    definition: Definition
    bins: Bins

    @property
    def cells(self) -> int:
        """The number of bins."""
        return self.bins.cells

    def cell_of(self, codes: Codes) -> Whole:
        """Return the bin of each row, (rows,), by the codes of the inputs, (rows, inputs)."""
        return self.bins.cell_of(self.definition.codes(codes))

    def plain(self) -> Computed:
        """Return this map as a query may hold it: grid and places only, no shares."""
        return Computed(self.definition, self.bins.plain())

    @property
    def inputs(self) -> tuple[str, ...]:
        """The columns that it is computed from."""
        return tuple(self.definition.inputs)

    def axes(self, given: tuple[str, CellMap]) -> Axes:
        """Return the axes of its table: class and bin."""
        return [given, (self.inputs, self)]

    def of_inputs(self, bins: Mapping[str, Bins], rng: Stream) -> Floats:
        """Return the share of each bin in each cell of its inputs' table: (bins of one, of the other, own bins)."""
        sizes, cell, codes = drawn_in_cells(bins, self.inputs, k.DRAWN_PER_CELL, rng)
        found = np.bincount(cell * self.cells + self.cell_of(codes), minlength=math.prod(sizes) * self.cells)
        return np.asarray(found.reshape(*sizes, self.cells) / k.DRAWN_PER_CELL)


def derived_columns(schema: Schema, bins: Mapping[str, Bins], most: int, rng: Stream) -> dict[str, DerivedColumn]:
    """Return the computed columns of a core schema, with at most `most` bins of about equal mass.

    Columns that are computed from the target are left out, because the model conditions on the target.
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
) -> tuple[list[int], Whole, Codes]:
    """Draw `each` rows in every cell of the table of some columns, with values in bins by one-way marginals.

    Returns the columns' numbers of bins, the cell of each row, (rows,), and the rows, (rows, columns).
    """
    sizes = [bins[name].cells for name in names]
    cell = np.repeat(np.arange(math.prod(sizes)), each)
    places = np.unravel_index(cell, sizes)
    return sizes, cell, np.stack([bins[n].drawn_inside(at, rng) for n, at in zip(names, places, strict=True)], 1)


def _drawn(bins: Bins, rng: Stream) -> Codes:
    """Draw codes by a column's one-way marginal."""
    fine = rng.choice(len(bins.shares), k.DRAWN_ROWS, p=bins.shares / bins.shares.sum())
    return _even(bins, fine, rng)


def _even(bins: Bins, fine: Whole, rng: Stream) -> Codes:
    ends = bins.grid.ends
    first, last = ends[fine], ends[fine + 1] - 1
    return np.asarray(first + np.floor(uniforms(fine, rng) * (last - first + 1)), np.int32)
