"""The form of a schema's columns: from its YAML to fields, and back. Keys that the form does not show are kept."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple

from medsynth.errors import SchemaError
from medsynth.schema.declared import parse_yaml

LEVELS, BOUNDS = ("levels",), ("bounds",)
KEYS = {  # what the form asks for, by kind
    "binary": LEVELS, "categorical": LEVELS, "ordinal": LEVELS, "count": (*BOUNDS, "scale", "unit"),
    "continuous": (*BOUNDS, "decimals", "scale", "unit"), "date": (*BOUNDS, "format"), "identifier": ("drop",),
}  # fmt: skip
WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")
IN_JSON_ALONE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")  # not in a YAML text, or a new line there
OF_SEVERAL_ROWS = ("unit", "max_rows", "order", "constant")  # keys of a schema whose patients have several rows
HEAD = "# Written by the page of medsynth. Every value is public: none was looked up in the table.\n"


class Fields(NamedTuple):
    """The fields of one column, as texts. `levels` and codes of missing values: one per line."""

    name: str
    kind: str
    levels: str = ""
    low: str = ""
    high: str = ""
    decimals: str = ""
    scale: str = "linear"
    unit: str = ""
    format: str = ""
    drop: str = ""
    missing: str = ""
    codes: str = ""

    @property
    def open(self) -> bool:
        """Whether a required entry is empty."""
        wanted = KEYS.get(self.kind, ())
        return ("levels" in wanted and not self.levels.strip()) or (
            "bounds" in wanted and not (self.low.strip() and self.high.strip())
        )


def content_of(text: str) -> dict[str, Any]:
    """Return the plain data of a schema's text, finished or not. Raise SchemaError if it is not a YAML mapping."""
    found = parse_yaml(text, "the schema")
    if found is not None and not isinstance(found, dict):
        raise SchemaError("The schema has no `columns`. Correct its text below.")
    try:
        _json(found).encode()
    except (UnicodeError, RecursionError, TypeError, ValueError):
        raise SchemaError("The schema contains a value that no text can contain. Correct its text below.") from None
    return found or {}


def fields_of(content: Mapping[str, Any], header: Sequence[str]) -> list[Fields]:
    """Return the fields of each column in the header's order, then of columns that only the schema names."""
    declared = content.get("columns") if isinstance(content.get("columns"), dict) else {}
    assert isinstance(declared, dict)
    names = [*header, *(name for name in declared if isinstance(name, str) and name not in header)]
    return [_fields(name, declared.get(name)) for name in names]


def _fields(name: str, column: Any) -> Fields:
    known = column if isinstance(column, dict) else {}
    bounds, missing = known.get("bounds"), known.get("missing", False)
    low, high = bounds if isinstance(bounds, list) and len(bounds) == 2 else ("", "")
    return Fields(
        name, str(known.get("kind") or "categorical"), _lines(known.get("levels")), _text(low), _text(high),
        _text(known.get("decimals")), _text(known.get("scale")) or "linear", _text(known.get("unit")),
        _text(known.get("format")), "yes" if known.get("drop") else "", "yes" if missing else "", _lines(missing),
    )  # fmt: skip


def _text(value: Any) -> str:
    return "" if value is None else str(value)


def _lines(values: Any) -> str:
    return "\n".join(str(value) for value in values if value is not None) if isinstance(values, list) else ""


def yaml_of(
    content: Mapping[str, Any], form: Sequence[Fields], rules: str, target: str, patient: Mapping[str, Any]
) -> str:
    """Return a schema's YAML with what the form says. What it lacks is null, as a TODO in a draft is.

    Columns that are not in the form, and columns and rules that it did not change, stay as they are. `patient`: the
    keys that say whose rows are whose. They replace those that contradict them.
    """
    old = content.get("columns")
    declared = old if isinstance(old, dict) else {}
    keyed = (one._replace(kind="identifier") if one.name == patient.get("unit") else one for one in form)
    columns = {one.name: _column(one, declared.get(one.name)) for one in keyed}
    columns |= {name: column for name, column in declared.items() if name not in columns}
    other = ("one_row_a_patient",) if "unit" in patient else OF_SEVERAL_ROWS if patient else ()
    kept = {key: value for key, value in content.items() if key not in ("columns", "rules", "target", *other)}
    top = kept | ({"target": target} if target else {}) | dict(patient)
    lines = [f"{_json(key)}: {_json(value)}" for key, value in top.items()]
    lines += ["columns:", *(f"  {_json(name)}: {_json(column)}" for name, column in columns.items())]
    found = [line.strip() for line in rules.split("\n") if line.strip()]
    if rules == rules_of(content):
        found = content.get("rules") or []
    if found:
        lines.append(f"rules: {_json(found)}" if not isinstance(found, list) else "rules:")
        lines += [f"  - {_json(rule)}" for rule in found if isinstance(found, list)]
    return HEAD + "\n".join(lines) + "\n"


def rules_of(content: Mapping[str, Any]) -> str:
    """Return the rules of a schema, one per line."""
    rules = content.get("rules")
    return "\n".join(map(str, rules)) if isinstance(rules, list) else ""


def _json(value: Any) -> str:
    """Return a value as JSON that is YAML, too."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return IN_JSON_ALONE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _column(one: Fields, old: Any) -> dict[str, Any]:
    """Return a column's declaration. Of the same kind, keys that the form does not show stay as they are."""
    if isinstance(old, dict) and one == _fields(one.name, old):
        return old  # as it was written: a level may be a text that looks like a number, or have a space at its end
    wanted = KEYS.get(one.kind, ())
    same = old if isinstance(old, dict) and old.get("kind") == one.kind else {}
    shown = {"kind", "missing", *(key for keys in KEYS.values() for key in keys)}
    found: dict[str, Any] = {"kind": one.kind}
    if "levels" in wanted and not (same.get("hierarchy") and not one.levels.strip()):
        found["levels"] = _values(one.levels) or [None]
    if "bounds" in wanted:
        found["bounds"] = [_number(one.low), _number(one.high)]
    given = {"decimals": one.decimals, "scale": "log" * (one.scale == "log"), "drop": one.drop and True,
             "unit": one.unit, "format": one.format}  # fmt: skip
    given = {key: value.strip() if isinstance(value, str) else value for key, value in given.items() if key in wanted}
    found |= {key: _number(str(value)) if key == "decimals" else value for key, value in given.items() if value}
    if codes := _values(one.codes):
        found["missing"] = codes
    elif one.missing:
        found["missing"] = True
    return found | {key: value for key, value in same.items() if key not in shown}


def _values(text: str) -> list[int | str]:
    """Return the values of a field's lines: whole numbers if all of them are."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return [int(line) for line in lines] if all(map(WHOLE.fullmatch, lines)) else list(lines)


def _number(text: str) -> int | float | str | None:
    """Return a number as it was typed; other texts, such as dates, unchanged; null for an empty field."""
    text = text.strip()
    with suppress(ValueError):
        return int(text) if WHOLE.fullmatch(text) else float(text)
    return text or None
