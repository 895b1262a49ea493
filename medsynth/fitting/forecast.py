"""Forecast a fit of patients with several rows: what noise hides, and how many rows of a patient should count.

All of it follows from declared numbers and planned noise. No row is read.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from ..errors import FEW_ROWS, Message, UsageError
from ..methods.marginals import ONE_WAY
from ..patients.plan import LAST_ROWS
from ..patients.split_rows import ending
from ..privacy.accounting.calibration import Plan
from ..row_count import MAX_ROWS_PER_PATIENT
from ..schema import Schema
from .expectation import of_one_way

CLEAR = 3.0  # standard deviations of its noise that the count of a class should exceed
RARE_SHARE = 0.05  # of the rows or patients: warn if classes as rare as this may be lost
NEARLY_ALL = 0.9  # of the rows: a proposed `max_rows` keeps them, if more rows have no more noise


def kept(most: int, mean: float) -> float:
    """Return the share of rows that count if each patient has at most `most`, for a geometric law with this mean.

    >>> kept(1, 1.0), kept(1, 4.0), round(kept(3, 2.0), 3)
    (1.0, 0.25, 0.875)
    """
    return 1 - (1 - 1 / mean) ** most


# By rows per column and epsilon: the number of tables, the median AuROC that they lost, the least and the most; by the
# benchmark rows-per-column.
MEASURED = {
    (10, 0.5): (4, 0.19, 0.01, 0.42),
    (20, 0.5): (4, 0.18, 0.04, 0.37),
    (50, 0.5): (4, 0.15, 0.04, 0.29),
    (100, 0.5): (4, 0.11, 0.04, 0.15),
    (200, 0.5): (2, 0.05, 0.05, 0.05),
    (10, 1.0): (4, 0.21, 0.02, 0.43),
    (20, 1.0): (4, 0.11, 0.02, 0.35),
    (50, 1.0): (4, 0.11, 0.03, 0.22),
    (100, 1.0): (4, 0.06, 0.04, 0.11),
    (200, 1.0): (2, 0.03, 0.03, 0.03),
    (10, 3.7): (4, 0.11, -0.02, 0.23),
    (20, 3.7): (4, 0.07, 0.01, 0.12),
    (50, 3.7): (4, 0.02, 0.02, 0.03),
    (100, 3.7): (4, 0.03, 0.02, 0.03),
    (200, 3.7): (2, 0.02, 0.02, 0.02),
}


def tables_alike(rows: float, columns: int, epsilon: float) -> list[str]:
    """Return what synthetic rows of other tables lost with about as many rows per column; nothing far from all."""

    def far(measured: tuple[float, float]) -> float:
        return max(abs(math.log(measured[0] * columns / rows)), abs(math.log(measured[1] / epsilon)))

    near = min(MEASURED, key=far)
    if far(near) > math.log(2):
        return []
    tables, lost, least, most = MEASURED[near]
    return [
        f"Tables alike: of {tables} tables with {near[0]} rows per column, models that learned from synthetic rows at "
        f"epsilon {near[1]:g} lost {lost:.2f} of AuROC ({least:.2f} to {most:.2f})."
    ]


@dataclass(frozen=True, kw_only=True)
class Forecast:
    """What is known before a fit. `columns`: that are counted. `patients`: their declared number."""

    plan: Plan
    schema: Schema
    columns: int
    patients: int | None

    @property
    def mean(self) -> float:
        """The mean number of rows per patient, or the smallest one."""
        return self.plan.rows / (self.patients or self.plan.rows)

    def lost(self, most: int) -> float:
        """Return the share below which a class of the target may be lost, of first rows if they have an order.

        A rule about a patient's last row has counts of its own.
        """
        std = of_one_way(self.plan.events) * math.sqrt(self.columns)
        if not self.schema.order:
            return CLEAR * std * most / (self.plan.rows * kept(most, self.mean))
        if self.schema.target in (last := ending(self.schema)):
            std = min(std, self.plan.events[LAST_ROWS][0].multiplier * math.sqrt(len(last) * (self.columns + 2)))
        return CLEAR * std * self.mean / self.plan.rows

    @property
    def lost_below(self) -> float | None:
        """The share below which a class of the target may be lost; None if a patient has one row at most."""
        most = self.schema.max_rows
        return min(self.lost(most), 1.0) if most and most > 1 and ONE_WAY in self.plan.events else None

    def notes(self) -> Iterator[Message]:
        """Yield what to expect, and a better `max_rows`. Raise UsageError for an impossible number of patients."""
        rows, most, patients = self.plan.rows, self.schema.max_rows, self.patients
        if patients is not None and not (most and 1 < patients <= rows):
            raise UsageError(
                "`patients` is the number of patients in a table with several rows per patient: two or more, and at "
                "most the number of rows. Correct it, or leave it out. Nothing was spent."
            )
        if not most or self.lost_below is None:
            return
        what = "levels" if self.schema.target is None else f"classes of {self.schema.target!r}"
        few = f"{what} below {self.lost_below:.1%} of the {'patients' if self.schema.order else 'rows'}"
        if patients is None:
            yield Message(
                f"The noise may hide {few}, and more if patients have several rows. Declare the number of `patients` "
                "for a forecast."
            )
            return
        if self.lost_below > RARE_SHARE:
            yield Message(f"the model may lose {few}.", None, kind=FEW_ROWS)
        if self.schema.order:
            tried = range(1, MAX_ROWS_PER_PATIENT)
            best = next((one for one in tried if kept(one, self.mean) >= NEARLY_ALL), MAX_ROWS_PER_PATIENT)
        else:
            best = max((one for one in range(1, most + 1) if self.lost(one) <= RARE_SHARE), default=1)
        text = f"Forecast for {patients} patients with {self.mean:.1f} rows on average: the noise may hide {few}."
        for one in dict.fromkeys((most, best)):
            text += f" With `max_rows` {one} about {kept(one, self.mean):.0%} of the rows count"
            hidden = f"; levels below {min(self.lost(one), 1):.1%} of them may be hidden." if one != most else "."
            text += "." if self.schema.order else hidden
        yield Message(f"{text} Noise {'does not grow' if self.schema.order else 'grows'} with `max_rows`.")
