"""Contribution bounding: the unit of privacy is one row, or one patient with a maximum number of rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..arrays import Mask, Whole
from ..errors import BudgetError
from ..rng import Entropy

MOST_PAIRS = 1 << 29  # Rows, or pairs of rows, that 64 bits add: each adds fewer than 2^34 units.


@dataclass(frozen=True)
class PrivacyUnits:
    """The patient of each row, (rows,), numbered from zero, and the maximum number of rows per patient.

    `of_all`: the number of patients, if these are only some of the rows.
    """

    of_row: Whole
    max_rows: int
    of_all: int | None = None

    @cached_property
    def count(self) -> int:
        """Return the number of patients."""
        if self.of_all is not None:
            return self.of_all
        return int(self.of_row.max()) + 1 if len(self.of_row) else 0

    def of_rows(self, some: Mask | slice) -> PrivacyUnits:
        """Return the units of some of the rows, under the same numbers. A patient may have other rows too."""
        return PrivacyUnits(self.of_row[some], self.max_rows, self.count)


def check_units(units: PrivacyUnits | None, rows: int, max_rows: int | None) -> None:
    """Raise BudgetError unless these are the units of this number of rows, under a ledger with `max_rows`.

    Units of fewer rows are those of a part of each patient's: the first ones, or pairs of successive ones.
    """
    if units is None or max_rows is None:
        bounded = units is None and max_rows is None
    else:
        most = int(np.bincount(units.of_row).max(initial=0))
        bounded = len(units.of_row) == rows and most <= units.max_rows <= max_rows
    if not bounded:
        raise BudgetError("The patients' rows do not match the ledger.")


def bound_contributions(keys: Whole | pd.Series, max_rows: int, entropy: Entropy) -> tuple[Whole, PrivacyUnits]:
    """Return the ascending positions of the rows that stay if each patient keeps `max_rows`, and their patients.

    Each row has its own random number, so one patient's rows do not influence another's. Patients are numbered by their
    first row in `keys` and not by the draw, so that a resumed fit, which draws anew, uses the same numbers. Drawing
    anew is sound: each measurement's sensitivity covers all rows of a patient, whichever stay.
    """
    draw = np.frombuffer(entropy.bytes(8 * len(keys)), dtype=np.uint64)
    stay, units = first_in_order(keys, draw, max_rows)
    ascending = np.argsort(stay)
    return stay[ascending], PrivacyUnits(units.of_row[ascending], max_rows)


def first_in_order(keys: Whole | pd.Series, order: NDArray[np.number], max_rows: int) -> tuple[Whole, PrivacyUnits]:
    """Return the positions of each patient's first `max_rows` rows by `order`, and their patients.

    Positions are grouped by patient and ascending in `order`; rows of equal order stay in sequence. Which of a
    patient's rows stay depends only on these rows.
    """
    patient = pd.factorize(keys)[0].astype(np.int64)
    rows = np.lexsort((order, patient))  # The sort is stable.
    first = np.searchsorted(patient[rows], patient[rows])
    stay = rows[np.arange(len(rows)) - first < max_rows]
    return stay, PrivacyUnits(patient[stay], max_rows)
