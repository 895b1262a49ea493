"""Delimited text: its header, and its rows in pieces, with each distinct field once."""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import re
from array import array
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TextIO

import numpy as np
import pandas as pd

from ..errors import OTHER_ENCODING, TableError
from .cell_text import as_categories, texts_of
from .formats import FileForm, SavedAs, TableFile, is_hashed, unpacked
from .table import OpenTable, Table
from .writer import WrittenText

DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
ESCAPED = re.compile(r"\\x[0-9a-f]{2}")  # how an undecodable byte is kept
_DECIMAL_COMMA = re.compile(r"[-+]?[0-9]+,[0-9]+$")
_SEPARATOR = re.compile(r"\ufeff?sep=([,;\t|])[\r\n]*$", re.IGNORECASE)
_JSON = re.compile(r"\s*(\{|\[\s*[\[{]|\[\s*$)")  # [id] is a name
MOST_WORDS = 3  # of a header with one column
LONGEST_FIELD = 131_072  # characters: the csv module's own limit, which other packages raise for the whole process
BLOCK_ROWS = 256  # rows whose fields are numbered at once
R_CURE = (
    "If R wrote row numbers, put a comma before the first name. If numbers have decimal commas, export with semicolons."
)


@contextmanager
def opened(file: TableFile, saved: SavedAs) -> Iterator[OpenTable]:
    """Open a text table and read its header. Raise TableError for none."""
    with _begun(file, saved) as (name, header, lines):
        rows = _without_last(lines, saved.skip_last_rows) if saved.skip_last_rows else lines
        records, unnamed = _named(header, _records(rows, header))
        table = Table(str(file.path), header.names, pd.DataFrame(), form(header.delimiter, name, unnamed))
        pieces = partial(_pieces, records, header.delimiter, header.names, table)
        encoding = name if file.mark else name.removesuffix("-sig")
        file_form = FileForm(delimiter=header.delimiter, encoding=encoding)
        yield OpenTable(header.names, table.form, pieces, file_form=file_form)


def header_names(file: TableFile, saved: SavedAs) -> tuple[str, ...]:
    """Return the names in the header of a text table. No row is parsed. Raise TableError for none."""
    with _begun(file, saved) as (_, header, _):
        return header.names


@dataclass(frozen=True)
class _Header:
    """The header record of a text file. `where`: the file; `lines`: physical lines down to the header's end."""

    where: str
    fields: list[str]
    delimiter: str
    lines: int

    @property
    def ends(self) -> tuple[bool, bool]:
        """Whether the first and the last column have no name."""
        several = len(self.fields) > 1
        return several and not self.fields[0].strip(), several and not self.fields[-1].strip()

    @property
    def names(self) -> tuple[str, ...]:
        """The names of columns."""
        begin, end = self.ends
        return tuple(self.fields[begin : -1 if end else None])


@contextmanager
def _begun(file: TableFile, saved: SavedAs) -> Iterator[tuple[str, _Header, Iterator[str]]]:
    """Yield the encoding of a text table, its header, and the lines below it."""
    name = _encoding_of(file.mark, saved.encoding)
    try:
        with decoded(file.path, name) as lines:
            header = _read_header(lines, str(file.path), saved)
            _check_names(header, name)
            yield name, header, lines
    except UnicodeError:
        usual = name.removesuffix("-sig")
        cure = "Save it as 'CSV UTF-8', or set its `encoding`."
        raise TableError(f"{file.path} is not valid {usual}. {cure}", OTHER_ENCODING) from None


def _read_header(file: Iterator[str], where: str, saved: SavedAs) -> _Header:
    """Return the header: its record alone decides its fields and the delimiter, which cuts it into most fields.

    It is the first line that is not blank, after `skip_lines` lines, or `header_lines` lines from there. A line
    `sep=;`, as Excel reads it, names the delimiter. No line below is read, so that no row decides what is a header.
    """
    named, start, lines = "", "", 0
    for start in file:
        lines += 1
        if found := _SEPARATOR.match(start):
            named = named or found[1]
        elif lines > (saved.skip_lines or 0) and start.strip(" \r\n\ufeff"):
            break
        start = ""
    if not start:
        raise TableError(f"{where} is empty. Export the table again, with a header line.")
    if _JSON.match(start):
        raise TableError(f"{where} is JSON. Save the table as CSV or Parquet.")
    if is_hashed(start) and saved.skip_lines is None:
        raise TableError(
            f"{where}: the first line begins with #. Set `skip_lines` to the number of lines above the header: 0 if "
            "this line is the header. Or remove the lines above the header."
        )
    first = lines
    most = saved.header_lines or 1
    own = saved.header_lines == 0
    while (start.count('"') % 2 if own else lines < first + most - 1) and (line := next(file, "")):
        start, lines = start + line, lines + 1
    delimiter = named or delimiter_of(start)
    fields = list[str]()
    if _record_of(delimiter).fullmatch(start):
        fields = next(csv.reader(io.StringIO(start, newline=""), strict=True, delimiter=delimiter))
    elif lines == first and not start.count('"') % 2:
        raise _stray_quote(where, lines)
    if not fields:  # A quote that is not closed would read rows as a part of a name.
        raise TableError(
            f"{where}: the header has a line break inside quotes, or a quote that is not closed. Correct it. If names "
            "of columns contain line breaks, set `header_lines` to the number of lines of the header."
        )
    _checked_record(fields, where, lines)
    if len(fields) == 1 and len(fields[0].split()) > MOST_WORDS:
        raise TableError(
            f"{where}: blanks or another sign separate the columns. Save the table with commas, semicolons, tabs or "
            "bars between them."
        )
    rows = saved.skip_rows or 0
    while rows and (line := next(file, "")):
        lines += 1
        rows -= bool(line.strip("\r\n"))
    return _Header(where, fields, delimiter, lines)


