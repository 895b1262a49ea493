"""The verdicts: one line a question, each beside its threshold. There is no single averaged score.

Where no row was held out, nothing that was compared with real rows is said to be within its threshold.

Each section offers its own lines, from its record; this one gathers them. `data/verdict.py` decides.
"""

from __future__ import annotations

from ..data.context import Context
from ..data.records import Record
from ..data.verdict import Verdict
from .registry import SECTIONS, Section

NOT_JUDGED = "Not judged: no row was held out, and these are rows that the model was fitted to."


class Verdicts(Record):
    """The verdict lines of all sections, in the order of the page."""

    lines: list[Verdict]


def verdicts(context: Context) -> Verdicts:
    """The lines that the sections on the page offer."""
    found: list[Verdict] = []
    for section in SECTIONS.values():
        record = context.records.get(section.id)
        if section.verdicts and section.appears(context.shareable, record):
            lines = section.verdicts(record, context.thresholds)
            unjudged = context.fitted_rows and section.compares
            found += [_unjudged(line) for line in lines] if unjudged else lines
    return Verdicts(lines=found)


def _unjudged(line: Verdict) -> Verdict:
    """The line, not judged where it was within its threshold on rows that the model was fitted to."""
    if line.outcome != "within":
        return line
    detail = f"{line.detail} {NOT_JUDGED}".strip()
    return line.model_copy(update={"outcome": "not judged", "met": None, "judged": None, "detail": detail})


SECTION = Section(id="verdicts", title="Verdicts", compute=verdicts, record=Verdicts, summary=True)
