"""The form of a schema's columns: from its YAML to fields, and back. Keys that no field shows are kept."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Any, NamedTuple

from medsynth.errors import SchemaError
from medsynth.schema.declared import parse_yaml, yaml_text

OF_NUMBERS = ("bounds", "scale", "unit", "text", "below", "above", "limits", "unknown")
KEYS = {  # what the form asks for, by kind; `time` is a date without a day, and `open` is learned
    "binary": ("levels", "unknown"), "categorical": ("levels", "hierarchy", "unknown"),
    "ordinal": ("levels", "unknown"), "count": OF_NUMBERS, "continuous": (*OF_NUMBERS, "decimals"),
    "date": ("bounds", "format", "after", "unknown"), "time": ("format", "unknown"),
    "identifier": ("drop", "shape"), "parts": ("text", "bounds", "unknown"), "answers": ("levels",), "open": (),
}  # fmt: skip
KINDS_WITH = {key: " ".join(kind for kind in KEYS if key in KEYS[kind]) for keys in KEYS.values() for key in keys}
CLOCK = ["1900-01-01", "1900-01-01"]  # bounds of times of day
LEARN = "TODO"  # a format that a fit learns
FORMATS = (  # of dates, and of times; empty: as 2020-12-31
    "", "%d.%m.%Y", "%d/%m/%Y", "%m/%d/%Y", "%d-%m-%Y", "%d.%m.%y", "%Y%m%d", "%Y-%m", "%Y-%m-%d %H:%M",
    "%Y-%m-%d %H:%M:%S", "%Y-%m-%dT%H:%M:%S", "%d.%m.%Y %H:%M", "%d/%m/%Y %H:%M", "%m/%d/%Y %I:%M %p", "%H:%M",
    "%H:%M:%S", "%H%M", "%I:%M %p",
)  # fmt: skip
EXAMPLE, ISO = datetime(2020, 12, 31, 14, 30, 15), "%Y-%m-%d"
HIDDEN = ("seen", "label", "value_labels", "dtype")  # entries that stay while the kind does
WHOLE = re.compile(r"0|-?[1-9][0-9]{0,17}")
NUMBER = re.compile(r"-?[0-9]+([.][0-9]+)?")
IN_JSON_ALONE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")  # not in a YAML text, or a new line there
OF_SEVERAL_ROWS = ("unit", "max_rows", "order", "constant")  # keys of a schema whose patients have several rows
HEAD = "# Written by the page of medsynth. Every value is public: none was looked up in the table.\n"


class Fields(NamedTuple):
    """The fields of one column, as texts. What may have several values has one per line.

    `missing`: whether cells may be empty. `more`: entries without a field, as YAML.
    """

    name: str
    kind: str
    levels: str = ""
    low: str = ""
    high: str = ""
    decimals: str = ""
    scale: str = "linear"
    unit: str = ""
    format: str = ""
    after: str = ""
    hierarchy: str = ""
    text: str = ""
    below: str = ""
    above: str = ""
    limits: str = ""
    shape: str = ""
    unknown: str = ""
    drop: str = ""
    missing: str = ""
    codes: str = ""
    more: str = ""

    @property
    def open(self) -> bool:
        """Whether an entry that its kind needs is empty, so that a fit learns it."""
        wanted = KEYS.get(self.kind, ())
        return self.kind == "open" or ("levels" in wanted and not (self.levels.strip() or self.hierarchy)) or (
            "bounds" in wanted and not (self.low.strip() and self.high.strip())
        )  # fmt: skip

    def spoken(self, separators: str, day: str) -> Fields:
        """Return the fields with numbers and days as a language writes them. `separators`: thousands, and decimals."""
        return self._replace(**{name: _spoken(getattr(self, name), separators, day) for name in ("low", "high")})

    def heard(self, separators: str, day: str) -> Fields:
        """Return fields that a person typed, with numbers and days as a schema writes them."""
        forms = (day, ISO, *self.format.splitlines()) if self.kind == "date" else ()
        return self._replace(**{name: _heard(getattr(self, name), separators, forms) for name in ("low", "high")})


def _spoken(text: str, separators: str, day: str) -> str:
    with suppress(ValueError):
        return datetime.strptime(text, ISO).strftime(day)
    return text.replace(".", separators[1]) if NUMBER.fullmatch(text) else text


def _heard(text: str, separators: str, forms: Iterable[str]) -> str:
    text = text.strip()
    for form in forms:
        with suppress(ValueError, re.error):
            return datetime.strptime(text, form).date().isoformat()
    thousands, point = map(re.escape, separators)
    if re.fullmatch(rf"-?[0-9]{{1,3}}({thousands}[0-9]{{3}})+({point}[0-9]+)?", text):
        text = text.replace(separators[0], "")
    number = text.replace(",", ".")
    return number if NUMBER.fullmatch(number) else text


def example(form: str) -> str:
    """Return a moment as cells of a format have it."""
    return " / ".join(EXAMPLE.strftime(one) for one in (form or ISO).splitlines())


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
    kind = str(known.get("kind") or "open")
    bounds, missing, form = known.get("bounds"), known.get("missing", False), known.get("format", "")
    kind = "time" if kind == "date" and isinstance(bounds, list) and [*map(str, bounds)] == CLOCK else kind
    parts = known.get("parts") if kind == "parts" else None
    first = parts[0] if isinstance(parts, list) and parts and isinstance(parts[0], dict) else {}
    alike = first.keys() == {"kind", "bounds"} and parts == [first | {"kind": "count"}] * len(parts or ())
    bounds = first["bounds"] if alike else bounds
    low, high = bounds if isinstance(bounds, list) and len(bounds) == 2 and kind != "time" else ("", "")
    texts = {key: _text(known.get(key)) for key in Fields._fields[5:17] if key in KEYS.get(kind, ())}
    if kind in ("date", "time"):
        texts["format"] = LEARN if form is None else _text(form)
    shown = {"kind", "missing", "resolution", "more", *KEYS.get(kind, ()), *HIDDEN, *(["bounds"] * (kind == "time"))}
    shown |= {"parts"} if alike else set()
    shown -= {key for key in ("hierarchy", "limits") if not isinstance(known.get(key, ""), str)}
    more = {key: value for key, value in known.items() if key not in shown}
    return Fields(
        name, kind, low=_text(low), high=_text(high), **texts | {"scale": texts.get("scale") or "linear"},
        levels=_lines(known.get("levels")), drop="yes" if known.get("drop") else "", codes=_lines(missing),
        missing="yes" if missing is True or (isinstance(missing, list) and "" in missing) else "",
        more=_text(known.get("more")) or (yaml_text(more, flow=True)[1:-1] if more else ""),
    )  # fmt: skip


def _text(value: Any) -> str:
    return _lines(value) if isinstance(value, list) else "" if value is None or isinstance(value, dict) else str(value)


def _lines(values: Any) -> str:
    return "\n".join(map(str, filter(lambda one: one not in (None, ""), values))) if isinstance(values, list) else ""


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
    known = content.get("rules") or []
    old_rules = {_rule(rule): rule for rule in known} if isinstance(known, list) else {}  # some are marked as seen
    found = [old_rules.get(line.strip(), line.strip()) for line in rules.split("\n") if line.strip()]
    if rules == rules_of(content):
        found = known
    if found:
        lines.append(f"rules: {_json(found)}" if not isinstance(found, list) else "rules:")
        lines += [f"  - {_json(rule)}" for rule in found if isinstance(found, list)]
    return HEAD + "\n".join(lines) + "\n"


def rules_of(content: Mapping[str, Any]) -> str:
    """Return the rules of a schema, one per line."""
    rules = content.get("rules")
    return "\n".join(map(_rule, rules)) if isinstance(rules, list) else ""


def _rule(rule: Any) -> str:
    return str(rule.get("rule", rule) if isinstance(rule, dict) else rule)


def _json(value: Any) -> str:
    """Return a value as JSON that is YAML, too."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return IN_JSON_ALONE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def _column(one: Fields, old: Any) -> dict[str, Any]:
    """Return a column's declaration. Of the same kind, keys that the form does not show stay as they are."""
    before = _fields(one.name, old)
    if isinstance(old, dict) and one == before:
        return old  # as it was written: a level may be a text that looks like a number, or have a space at its end
    wanted = KEYS.get(one.kind, ())
    same = old if isinstance(old, dict) and before.kind == one.kind else {}
    found: dict[str, Any] = {"kind": {"time": "date", "open": None}.get(one.kind, one.kind)}
    more = _more(one.more) if same or one.more != before.more else {}
    levels = _values(one.levels)
    if "levels" in wanted and not (levels == [] and (one.hierarchy or "hierarchy" in more)):
        found["levels"] = levels or [None]
    if one.kind == "parts":
        found["parts"] = [{"kind": "count", "bounds": [_number(one.low), _number(one.high)]}] * one.text.count("{}")
    elif one.kind == "time" or ("bounds" in wanted and not (one.after and not one.low + one.high)):
        found["bounds"] = CLOCK if one.kind == "time" else [_number(one.low), _number(one.high)]
    texts = {key: getattr(one, key) for key in wanted if key not in ("levels", "bounds")}
    given = dict[str, Any]()
    for key, text in texts.items():
        if text.strip() and (key, text) != ("scale", "linear"):
            words = "levels" in wanted and not any(isinstance(level, int) for level in levels)
            number = key == "decimals" or (key == "unknown" and not words)
            given[key] = True if key == "drop" else _number(text) if number else _several(text)
    if "format" in wanted:
        form = one.format or "%H:%M" * (one.kind == "time")
        if form:
            given["format"] = None if form == LEARN else _several(form)
        resolution = "second" if re.search("%[STXcsr]", form) else "minute" if re.search("%[HI]", form) else "day"
        resolution = same.get("resolution", "day") if same and one.format == before.format else resolution
        found |= {"resolution": resolution} if resolution != "day" else {}
    found |= given
    codes: list[int | str] = _values(one.codes)
    if codes or one.missing or given.get("unknown") == "missing":
        found["missing"] = [*codes, *[""] * bool(one.missing)] if codes else True
    return found | {key: value for key, value in same.items() if key in HIDDEN} | more


def _more(text: str) -> dict[str, Any]:
    """Return the entries in a field of YAML; one that no column has, if it is not YAML."""
    with suppress(SchemaError):
        if isinstance(found := parse_yaml(f"{{{text}\n}}", ""), dict) and all(isinstance(key, str) for key in found):
            return found
    return {"more": text}


def _several(text: str) -> str | list[str]:
    """Return a field's text, or the texts of its lines, if there are several."""
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    return lines if len(lines) > 1 else text.strip()


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
