"""Sums of x x^T over the rows of each class, in whole numbers, x a row's vector clipped to norm one.

A vector is rounded to whole multiples of `UNIT` and, where it is then longer than one, shortened and rounded towards
zero: its norm is one at most, exactly. Emptying a row takes x x^T from the matrix of its class alone, whose Frobenius
norm is |x|^2. What is released is the diagonal and, of the two equal halves beside it, one, as numbers whose squares
count twice: with them multiplied by sqrt(2) the release moves by the Frobenius norm, at most one. The statement and
its proof: docs/proofs/second-moments.md.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...errors import BudgetError

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
STEPS = 1 << 13  # in one: the unit of a row's vector
UNIT = 1.0 / STEPS**2  # of a product of two of its numbers
ROOT_TWO = 2**0.5  # by which numbers above the diagonal are multiplied, and divided again once they are noised
SPARE = 1e-9  # by which a vector is made too short, so that no rounding lifts it over one
CHUNK_NUMBERS = 1 << 22  # of rows' vectors in memory at once; a chunk's products, of 2^26 units, stay below 2^53


@dataclass(frozen=True, eq=False)
class SecondMoments:
    """Exact sums in multiples of `UNIT`: (classes, width), and above it (classes, width * (width - 1) / 2)."""

    diagonal: Whole
    above: Whole


def clipped_rows(vectors: Floats) -> Floats:
    """Each of (rows, width) in whole multiples of 1 / `STEPS`, of norm one at most; what is no number is zero."""
    whole = np.rint(np.clip(np.nan_to_num(vectors, posinf=0.0, neginf=0.0), -1, 1) * STEPS)
    squares = np.square(whole).sum(1)  # below 2^53, so exact
    factor = np.minimum(1.0, STEPS * (1 - SPARE) / np.sqrt(np.maximum(squares, 1)))
    long = squares > STEPS**2
    whole[long] = np.trunc(whole[long] * factor[long, None])
    return np.asarray(whole)


def second_moments(
    codes: NDArray[np.int32], vectors: Callable[[NDArray[np.int32]], Floats], labels: NDArray[np.integer],
    classes: int, width: int,
) -> SecondMoments:  # fmt: skip
    """The sums over all rows, some at a time: their `vectors`, (some, width), and `labels`, (rows,), below `classes`.

    Products are made in float64, and exact, because the sum over each chunk of rows stays below 2^53. Chunks are added
    in 64 bits, which hold 2^36 rows. A row of another label adds nothing.
    Raises BudgetError for vectors that are not `width` wide.
    """
    total, size = np.zeros((classes, width, width), np.int64), max(1, CHUNK_NUMBERS // width)
    for k in range(0, len(codes), size):
        whole, label = clipped_rows(vectors(codes[k : k + size])), labels[k : k + size]
        if whole.shape != (len(label), width):
            raise BudgetError("A row's vector has not the width that was declared.")
        for one in range(classes):
            own = whole[label == one]
            total[one] += (own.T @ own).astype(np.int64)
    places = np.triu_indices(width, 1)
    return SecondMoments(np.ascontiguousarray(np.diagonal(total, axis1=1, axis2=2)), total[:, places[0], places[1]])


def symmetric(diagonal: Floats, above: Floats) -> Floats:
    """Whole matrices, (classes, width, width), of their diagonals and what stands above these."""
    count, width = diagonal.shape
    found = np.zeros((count, width, width))
    ones, others = np.triu_indices(width, 1)
    found[:, ones, others] = found[:, others, ones] = above
    found[:, np.arange(width), np.arange(width)] = diagonal
    return found
