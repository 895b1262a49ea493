"""The files of dictionaries, read within limits: text, lines of a CSV file, JSON, and one sheet of a workbook.

A dictionary is somebody's file. Nothing in it is evaluated or fetched, and one that is too large is refused in time.
"""

from __future__ import annotations

import codecs
import csv
import io
import json
import re
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import SchemaError
from ..io.cell_text import workbook_text
from ..io.formats import TableFile, check_encoding, check_regular, worksheets
from ..io.text import delimiter_of
from ..schema.declared import MAX_BYTES, MOST_FAULTS

MAX_FIELDS = 5000  # Entries of a dictionary. A fit measures all pairs of columns.
MAX_CHARACTERS = 20_000  # Of one cell or text. A list of 1,000 choices has about as many.
MAX_COLUMNS = 200  # Columns of a dictionary in a CSV file or a workbook.
MAX_LINES = 100_000  # Of a dictionary in a CSV file. A cell may have several, and some are blank.
MAX_UNPACKED = 1 << 26  # Bytes of a workbook's parts.
MAX_PARTS = 1000  # Of a workbook.
BOMB = tuple(f"<!{word}".encode(code) for word in ("DOCTYPE", "ENTITY") for code in ("ascii", "utf-16-le", "utf-16-be"))
Json = dict[str, Any]
_SPLIT = "Split it, or leave out the entries of other tables."


@dataclass(frozen=True)
class Faults:
    """What is wrong in the dictionary `where`, by line, until `check` raises all of it as one error."""

    where: str
    found: list[tuple[int, str]] = field(default_factory=list)

    def add(self, line: int, what: str) -> None:
        """Add a fault and its cure; no line is zero."""
        self.found.append((line, what))

    def check(self) -> None:
        """Raise SchemaError if anything was added."""
        lines = [f"line {line}: {what}" if line else what for line, what in self.found]
        if len(self.found) == 1:
            raise SchemaError(f"{self.where}{', ' if self.found[0][0] else ': '}{lines[0]}")
        if self.found:
            more = [f"and {len(self.found) - MOST_FAULTS} more"] if len(self.found) > MOST_FAULTS else []
            shown = [f"{self.where}: {len(self.found)} faults.", *lines[:MOST_FAULTS], *more]
            raise SchemaError("\n  ".join(shown))


@dataclass(frozen=True)
class Sheet:
    """A dictionary with one line per entry: its header, and each entry's line number and cells by the header."""

    header: tuple[str, ...]
    lines: tuple[tuple[int, dict[str, str]], ...]


def start_of(path: Path) -> bytes:
    """Return a file's first bytes without blanks. Raise SchemaError if it cannot be read."""
    check_regular(path)
    try:
        with path.open("rb") as file:
            return file.read(200).lstrip(b"\xef\xbb\xbf \t\r\n")
    except FileNotFoundError:
        raise SchemaError(f"There is no dictionary {path}. Check the name and the folder.") from None
    except OSError as error:
        raise SchemaError(f"{path} cannot be read ({error.strerror}). Pass a dictionary's file.") from None


def read_text(path: Path, encoding: str | None) -> str:
    """Return a file's text: UTF-16 if it is marked so, else `encoding` or UTF-8. Raise SchemaError for other bytes."""
    check_encoding(encoding)
    if path.stat().st_size > MAX_BYTES:
        raise SchemaError(f"{path}: a dictionary can have at most {MAX_BYTES >> 20} MB. {_SPLIT}")
    raw = path.read_bytes()
    marked = raw.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    name = "utf-16" if marked else encoding or "utf-8-sig"
    try:
        text = raw.decode(name)
    except UnicodeError as error:
        line = raw.count(b"\n", 0, getattr(error, "start", 0)) + 1
        cure = "Save it as 'CSV UTF-8', or set its `encoding`, such as cp1252."
        raise SchemaError(f"{path}, line {line}: not valid {name.removesuffix('-sig')}. {cure}") from None
    if "\0" in text:
        line = text.count("\n", 0, text.index("\0")) + 1
        raise SchemaError(f"{path}, line {line}: binary content. Save the dictionary as text.")
    return text


def read_sheet(path: Path, encoding: str | None) -> Sheet:
    """Return a dictionary in a CSV file, or in the first sheet of a workbook that has content.

    Raises SchemaError, with the line, for another file and for one beyond the limits.
    """
    rows = _workbook_rows(path) if TableFile.of(path).kind == "workbook" else _csv_rows(path, read_text(path, encoding))
    header: tuple[str, ...] = ()
    lines = list[tuple[int, dict[str, str]]]()
    faults = Faults(str(path))
    for line, cells in rows:
        if any(len(cell) > MAX_CHARACTERS for cell in cells):
            raise SchemaError(f"{path}, line {line}: a cell has more than {MAX_CHARACTERS} characters. Shorten it.")
        texts = [cell.strip() for cell in cells]
        if not any(texts):
            continue
        if not header:
            header = _header(texts, f"{path}, line {line}")
            continue
        if any(texts[len(header) :]):
            faults.add(line, f"more cells than the header's {len(header)}. Put quotes around cells with a delimiter.")
        lines.append((line, dict(zip(header, [*texts, *[""] * len(header)], strict=False))))
        if len(lines) > MAX_FIELDS:
            raise SchemaError(f"{path}, line {line}: more than {MAX_FIELDS} entries. {_SPLIT}")
    if not lines:
        raise SchemaError(f"{path} has no entries. Pass a dictionary with a header and a line for each column.")
    faults.check()
    return Sheet(header, tuple(lines))


