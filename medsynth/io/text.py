"""Delimited text: its header, and its rows in pieces, with each distinct field once."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import re
from array import array
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TextIO

import numpy as np
import pandas as pd

from ..errors import OTHER_ENCODING, TableError
from .formats import FileForm, unpacked
from .table import NUMBER, OpenTable, Table
from .writer import WrittenText

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
ESCAPED = re.compile(r"\\x[0-9a-f]{2}")  # how an undecodable byte is kept
_DECIMAL_COMMA = re.compile(r"[-+]?[0-9]+,[0-9]+$")
_SEPARATOR = re.compile(r"\ufeff?sep=([,;\t|])[\r\n]*$", re.IGNORECASE)
_JSON = re.compile(r"\s*(\{|\[\s*[\[{]|\[\s*$)")  # [id] is a name
MOST_WORDS = 3  # of a header with one column
LONGEST_FIELD = 131_072  # characters: the csv module's own limit, which other packages raise for the whole process
BLOCK_ROWS = 256  # rows whose fields are numbered at once


@contextmanager
def opened(path: Path, encoding: str | None) -> Iterator[OpenTable]:
    """Open the text table at `path`, UTF-8 or in `encoding`, and read its header. Raise TableError for none."""
    with _begun_table(path, encoding) as (name, delimiter, first, records):
        first, records, unnamed = _named(first, records)
        header = _checked_header(path, name, first)
        table = Table(str(path), header, pd.DataFrame(), form(delimiter, name, unnamed))
        pieces = partial(_pieces, records, delimiter, tuple(first), table)
        yield OpenTable(header, table.form, pieces, file_form=FileForm(delimiter=delimiter, encoding=_mark(path, name)))


def _mark(path: Path, name: str) -> str:
    """Return the encoding `name` of a file, as utf-8 if the file has no mark at its start."""
    with unpacked(path) as raw:
        return "utf-8" if name == "utf-8-sig" and raw.read(3) != codecs.BOM_UTF8 else name


def header_names(path: Path, encoding: str | None) -> tuple[str, ...]:
    """Return the names in the header line of the text table at `path`. No row is parsed. Raise TableError for none."""
    with _begun_table(path, encoding) as (name, _, first, _):
        return _checked_header(path, name, _named(first, iter(()))[0])


@contextmanager
def _begun_table(path: Path, encoding: str | None) -> Iterator[tuple[str, str, list[str], Iterator[list[str]]]]:
    """Yield the encoding of a text table, its delimiter, its first record and the other ones."""
    name = _encoding_of(path, encoding)
    try:
        with decoded(path, name) as file:
            delimiter, lines = _begun(file, str(path))
            records = _records(lines, delimiter, str(path))
            first = next(records, None)
            if first is None:
                raise TableError(f"{path} is empty. Export the table again, with a header line.")
            if len(first) == 1 and len(first[0].split()) > MOST_WORDS:
                raise TableError(
                    f"{path}: blanks or another sign separate the columns. Save the table with commas, semicolons, "
                    "tabs or bars between them."
                )
            yield name, delimiter, first, records
    except UnicodeError:
        usual = name.removesuffix("-sig")
        cure = "Save it as 'CSV UTF-8', or set its `encoding`."
        raise TableError(f"{path} is not valid {usual}. {cure}", OTHER_ENCODING) from None


def _checked_header(path: Path, name: str, first: list[str]) -> tuple[str, ...]:
    """Return a header's names. Raise TableError for those in another encoding than `name`, and as `check_header`."""
    if any(ESCAPED.search(word) for word in first):
        usual = name.removesuffix("-sig")
        cure = "Set the file's `encoding`, such as cp1252."
        raise TableError(f"{path}: the header is not valid {usual}. {cure}", OTHER_ENCODING)
    return check_header(tuple(first), str(path))


def _encoding_of(path: Path, declared: str | None) -> str:
    """Return the encoding of a text table: UTF-16 if the file starts with its mark, else the declared one, else UTF-8.

    No cell decides it: if it were found by trial, a single byte of a single row could change it.
    """
    with unpacked(path) as raw:
        start = raw.read(2)
    if start in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE):
        return "utf-16"
    name = codecs.lookup(declared or "utf-8").name
    return "utf-8-sig" if name == "utf-8" else name


