"""OMOP: the field-level CSV file of the Common Data Model, and scan reports of White Rabbit.

A scan report counts the cells of a private table: how long they are, how many are empty, and how often each value
occurs. Only names and types are taken from its overview of fields. Its levels and counts are never read.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from ..schema.header import normalised
from .entry import DescribedTable, Entry, Type
from .files import Faults, Sheet

FORM, SCAN = "OMOP field-level table", "White Rabbit scan report"
TYPES: dict[str, Type] = {
    **dict.fromkeys(("integer", "int", "bigint", "smallint", "tinyint", "number"), "integer"),
    **dict.fromkeys(("float", "numeric", "real", "double", "double precision", "decimal"), "number"),
    **dict.fromkeys(("datetime", "datetime2", "timestamp", "timestamp without time zone"), "datetime"),
    "date": "date", "time": "time", "boolean": "boolean", "bit": "boolean", "text": "text",
    **dict.fromkeys(("varchar", "nvarchar", "char", "character varying", "character", "string"), "string"),
}  # fmt: skip
LONG = re.compile(r"\((max|\d{4,})\)")  # texts of 1,000 characters and more are notes
PRIVATE = "its lengths and counts follow the rows, so no levels and no bounds are taken from it"


def is_omop(header: Iterable[str]) -> bool:
    """Return whether a header is that of the field-level file."""
    return {"cdmtablename", "cdmfieldname", "cdmdatatype"} <= set(map(normalised, header))


def is_scan(header: Iterable[str]) -> bool:
    """Return whether a header is that of a scan report's overview of fields."""
    words = set(map(normalised, header))
    return {"table", "field", "type"} <= words and bool({"nrows", "maxlength", "fractionempty"} & words)


def omop(sheet: Sheet, faults: Faults) -> list[DescribedTable]:
    """Return the tables of a field-level file."""
    return _tables(sheet, faults, ("cdmtablename", "cdmfieldname", "cdmdatatype"), ())


def scan_report(sheet: Sheet, faults: Faults) -> list[DescribedTable]:
    """Return the tables of a scan report: names and types alone."""
    return _tables(sheet, faults, ("table", "field", "type"), (PRIVATE,))


def _tables(sheet: Sheet, faults: Faults, keys: tuple[str, str, str], remarks: tuple[str, ...]) -> list[DescribedTable]:
    entries = dict[str, list[Entry]]()
    for line, cells in sheet.lines:
        row = {normalised(title): text for title, text in cells.items()}
        table, name, kind = (row[key] for key in keys)
        if not name or not table:
            if row.get("nrows") or name or table:
                faults.add(line, "the name of the table or of the field is missing.")
            continue
        base = kind.lower().partition("(")[0].strip()
        type_ = "text" if LONG.search(kind.lower()) else TYPES.get(base, "")
        entry = _scanned(name, line, type_) if remarks else _field(name, line, type_, row)
        if base not in TYPES and not remarks:
            entry = replace(entry, open=(f"{kind[:40]!r} is not a data type of the Common Data Model",))
        entries.setdefault(table, []).append(entry)
    return [DescribedTable(name=table, entries=tuple(of), remarks=remarks) for table, of in entries.items()]


def _scanned(name: str, line: int, kind: Type) -> Entry:
    # White Rabbit infers types of text files from their cells.
    return Entry(name=name, line=line, type=kind, guesses=("the type was scanned, so confirm it",))


def _field(name: str, line: int, kind: Type, row: Mapping[str, str]) -> Entry:
    """Return a field of the model. Keys of other tables than that of concepts are keys here, too."""
    refers = row.get("fktablename", "").upper()
    own = row.get("isprimarykey", "").lower() in ("true", "yes")
    foreign = row.get("isforeignkey", "").lower() in ("true", "yes")
    label = row.get("userguidance", "").removeprefix("NA")
    optional = row.get("isrequired", "").lower() not in ("true", "yes")
    entry = Entry(name=name, line=line, type=kind, label=label, may_be_empty=optional)
    if own or (foreign and refers != "CONCEPT"):
        return replace(entry, type="key", may_be_empty=False)
    if foreign:
        domain = row.get("fkdomain", "").removeprefix("NA")
        of = f" of the domain {domain}" if domain else ""
        return replace(entry, type="levels", open=(f"levels are concept identifiers{of}",))
    return entry