def _header(texts: list[str], where: str) -> tuple[str, ...]:
    named = [text for text in texts if text]
    if len(texts) > MAX_COLUMNS:
        raise SchemaError(f"{where}: more than {MAX_COLUMNS} columns, so this is not a dictionary.")
    if len(set(named)) < len(named):
        twice = next(text for k, text in enumerate(named) if text in named[:k])
        raise SchemaError(f"{where}: two columns have the name {twice[:80]!r}. Rename one.")
    return tuple(text or f" {k}" for k, text in enumerate(texts))


def _csv_rows(path: Path, text: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each record with the number of its first line. The first line decides the delimiter."""
    delimiter = delimiter_of(text.lstrip("\r\n").partition("\n")[0])
    reader = csv.reader(io.StringIO(text, newline=""), strict=True, delimiter=delimiter)
    line = 1
    try:
        for cells in reader:
            yield line, cells
            line = reader.line_num + 1
            if line > MAX_LINES:
                raise SchemaError(f"{path}, line {line}: more than {MAX_LINES} lines. {_SPLIT}")
    except csv.Error:
        cure = 'Close each quote, and write a quote inside a cell twice: "5\'11""".'
        raise SchemaError(f"{path}, line {line}: a quote is not closed, or a cell is too long. {cure}") from None


def _workbook_rows(path: Path) -> Iterator[tuple[int, list[str]]]:
    """Yield the rows of the first sheet with content, with the saved values of formulas. Read no other sheet."""
    _check_parts(path)
    found = list[tuple[int, list[str]]]()
    try:
        with worksheets(path) as sheets:
            for sheet in sheets:
                rows = sheet.iter_rows(max_row=MAX_FIELDS + 2, max_col=MAX_COLUMNS + 1, values_only=True)
                found = [(line, [*map(workbook_text, row)]) for line, row in enumerate(rows, 1)]
                if any(any(row) for _, row in found):
                    break
    except ImportError:
        raise SchemaError(f"{path} is a workbook. Save it as CSV, or run: pip install 'medsynth[excel]'.") from None
    except Exception:  # a damaged archive can cause any error in the parser
        raise SchemaError(f"{path} is a workbook that cannot be read. Save the sheet as 'CSV UTF-8'.") from None
    for line, row in found:
        while row and not row[-1]:
            row.pop()
        yield line, row


def _check_parts(path: Path) -> None:
    """Raise SchemaError for a workbook that unpacks to too much, or whose parts declare entities."""
    try:
        with zipfile.ZipFile(path) as archive:
            if len(archive.infolist()) > MAX_PARTS:
                raise SchemaError(f"{path} is a workbook of more than {MAX_PARTS} parts. Save its first sheet as CSV.")
            if sum(part.file_size for part in archive.infolist()) > MAX_UNPACKED:
                raise SchemaError(f"{path} unpacks to more than {MAX_UNPACKED >> 20} MB. Save its first sheet as CSV.")
            for part in archive.infolist():
                content = archive.read(part)
                if any(mark in content for mark in BOMB):
                    raise SchemaError(f"{path} declares XML entities, as no workbook does. Save the sheet as CSV.")
    except (OSError, RuntimeError, NotImplementedError, zipfile.BadZipFile, EOFError):
        raise SchemaError(f"{path} is packed and damaged. Save the sheet as 'CSV UTF-8'.") from None


def read_json(path: Path, text: str) -> Json:
    """Return the object in a JSON text. Raise SchemaError with the line if it is not one."""
    try:
        found = json.loads(text)
    except json.JSONDecodeError as error:
        raise SchemaError(f"{path}, line {error.lineno}: not valid JSON: {error.msg}.") from None
    except (ValueError, RecursionError):
        raise SchemaError(f"{path}: a number is too long, or values are nested too deeply.") from None
    if not isinstance(found, dict):
        raise SchemaError(f"{path}: a dictionary in JSON is one object.")
    return found


def text_of(value: object) -> str:
    """Return a value of JSON as text; "" for anything else than a text, a number or a truth value."""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value) if isinstance(value, str | int | float) else ""


class Lines:
    """The line of each named object in a JSON text: objects of the same name in the order of the text."""

    def __init__(self, text: str) -> None:
        self.of = dict[str, list[int]]()
        at = line = 0
        for found in re.finditer(r'"(?:name|titles?|@id)"\s{0,9}:\s{0,9}\[?\s{0,99}("(?:[^"\\]|\\.)*")', text):
            line = line + text.count("\n", at, found.start())
            at = found.start()
            self.of.setdefault(found[1], []).append(line + 1)

    def take(self, name: str) -> int:
        """Return the line of the next object of that name, zero if it is unknown."""
        known = self.of.get(json.dumps(name, ensure_ascii=False)) or self.of.get(json.dumps(name)) or [0]
        return known.pop(0) if len(known) > 1 else known[0]
