"""Accept rows that meet the rules so that the shares of values stay those of all rows that the model draws.

A model draws some rows that break a rule, and these are drawn again. Then all that they have in common gets rarer, such
as a class, or a date that is not missing. So the remaining rows are weighted, by one factor for each value, or bin of
values, of each column, until the shares equal those of all drawn rows (raking: Deming and Stephan 1940). A row is
accepted with a chance proportional to its weight. No row is copied, and rows stay independent.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..arrays import Codes, Floats, Mask, Whole
from ..rng import Stream
from ..schema import Schema

MOST_BINS = 20  # of a column's values
ROUNDS, CLOSE = 50, 0.002  # of raking; the largest logarithm of a factor's step at the end
STALLED = 0.9  # part of the last largest step, for ties: shares that contradict a sum would move factors for ever
FEWEST = 5  # rows that a cell needs among those that meet the rules; smaller cells are left as they are
LARGEST_FACTOR = 30.0  # of a cell
LARGEST_WEIGHT = 10.0  # of a row, relative to the mean: rows that are drawn in vain for each accepted one
IN_VAIN = 30.0  # rows drawn for each accepted one, in all: if hardly any row meets the rules, weights are more even


@dataclass(frozen=True, eq=False)
class Tilt:
    """Weights of rows: the product of the `factors` of their cells, (cells,) by the place of a column.

    `starts`: the code at which each cell starts, (cells,). Weights above `most` count as `most`.
    """

    starts: Mapping[int, Whole]
    factors: Mapping[int, Floats]
    most: float

    @classmethod
    def of(cls, codes: Codes, good: Mask, schema: Schema, given: Sequence[str] = (), free: Codes | None = None) -> Tilt:
        """Return weights for the `good` ones among rows, (rows, columns of the schema), by the shares of all of them,
        or of `free` rows. Columns that are `given`, and not drawn, have no factors.
        """
        stalled = np.inf if free is None else STALLED
        free = codes if free is None else free
        names = schema.core.names
        places = {schema.names.index(name): schema.columns[name].size for name in names if name not in given}
        starts = {k: _starts(free[:, k], size) for k, size in places.items()}
        factors = {k: np.ones(len(own)) for k, own in starts.items()}
        wanted = {k: _shares(_cells(free[:, k], own), len(own)) for k, own in starts.items()}
        cells = {k: _cells(codes[good, k], own) for k, own in starts.items()}
        enough = {k: np.bincount(own, minlength=len(starts[k])) >= FEWEST for k, own in cells.items()}
        weights = np.ones(int(good.sum()))
        last = np.inf
        for _ in range(ROUNDS):
            furthest = 0.0
            for k, own in cells.items():
                now = np.bincount(own, weights, len(factors[k])) / weights.sum()
                goal = np.where(enough[k], wanted[k] / np.maximum(now, 1e-12), 1.0) * factors[k]
                goal = goal.clip(1 / LARGEST_FACTOR, LARGEST_FACTOR)
                furthest = max(furthest, float(np.abs(np.log(goal / factors[k])).max()))
                weights *= (goal / factors[k])[own]
                factors[k] = goal
            if furthest < CLOSE or furthest > stalled * last:
                break
            last = furthest
        largest = np.clip(IN_VAIN * good.mean(), 1.0, LARGEST_WEIGHT) * weights.mean()
        return cls(starts, factors, float(min(weights.max(), largest)))

    def times(self, other: Tilt | None, codes: Codes, largest: float) -> Tilt:
        """Return the product of two tilts with the same cells. `largest`: weight, relative to the mean of `codes`."""
        factors = {k: own * other.factors[k] if other else own for k, own in self.factors.items()}
        weights = replace(self, factors=factors).weights(codes)
        return Tilt(self.starts, factors, float(min(weights.max(), largest * weights.mean())))

    def weights(self, codes: Codes) -> Floats:
        """Return the weight of each row: (rows,)."""
        found = np.ones(len(codes))
        for k, factor in self.factors.items():
            found *= factor[_cells(codes[:, k], self.starts[k])]
        return found

    def accepted(self, codes: Codes, stream: Stream) -> Mask:
        """Return which rows are accepted, by chance: (rows,)."""
        return np.asarray(stream.random(len(codes)) * self.most < self.weights(codes))


def _cells(codes: Codes, starts: Whole) -> Whole:
    """Return the cell of each code; codes below the first start are in the first cell."""
    return np.maximum(np.searchsorted(starts, codes, side="right") - 1, 0)


def _shares(cells: Whole, count: int) -> Floats:
    return np.bincount(cells, minlength=count) / len(cells)


def _starts(codes: Codes, size: int) -> Whole:
    """Return the first codes of cells with about equal mass. Frequent values and missing ones have their own."""
    values = np.unique(codes)
    some = codes[codes < size]
    if len(values) > MOST_BINS and len(some):
        edges = np.quantile(some, np.linspace(0, 1, MOST_BINS + 1)[:-1], method="lower")
        values = np.union1d(edges, values[values >= size])
    return values.astype(np.int64)
