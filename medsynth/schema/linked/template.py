"""A drafted file that names several tables, from headers and the columns' types alone: it contains no cell of any."""

from __future__ import annotations

from collections.abc import Mapping

import yaml

from ...errors import SchemaError
from ...io.table import Kind
from ..header import keys as keys_by_name
from ..template import HEAD, column_lines

_TABLES = """\
# The first table has one row a patient: move it to the top. Of each other one a patient counts with the first rows by
# its `order`, at most `max_rows`; leave both out where a patient has one row at most. `latest: {COLUMN: TABLE}` says of
# which other table's rows a key is.
"""
KEY = '{kind: identifier, shape: "########"}'
PATIENTS = ("patients", "patient", "persons", "person", "people", "subjects")  # how first tables are called


def draft_tables(name: str, kinds: Mapping[str, Mapping[str, Kind]]) -> str:
    """YAML text of an unfinished file. `kinds`: of each table each column's kind of text, in the table's order.

    Raises SchemaError where no column is in all tables.
    """
    shared = [one for one in next(iter(kinds.values())) if all(one in table for table in kinds.values())]
    if not shared:
        raise SchemaError(
            "No column stands in all tables, as the key of patients must. Give it one name in all of them."
        )
    key = next((one for one in shared if one in keys_by_name(shared)), shared[0])
    order = sorted(kinds, key=lambda table: (table.lower() not in PATIENTS, list(kinds).index(table)))
    lines = [*HEAD.splitlines(), *_TABLES.splitlines(), _line({"name": name}), _line({"key": key}), "tables:"]
    for number, table in enumerate(order):
        lines.append(f"  {_line({table: None}).removesuffix(' null')}")
        lines += [] if number == 0 else ["    order: TODO", "    max_rows: TODO"]
        lines += ["    columns:", *(f"    {line}" for line in column_lines(kinds[table], {key}, KEY))]
    return "\n".join(lines) + "\n"


def _line(content: Mapping[str, object]) -> str:
    """One entry of a mapping as a line."""
    return yaml.safe_dump(dict(content), allow_unicode=True, width=10_000).strip()
