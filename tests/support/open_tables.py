"""Tables of which nothing is declared: the measurements of their schema, and their vault."""

from __future__ import annotations

from typing import Any

from medsynth.privacy import partition_selection as selection
from medsynth.privacy.accounting.calibration import Charge
from medsynth.privacy.partition_selection import RawVault
from medsynth.schema import Identifier, open_schema


def queries(*, target: bool = True) -> list[Charge]:
    """The queries of any such table."""
    return selection.queries(open_schema(("a", "b"), "b" if target else None))


def raw_vault(table: Any, rows: int, releases: Any, target: str | None, keys: Any = (), **options: Any) -> RawVault:
    """The vault of a table, in which the columns `keys` are keys. The first may be the `unit`, with `max_rows` rows."""
    schema = open_schema(table.header, target)
    columns = {name: Identifier() if name in keys else one for name, one in schema.columns.items()}
    unit = {key: options.pop(key) for key in ("unit", "max_rows") if key in options}
    return RawVault(table, rows, releases, schema.with_columns(columns, **unit), **options)