def _check_names(header: _Header, encoding: str) -> None:
    """Raise TableError for names in another encoding, and as `check_header`."""
    if any(ESCAPED.search(name) for name in header.names):
        usual = encoding.removesuffix("-sig")
        cure = "Set the file's `encoding`, such as cp1252."
        raise TableError(f"{header.where}: the header is not valid {usual}. {cure}", OTHER_ENCODING)
    check_header(header.names, header.where)


def _encoding_of(mark: str, declared: str | None) -> str:
    """Return the encoding of a text table: as its mark says, else the declared one, else UTF-8.

    No cell decides it: if it were found by trial, a single byte of a single row could change it.
    """
    name = mark or codecs.lookup(declared or "utf-8").name
    return "utf-8-sig" if name == "utf-8" else name


@contextmanager
def decoded(path: Path, encoding: str) -> Iterator[TextIO]:
    """Open the file's text, unpacked and decoded, with its line ends.

    An undecodable byte is escaped in its place: it changes its own cell and no other. Encodings whose characters all
    have two or more bytes are strict: a lost byte would shift all that follows.
    """
    errors = "strict" if encoding.replace("_", "-").startswith(("utf-16", "utf-32")) else "medsynth.escaped"
    with unpacked(path) as raw, io.TextIOWrapper(raw, encoding=encoding, errors=errors, newline="") as file:
        yield file


def _escaped(error: UnicodeError) -> tuple[str, int]:
    r"""Return the first byte that cannot be decoded as \xfc, and where to go on: at the next byte.

    A decoder can report the bytes of several characters as one error, with a line's end among them.
    """
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return f"\\x{error.object[error.start]:02x}", error.start + 1


codecs.register_error("medsynth.escaped", _escaped)


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
    for k, cell in enumerate(header or ("",), 1):
        if not cell.strip():
            raise TableError(
                f"{where}: no header: column {k} of the first line is empty. Add a first line with column names. Or "
                "set `skip_lines` to the number of lines above it."
            )
    for k, cell in enumerate(header):
        if cell in header[:k]:
            raise TableError(f"{where}: columns {header.index(cell) + 1} and {k + 1} have the same name. Rename one.")
    return header


def delimiter_of(record: str) -> str:
    """Return the delimiter that cuts a record into most fields, a comma if two do. Quotes hide delimiters."""
    outside = "".join(record.split('"')[::2])
    return max(DELIMITERS, key=outside.count)


def _named(header: _Header, records: Iterator[list[str]]) -> tuple[Iterator[list[str]], str]:
    """Return the records and a note, without columns at the ends that have no name.

    Such are the row numbers of R and pandas, and what follows a delimiter at the end of each line. The header alone
    decides, and the number of fields, which all records share.
    """
    begin, end = header.ends
    second = next(records, None)
    records = itertools.chain([] if second is None else [second], records)
    # R writes no name above its row numbers.
    begin = begin or (second is not None and len(second) > len(header.fields))
    if not begin and not end:
        return records, ""
    places = " and ".join(["the first column"] * begin + ["the last column"] * end)
    last = -1 if end else None
    return (record[begin:last] for record in records), f"without {places}, which has no name"


def _record_of(delimiter: str) -> re.Pattern[str]:
    """Return the pattern of a record whose quotes enclose whole fields."""
    one = rf'(?:"[^"]*(?:""[^"]*)*"|[^"{re.escape(delimiter)}\r\n]*)'
    return re.compile(rf"{one}(?:{re.escape(delimiter)}{one})*[\r\n]*")


def _stray_quote(where: str, line: int) -> TableError:
    return TableError(
        f"{where}, line {line}: a field contains a quote but is not in quotes. Write the field in quotes, and the "
        'quote twice: "5\'11""".'
    )


