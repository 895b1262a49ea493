"""The query of second moments: sums of x x^T over the rows of each class, x a row's vector clipped to norm one.

Vectors are whole multiples of 1 / `STEPS`. Numbers above the diagonal count twice, so that the release moves by the
Frobenius norm of x x^T, at most one. The statement and its proof: docs/proofs/second-moments.md.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...errors import BudgetError
from .content import check_answer
from .query import RowQuery, Scale
from .rows import CellMap, CodedRows, Codes, Floats, Vectors, Whole

STEPS = 1 << 13  # in one: the unit of a row's vector
UNIT = 1.0 / STEPS**2  # of a product of two of its numbers
ROOT_TWO = 2**0.5  # by which numbers above the diagonal are multiplied, and divided again once they are noised
SPARE = 1e-9  # by which a vector is made too short, so that no rounding lifts it over one
CHUNK_NUMBERS = 1 << 22  # of rows' vectors in memory at once; a chunk's products, of 2^26 units, stay below 2^53


@dataclass(frozen=True, eq=False)
class SecondMoments(RowQuery[Floats]):
    """Sums of x x^T over the rows of each class, (classes, width, width), x clipped to norm one.

    `vectors` is a public, row-by-row map from codes to x, (rows, width); `given`: the target and its classes. L2
    sensitivity one, times a patient's rows. Raises QueryError for matrices that are empty or too large.
    """

    vectors: Vectors
    given: tuple[str, CellMap]
    width: int

    def __post_init__(self) -> None:
        check_answer((self.given[1].cells, self.width, self.width))

    def sensitivity(self, max_rows: int | None) -> float:
        """The most rows of a patient."""
        return float(max_rows or 1)

    def exact(self, rows: CodedRows) -> list[Whole]:
        """The diagonals, and what stands above them."""
        labels, classes = rows.cells(*self.given), self.given[1].cells
        return [*second_moments(rows.codes, self.vectors, labels, classes, self.width)]

    def scales(self, std: float) -> list[Scale]:
        """A number above the diagonal stands for two equal ones: it has half the variance."""
        return [Scale(std, UNIT), Scale(std / ROOT_TWO, UNIT)]

    def result(self, arrays: list[Floats]) -> Floats:
        """The noisy matrices."""
        return symmetric(*arrays)


def clipped_rows(vectors: Floats) -> Floats:
    """Each of (rows, width) in whole multiples of 1 / `STEPS`, of norm one at most; what is no number is zero."""
    whole = np.rint(np.clip(np.nan_to_num(vectors, posinf=0.0, neginf=0.0), -1, 1) * STEPS)
    squares = np.square(whole).sum(1)  # below 2^53, so exact
    factor = np.minimum(1.0, STEPS * (1 - SPARE) / np.sqrt(np.maximum(squares, 1)))
    long = squares > STEPS**2
    whole[long] = np.trunc(whole[long] * factor[long, None])
    return np.asarray(whole)


def second_moments(codes: Codes, vectors: Vectors, labels: Whole, classes: int, width: int) -> tuple[Whole, Whole]:
    """The diagonals of the sums, (classes, width), and what is above them, (classes, width * (width - 1) / 2).

    In multiples of `UNIT`. `labels`, (rows,), lie below `classes`; `vectors` are made of some rows at a time.

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
    return np.ascontiguousarray(np.diagonal(total, axis1=1, axis2=2)), total[:, places[0], places[1]]


def symmetric(diagonal: Floats, above: Floats) -> Floats:
    """Whole matrices, (classes, width, width), of their diagonals and what stands above these."""
    count, width = diagonal.shape
    found = np.zeros((count, width, width))
    ones, others = np.triu_indices(width, 1)
    found[:, ones, others] = found[:, others, ones] = above
    found[:, np.arange(width), np.arange(width)] = diagonal
    return found
