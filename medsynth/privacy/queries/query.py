"""What every query states: its sensitivity and its noise; and one of coded rows, its exact answer over some rows.

A query is made of public values alone. Its exact answer is a list of arrays of whole numbers, which are added up over
all parts of the rows: no query knows how many parts there are, or where they lie. What is not a sum over rows, such as
a distance, is computed of the sums (`finished`). Then noise is added, once, and what is released is put into the shape
that is asked for (`result`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import numpy as np

from ...rng import Entropy
from ..noise import noised
from .rows import CodedRows, Floats, Whole

Result = TypeVar("Result")


@dataclass(frozen=True)
class Scale:
    """How an array of whole numbers is noised: they are multiples of `unit`, and `std` is the standard deviation of the
    noise beside what they stand for.
    """

    std: float
    unit: float = 1.0


class PrivateQuery(ABC, Generic[Result]):
    """A query of private data, a frozen dataclass of public values: checked at birth, so before anything is charged."""

    @property
    def adds_up(self) -> bool:
        """Whether what is noised adds up over vaults of patients of their own: false where it is no sum over rows."""
        return True

    @abstractmethod
    def sensitivity(self, max_rows: int | None) -> float:
        """L2, of what is noised as `scales` weigh it, to one row or, with `max_rows`, to a patient of so many.

        Raises BudgetError where it has no answer under that unit of privacy.
        """

    def finished(self, total: list[Whole]) -> list[Whole]:
        """What is noised, in whole numbers, of the exact answer over all rows."""
        return total

    @abstractmethod
    def scales(self, std: float) -> Sequence[Scale]:
        """The scale of each finished array, where noise of `std`, multiplier times sensitivity, is due."""

    def result(self, arrays: list[Floats]) -> Result:
        """What was released, in the shape that is asked for: the only array, if nothing else is said."""
        (only,) = arrays
        return cast(Result, only)

    def noised(self, total: list[Whole], std: float, entropy: Entropy) -> list[Floats]:
        """The release: noise of `std`, multiplier times sensitivity, on the exact answer over all rows."""
        return self.noised_finished(self.finished(total), std, entropy)

    def noised_finished(self, finished: list[Whole], std: float, entropy: Entropy) -> list[Floats]:
        """The same of what `finished` makes of the exact answer."""
        return [
            noised(whole, scale.std / scale.unit, entropy) * scale.unit
            for whole, scale in zip(finished, self.scales(std), strict=True)
        ]


class RowQuery(PrivateQuery[Result]):
    """A query of coded rows."""

    @property
    def draws(self) -> int:
        """How many secret 64-bit numbers of its own a row needs."""
        return 0

    @property
    def of_patients(self) -> bool:
        """Whether it reads which patient a row is of: one of whole patients does."""
        return self.whole_patients

    @property
    def whole_patients(self) -> bool:
        """Whether all rows of a patient must lie in one part: it divides something among them."""
        return False

    @abstractmethod
    def exact(self, rows: CodedRows) -> list[Whole]:
        """The exact answer over some rows. Answers over parts of the rows are added up, array by array."""


def answered(query: RowQuery[Any], rows: CodedRows) -> list[Whole]:
    """Return the exact answer over some rows, to which a row adds nothing if the query fails on it.

    Checked content fails on no row (docs/decisions/0059). If a query fails all the same, the rows are halved until
    those that it fails on stand alone, a patient's together: to whoever reads the answer these rows are empty ones.
    Raises what the query raises on a public row, or on none: then the failure depends on the query alone.
    """
    with suppress(Exception):
        return query.exact(rows)
    query.exact(rows.public_row())
    whose = np.arange(len(rows.codes)) if rows.units is None else rows.units.of_row
    apart = np.unique(whose)
    if len(apart) < 2:
        return query.exact(rows.some(np.zeros(len(whose), np.bool_)))
    first = whose < apart[len(apart) // 2]
    return added(answered(query, rows.some(half)) for half in (first, ~first))


def added(answers: Iterable[list[Whole]]) -> list[Whole]:
    """Exact answers over parts of the rows, added up: that over all of them."""
    rest = iter(answers)
    first = next(rest)
    for other in rest:
        first = [one + more for one, more in zip(first, other, strict=True)]
    return first