def _checked_record(record: list[str], where: str, line: int) -> list[str]:
    """Return a record. Raise TableError for binary content and fields that are too long."""
    if "\0" in (whole := "".join(record)):
        raise TableError(f"{where}, line {line}: binary content. Export the table as CSV.")
    if len(whole) > LONGEST_FIELD and max(map(len, record)) > LONGEST_FIELD:
        raise TableError(f"{where}, line {line}: a field is too long. Check that its quotes are closed.")
    return record


def _records(lines: Iterator[str], header: _Header) -> Iterator[list[str]]:
    """Yield the records below the header. Their fields are text, as many as the header's.

    They may all have one more, as R writes row numbers, unless the header has columns without names, or commas: then
    each record with more fields is wrong by itself. If the last field is always the empty one, it is a delimiter at the
    end of each row, which shifts no names. Quotes may only enclose a whole field. Then a cell that is a lone
    quote leaves an odd number of them, and the file is refused: the cell cannot swallow the rows up to another quote.
    So lines with quotes are kept until their record is checked.
    """
    where = header.where
    names = len(header.fields)
    delimiter = header.delimiter
    usual = _record_of(delimiter)
    quoted = list[str]()
    width = 0
    ended = True
    most = names + (delimiter != "," and not any(header.ends))

    def read() -> Iterator[str]:
        for line in lines:
            if '"' in line or quoted:
                quoted.append(line)
            yield line

    reader = csv.reader(read(), strict=True, delimiter=delimiter)
    for row, record in enumerate(_without_blanks(reader, header), 1):
        line = header.lines + reader.line_num
        count = len(record)
        if quoted and not usual.fullmatch("".join(quoted)):
            raise _stray_quote(where, line)
        quoted.clear()
        _checked_record(record, where, line)
        wrong = not names <= count <= most
        if wrong or count != (width := width or count):
            less = "fewer" if count < names else "more"
            than = (
                f"{less} fields than the header's {names}" if wrong else "another number of fields than the rows before"
            )
            cure = f" {R_CURE}" if wrong and delimiter == "," and count == names + 1 else ""
            raise TableError(
                f"{where}, row {row} (line {line}): this row has {than}. Correct that line: a "
                f"delimiter inside a value needs quotes around the value.{cure}"
            )
        ended = ended and not record[-1]
        yield record
    if width > names and ended:
        raise TableError(
            f"{where}: each row ends with a delimiter, and the header does not. Add a delimiter at the end of the "
            "header. If R wrote row numbers and the last column is empty, add one before the first name instead."
        )


def _without_last(lines: Iterator[str], rows: int) -> Iterator[str]:
    """Yield the lines without the last ones: this number, and all blank ones next to them."""
    held = deque[str]()
    filled = 0
    for line in lines:
        held.append(line)
        filled += bool(line.strip("\r\n"))
        while filled > rows:
            filled -= bool(held[0].strip("\r\n"))
            yield held.popleft()


def _without_blanks(reader: Iterator[list[str]], header: _Header) -> Iterator[list[str]]:
    """Yield the records without blank lines. Raise TableError for one under a single name: it may be a patient."""
    for record in reader:
        if record:
            yield record
        elif len(header.fields) == 1:
            raise TableError(
                f'{header.where}: a line is blank, and the table has one column: it may be an empty cell. Write "" '
                "for empty cells, and remove other blank lines."
            )


class _Column:
    """A column during reading: each distinct field once, and the number of each row's field."""

    def __init__(self) -> None:
        self.index = defaultdict[str, int]()
        self.index.default_factory = self.index.__len__  # A new field gets the next number.
        self.codes = array("i")

    def of(self, texts: list[str]) -> pd.Categorical:
        """Return the rows' texts, (rows,), from one text per distinct field."""
        return as_categories([(texts, np.frombuffer(self.codes, np.intc))])


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
            written = WrittenText(first, delimiter, fields)
            yield replace(table, written=written, before=before).of_categories(cells)
        if most is None or not count:
            return
        before += count


def _cells(
    columns: list[_Column], header: tuple[str, ...], delimiter: str
) -> tuple[dict[str, pd.Categorical], dict[str, pd.Series]]:
    """Return columns without blanks around fields, with decimal points for commas; and the changed fields."""
    cells, changed = {}, {}
    for name, column in zip(header, columns, strict=True):
        distinct = list(column.index)
        texts = [text.strip() for text in distinct]
        if delimiter != ",":  # commas may be decimal there: 1,5 is 1.5
            texts = [text.replace(",", ".") if _DECIMAL_COMMA.match(text) else text for text in texts]
        cells[name] = column.of(texts)
        if texts != distinct:
            changed[name] = pd.Series(texts_of(column.of(distinct)), dtype=object)
    return cells, changed
