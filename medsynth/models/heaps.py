"""Heaps: blood pressures of 120, 130, 140, and assays with fewer decimals than their schema allows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..codec.codec import size
from ..rng import Stream
from ..schema import Binary, Categorical, Schema
from .marginals import CELLS

Floats = NDArray[np.float64]
Codes = NDArray[np.int32]
Whole = NDArray[np.int64]
STEPS = (1, 5, 10, 50, 100, 500, 1000, 5000, 10_000)  # units of the last decimal that values may be heaped on
TRIES, FITTING = 30, 50


@dataclass(frozen=True)
class Grain:
    """A map from codes to the largest step that divides the value: labs print fewer decimals than schemas allow."""

    low: int
    top: int

    @property
    def cells(self) -> int:
        """One a step; missing values count as the finest."""
        return len(STEPS)

    def cell_of(self, codes: Codes) -> NDArray[np.int64]:
        """The place in STEPS of the largest one that divides each value."""
        units = np.where(codes < self.top, codes.astype(np.int64) + self.low, 1)
        return np.asarray(np.max([np.where(units % step == 0, k, 0) for k, step in enumerate(STEPS)], axis=0))


def grains(schema: Schema) -> dict[str, Grain]:
    """The grain map of every number column whose values outnumber its histogram's cells."""
    return {
        name: Grain(column.units[0], size(column))
        for name, column in schema.columns.items()
        if not isinstance(column, Binary | Categorical) and size(column) > CELLS
    }


def fitted(edges: Whole, shares: Floats, grain: Floats) -> Floats:
    """Weights of the numbers of each step within a fine cell, (steps,), under which steps get their noisy shares.

    Cell i holds the whole numbers edges[i] to edges[i + 1] - 1; `shares` (cells,) and `grain` (steps,) are noisy shares
    of rows. Found by iterative proportional fitting: a cell that holds a heap has its mass already.
    """
    first, last = edges[: len(shares)], edges[1 : len(shares) + 1] - 1
    exact, part = held(first, last)[1].astype(np.float64), shares / shares.sum()
    weight = np.ones(len(STEPS))
    for _ in range(FITTING):
        each = exact * weight[:, None]
        now = (each / np.maximum(each.sum(0), 1e-12) * part).sum(1)
        weight = np.where(now > 1e-6, weight * grain / np.maximum(now, 1e-6), 1e-6).clip(1e-6, 1e6)
    return np.asarray(weight)


def held(first: Whole, last: Whole) -> tuple[Whole, Whole]:
    """How many multiples of each step lie in each range [first, last]: all, and those that the next does not divide."""
    steps = np.array(STEPS)[:, None]
    multiples = last // steps - -(-first // steps) + 1
    return multiples, multiples - np.concatenate([multiples[1:], np.zeros_like(multiples[:1])])


def on_steps(first: Whole, last: Whole, heaping: Floats, rng: Stream) -> Whole:
    """A whole number in each range [first, last]; `heaping` weighs those whose largest step is each of STEPS."""
    steps = np.array(STEPS)
    multiples, exact = held(first, last)
    weight = np.cumsum(exact * heaping[:, None] + 1e-12 * (exact > 0), axis=0)
    chosen = (rng.random(len(first)) * weight[-1] > weight).sum(0)
    step, beyond = steps[chosen], np.append(steps[1:], 0)[chosen]
    value = first.copy()
    todo = np.arange(len(first))
    for _ in range(TRIES):  # a draw that the next step divides is drawn again: at least half of them stand
        some, inside = step[todo], multiples[chosen[todo], todo]
        value[todo] = (-(-first[todo] // some) + np.floor(rng.random(len(todo)) * inside).astype(np.int64)) * some
        following = beyond[todo]
        todo = todo[(following > 0) & (value[todo] % np.maximum(following, 1) == 0)]
        if not len(todo):
            break
    return value
