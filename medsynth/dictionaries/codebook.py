"""A plain codebook: a CSV file or a sheet with one line per column, whose header is matched loosely.

A codebook that also gives counts, means or other statistics was computed from the rows. Then its minima and maxima are
those of patients, and its levels those that occurred: neither is taken.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Collection, Iterable, Mapping

from ..io.table import MISSING_TOKENS, is_number
from ..io.writer import inert
from ..schema.cells import MISSING_NUMBERS
from ..schema.header import normalised
from .entry import ENDS_ALONE, DescribedTable, Entry, Type, whole_scale
from .files import Faults, Sheet

FORM = "codebook"
# What each column of a codebook may be called, without blanks, signs and capitals. The first name is the template's.
NAMES = {
    "name": "column variable variablename name field fieldname columnname colname var varname item spalte feld merkmal "
    "colonne",
    "label": "label description variablelabel desc definition meaning question title explanation beschreibung "
    "bezeichnung libelle",
    "type": "type datatype kind vartype valuetype variabletype typ measure level",
    "unit": "unit units uom measurementunit einheit unite",
    "low": "minimum min lower lowerbound lowerlimit constraintsminimum",
    "high": "maximum max upper upperbound upperlimit constraintsmaximum",
    "range": "range validrange allowedrange rangeofvalues wertebereich",
    "codes": "codes values levels choices categories coding valuelabels responseoptions options codelist enumeration "
    "permissiblevalues allowedvalues constraintsenum kodierung werte "
    "auspragungen",
    "missing": "missingcodes missing missingvalues missingvalue missingvaluecodes navalues na "
    "fehlend fehlende fehlendewerte fehlwerte",
    "empty": "maybeempty nullable optional",
    "required": "required mandatory notnull constraintsrequired pflicht",
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
ELEMENTS = {"id", "datatype", "enumeration"}  # titles of the NIH's dictionaries of data elements, where id is the name
STATISTICS = re.compile(
    r"n|nobs|count|counts|freq|frequency|frequencies|mean|average|mw|sd|std|stddev|se|median|mode|variance|skewness"
    r"|kurtosis|iqr|q[123]|p\d{1,2}|quartile\d?|histogram|distinct|unique|nunique|nvalid|validn|nmissing|nmiss"
    r"|missingn|complete|completerate|pct.*|percent.*|observed.*|obs(?:min|max).*|(?:min|max)(?:imum)?observed|anzahl"
    r"|(?:non)?(?:null|missing|unique|distinct|valid|empty)(?:s|values?)?count.*|uniquevalues?|distinctvalues?|sample(?:s|values?)?"
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
MEANS_MISSING = {  # labels of codes, without blanks and signs
    "fehlend", "fehlt", "fehlenderwert", "keineangabe", "ka", "missing", "missingvalue", "notavailable", "na",
    "manquant",
}  # fmt: skip
YES = ("yes", "y", "true", "1", "x", "ja", "oui")
COUNTED = re.compile(r"[(\[]\s*(?:n\s*=\s*\d+|\d+(?:\.\d+)?\s*%)|\bobserved\b", re.IGNORECASE)
RANGE = re.compile(r"[\[(]?\s*(-?\d+(?:[.,]\d+)?)\s*(?:-|\u2013|to|bis|\.\.|;)\s*(-?\d+(?:[.,]\d+)?)\s*[\])]?")
BRACKETS = re.compile(r"^\[(.*)\]$")  # around labels
ANOTHER = re.compile(r"[,;]\s*-?\w{1,8}\s*=")  # within a label: the next code
SCALES = ("...", "\u2026")  # between the ends of a scale: 0=none ... 10=worst
SIGNS = ("|", "\n", ";", *SCALES)  # between codes
MOST_WORDS = 3  # of a code without a label; more are a description
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
    lines = [(inert(name), *[""] * (len(TEMPLATE) - 1)) for name in columns]
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([TEMPLATE, *(lines or EXAMPLES)])
    return text.getvalue()


def is_codebook(header: Iterable[str]) -> bool:
    """Return whether a header names columns, and gives what a table of patients does not: types, labels or codes."""
    titles = list(header)
    known = _titles(titles).keys()
    return "name" in known and bool(known & {"type", "label", "codes", "low"}) and (
        len(known) > 2 or 2 * len(known) >= len(titles)
    )  # fmt: skip


def _titles(header: Collection[str]) -> dict[str, list[str]]:
    """Return the titles of a header, by what is read from their columns."""
    words = {title: normalised(title) for title in header}
    names = {**READ, "id": "name"} if ELEMENTS.issubset(words.values()) else READ
    found = dict[str, list[str]]()
    for title, word in words.items():
        if word in names:
            found.setdefault(names[word], []).append(title)
    return found


def codebook(sheet: Sheet, header: Collection[str], faults: Faults) -> DescribedTable:
    """Return the table that a codebook describes. The table's `header` shows which of two titles has the names."""
    columns = {title: [cells[title] for _, cells in sheet.lines] for title in sheet.header}
    computed = False
    titles = _titles(sheet.header)
    if _is_computed(titles, columns):
        computed = True
        titles = {key: [one for one in found if not _follows_rows(key, one)] for key, found in titles.items()}
    fits: dict[str, Callable[[str], bool]] = {"name": set(header).__contains__, "type": _is_type}
    keys = {
        key: max(found, key=lambda title: sum(map(fits.get(key, bool), columns[title])))  # noqa: B023 called at once
        for key, found in titles.items() if found
    }  # fmt: skip
    entries = []
    for line, cells in sheet.lines:
        row = {key: INERT.sub("", cells[keys[key]]) if key in keys else "" for key in NAMES}
        if not row["name"]:
            faults.add(line, "the name of the column is missing.")
            continue
        entries.append(_entry(line, row, computed))
    return DescribedTable(name="", entries=tuple(entries), remarks=(COMPUTED,) if computed else ())