@contextmanager
def decoded(path: Path, encoding: str) -> Iterator[TextIO]:
    r"""Open the file's text, unpacked and decoded, with its line ends.

    An undecodable byte is escaped in its place, as \xfc: it changes its own cell and no other. Encodings whose
    characters all have two or more bytes are strict: a lost byte would shift all that follows.
    """
    errors = "strict" if encoding.replace("_", "-").startswith(("utf-16", "utf-32")) else "backslashreplace"
    with unpacked(path) as raw, io.TextIOWrapper(raw, encoding=encoding, errors=errors, newline="") as file:
        yield file


def form(delimiter: str, encoding: str = "utf-8-sig", unnamed: str = "") -> str:
    """Return how a table's text is written, in words, unless it is UTF-8 with commas."""
    parts = [] if delimiter == "," else [f"separated by {DELIMITERS[delimiter]}, 1,5 read as 1.5"]
    parts += [] if encoding == "utf-8-sig" else [f"encoding {encoding}"]
    parts += [unnamed] if unnamed else []
    return "; ".join(parts)


def check_header(header: tuple[str, ...], where: str) -> tuple[str, ...]:
    """Return the header if it can be one. Its cells are never printed: they may be a patient's.

    Names keep their blanks and their case: names that differ in nothing else are two names.
    """
    for k, cell in enumerate(header):
        if not cell.strip() or NUMBER.match(cell.strip()):
            raise TableError(
                f"{where}: no header: column {k + 1} of the first line is a number or empty. "
                "Add a first line with column names, or remove the lines above it. If a number is a name there, put a "
                "letter before it."
            )
    for k, cell in enumerate(header):
        if cell in header[:k]:
            raise TableError(f"{where}: columns {header.index(cell) + 1} and {k + 1} have the same name. Rename one.")
    return header


def _begun(file: TextIO, where: str) -> tuple[str, Iterator[str]]:
    """Return the delimiter that cuts the header into most fields, a comma if two do, and the lines from the header on.

    Quotes hide delimiters. A first line `sep=;`, as Excel reads it, names the delimiter. Lines before the header that
    start with # and have another number of delimiters than the line after them are comments.
    """
    read = list[str]()

    def filled() -> str:
        """Return the next line that is not blank, "" at the end."""
        for line in file:
            read.append(line)
            if line.strip():
                return line
        return ""

    named, start, hashed = None, filled(), ""
    if found := _SEPARATOR.match(start):
        named, start = found[1], filled()
    if _JSON.match(start):
        raise TableError(f"{where} is JSON. Save the table as CSV or Parquet.")
    while start.startswith("#"):
        hashed, before, start = start, len(read) - 1, filled()
    delimiter, count = delimiter_of(start)
    header = len(read) - 1 if start else len(read)
    if hashed and count and delimiter_of(hashed) == (delimiter, count):
        header = before
    # Skipped lines become blank ones, so that line numbers in messages stay those of the file.
    return named or delimiter, itertools.chain(["\n"] * header, read[header:], file)


def delimiter_of(line: str) -> tuple[str, int]:
    """Return the delimiter that cuts a line into most fields, and how often it does. Quotes hide delimiters."""
    outside = "".join(line.split('"')[::2])
    most = max(DELIMITERS, key=outside.count)
    return most, outside.count(most)


def _named(first: list[str], records: Iterator[list[str]]) -> tuple[list[str], Iterator[list[str]], str]:
    """Return the header, the other records and a note, without columns at the ends that have no name.

    Such are the row numbers of R and pandas, and what follows a delimiter at the end of each line. The header alone
    decides, and the number of fields, which all records share.
    """
    second = next(records, None)
    records = itertools.chain([] if second is None else [second], records)
    numbers = second is not None and len(second) == len(first) + 1
    begin = int(numbers or (len(first) > 1 and not first[0].strip()))
    end = int(len(first) > 1 and not first[-1].strip())
    if not begin and not end:
        return first, records, ""
    last = -end or None
    places = " and ".join(["the first column"] * begin + ["the last column"] * end)
    rest = (record[begin:last] for record in records)
    return first[0 if numbers else begin : last], rest, f"without {places}, which has no name"


