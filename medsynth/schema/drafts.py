"""Draft schemas from headers and the kinds of cells. A draft contains no cell.

What the catalogue of clinical columns knows by the header alone is filled in, whatever the cells are.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ..errors import SchemaError
from ..io.table import Kind
from .clinical import look_up, rules
from .columns.registry import KINDS
from .declared import yaml_key, yaml_text
from .header import keys

HEAD = """\
# Drafted from column names and from the kinds of their cells: confirm each kind, since the cells are private.
# Replace each TODO that you know by public knowledge: what the assay can measure, what the form offers.
# Never look up bounds or levels in the table: copies from patients' cells leak. Leave out `missing: true`
# where no cell is empty. `out_of_range: error` refuses cells that would be clipped.
# A line that names the source of its range is from the catalogue of clinical columns, by the name alone: check it.
# There, `unknown: missing` reads cells that are not numbers as missing. `medsynth schema check` counts them.
"""
_LEARNED = "# A fit learns what stays TODO from noisy counts, for a part of the budget.\n"
_KEY = '{kind: identifier, shape: "########"}  # rows that share a person: name it in `unit`, with `max_rows`'
_TABLES = """\
# The first table has one row per patient: move it to the top. In each other table a patient counts with the first
# `max_rows` rows by its `order`. Leave both out if a patient has at most one row. `latest: {COLUMN: TABLE}` declares
# that a column contains keys of another table's rows.
"""
WHO = """\
# Who is a row? Keep the lines that fit, without their first mark. Without them, the claim is for one row.
# unit: COLUMN  # rows can share a patient, whom this column names
# max_rows: 3  # with `unit`: the most rows of a patient that count
# one_row_a_patient: true  # no two rows share a patient
"""
KEY = '{kind: identifier, shape: "########"}'
RULES = """\
# Rules that the columns' names suggest. Keep those that each row must meet, without their first mark.
# rules:"""
PATIENTS = ("patients", "patient", "persons", "person", "people", "subjects")  # usual names of first tables


def draft(name: str, kinds: Mapping[str, Kind]) -> str:
    """Return the YAML text of an unfinished schema. `kinds`: each column's kind of text, in the table's order."""
    known = keys(kinds)
    last = next((name for name in reversed(list(kinds)) if name not in known), list(kinds)[-1])
    target = f"{_line({'target': last})}  # is this the column to predict?"
    return (
        "\n".join(
            [
                HEAD + _LEARNED + _line({"name": name}),
                *WHO.splitlines(),
                target,
                "columns:",
                *column_lines(kinds),
                *_rule_lines(kinds),
            ]
        )
        + "\n"
    )


def column_lines(kinds: Mapping[str, Kind], more: Collection[str] = (), key_line: str = _KEY) -> list[str]:
    """Return a line per column. `more`: keys whose names do not show that; `key_line`: the line of a key."""
    known = {*keys(kinds), *more}
    forms = {text: form for kind in reversed(KINDS.values()) for text, form in kind.drafts.items()}
    lines = {name: key_line if name in known else _clinical(name) or forms[kind] for name, kind in kinds.items()}
    return [f"  {yaml_key(name)}: {line}" for name, line in lines.items()]


def _clinical(name: str) -> str:
    """Return the line of a column that its header alone decides; "" for another one."""
    found = look_up(name)
    declared = found and found.declaration()
    return f"{yaml_text(declared, flow=True)}  # {found.label}: {found.source}" if found and declared else ""


def _rule_lines(header: Collection[str]) -> list[str]:
    """Return rules between clinical columns, as comments."""
    found = {name: look_up(name) for name in header if name not in keys(header)}
    lines = [f"#   - {yaml_key(rule)}" for rule in rules({name: one for name, one in found.items() if one})]
    return [RULES, *lines] if lines else []


def draft_tables(name: str, kinds: Mapping[str, Mapping[str, Kind]]) -> str:
    """Return the YAML text of an unfinished file. `kinds`: of each table each column's kind of text, in its order.

    Raises SchemaError if no column is in all tables.
    """
    shared = [one for one in next(iter(kinds.values())) if all(one in table for table in kinds.values())]
    if not shared:
        raise SchemaError(
            "No column is in all tables, as the key of patients must be. Give it the same name in all of them."
        )
    key = next((one for one in shared if one in keys(shared)), shared[0])
    order = sorted(kinds, key=lambda table: (table.lower() not in PATIENTS, list(kinds).index(table)))
    lines = [*HEAD.splitlines(), *_TABLES.splitlines(), _line({"name": name}), _line({"key": key}), "tables:"]
    for number, table in enumerate(order):
        lines.append(f"  {yaml_key(table)}:")
        lines += [] if number == 0 else ["    order: TODO", "    max_rows: TODO"]
        lines += ["    columns:", *(f"    {line}" for line in column_lines(kinds[table], {key}, KEY))]
    return "\n".join(lines) + "\n"


def _line(content: Mapping[str, object]) -> str:
    """Return a mapping with one entry as a line of YAML."""
    return yaml_text(dict(content)).strip()
