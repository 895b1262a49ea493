"""The registry of sections: navigation, numbering, progress, page and JSON twin all follow it.

A section is a record, a compute function, a `Section` that joins them, and one page fragment: the file
`page/templates/sections/<id>.html`, or the fragment's text itself. `sections/__init__.py` lists the sections in the
order of the page.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Literal

from ..data.context import Context
from ..data.verdict import Record, Thresholds, Verdict

Variant = Literal["both", "internal", "shareable"]
Need = Literal["claim", "schema", "real rows"]


@dataclass(frozen=True)
class Section:
    """One section of the report.

    `id` is its anchor on the page and its key in the JSON twin. `compute` makes its record, or None where there is
    nothing to measure; a section without `compute` is words alone and has no key in the twin. `record` is the type
    that `compute` returns, for the twin's schema.

    It appears in its `variant`, where its `needs` are met. Without a record it is left out, unless it is `always`
    shown. The `fragment` is a Jinja template's text; None stands for `page/templates/sections/<id>.html`. It sees
    `record`, its own record, and `report`.

    `verdicts` offers lines for the verdicts from the record (None only if the section is `always` shown) and the
    thresholds. `compares`: whether they rest on real rows, so that they are not judged on rows that the model was
    fitted to. `summary`: computed after all other sections, though it may stand before them. `waits`: computed after
    those that need no classifier's predictions, which are made meanwhile. `beside`: computed meanwhile, too; for one
    that takes long.
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
    verdicts: Callable[[Any, Thresholds], Sequence[Verdict]] | None = None
    compares: bool = True
    summary: bool = False
    waits: bool = False
    beside: bool = False

    def applies(self, context: Context) -> bool:
        """Whether the section is computed for these inputs."""
        wanted = self.variant in ("both", "shareable" if context.shareable else "internal")
        met = {
            "claim": context.claiming_model is not None,
            "schema": context.schema is not None,
            "real rows": context.tables is not None,
        }
        return wanted and all(met[need] for need in self.needs)

    def appears(self, shareable: bool, record: Record | None) -> bool:
        """Whether the section stands on the page of this variant, with this record."""
        wanted = self.variant in ("both", "shareable" if shareable else "internal")
        return wanted and (record is not None or self.always or self.compute is None)


SECTIONS: dict[str, Section] = {}  # by id, in the order of the page


def computed() -> int:
    """How many sections are computed and not words alone: the steps of a report."""
    return sum(section.compute is not None for section in SECTIONS.values())


def register(section: Section, *, before: str | None = None) -> Section:
    """Add a section at the end of the page, or before the section of that id. Raises ValueError for an id in use."""
    if section.id in SECTIONS:
        raise ValueError(f"There already is a section {section.id!r}.")
    later = list(SECTIONS)[list(SECTIONS).index(before) :] if before else []
    SECTIONS[section.id] = section
    for name in later:
        SECTIONS[name] = SECTIONS.pop(name)
    return section
