"""Draft schemas from headers and the catalogue of clinical columns, and from what a person took after a look at cells.

Header and catalogue decide the same whatever the cells are. A draft contains no cell.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any

from ..errors import SchemaError
from .cells import is_code_of_a_number
from .clinical import ClinicalColumn, look_up, rules, usual_sets
from .columns.column import Level, level_text
from .declared import yaml_key, yaml_text
from .header import is_amount, keys
from .looks import Look
from .rules import in_rule

HEAD = """\
# Drafted from the names of columns and the catalogue of clinical columns; a line from there names its source: check it.
# `seen: true` marks what a person declared after a look at the cells: the claim takes it as given.
# Replace each TODO that you know by public knowledge: what the assay can measure, what the form offers.
# Never look up bounds or levels in the table: copies from patients' cells leak. A fit learns what stays TODO from noisy
# counts, for a part of the budget. The kinds of columns:
#   {kind: count, bounds: [0, 120]}        {kind: continuous, bounds: [0, 500], decimals: 1, unit: mg/l, scale: log}
#   {kind: binary, levels: [F, M]}         {kind: categorical, levels: [A, B, other], unknown: other}
#   {kind: identifier}                     {kind: date, bounds: [2015-01-01, 2024-12-31], format: "%d.%m.%Y"}
# `missing: true` allows empty cells, and `unknown: missing` reads cells without such a value as missing.
"""
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
PRESSURE = "blood_pressure"  # a variable of two parts, such as 120/80: the first is larger
PATIENTS = ("patients", "patient", "persons", "person", "people", "subjects")  # usual names of first tables


Entry = dict[str, Any]
Taken = Mapping[str, Entry]  # by column, what a person declares after a look at its cells


def draft(
    name: str, header: Collection[str], taken: Taken | None = None, also: Collection[str] = (), *, comma: bool = False
) -> str:
    """Return the YAML text of an unfinished schema.

    A person declares `taken`, the rules `also`, and whether numbers have a decimal `comma`, after a look.
    """
    known = keys(header)
    last = next((name for name in reversed([*header]) if name not in known), [*header][-1])
    target = f"# {_line({'target': last})}  # the column to predict. Without this line, it is the last one that can be."
    lines = column_lines(header, taken or {})
    written = ["decimal_comma: seen  # sampled rows have decimal commas, as the table has"] if comma else []
    top = [HEAD + _line({"name": name}), *written, *WHO.splitlines(), target, "columns:"]
    own = ["rules:", *(f"  - {yaml_text({'rule': rule, 'seen': True}, flow=True)}" for rule in also)] if also else []
    follow = [order_rule(entry["after"], name) for name, entry in (taken or {}).items() if "after" in entry]
    left = [f"#   - {yaml_key(rule)}" for rule in suggested_rules(header) if rule not in (*also, *follow)]
    return "\n".join([*top, *lines, *own, *([RULES, *left] if left else [])]) + "\n"


def order_rule(first: str, second: str) -> str:
    """Return the rule that one date is not before another.

    >>> order_rule("admitted", "left on")
    '`left on` >= admitted'
    """
    return f"{in_rule(second)} >= {in_rule(first)}"


def column_lines(header: Collection[str], taken: Taken, more: Collection[str] = (), key_line: str = _KEY) -> list[str]:
    """Return a line per column. `more`: keys whose names do not show that; `key_line`: the line of a key."""
    known = {*keys(header), *more}
    lines = dict[str, str]()
    for name in header:
        found = look_up(name)
        declared = {**taken[name], "seen": True} if name in taken else found.declaration() if found else {}
        source = f"  # {found.label}: {found.source}" if found and "bounds" in declared else ""
        lines[name] = f"{yaml_text(declared, flow=True)}{source}" if declared else "TODO"
        lines[name] = key_line if name in known and name not in taken else lines[name]
    return [f"  {yaml_key(name)}: {line}" for name, line in lines.items()]


def proposal(name: str, found: Look) -> Entry | None:
    """Return what a schema could declare after a look at a column; None if the look adds nothing to its header."""
    known = look_up(name)
    declared = known.declaration() if known else {}
    kind = found.entry["kind"]
    if name in keys([name]):
        return {"kind": "identifier", "shape": found.shape} if found.shape else None
    if "levels" not in declared and (levels := _usual_levels(found, known)) is not None:
        gaps = [code for code in found.codes if not is_code_of_a_number(code)]
        missing = {"missing": gaps if gaps != [""] else True} if gaps else {}
        return {"kind": "binary" if len(levels) == 2 else "categorical", "levels": [*levels], **missing}
    if kind == "identifier" and is_amount(name) and not found.entry.get("drop"):
        return {"kind": "count"}
    numbers = ("count", "continuous")
    if declared.get("kind") in numbers and kind in numbers:
        form = {key: one for key, one in found.entry.items() if key in ("text", "decimals", "zeros", "dtype", "limits")}
        own = {"kind": "continuous", **form} if kind == "continuous" else form
        ends: Any = declared.get("bounds", [0])
        if kind == "count" and declared["kind"] == "continuous" and all(isinstance(end, int) for end in ends):
            declared = {key: one for key, one in declared.items() if key != "decimals"}
            own = {"kind": "count", **form}  # all cells are whole
        if found.words:  # such as limits of an assay: a fit learns them next to open bounds
            return {key: one for key, one in {**declared, **own}.items() if key not in ("bounds", "unknown")}
        codes = map(int, filter(is_code_of_a_number, found.codes))
        apart = [code for code in codes if not ends[0] <= code <= ends[-1]]
        own |= {"missing": [*apart, ""]} if apart else {}
        merged = {**declared, **own}
        return None if merged == declared or not own else merged
    if declared.get("kind") == kind and "levels" in declared:
        return None
    return found.entry


def _usual_levels(found: Look, known: ClinicalColumn | None) -> tuple[Level, ...] | None:
    """Return the smallest public set of levels that has all words of a column; None if there is none."""
    some = found.words - {*found.codes}
    if found.entry["kind"] not in ("binary", "categorical") or len(some) < 2:
        return None
    sets = usual_sets(known.level_sets if known else ())
    return min((words for words in sets if some <= {*map(level_text, words)}), key=len, default=None)


def suggested_rules(header: Collection[str], known: Taken | None = None, *, any_unit: bool = False) -> list[str]:
    """Return the rules of the catalogue between these columns.

    known: what is declared of them, since rules need levels. any_unit: whether a column without a unit may have any,
    because rows decide about the rules.
    """
    entries = known or {}
    found = {name: one for name in header if name not in keys(header) and (one := look_up(name))}
    levels = {name: tuple(entry["levels"]) for name, entry in entries.items() if entry.get("levels")}
    found = {name: replace(one, levels=levels.get(name, one.levels)) for name, one in found.items()}
    two = [name for name, one in found.items() if one.name == PRESSURE and "parts" in entries.get(name, {})]
    return rules(found, any_unit=any_unit) + [f"{in_rule(f'{name}.1')} > {in_rule(f'{name}.2')}" for name in two]


def draft_tables(name: str, headers: Mapping[str, Collection[str]], taken: Mapping[str, Taken] | None = None) -> str:
    """Return the YAML text of an unfinished file. `headers`, and what a person takes after a look: by table.

    Raises SchemaError if no column is in all tables.
    """
    shared = [one for one in next(iter(headers.values())) if all(one in header for header in headers.values())]
    if not shared:
        raise SchemaError(
            "No column is in all tables, as the key of patients must be. Give it the same name in all of them."
        )
    key = next((one for one in shared if one in keys(shared)), shared[0])
    order = sorted(headers, key=lambda table: (table.lower() not in PATIENTS, list(headers).index(table)))
    lines = [*HEAD.splitlines(), *_TABLES.splitlines(), _line({"name": name}), _line({"key": key}), "tables:"]
    for number, table in enumerate(order):
        lines.append(f"  {yaml_key(table)}:")
        lines += [] if number == 0 else ["    order: TODO", "    max_rows: TODO"]
        own = (taken or {}).get(table, {})
        lines += ["    columns:", *(f"    {line}" for line in column_lines(headers[table], own, {key}, KEY))]
    return "\n".join(lines) + "\n"


def _line(content: Mapping[str, object]) -> str:
    """Return a mapping with one entry as a line of YAML."""
    return yaml_text(dict(content)).strip()
