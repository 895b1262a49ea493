"""The verdicts: one line a question, each beside its threshold. There is no single averaged score.

Each section offers its own lines, from its record; this one gathers them. `data/verdict.py` decides.
"""

from __future__ import annotations

from ..data.context import Context
from ..data.records import Record
from ..data.verdict import Verdict
from .registry import SECTIONS, Section


class Verdicts(Record):
    """The verdict lines of all sections, in the order of the page."""

    lines: list[Verdict]


def verdicts(context: Context) -> Verdicts:
    """The lines that the sections on the page offer."""
    found: list[Verdict] = []
    for section in SECTIONS.values():
        record = context.records.get(section.id)
        if section.verdicts and section.appears(context.shareable, record):
            found += section.verdicts(record, context.thresholds)
    return Verdicts(lines=found)


SECTION = Section(id="verdicts", title="Verdicts", compute=verdicts, record=Verdicts, summary=True)
