"""What the table is for, who receives it, and who signs: from the review file, else blank lines to fill in."""

from __future__ import annotations

from ...data.context import Context
from ...data.records import Record
from ..registry import Section


class Purpose(Record):
    """What only people know. A field that is None is printed as a blank line."""

    purpose: str | None
    recipient: str | None
    access: str | None
    licence: str | None
    review_date: str | None
    steward: str | None
    privacy_officer: str | None
    expert: str | None


def _compute(context: Context) -> Purpose:
    return Purpose(**{name: getattr(context.review, name) for name in Purpose.model_fields})


SECTION = Section(id="purpose", title="Purpose and recipient", compute=_compute, record=Purpose)
