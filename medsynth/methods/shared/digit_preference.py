"""Heaps: blood pressures of 120, 130, 140, even readings, and assays with fewer decimals than their schema allows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...rng import Stream
from ...schema import Schema
from .marginals import CELLS

Floats = NDArray[np.float64]
Codes = NDArray[np.int32]
Whole = NDArray[np.int64]
PLACES = 4  # decimal places, from the last, in which heaps are looked for
DIGITS = 9
FITTING = 50
# Kinds of whole numbers: by the place of the last digit that is not zero and by that digit; then all multiples of
# 10^PLACES. Each kind is a residue class, so the numbers of a kind in a range can be counted and drawn exactly.
MODULUS = np.array([*np.repeat(10 ** np.arange(1, PLACES + 1), DIGITS), 10**PLACES])[:, None]
RESIDUE = np.array([d * 10**k for k in range(PLACES) for d in range(1, DIGITS + 1)] + [0])[:, None]


@dataclass(frozen=True)
class Grain:
    """A map from codes to the kind of each whole number of units: its last digit that is not zero, and where."""

    low: int
    top: int

    @property
    def cells(self) -> int:
        """One a kind, and one for missing values."""
        return len(MODULUS) + 1

    def cell_of(self, codes: Codes) -> NDArray[np.int64]:
        """The kind of each value."""
        units = codes.astype(np.int64) + self.low
        kind = np.full(len(codes), DIGITS * PLACES)
        for k in reversed(range(PLACES)):
            rest = units % 10 ** (k + 1)
            kind = np.where(rest > 0, DIGITS * k + rest // 10**k - 1, kind)
        return np.where(codes < self.top, kind, len(MODULUS))


def grains(schema: Schema) -> dict[str, Grain]:
    """The grain map of every number column whose values outnumber its histogram's cells."""
    return {
        name: Grain(column.units[0], column.size)
        for name, column in schema.columns.items()
        if not column.categorical and column.size > CELLS
    }


def shrunk(counts: Floats, std: float) -> Floats:
    """Noisy counts of kinds in which the digits of a place differ no more than the noise lets one see.

    Each place's digits are drawn towards their mean (James and Stein 1961, towards the mean as Efron and Morris 1973).
    """
    found = counts.copy()
    for k in range(PLACES):
        some = slice(DIGITS * k, DIGITS * (k + 1))
        apart = counts[some] - counts[some].mean()
        found[some] -= apart * min(1.0, (DIGITS - 3) * std**2 / max(float(apart @ apart), 1e-12))
    return found


def fitted(edges: Whole, shares: Floats, grain: Floats) -> Floats:
    """Weights of the numbers of each kind within a fine cell, (kinds,), under which kinds get their noisy shares.

    Cell i holds the whole numbers edges[i] to edges[i + 1] - 1; `shares` (cells,) and `grain` (kinds + 1,) are noisy
    shares of rows. Found by iterative proportional fitting: a cell that holds a heap has its mass already.
    """
    first, last = edges[: len(shares)], edges[1 : len(shares) + 1] - 1
    held, part = held_in(first, last).astype(np.float64), shares / shares.sum()
    goal = grain[: len(MODULUS)] / max(grain[: len(MODULUS)].sum(), 1e-12)
    weight = np.ones(len(MODULUS))
    for _ in range(FITTING):
        each = held * weight[:, None]
        now = (each / np.maximum(each.sum(0), 1e-12) * part).sum(1)
        weight = np.where(now > 1e-6, weight * goal / np.maximum(now, 1e-6), 1e-6).clip(1e-6, 1e6)
    return np.asarray(weight)


def held_in(first: Whole, last: Whole) -> Whole:
    """How many numbers of each kind lie in each range [first, last]: (kinds, ranges)."""
    return np.asarray((last - RESIDUE) // MODULUS - (first - 1 - RESIDUE) // MODULUS)


def on_heaps(first: Whole, last: Whole, heaping: Floats, rng: Stream) -> Whole:
    """A whole number in each range [first, last]; `heaping` weighs the numbers of each kind."""
    held = held_in(first, last)
    weight = np.cumsum(held * (heaping[:, None] + 1e-12), axis=0)
    kind = (rng.random(len(first)) * weight[-1] > weight).sum(0).clip(max=len(MODULUS) - 1)
    modulus, residue = MODULUS[kind, 0], RESIDUE[kind, 0]
    lowest = first + (residue - first) % modulus
    member = np.floor(rng.random(len(first)) * held[kind, np.arange(len(first))]).astype(np.int64)
    return np.asarray(lowest + modulus * member)
