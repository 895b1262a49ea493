"""Croissant: descriptions of data sets for machine learning (mlcommons.org/croissant). Nothing is fetched.

Croissant has names, types and descriptions of columns, and levels as record sets of the type Enumeration. It has no
bounds. Inline data of other record sets and examples are cells, and are not read.
"""

from __future__ import annotations

from collections.abc import Mapping

from .entry import DescribedTable, Entry, Type
from .files import MAX_FIELDS, Faults, Json, Lines, text_of

FORM = "Croissant description"
TYPES: dict[str, Type] = {
    "Integer": "integer", "Int8": "integer", "Int16": "integer", "Int32": "integer", "Int64": "integer",
    "UInt8": "integer", "UInt16": "integer", "UInt32": "integer", "UInt64": "integer", "Float": "number",
    "Number": "number", "Float16": "number", "Float32": "number", "Float64": "number", "Boolean": "boolean",
    "Text": "string", "Date": "date", "DateTime": "datetime", "Time": "time", "URL": "identifying",
}  # fmt: skip


def is_croissant(content: Json) -> bool:
    """Return whether an object is a description in the words of Croissant."""
    return isinstance(content.get("recordSet", content.get("cr:recordSet")), list)


def _list(content: Json, key: str) -> list[Json]:
    found = content.get(key, content.get(f"cr:{key}", []))
    return [one for one in (found if isinstance(found, list) else [found]) if isinstance(one, dict)]


def _words(value: object) -> list[str]:
    """Return one word or a list of words without their prefixes: `sc:Integer` is `Integer`."""
    listed = value if isinstance(value, list) else [value]
    return [text_of(one).rpartition("/")[2].rpartition(":")[2] for one in listed]


def croissant(content: Json, lines: Lines, faults: Faults) -> list[DescribedTable]:
    """Return the tables of a description: its record sets, other than those that list levels or splits.

    Of fields that are parts of one column, the first one describes it.
    """
    records = _list(content, "recordSet")
    listed = {identifier: levels for one in records for identifier, levels in _enumeration(one).items()}
    found = []
    for record in records:
        if {"Enumeration", "Split"}.intersection(_words(record.get("dataType"))):
            continue
        entries = list[Entry]()
        read = set[str]()
        for k, field in enumerate(_list(record, "field")[: MAX_FIELDS + 1], 1):
            name = text_of(field.get("name")) or text_of(field.get("@id")).rpartition("/")[2]
            column = _list(_first(_list(field, "source")), "extract")
            in_file = text_of(_first(column).get("column"))
            if in_file in read:
                continue
            read |= {in_file} - {""}
            name = in_file or name
            if not name:
                faults.add(0, f"field {k} has no name.")
                continue
            entries.append(_entry(name, lines.take(text_of(field.get("name"))), field, record, listed))
        if entries:
            found.append(DescribedTable(name=_name(record), entries=tuple(entries)))
    if not found:
        faults.add(0, "no record set has fields.")
    return found


def _first(items: list[Json]) -> Json:
    return items[0] if items else {}


def _name(record: Json) -> str:
    return text_of(record.get("name")) or text_of(record.get("@id"))


def _enumeration(record: Json) -> dict[str, tuple[str, ...]]:
    """Return the levels that a record set lists, by the identifier of the field that contains them."""
    if "Enumeration" not in _words(record.get("dataType")):
        return {}
    rows = _list(record, "data")
    names = dict.fromkeys(key for row in rows for key in row)
    return {key: tuple(dict.fromkeys(text_of(row.get(key)) for row in rows)) for key in names}


def _entry(name: str, line: int, field: Json, record: Json, listed: Mapping[str, tuple[str, ...]]) -> Entry:
    words = _words(field.get("dataType"))
    kind: Type = next((TYPES[word] for word in words if word in TYPES), "")
    target = _first(_list(_first(_list(field, "references")), "field")).get("@id")
    levels = listed.get(text_of(target), ())
    keys = [text_of(one.get("@id")) for one in _list(record, "key")]
    if [text_of(field.get("@id"))] == keys or (target and not levels):
        kind = "key"
    return Entry(
        name=name, line=line, type="levels" if levels else kind, label=text_of(field.get("description")), levels=levels,
        guesses=() if kind == "key" else ("cells may be empty",),
    )  # fmt: skip
