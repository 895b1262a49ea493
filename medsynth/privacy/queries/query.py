"""The contents of every query: its sensitivity and its noise; and for coded rows, its exact answer over some rows.

A query consists of public values only. Its exact answer is a list of arrays of whole numbers that are added up over all
parts of the rows, so a query does not depend on the parts. `finished` computes from the sums what is not a sum over
rows, such as a distance. Then noise is added once, and `result` gives the release its final form.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import groupby
from typing import Any, Generic, TypeVar, cast

import numpy as np

from ...arrays import Floats, Whole
from ...rng import Entropy
from ..noise import noised
from .rows import CodedRows

Result = TypeVar("Result")


@dataclass(frozen=True)
class NoiseScale:
    """The noise of an array of whole multiples of `unit`: its standard deviation is `std`, in terms of values."""

    std: float
    unit: float = 1.0


class PrivateQuery(ABC, Generic[Result]):
    """A query of private data, a frozen dataclass of public values. It is checked when made, so before any charge."""

    @property
    def adds_up(self) -> bool:
        """Return whether noised answers add up over vaults with separate patients, as sums over rows do."""
        return True

    @abstractmethod
    def sensitivity(self, max_rows: int | None) -> float:
        """Return the L2 sensitivity, weighted as in `scales`, to one row or to a patient with at most `max_rows` rows.

        Raises BudgetError if the query has no answer under that unit of privacy.
        """

    def finished(self, total: list[Whole]) -> list[Whole]:
        """Return the whole numbers to be noised, from the exact answer over all rows."""
        return total

    @abstractmethod
    def scales(self, std: float) -> Sequence[NoiseScale]:
        """Return the scale of each finished array for noise of `std`, which is multiplier times sensitivity."""

    def result(self, arrays: list[Floats]) -> Result:
        """Return the released arrays in their final form: by default the only array."""
        (only,) = arrays
        return cast(Result, only)

    def noised(self, total: list[Whole], std: float, entropy: Entropy) -> list[Floats]:
        """Return the release: noise of `std`, multiplier times sensitivity, on the exact answer over all rows."""
        return self.noised_finished(self.finished(total), std, entropy)

    def noised_finished(self, finished: list[Whole], std: float, entropy: Entropy) -> list[Floats]:
        """Return the release from a `finished` exact answer. Arrays in a row with one scale share a draw."""
        found = list[Floats]()
        for scale, some in groupby(zip(self.scales(std), finished, strict=True), key=lambda pair: pair[0]):
            noisy = self.with_noise([whole for _, whole in some], scale.std / scale.unit, entropy)
            found += [values * scale.unit for values in noisy]
        return found

    def with_noise(self, values: list[Whole], std: float, entropy: Entropy) -> list[Floats]:
        """Return arrays of whole numbers with noise of `std`, all from one draw."""
        flat = noised(np.concatenate([value.ravel() for value in values]), std, entropy)
        parts = np.split(flat, np.cumsum([value.size for value in values])[:-1])
        return [part.reshape(value.shape) for part, value in zip(parts, values, strict=True)]


class RowQuery(PrivateQuery[Result]):
    """A query of coded rows."""

    @property
    def draws(self) -> int:
        """Return how many secret 64-bit numbers of its own each row needs."""
        return 0

    @property
    def of_patients(self) -> bool:
        """Return whether it reads which patient a row belongs to, as a query of whole patients does."""
        return self.whole_patients

    @property
    def whole_patients(self) -> bool:
        """Return whether all rows of a patient must be in one part, because it divides something among them."""
        return False

    @abstractmethod
    def exact(self, rows: CodedRows) -> list[Whole]:
        """Return the exact answer over some rows. Answers over parts of the rows are added up, array by array."""


def answered(query: RowQuery[Any], rows: CodedRows) -> list[Whole]:
    """Return the exact answer over some rows. A row on which the query fails adds nothing.

    Checked content fails on no row (docs/decisions/0059). If a query fails nevertheless, the rows are halved until
    those on which it fails are isolated, with a patient's rows together. For a reader of the answer these rows are
    empty ones. Raises what the query raises on a public row or on no row, since that failure depends on the query
    alone.
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
    """Return the sum of exact answers over parts of the rows."""
    rest = iter(answers)
    first = next(rest)
    for other in rest:
        first = [one + more for one, more in zip(first, other, strict=True)]
    return first