def _is_computed(titles: Mapping[str, list[str]], columns: Mapping[str, list[str]]) -> bool:
    """Return whether a codebook was computed from rows: by its header, counts among its codes, or counts of missing."""
    if any(STATISTICS.fullmatch(normalised(title)) or "%" in title or "#" in title for title in columns):
        return True
    cells = [
        cell
        for key in ("codes", "range", "low", "high", "missing")
        for one in titles.get(key, ())
        for cell in columns[one]
    ]
    missing = [cell for one in titles.get("missing", ()) if normalised(one) == "missing" for cell in columns[one]]
    counts = [cell for cell in missing if cell.isdecimal() and cell not in MISSING_NUMBERS]
    return bool(counts) or any(map(COUNTED.search, cells))


def _follows_rows(key: str, title: str) -> bool:
    """Return whether a computed codebook's column may have values of patients. One of what is allowed has none."""
    word = normalised(title)
    return (key in ("low", "high", "range") or word == "missing") and word not in ALLOWED


def _is_type(text: str) -> bool:
    return _type_word(text) in TYPES


def _type_word(text: str) -> str:
    return normalised(text.partition("(")[0])


def _entry(line: int, row: dict[str, str], computed: bool) -> Entry:
    name = row["name"]
    told = row["type"] or ("" if "%" in row["format"] else row["format"])
    described = _is_description(row["codes"])
    word = _type_word(told or (row["codes"] if described else ""))
    kind: Type = TYPES.get(word, "")
    unknown = f"the type {told[:40]!r} is not known; the known ones are {', '.join(WORDS)}"
    kind = "key" if row["key"].lower() in YES else kind
    unread = list[str]()
    codes = {} if computed or described else _codes(row["codes"], unread)
    missing = _codes(row["missing"], unread)
    if ends := RANGE.fullmatch(row["range"]):
        row = row | {"low": row["low"] or ends[1], "high": row["high"] or ends[2]}
    labels = {**missing, **codes}
    guesses = list[str]()
    absent = {*MISSING_TOKENS, *missing}
    if lost := {c: label for c, label in codes.items() if c in absent or normalised(label) in MEANS_MISSING}:
        missing |= lost
        codes = {code: label for code, label in codes.items() if code not in lost}
        guesses.append(f"{', '.join(lost)} means a missing value")
    levels = tuple(codes)
    numeric = bool(kind in ("integer", "number") and row["low"] and row["high"])
    if any(map(ANOTHER.search, labels.values())):
        guesses.append("a label has another code: separate all codes by the same sign")
    elif not numeric and len(levels := whole_scale(levels)) > len(codes):
        guesses.append(ENDS_ALONE)
    if numeric:
        inside = {code for code in codes if _is_between(code, row["low"], row["high"])}  # such as 10=worst pain
        codes, labels = ({code: one for code, one in some.items() if code not in inside} for some in (codes, labels))
        guesses += ["its codes are those of missing values"] if codes else []
        codes, levels, missing = {}, (), {**missing, **codes}
    elif codes and kind not in ("boolean", "key"):
        kind = "levels"
    if row["decimals"] and not re.fullmatch(r"\d{1,2}", row["decimals"]):
        guesses.append(f"without the decimals {row['decimals'][:40]!r}, which are not a whole number")
        row = row | {"decimals": ""}
    required = row["required"].lower() in YES or (row["empty"] != "" and row["empty"].lower() not in YES)
    if not (row["required"] or row["empty"] or kind in ("key", "text")):
        guesses.append("cells may be empty")
    return Entry(
        name=name, line=line, type=kind, label=row["label"], unit=row["unit"], low=_plain(row["low"]),
        high=_plain(row["high"]), decimals=int(row["decimals"]) if row["decimals"] else None, levels=levels,
        labels=labels, ordered=word in ORDERED or ENDS_ALONE in guesses, missing=tuple(missing),
        may_be_empty=not required, format=row["format"] if "%" in row["format"] else "",
        guesses=tuple(guesses), open=(*unread, *([] if kind or not told else [unknown])),
    )  # fmt: skip


