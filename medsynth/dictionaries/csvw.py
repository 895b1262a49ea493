"""CSVW: metadata of CSV files on the web (www.w3.org/TR/tabular-metadata). No context and no address is fetched."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from .entry import ISO_FORMATS, DescribedTable, Entry, Type
from .files import MAX_FIELDS, Faults, Json, Lines, text_of

FORM = "CSVW metadata"
NAMESPACE = "http://www.w3.org/ns/csvw"
WHOLE = ("integer", "long", "int", "short", "byte", "nonNegativeInteger", "positiveInteger", "unsignedLong",
         "unsignedInt", "unsignedShort", "unsignedByte", "nonPositiveInteger", "negativeInteger", "gYear")  # fmt: skip
TYPES: dict[str, Type] = {
    **dict.fromkeys(WHOLE, "integer"), **dict.fromkeys(("number", "decimal", "double", "float"), "number"),
    "boolean": "boolean", "date": "date", "datetime": "datetime", "dateTime": "datetime", "dateTimeStamp": "datetime",
    "time": "time", "string": "string", "token": "string", "normalizedString": "string", "language": "string",
    "Name": "string", "NMTOKEN": "string", "anyURI": "identifying", "gYearMonth": "date",
    **dict.fromkeys(("xml", "html", "json", "any", "anyAtomicType", "base64Binary", "binary", "hexBinary", "QName",
                     "duration", "dayTimeDuration", "yearMonthDuration", "gDay", "gMonth", "gMonthDay"), "text"),
}  # fmt: skip
FROM_ZERO = {"nonNegativeInteger": "0", "positiveInteger": "1", **dict.fromkeys([n for n in WHOLE if n[0] == "u"], "0")}
# Parts of a date's pattern, and their codes in strptime. Longer ones first.
PARTS = {"yyyy": "%Y", "MM": "%m", "dd": "%d", "HH": "%H", "mm": "%M", "ss": "%S", "M": "%-m", "d": "%-d"}
PATTERN = re.compile("|".join(PARTS))
ALTERNATIVES = re.compile(r"\^?\(?([\w .-]+(?:\|[\w .-]+)+)\)?\$?")  # a regular expression of words alone
INHERITED = ("null", "required", "datatype", "lang", "separator")


def is_csvw(content: Json) -> bool:
    """Return whether an object describes a table or a group of tables in the words of CSVW."""
    context = content.get("@context")
    named = NAMESPACE in (context if isinstance(context, list) else [context])
    return "tableSchema" in content or (named and "tables" in content)


def csvw(content: Json, lines: Lines, header: Collection[str], faults: Faults) -> list[DescribedTable]:
    """Return the tables that CSVW metadata describe. A column has the one of its names that is in the `header`."""
    tables = content.get("tables", [content])
    found = []
    for table in tables if isinstance(tables, list) else []:
        schema = table.get("tableSchema", content.get("tableSchema")) if isinstance(table, dict) else None
        address = text_of(table.get("url")) if isinstance(table, dict) else ""
        if isinstance(schema, str):
            faults.add(0, f"the schema of {address[:80]!r} is another file, which is not fetched. Import that one.")
        elif isinstance(schema, dict) and isinstance(schema.get("columns"), list):
            above = _inherited(content) | _inherited(table) | _inherited(schema)
            name = re.sub(r"\.\w+$", "", address.rpartition("/")[2])
            found.append(DescribedTable(name=name, entries=_entries(schema, above, lines, header, faults)))
    if not found:
        faults.add(0, "no table has a schema with columns.")
    return found


def _inherited(content: Json) -> Json:
    return {key: content[key] for key in INHERITED if key in content}


def _entries(schema: Json, above: Json, lines: Lines, header: Collection[str], faults: Faults) -> tuple[Entry, ...]:
    keys = schema.get("primaryKey")
    entries = list[Entry]()
    for k, column in enumerate(schema["columns"][: MAX_FIELDS + 1], 1):
        names = _titles(column) if isinstance(column, dict) else []
        if not names:
            faults.add(0, f"column {k} has neither titles nor a name.")
        elif column.get("virtual") is not True:
            line = lines.take(names[0])
            name = next((name for name in names if name in header), names[0])
            title = next((one for one in names if one not in (name, column.get("name"))), "")
            entry = _entry(name, line, {"dc:title": title} | above | column)
            if entry and keys in (column.get("name"), [column.get("name")]):
                entry = Entry(name=entry.name, line=line, type="key", label=entry.label, may_be_empty=False)
            entries += [entry] if entry else []
    return tuple(entries)


def _titles(column: Json) -> list[str]:
    """Return the names that a column's header may have: its titles, or without any its name."""
    titles = column.get("titles", [])
    titles = next(iter(titles.values()), []) if isinstance(titles, dict) else titles
    listed = titles if isinstance(titles, list) else [titles]
    return [text for one in (*listed, column.get("name")) if (text := text_of(one).strip())]


