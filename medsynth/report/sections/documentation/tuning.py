"""The tuning disclosure: how often the table was fitted, and whether choices were made by looking at real rows."""

from __future__ import annotations

from ...data.context import Context
from ...data.records import Record
from ..registry import Section


class Tuning(Record):
    """Fits from the review file, else those on file; choices from the review file. None is printed as a blank line.

    `counted`: whether the number of fits is that of the budget file beside the table.
    """

    fits_on_this_table: int | None
    counted: bool
    choices_looked_at_real_rows: bool | None


def _compute(context: Context) -> Tuning:
    review = context.review
    stated = review.fits_on_this_table
    return Tuning(
        fits_on_this_table=context.fits if stated is None else stated,
        counted=stated is None and context.fits is not None,
        choices_looked_at_real_rows=review.choices_looked_at_real_rows,
    )


SECTION = Section(id="tuning", title="Tuning disclosure", compute=_compute, record=Tuning)
