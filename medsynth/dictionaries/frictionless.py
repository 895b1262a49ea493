"""Frictionless: a Table Schema, or a Data Package whose resources have one (datapackage.org).

Schemas at another address are not fetched, and inline data are not read.
"""

from __future__ import annotations

from .entry import ISO_FORMATS, DescribedTable, Entry, Type
from .files import MAX_FIELDS, Faults, Json, Lines, text_of

FORM = "Frictionless table schema"
TYPES: dict[str, Type] = {
    "integer": "integer", "number": "number", "boolean": "boolean", "string": "string", "date": "date",
    "datetime": "datetime", "time": "time", "year": "integer", "yearmonth": "date", "any": "", "": "",
    "object": "text", "array": "text", "list": "text", "duration": "text", "geopoint": "text", "geojson": "text",
}  # fmt: skip
IDENTIFYING = ("email", "uri", "uuid", "binary")  # formats of strings


def is_frictionless(content: Json) -> bool:
    """Return whether an object is a table schema, a resource or a package."""
    return any(isinstance(content.get(key), list) for key in ("fields", "resources")) or "schema" in content


def frictionless(content: Json, lines: Lines, faults: Faults) -> list[DescribedTable]:
    """Return the tables that a schema, a resource or a package describes."""
    resources = content.get("resources", [content])
    found = []
    for resource in resources if isinstance(resources, list) else []:
        if not isinstance(resource, dict):
            faults.add(0, "a resource must be an object.")
            continue
        name = text_of(resource.get("name"))
        schema = resource.get("schema", resource)
        if isinstance(schema, str):
            faults.add(
                lines.take(name), f"the schema of {name!r} is another file, which is not fetched. Import that one."
            )
        elif isinstance(schema, dict) and isinstance(schema.get("fields"), list):
            found.append(DescribedTable(name=name, entries=_entries(schema, lines, faults)))
    if not found:
        faults.add(0, "no resource has a schema with fields.")
    return found


def _entries(schema: Json, lines: Lines, faults: Faults) -> tuple[Entry, ...]:
    keys = schema.get("primaryKey", [])
    keys = [keys] if isinstance(keys, str) else keys if isinstance(keys, list) else []
    missing = schema.get("missingValues", [""])
    entries = list[Entry]()
    for k, field in enumerate(schema["fields"][: MAX_FIELDS + 1], 1):
        field = {"name": field} if isinstance(field, str) else field
        name = text_of(field.get("name")) if isinstance(field, dict) else ""
        if not name:
            faults.add(0, f"field {k} has no name.")
            continue
        line = lines.take(name)
        kind = text_of(field.get("type"))
        if kind not in TYPES:
            why = f"{kind[:40]!r} is not a type of Frictionless"
            entries.append(Entry(name=name, line=line, type="", label=_label(field), open=(why,)))
        elif name in keys and len(keys) == 1:
            entries.append(Entry(name=name, line=line, type="key", label=_label(field), may_be_empty=False))
        else:
            entries.append(_entry(name, line, TYPES[kind], field, missing))
    return tuple(entries)


def _words(values: object) -> tuple[str, ...]:
    """Return a list of values, each a text or an object with a `value`, as texts."""
    items = values if isinstance(values, list) else []
    return tuple(text_of(one.get("value") if isinstance(one, dict) else one) for one in items)


def _labels(values: object) -> dict[str, str]:
    """Return the labels of the values in a list that have one, by value."""
    items = values if isinstance(values, list) else []
    return {text_of(one.get("value")): text_of(one.get("label")) for one in items if isinstance(one, dict)}


def _label(field: Json) -> str:
    return text_of(field.get("title")) or text_of(field.get("description"))


def _entry(name: str, line: int, kind: Type, field: Json, schema_missing: object) -> Entry:
    limits = field.get("constraints")
    limits = limits if isinstance(limits, dict) else {}
    missing = field.get("missingValues", schema_missing)
    codes = _words(missing)
    required = limits.get("required") is True
    form = text_of(field.get("format"))
    listed = field.get("categories", limits.get("enum"))
    listed = listed if isinstance(listed, list) else []
    levels = _words(listed)
    labels = _labels(missing) | _labels(listed)
    if kind == "boolean":
        levels = tuple(w[0] for key in ("falseValues", "trueValues") if len(w := _words(field.get(key))) == 1)
        levels = levels if len(levels) == 2 else ()
    if kind == "string":
        kind = "identifying" if form in IDENTIFYING else "key" if limits.get("unique") is True else kind
    if text_of(field.get("type")) == "yearmonth":
        form = "%Y-%m"
    low, high = (_end(limits, side, kind) for side in ("minimum", "maximum"))
    return Entry(
        name=name, line=line, type=kind, label=_label(field), unit=text_of(field.get("unit")), low=low, high=high,
        levels=levels, labels=labels, ordered=field.get("categoriesOrdered") is True,
        missing=() if required else tuple(word for word in codes if word),
        may_be_empty=not required and "" in codes, format=_strptime(form, kind),
    )  # fmt: skip


def _end(limits: Json, side: str, kind: Type) -> str:
    """Return the lowest or highest allowed value; one that is excluded moves by one for whole numbers."""
    excluded = limits.get(f"exclusive{side.capitalize()}")
    if side in limits or excluded is None:
        return text_of(limits.get(side))
    step = 1 if side == "minimum" else -1
    return text_of(excluded + step if kind == "integer" and type(excluded) is int else excluded)


def _strptime(form: str, kind: Type) -> str:
    """Return a format in the codes of strptime; "" for the one that applies if none is given."""
    if kind not in ISO_FORMATS or form == "any":
        return ""
    return ISO_FORMATS[kind] if form in ("default", "") else form.removeprefix("fmt:")
