"""Contribution bounding: the unit of privacy is one row, or one patient with at most so many rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import BudgetError
from ..rng import Entropy


@dataclass(frozen=True)
class PrivacyUnits:
    """The patient of each row, (rows,), numbered from zero, and how many rows a patient may have at most.

    `of_all`: how many patients there are, where these are some of the rows alone.
    """

    of_row: NDArray[np.int64]
    max_rows: int
    of_all: int | None = None

    @cached_property
    def count(self) -> int:
        """How many patients there are."""
        if self.of_all is not None:
            return self.of_all
        return int(self.of_row.max()) + 1 if len(self.of_row) else 0

    def of_rows(self, some: NDArray[np.bool_] | slice) -> PrivacyUnits:
        """Those of some of the rows, under the same numbers: a patient may have rows beside these."""
        return PrivacyUnits(self.of_row[some], self.max_rows, self.count)


def check_units(units: PrivacyUnits | None, rows: int, max_rows: int | None) -> None:
    """Raises BudgetError unless these are the units of so many rows, as a ledger with `max_rows` states them.

    Units of fewer rows are those of a part of each patient's: the first ones, or pairs of successive ones.
    """
    if units is None or max_rows is None:
        bounded = units is None and max_rows is None
    else:
        most = int(np.bincount(units.of_row).max(initial=0))
        bounded = len(units.of_row) == rows and most <= units.max_rows <= max_rows
    if not bounded:
        raise BudgetError("The rows of patients differ from what the ledger says of them.")


def bound_contributions(
    keys: NDArray[np.int64] | pd.Series, max_rows: int, entropy: Entropy
) -> tuple[NDArray[np.int64], PrivacyUnits]:
    """The positions of the rows that stay, ascending, when each patient keeps at most `max_rows`, and their patients.

    The rows that stay are drawn by numbers of their own: one patient's rows decide nothing about another's. Patients
    are numbered by their first row in `keys`, not by the draw: a resumed fit, which draws anew, numbers them alike.
    That it draws anew is sound: each measurement's sensitivity is about all rows of a patient, whichever stay.
    """
    draw = np.frombuffer(entropy.bytes(8 * len(keys)), dtype=np.uint64)
    stay, units = first_in_order(keys, draw, max_rows)
    ascending = np.argsort(stay)
    return stay[ascending], PrivacyUnits(units.of_row[ascending], max_rows)


def first_in_order(
    keys: NDArray[np.int64] | pd.Series, order: NDArray[np.number], max_rows: int
) -> tuple[NDArray[np.int64], PrivacyUnits]:
    """The positions of the rows that stay when each patient keeps the first `max_rows` by `order`, and their patients.

    Positions come patient by patient, a patient's own ascending in `order`; rows of equal order as they were. Which of
    a patient's rows stay depends on these rows alone.
    """
    patient = pd.factorize(keys)[0].astype(np.int64)
    rows = np.lexsort((order, patient))  # stable
    first = np.searchsorted(patient[rows], patient[rows])
    stay = rows[np.arange(len(rows)) - first < max_rows]
    return stay, PrivacyUnits(patient[stay], max_rows)
