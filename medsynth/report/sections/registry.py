"""The registry of sections. Navigation, numbering, progress, page and JSON twin all follow it.

A section consists of a record, a compute function, a `Section` that joins them, and a page fragment: the file
`page/templates/sections/<id>.html`, or the fragment's own text. `sections/__init__.py` lists the sections in the order
of the page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

from ..data.context import Context
from ..data.question import Question
from ..data.verdict import Record, Thresholds, Verdict

Variant = Literal["both", "internal", "shareable"]
Need = Literal["claim", "schema", "real rows"]


@dataclass(frozen=True)
class Section:
    """One section of the report.

    `id` is its anchor on the page and its key in the JSON twin. `compute` returns its record, or None if there is
    nothing to measure. A section without `compute` is text only and has no key in the twin. `record` is the type that
    `compute` returns, for the twin's schema.

    The section appears in its `variant` if its `needs` are met. Without a record it is left out, unless it is `always`
    shown. `fragment` is the text of a Jinja template; None means `page/templates/sections/<id>.html`. The template can
    use `record`, the section's own record, and `report`.

    `questions` are those that the section answers. `verdicts` returns the answers from the record (None only if the
    section is `always` shown) and the thresholds. `compares`: whether these lines use real rows; then they are not
    judged on rows that the model was fitted to. `summary`: computed after all other sections.
    """

    id: str
    title: str
    compute: Callable[[Context], Record | None] | None = None
    record: Any = None
    _: KW_ONLY
    fragment: str | None = None
    variant: Variant = "both"
    needs: tuple[Need, ...] = ()
    always: bool = False
    questions: tuple[Question, ...] = ()
    verdicts: Callable[[Any, Thresholds], Sequence[Verdict]] | None = None
    compares: bool = True
    summary: bool = False

    def applies(self, context: Context) -> bool:
        """Return whether the section is computed for these inputs."""
        wanted = self.variant in ("both", "shareable" if context.shareable else "internal")
        met = {
            "claim": context.claiming_model is not None,
            "schema": context.schema is not None,
            "real rows": context.tables is not None,
        }
        return wanted and all(met[need] for need in self.needs)

    def appears(self, shareable: bool, record: Record | None) -> bool:
        """Return whether the page of this variant shows the section with this record."""
        wanted = self.variant in ("both", "shareable" if shareable else "internal")
        return wanted and (record is not None or self.always or self.compute is None)


SECTIONS: dict[str, Section] = {}  # By id, in the order of the page.


def computed() -> int:
    """Return the number of sections that are computed: the steps of a report."""
    return sum(section.compute is not None for section in SECTIONS.values())


def questions() -> dict[str, Question]:
    """Return the questions of all sections by key, in the order of the page."""
    return {question.key: question for section in SECTIONS.values() for question in section.questions}


def register(section: Section, *, before: str | None = None) -> Section:
    """Add a section at the end of the page, or before the section `before`.

    Raises ValueError if its id, or the key of one of its questions, is in use.
    """
    if section.id in SECTIONS:
        raise ValueError(f"There is already a section {section.id!r}. Choose another id.")
    if taken := questions().keys() & {question.key for question in section.questions}:
        raise ValueError(f"There is already a question {min(taken)!r}. Choose another key.")
    later = list(SECTIONS)[list(SECTIONS).index(before) :] if before else []
    SECTIONS[section.id] = section
    for name in later:
        SECTIONS[name] = SECTIONS.pop(name)
    return section
