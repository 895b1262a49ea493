"""A plain codebook: a CSV file or a sheet with one line per column, whose header is matched loosely.

A codebook that also gives counts, means or other statistics was computed from the rows. Then its minima and maxima are
those of patients, and its levels those that occurred: neither is taken.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable

from ..io.writer import runs_as_formula
from ..schema.cells import MISSING_NUMBERS
from ..schema.header import normalised
from .entry import DescribedTable, Entry, Type
from .files import Faults, Sheet

FORM = "codebook"
# What each column of a codebook may be called, without blanks, signs and capitals. The first name is the template's.
NAMES = {
    "name": "column variable variablename name field fieldname columnname var varname item spalte feld merkmal colonne",
    "label": "label description variablelabel desc definition meaning question title beschreibung bezeichnung libelle",
    "type": "type datatype kind vartype valuetype variabletype typ measure level",
    "unit": "unit units uom measurementunit einheit unite",
    "low": "minimum min lower lowerbound lowerlimit",
    "high": "maximum max upper upperbound upperlimit",
    "codes": "codes values levels choices categories coding valuelabels responseoptions options codelist kodierung",
    "missing": "missingcodes missing missingvalues missingvalue navalues na fehlendewerte",
    "empty": "mayBeEmpty nullable optional",
    "required": "required mandatory notnull pflicht",
    "decimals": "decimals decimalplaces digits precision nachkommastellen",
    "format": "format dateformat",
    "key": "key identifier isidentifier phi primarykey",
}
READ = {normalised(word): key for key, words in NAMES.items() for word in words.split()}
# Limits that name themselves as what is allowed are taken in any codebook, such as one that describes synthetic rows.
ENDS = {"min": "low", "minimum": "low", "max": "high", "maximum": "high"}
ALLOWED = {"".join(pair): key for end, key in ENDS.items() for word in ("allowed", "valid", "permitted")
           for pair in ((end, word), (word, end))}  # fmt: skip
READ |= ALLOWED
STATISTICS = re.compile(
    r"n|nobs|count|counts|freq|frequency|frequencies|mean|average|mw|sd|std|stddev|se|median|mode|variance|skewness"
    r"|kurtosis|iqr|q[123]|p\d{1,2}|quartile\d?|histogram|distinct|unique|nunique|nvalid|validn|nmissing|nmiss"
    r"|missingn|complete|completerate|pct.*|percent.*|observed.*|obs(?:min|max).*|(?:min|max)(?:imum)?observed|anzahl"
)
WORDS: dict[Type, str] = {
    "integer": "integer int whole count wholenumber long ganzzahl entier",
    "number": "number numeric float decimal double real continuous num zahl scale interval ratio",
    "levels": "binary categorical category factor nominal ordinal ordered enum coded choice dropdown",
    "date": "date datum day",
    "datetime": "datetime timestamp dateandtime",
    "time": "time uhrzeit",
    "boolean": "boolean bool logical",
    "string": "string str char character varchar",
    "text": "text freetext memo note notes",
    "key": "identifier id key",
}
TYPES: dict[str, Type] = {word: kind for kind, words in WORDS.items() for word in words.split()}
ORDERED = ("ordinal", "ordered")
YES = ("yes", "y", "true", "1", "x", "ja", "oui")
COUNTED = re.compile(r"[(\[]\s*(?:n\s*=\s*\d+|\d+(?:\.\d+)?\s*%)")
COMPUTED = "it gives statistics of the rows, so its minima, maxima and levels may be patients' and are not taken"
INERT = re.compile(r"^'(?=[=+@-])")  # what a spreadsheet puts before a text that looks like a formula

TEMPLATE = ("column", "label", "type", "unit", "minimum", "maximum", "decimals", "codes", "missing codes",
            "may be empty", "format")  # fmt: skip
EXAMPLES = (
    ("record", "number of the record", "key", "", "", "", "", "", "", "no", ""),
    ("age", "age at admission", "integer", "years", "18", "110", "", "", "", "no", ""),
    ("tsh", "thyrotropin", "number", "mIU/l", "0", "500", "2", "", "-9", "yes", ""),
    ("sex", "sex at birth", "categorical", "", "", "", "", "F=female; M=male", "", "no", ""),
    ("severity", "severity", "ordinal", "", "", "", "", "1=mild; 2=moderate; 3=severe", "", "yes", ""),
    ("admitted", "day of admission", "date", "", "2015-01-01", "2024-12-31", "", "", "", "no", "%d.%m.%Y"),
)


def template(columns: Iterable[str] = ()) -> str:
    """Return an empty codebook as CSV text: a line for each of the columns, or without any a few examples."""
    lines = [(f"'{name}" if runs_as_formula(name) else name, *[""] * (len(TEMPLATE) - 1)) for name in columns]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([TEMPLATE, *(lines or EXAMPLES)])
    return text.getvalue()


def is_codebook(header: Iterable[str]) -> bool:
    """Return whether a header names columns, and gives what a table of patients does not: types, labels or codes."""
    words = [normalised(title) for title in header]
    known = {READ[word] for word in words if word in READ}
    return "name" in known and bool(known & {"type", "label", "codes", "low"}) and (
        len(known) > 2 or 2 * len(known) >= len(words)
    )  # fmt: skip


def codebook(sheet: Sheet, faults: Faults) -> DescribedTable:
    """Return the table that a codebook describes."""
    words = {title: normalised(title) for title in sheet.header}
    computed = _is_computed(words, sheet)
    refused = {word for word in READ if READ[word] in ("low", "high") or word == "missing"} - ALLOWED.keys()
    keys = dict[str, str]()  # the header's title of each part; the first that fits
    for title, word in words.items():
        if word in READ and not (computed and word in refused):
            keys.setdefault(READ[word], title)
    entries = []
    for line, cells in sheet.lines:
        row = {key: INERT.sub("", cells[keys[key]]) if key in keys else "" for key in NAMES}
        if not row["name"]:
            faults.add(line, "the name of the column is missing.")
            continue
        entries.append(_entry(line, row, computed, faults))
    return DescribedTable(name="", entries=tuple(entries), remarks=(COMPUTED,) if computed else ())


def _is_computed(words: dict[str, str], sheet: Sheet) -> bool:
    """Return whether a codebook was computed from rows: by its header, counts among its codes, or counts of missing."""
    if any(STATISTICS.fullmatch(word) or "%" in title or "#" in title for title, word in words.items()):
        return True
    codes = [cells[title] for _, cells in sheet.lines for title, word in words.items() if READ.get(word) == "codes"]
    missing = [cells[title] for _, cells in sheet.lines for title, word in words.items() if word == "missing"]
    counts = [cell for cell in missing if cell.isdecimal() and cell not in MISSING_NUMBERS]
    return bool(counts) or any(map(COUNTED.search, (*codes, *missing)))


def _entry(line: int, row: dict[str, str], computed: bool, faults: Faults) -> Entry:
    name, word = row["name"], normalised(row["type"].partition("(")[0])
    kind: Type = TYPES.get(word, "")
    unknown = f"the type {row['type'][:40]!r} is not known; the known ones are {', '.join(WORDS)}"
    kind = "key" if row["key"].lower() in YES else kind
    codes = {} if computed else _codes(line, row["codes"], faults)
    missing = _codes(line, row["missing"], faults)
    labels = {**missing, **codes}
    guesses = list[str]()
    if kind in ("integer", "number") and row["low"] and row["high"]:
        guesses += ["its codes are those of missing values"] if codes else []
        codes, missing = {}, {**missing, **codes}
    elif codes and kind not in ("boolean", "key"):
        kind = "levels"
    if row["decimals"] and not re.fullmatch(r"\d{1,2}", row["decimals"]):
        faults.add(line, f"the decimals {row['decimals'][:40]!r} are not a whole number.")
        row = row | {"decimals": ""}
    required = row["required"].lower() in YES or (row["empty"] != "" and row["empty"].lower() not in YES)
    if not (row["required"] or row["empty"] or kind in ("key", "text")):
        guesses.append("cells may be empty")
    return Entry(
        name=name, line=line, type=kind, label=row["label"], unit=row["unit"], low=_plain(row["low"]),
        high=_plain(row["high"]), decimals=int(row["decimals"]) if row["decimals"] else None, levels=tuple(codes),
        labels=labels, ordered=word in ORDERED, missing=tuple(missing), may_be_empty=not required,
        format=row["format"] if "%" in row["format"] else "",
        guesses=tuple(guesses), open=() if kind or not row["type"] else (unknown,),
    )  # fmt: skip


def _plain(limit: str) -> str:
    """Return a limit with a point: 0,5 is 0.5."""
    return limit.replace(",", ".") if re.fullmatch(r"-?\d+,\d+", limit) else limit


def _codes(line: int, text: str, faults: Faults) -> dict[str, str]:
    """Return the labels by code in `0=no; 1=yes`, `0, no | 1, yes`, one per line, or in a list of codes."""
    sign = next((one for one in ("|", "\n", ";") if one in text), "")
    parts = [part.strip() for part in text.split(sign or ",")]
    between = re.compile(r"\s*[=:,]\s*" if sign else r"\s*[=:]\s*")
    found = [between.split(part, maxsplit=1) for part in parts if part]
    codes = [code.strip("\"' ") for code, *_ in found]
    if any(not code for code in codes) or len(set(codes)) < len(codes):
        faults.add(line, "a code is empty or given twice. Write codes as in: 0=no; 1=yes.")
    return {code: label[0].strip() if label else "" for code, (_, *label) in zip(codes, found, strict=True)}