def _is_description(codes: str) -> bool:
    """Return whether a cell for codes has none: one word alone, such as "continuous", or a sentence."""
    parts = [part.split() for part in codes.split(",") if part.strip()]
    return not re.search(r"[=:|;\n]", codes) and (len(parts) == 1 or any(len(words) > MOST_WORDS for words in parts))


def _is_between(code: str, *ends: str) -> bool:
    """Return whether a code is a number within the bounds."""
    if not all(map(is_number, map(_plain, (code, *ends)))):
        return False
    value, low, high = map(float, map(_plain, (code, *ends)))
    return low <= value <= high


def _plain(limit: str) -> str:
    """Return a limit with a point: 0,5 is 0.5."""
    return limit.replace(",", ".") if re.fullmatch(r"-?\d+,\d+", limit) else limit


def _codes(text: str, unread: list[str]) -> dict[str, str]:
    """Return the labels by code in `0=no; 1=yes`, `0, no | 1, yes`, `"0"=[no]`, one per line, or a list of codes.

    Of other texts the reason is added to `unread`, and no code is taken.
    """
    signs = [one for one in SIGNS if one in text]
    full = [one for one in signs if all("=" in part for part in text.split(one) if part.strip())]
    sign = next((one for one in (*full, *signs) if one in full or one not in SCALES), "")  # labels may have others
    parts = [part.strip() for part in text.split(sign or ",")]
    between = re.compile(r"\s*[=:,]\s*" if sign else r"\s*[=:]\s*")
    found = [between.split(part, maxsplit=1) for part in parts if part]
    codes = [code.strip("\"' ") for code, *_ in found]
    if any(not code for code in codes) or len(set(codes)) < len(codes):
        unread.append("a code is empty or given twice: write codes as in 0=no; 1=yes")
        return {}
    labels = [BRACKETS.sub(r"\1", label[0].strip()) if label else "" for _, *label in found]
    return dict(zip(codes, labels, strict=True))
