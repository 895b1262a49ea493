"""Tables of which nothing is declared: the measurements of their schema, and their vault."""

from __future__ import annotations

from typing import Any

from medsynth.privacy import partition_selection as selection
from medsynth.privacy.accounting.calibration import Charge
from medsynth.privacy.partition_selection import RawVault
from medsynth.schema import Identifier, Schema, open_schema


def queries(*, target: bool = True) -> list[Charge]:
    """The queries of any such table."""
    return selection.queries(open_schema(("a", "b"), "b" if target else None))


def raw_vault(table: Any, rows: int, releases: Any, target: str | None, keys: Any = (), **options: Any) -> RawVault:
    """The vault of a table, in which the columns `keys` are keys. The first may be the `unit`, with `max_rows` rows."""
    schema = open_schema(table.header, target)
    columns = {name: Identifier() if name in keys else one for name, one in schema.columns.items()}
    unit = {key: options.pop(key) for key in ("unit", "max_rows") if key in options}
    return RawVault(table, rows, releases, schema.with_columns(columns, **unit), **options)


PARTS = ("levels", "bounds", "kinds", "half")  # what is open: all levels, all bounds, all kinds, some of each


def opened(schema: Schema, part: str) -> Schema:
    """A schema of which a part is open, without rules. Dates that others follow, and these, stay declared."""
    content: dict[str, Any] = schema.to_dict()
    content.pop("rules", None)
    tied = {one for name, column in schema.columns.items() if column.depends_on for one in (name, *column.depends_on)}
    free = [name for name, column in schema.columns.items() if column.modelled and name not in tied]
    for k, name in enumerate(free):
        own = content["columns"][name]
        what = ("levels", "bounds", "kinds", "nothing")[k % 4] if part == "half" else part
        if what == "kinds":
            content["columns"][name] = {}
        elif what in own:
            kept = ("kind", "missing", "label", "unit", "format", "resolution")
            content["columns"][name] = {key: value for key, value in own.items() if key in kept}
    return Schema.from_dict(content)
