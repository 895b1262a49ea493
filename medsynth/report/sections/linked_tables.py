"""Do several tables belong together? Rows a patient, orphans, and rows before what they belong to."""

from __future__ import annotations

from collections.abc import Sequence

from ..data.context import Context
from ..data.records import Estimate, Record
from ..data.review import Thresholds
from ..data.verdict import Verdict, decide
from .registry import Section


class TableFacts(Record):
    """One table. Rows a patient are means; shares are of its rows, or of patients where it says so.

    `without`: patients without a row. `orphans`: rows whose key no patient has, and keys of rows of other tables that
    are no such row's, or another patient's. `too_early`: rows before the row of another table that they belong to.
    `beyond`: rows beyond the most that a patient may have.
    """

    table: str
    page: str | None
    rows: int
    rows_a_patient: float
    real_rows_a_patient: float | None
    without: float
    real_without: float | None
    orphans: int
    too_early: int
    beyond: int


class LinkedFacts(Record):
    """Several tables under one claim for one patient in all of them. `broken`: orphans, early rows and rows beyond."""

    patients: int
    tables: list[TableFacts]
    broken: int


def _compute(context: Context) -> Record | None:
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