def _records(lines: Iterator[str], delimiter: str, where: str) -> Iterator[list[str]]:
    """Yield the records, the header first: their fields are text, and as many as the header's.

    Quotes may only enclose a whole field. Then a cell that is a lone quote leaves an odd number of them, and the file
    is refused: the cell cannot swallow the rows up to another quote. So lines with quotes are kept until their record
    is checked.
    """
    one = rf'(?:"[^"]*(?:""[^"]*)*"|[^"{re.escape(delimiter)}\r\n]*)'
    usual, quoted = re.compile(rf"{one}(?:{re.escape(delimiter)}{one})*[\r\n]*"), list[str]()

    def read() -> Iterator[str]:
        for line in lines:
            if '"' in line or quoted:
                quoted.append(line)
            yield line

    reader, fields = csv.reader(read(), strict=True, delimiter=delimiter), None
    for row, record in enumerate(filter(None, reader)):
        if quoted and not usual.fullmatch("".join(quoted)):
            raise TableError(
                f"{where}, line {reader.line_num}: a field contains a quote but is not in quotes. Write the field in "
                'quotes, and the quote twice: "5\'11""".'
            )
        quoted.clear()
        if "\0" in (whole := "".join(record)):
            raise TableError(f"{where}, line {reader.line_num}: binary content. Export the table as CSV.")
        if len(whole) > LONGEST_FIELD and max(map(len, record)) > LONGEST_FIELD:
            raise TableError(f"{where}, line {reader.line_num}: a field is too long. Check that its quotes are closed.")
        if row == 1 and fields and len(record) == fields + 1:
            if delimiter == ",":
                raise TableError(
                    f"{where}, row 1: this row has more fields than the header's {fields}. If R wrote row numbers, put "
                    "a comma before the first name. If numbers have decimal commas, export with semicolons."
                )
            fields += 1  # R writes no name above its row numbers.
        fields = fields or len(record)
        if len(record) != fields:
            raise TableError(
                f"{where}, row {row} (line {reader.line_num}): this row has "
                f"{'fewer' if len(record) < fields else 'more'} fields than the header's {fields}. "
                "Correct that line: a delimiter inside a value needs quotes around the value."
            )
        yield record


class _Column:
    """A column during reading: each distinct field once, and the number of each row's field."""

    def __init__(self) -> None:
        self.index = defaultdict[str, int]()
        self.index.default_factory = self.index.__len__  # A new field gets the next number.
        self.codes = array("i")

    def of(self, texts: list[str]) -> pd.Series:
        """Return the rows' texts, (rows,), from one text per distinct field."""
        return pd.Series(np.array(texts, dtype=object)[np.frombuffer(self.codes, np.intc)], dtype=object)


def _pieces(
    records: Iterator[list[str]], delimiter: str, first: tuple[str, ...], table: Table, most: int | None
) -> Iterator[Table]:
    """Yield the remaining rows, at most `most` at a time, or all at once if it is None; no rows are one piece.

    `first`: the header as written; `table`: what the header shows of the table.
    """
    before = 0
    while True:
        columns = [_Column() for _ in table.header]
        piece = itertools.islice(records, most)
        while block := list(itertools.islice(piece, BLOCK_ROWS)):
            for column, texts in zip(columns, zip(*block, strict=True), strict=True):
                column.codes.extend(map(column.index.__getitem__, texts))
        count = len(columns[0].codes)
        if count or not before:
            cells, fields = _cells(columns, table.header, delimiter)
            yield replace(table, cells=cells, written=WrittenText(first, delimiter, fields), before=before)
        if most is None or not count:
            return
        before += count


def _cells(
    columns: list[_Column], header: tuple[str, ...], delimiter: str
) -> tuple[pd.DataFrame, dict[str, pd.Series]]:
    """Return columns without blanks around fields, with decimal points for commas; and the changed fields."""
    cells, changed = {}, {}
    for name, column in zip(header, columns, strict=True):
        distinct = list(column.index)
        texts = [text.strip() for text in distinct]
        if delimiter != ",":  # commas may be decimal there: 1,5 is 1.5
            texts = [text.replace(",", ".") if _DECIMAL_COMMA.match(text) else text for text in texts]
        cells[name] = column.of(texts)
        if texts != distinct:
            changed[name] = column.of(distinct)
    return pd.DataFrame(cells), changed