def _label(column: Json) -> str:
    for key in ("dc:description", "rdfs:label", "dc:title", "schema:description", "rdfs:comment"):
        value = column.get(key)
        if text := text_of(value.get("@value") if isinstance(value, dict) else value):
            return text
    return ""


def _entry(name: str, line: int, column: Json) -> Entry:
    datatype = column.get("datatype", "string")
    datatype = datatype if isinstance(datatype, dict) else {"base": datatype}
    base = text_of(datatype.get("base", "string"))
    if base not in TYPES:
        return Entry(name=name, line=line, type="", open=(f"{base[:40]!r} is not a datatype of CSVW",))
    kind: Type = "text" if "separator" in column else TYPES[base]  # a list in each cell is not a value
    nulls = column.get("null", "")
    nulls = [text_of(one) for one in (nulls if isinstance(nulls, list) else [nulls])]
    required = column.get("required") is True
    form, levels, decimals = _format(datatype.get("format"), kind)
    ends = {side: _end(datatype, side, kind) for side in ("min", "max")}
    return Entry(
        name=name, line=line, type=kind, label=_label(column), low=ends["min"] or FROM_ZERO.get(base, ""),
        high=ends["max"], levels=levels, decimals=decimals, format="%Y-%m" if base == "gYearMonth" else form,
        missing=() if required else tuple(word for word in nulls if word), may_be_empty=not required and "" in nulls,
    )  # fmt: skip


def _end(datatype: Json, side: str, kind: Type) -> str:
    """Return the lowest or highest allowed value; one that is excluded moves by one for whole numbers."""
    for key in (f"{side}imum", f"{side}Inclusive"):
        if key in datatype:
            return text_of(datatype[key])
    excluded = text_of(datatype.get(f"{side}Exclusive"))
    if kind == "integer" and re.fullmatch(r"-?\d{1,15}", excluded):
        return str(int(excluded) + (1 if side == "min" else -1))
    return excluded


def _format(form: object, kind: Type) -> tuple[str, tuple[str, ...], int | None]:
    """Return a format as that of dates, as levels, or as decimals. A regular expression is never compiled."""
    text = text_of(form.get("pattern") if isinstance(form, dict) else form)
    if kind in ISO_FORMATS:
        known = not re.search("[SXx]", text)  # parts of a second and zones have no code here
        return PATTERN.sub(lambda part: PARTS[part[0]], text or ISO_FORMATS[kind]) if known else "", (), None
    if kind == "boolean" and text.count("|") == 1:
        yes, no = text.split("|")
        return "", (no, yes), None
    if kind == "string" and (found := ALTERNATIVES.fullmatch(text)):
        return "", _once(found[1].split("|")), None
    if kind == "number" and re.fullmatch(r"[#0,]*\.[0#]{1,12}", text):
        return "", (), len(text.partition(".")[2])
    return "", (), None


def _once(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(word.strip() for word in words))
