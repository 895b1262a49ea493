"""Do several tables belong together? Rows a patient, orphans, and rows before what they belong to."""

from __future__ import annotations

from collections.abc import Sequence

from ..data.context import Context
from ..data.linked_facts import LinkedFacts
from ..data.records import Estimate
from ..data.review import Thresholds
from ..data.verdict import Verdict, decide
from .registry import Section


def _compute(context: Context) -> LinkedFacts | None:
    return context.linked


def _verdicts(found: LinkedFacts | None, thresholds: Thresholds) -> Sequence[Verdict]:
    if found is None:
        return []
    question, measure = "Do the tables belong together?", "rows that belong to none, come too early or are too many"
    detail = f"Keys and dates of {len(found.tables)} tables were compared, row by row."
    broken = Estimate(value=float(found.broken))
    return [decide("rows_apart", question, measure, broken, thresholds.rows_apart, detail, decimals=0)]


SECTION = Section(
    id="tables", title="Several tables", compute=_compute, record=LinkedFacts, verdicts=_verdicts, compares=False
)
