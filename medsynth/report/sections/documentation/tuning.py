"""The tuning disclosure: how often the table was fitted, and whether choices were made by looking at real rows."""

from __future__ import annotations

from ...data.context import Context
from ...data.records import Record
from ..registry import Section


class Tuning(Record):
    """From the review file. A field that is None is printed as a blank line."""

    fits_on_this_table: int | None
    choices_looked_at_real_rows: bool | None


def _compute(context: Context) -> Tuning:
    return Tuning(**{name: getattr(context.review, name) for name in Tuning.model_fields})


SECTION = Section(id="tuning", title="Tuning disclosure", compute=_compute, record=Tuning)
