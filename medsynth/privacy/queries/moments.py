"""The query of second moments: sums of x x^T over the rows of each class."""

from __future__ import annotations

from dataclasses import dataclass

from ..exact.second_moments import ROOT_TWO, UNIT, second_moments, symmetric
from .content import check_answer
from .query import RowQuery, Scale
from .rows import CellMap, CodedRows, Floats, Vectors, Whole


@dataclass(frozen=True, eq=False)
class SecondMoments(RowQuery[Floats]):
    """Sums of x x^T over the rows of each class, (classes, width, width), x clipped to norm one.

    `vectors` is a public, row-by-row map from codes to x, (rows, width); `given`: the target and its classes. L2
    sensitivity one (`exact/second_moments.py`), times a patient's rows. Raises QueryError for matrices that are empty
    or too large.
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
        found = second_moments(rows.codes, self.vectors, rows.cells(*self.given), self.given[1].cells, self.width)
        return [found.diagonal, found.above]

    def scales(self, std: float) -> list[Scale]:
        """A number above the diagonal stands for two equal ones: it has half the variance."""
        return [Scale(std, UNIT), Scale(std / ROOT_TWO, UNIT)]

    def result(self, arrays: list[Floats]) -> Floats:
        """The noisy matrices."""
        return symmetric(*arrays)
