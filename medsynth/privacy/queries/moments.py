"""The query of second moments: sums of x x^T over the rows of each class, x being a row's vector of norm at most one.

Vectors are whole multiples of 1 / `STEPS`. Numbers above the diagonal count twice, so that a row changes the release by
the Frobenius norm of x x^T, at most one. The statement and its proof: docs/proofs/second-moments.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...arrays import Codes, Floats, Whole
from ...errors import BudgetError
from .content import check_answer
from .query import NoiseScale, RowQuery
from .rows import CellMap, CodedRows, Vectors

STEPS = 1 << 13  # Steps in one, the unit of a row's vector.
UNIT = 1.0 / STEPS**2  # Unit of a product of two of its numbers.
ROOT_TWO = 2**0.5  # Numbers above the diagonal are multiplied by it, and divided by it after noising.
SPARE = 1e-9  # A vector is shortened by this much, so that no rounding lifts it above one.
CHUNK_NUMBERS = 1 << 22  # Numbers of vectors in memory at once: products of 2^26 units stay below 2^53.


@dataclass(frozen=True, eq=False)
class SecondMoments(RowQuery[Floats]):
    """Sums of x x^T over the rows of each class, (classes, width, width), with x clipped to norm one.

    `vectors` is a public, row-by-row map from codes to x, (rows, width). `given`: the target and its classes. The L2
    sensitivity is one, times a patient's rows. Raises QueryError for matrices that are empty or too large.
    """

    vectors: Vectors
    given: tuple[str, CellMap]
    width: int

    def __post_init__(self) -> None:
        check_answer((self.given[1].cells, self.width, self.width))

    def sensitivity(self, max_rows: int | None) -> float:
        """Return a patient's maximum number of rows."""
        return float(max_rows or 1)

    def exact(self, rows: CodedRows) -> list[Whole]:
        """Return the diagonals and the numbers above them."""
        labels = rows.cells(*self.given)
        classes = self.given[1].cells
        return [*second_moments(rows.codes, self.vectors, labels, classes, self.width)]

    def scales(self, std: float) -> list[NoiseScale]:
        """Return the scales: a number above the diagonal counts for two equal ones, so it has half the variance."""
        return [NoiseScale(std, UNIT), NoiseScale(std / ROOT_TWO, UNIT)]

    def result(self, arrays: list[Floats]) -> Floats:
        """Return the noisy matrices, (classes, width, width)."""
        return symmetric(*arrays)


def clipped_rows(vectors: Floats) -> Floats:
    """Return each of (rows, width) in whole multiples of 1 / `STEPS`, with norm at most one; NaN becomes zero."""
    whole = np.rint(np.clip(np.nan_to_num(vectors, posinf=0.0, neginf=0.0), -1, 1) * STEPS)
    squares = np.square(whole).sum(1)  # Below 2^53, so exact.
    factor = np.minimum(1.0, STEPS * (1 - SPARE) / np.sqrt(np.maximum(squares, 1)))
    long = squares > STEPS**2
    whole[long] = np.trunc(whole[long] * factor[long, None])
    return np.asarray(whole)


def second_moments(codes: Codes, vectors: Vectors, labels: Whole, classes: int, width: int) -> tuple[Whole, Whole]:
    """Return the diagonals of the sums, (classes, width), and the rest, (classes, width * (width - 1) / 2).

    In multiples of `UNIT`. `labels`, (rows,), are below `classes`; a row with another label adds nothing. `vectors` is
    called for some rows at a time.

    Products in float64 are exact, because the sum over each chunk of rows stays below 2^53. Chunks are added in 64
    bits, which are enough for 2^36 rows. Raises BudgetError for vectors that are not `width` wide.
    """
    total = np.zeros((classes, width, width), np.int64)
    size = max(1, CHUNK_NUMBERS // width)
    for k in range(0, len(codes), size):
        whole = clipped_rows(vectors(codes[k : k + size]))
        label = labels[k : k + size]
        if whole.shape != (len(label), width):
            raise BudgetError(f"Expected vectors of width {width}.")
        for one in range(classes):
            own = whole[label == one]
            total[one] += (own.T @ own).astype(np.int64)
    places = np.triu_indices(width, 1)
    return np.ascontiguousarray(np.diagonal(total, axis1=1, axis2=2)), total[:, places[0], places[1]]


def symmetric(diagonal: Floats, above: Floats) -> Floats:
    """Return whole matrices, (classes, width, width), from their diagonals and the numbers above them."""
    count, width = diagonal.shape
    found = np.zeros((count, width, width))
    ones, others = np.triu_indices(width, 1)
    found[:, ones, others] = found[:, others, ones] = above
    found[:, np.arange(width), np.arange(width)] = diagonal
    return found
