"""How the report came about: commands, method, versions."""

from __future__ import annotations

from ...data.context import Context
from ...data.records import Record
from ..registry import Section


class Reproduce(Record):
    """Commands as typed; method, preset and versions of the model, where there is one."""

    commands: list[str]
    method: str | None
    preset: str | None
    versions: dict[str, str]


def _compute(context: Context) -> Reproduce:
    model = context.model
    return Reproduce(
        commands=list(context.commands),
        method=model.method if model else None,
        preset=model.preset if model else None,
        versions=dict(model.versions) if model else {},
    )


SECTION = Section(id="reproduce", title="Reproduce", compute=_compute, record=Reproduce)
