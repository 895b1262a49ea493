"""Model preferred kinds of numbers: pressures of 120 and 130, even readings, assays with fewer decimals than declared.

The kinds of days and timestamps are in `preferred_times.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Protocol

import numpy as np
import pandas as pd

from ..arrays import Codes, Floats, Whole
from ..privacy.queries.content import require
from ..rng import Stream
from ..schema import Column, Schema
from .marginals import GRID_CELLS, Counts, mean_over_priors
from .preferred_times import HOURS, DayKinds, HourKinds
from .stratified import choose, uniforms

DECIMAL_PLACES = 4  # last decimal places in which preferred digits are modelled
NONZERO_DIGITS = 9
MOST_UNITS = 1 << 53  # largest whole number of units
FITTING_ROUNDS = 50  # of iterative proportional fitting
# Kinds of whole numbers: by the place of the last nonzero digit and by that digit; then all multiples of
# 10^DECIMAL_PLACES. Each kind is a residue class, so the numbers of a kind in a range can be counted and drawn exactly.
MODULUS = np.array([*np.repeat(10 ** np.arange(1, DECIMAL_PLACES + 1), NONZERO_DIGITS), 10**DECIMAL_PLACES])[:, None]
RESIDUE = np.array([d * 10**k for k in range(DECIMAL_PLACES) for d in range(1, NONZERO_DIGITS + 1)] + [0])[:, None]
PLACE = np.array([*np.repeat(np.arange(DECIMAL_PLACES), NONZERO_DIGITS), DECIMAL_PLACES, -1])  # of kinds; of missing
# Prior standard deviations of a kind's log share around its value without preference: common to a group, and per kind.
PREFERENCE_STDS = (0.05, 2.0)


class Kinds(Protocol):
    """A public map from the codes of a column to kinds of its numbers, and to one more cell for missing values."""

    @property
    def cells(self) -> int:
        """The number of kinds, plus one for missing values."""

    @property
    def groups(self) -> Whole:
        """The group of each kind by each grouping, (groupings, cells). How strongly groups are preferred is learned."""

    def cell_of(self, codes: Codes) -> Whole:
        """Return the kind of each value."""

    def count(self, first: Whole, last: Whole) -> Whole:
        """Count the numbers of each kind in each range [first, last]: (kinds, ranges)."""

    def nth(self, kind: Whole, first: Whole, rank: Whole) -> Whole:
        """Return the number of a `kind` with this `rank`, from zero, among those from `first` on. All (rows,)."""


@dataclass(frozen=True)
class DigitKinds:
    """A map from codes to kinds of whole numbers: the last nonzero digit, and its place.

    Raises QueryError for numbers of units beyond 2^53.
    """

    low: int
    top: int

    def __post_init__(self) -> None:
        require(max(abs(self.low), abs(self.top)) <= MOST_UNITS, "The numbers of a column are too large.")

    @property
    def cells(self) -> int:
        """The number of kinds, plus one for missing values."""
        return len(MODULUS) + 1

    @property
    def groups(self) -> Whole:
        """The group of each kind, (1, cells): the place of the last nonzero digit, and missing values."""
        return PLACE[None]

    def cell_of(self, codes: Codes) -> Whole:
        """Return the kind of each value."""
        units = codes.astype(np.int64) + self.low
        kind = np.full(len(codes), NONZERO_DIGITS * DECIMAL_PLACES)
        for k in reversed(range(DECIMAL_PLACES)):
            rest = units % 10 ** (k + 1)
            kind = np.where(rest > 0, NONZERO_DIGITS * k + rest // 10**k - 1, kind)
        return np.where(codes < self.top, kind, len(MODULUS))

    def count(self, first: Whole, last: Whole) -> Whole:
        """Count the numbers of each kind in each range [first, last]: (kinds, ranges)."""
        return np.asarray((last - RESIDUE) // MODULUS - (first - 1 - RESIDUE) // MODULUS)

    def nth(self, kind: Whole, first: Whole, rank: Whole) -> Whole:
        """Return the number of a `kind` with this `rank`, from zero, among those from `first` on. All (rows,)."""
        modulus, residue = MODULUS[kind, 0], RESIDUE[kind, 0]
        return np.asarray(first + (residue - first) % modulus + modulus * rank)


def kinds_of(column: Column, cells: int | None = None) -> Kinds:
    """Return the map to kinds of a column: days of a month, hours, or digits. `cells`: their number, if it is known.

    Models of earlier versions have kinds by digits in all columns, or whole hours.
    """
    digits, per_day = DigitKinds(column.units[0], column.size), column.units_of_day
    if cells == digits.cells or not per_day:
        return digits
    if per_day == 1:
        return DayKinds(digits.low, digits.top)
    return HourKinds(digits.low, digits.top, per_day, rounded=cells != HOURS + 1)


def preferred_kinds(schema: Schema) -> dict[str, Kinds]:
    """Return the map to kinds of each number column with more values than cells of its histogram."""
    some = {n: c for n, c in schema.columns.items() if not c.categorical and c.size > GRID_CELLS}
    return {name: kinds_of(column) for name, column in some.items()}


def kind_shares(counts: Floats, std: float, rows: float, edges: Whole, shares: Floats, kinds: Kinds) -> Floats:
    """Return shares of the kinds, (kinds + 1,), by their noisy counts of `rows` rows.

    They are the shares without preference, unless the counts clearly differ. Cell i contains the whole numbers
    edges[i] to edges[i + 1] - 1. `shares`: of the cells, then of the kinds of missing values. The prior learns from
    all counts how strongly places, and digits within a place, are preferred (`mean_over_priors`).
    """
    members = kinds.count(edges[:-1], edges[1:] - 1).astype(np.float64)
    values = members.shape[1]
    expected = np.append(members / members.sum(0) @ shares[:values], shares[values:].sum())
    there = expected > 0
    base = np.log(expected[there] / expected.sum())
    measured = [Counts.of_cells(counts[there], std)]
    groups = kinds.groups[:, there]
    alike = [*(groups[:, :, None] == groups[:, None]), np.eye(len(base))]
    stds = np.array([*product(PREFERENCE_STDS, repeat=len(alike))])  # (priors, what is alike)
    precisions = np.linalg.inv(np.tensordot(stds**2, np.stack(alike).astype(np.float64), 1))
    found = np.zeros(len(expected))
    found[there] = mean_over_priors(measured, rows, base, precisions)
    return found


def kind_weights(edges: Whole, shares: Floats, kind_shares: Floats, kinds: Kinds) -> Floats:
    """Return weights of the kinds of numbers within a fine cell, (kinds,), that give the kinds their noisy shares.

    Cell i contains the whole numbers edges[i] to edges[i + 1] - 1. `shares`, (cells,), and `kind_shares`, (kinds + 1,),
    are noisy shares of rows. The weights are found by iterative proportional fitting.
    """
    first, last = edges[: len(shares)], edges[1 : len(shares) + 1] - 1
    members = kinds.count(first, last).astype(np.float64)
    part = shares / shares.sum()
    goal = kind_shares[:-1] / max(kind_shares[:-1].sum(), 1e-12)
    weight = np.ones(len(goal))
    for _ in range(FITTING_ROUNDS):
        each = members * weight[:, None]
        now = (each / np.maximum(each.sum(0), 1e-12) * part).sum(1)
        weight = np.where(now > 1e-6, weight * goal / np.maximum(now, 1e-6), 1e-6).clip(1e-6, 1e6)
    return np.asarray(weight)


def draw_numbers(first: Whole, last: Whole, weights: Floats, kinds: Kinds, rng: Stream) -> Whole:
    """Draw a whole number in each range [first, last]. `weights`: of the numbers of each kind, (kinds,).

    Ranges with the same first number must be the same range.
    """
    of, starts = pd.factorize(first, sort=True)
    ends = np.empty_like(starts)
    ends[of] = last
    members = kinds.count(starts, ends)
    kind = choose((members * (weights[:, None] + 1e-12)).T, of, rng)
    rank = uniforms(of * len(members) + kind, rng)
    return kinds.nth(kind, first, np.floor(rank * members[kind, of]).astype(np.int64))
