"""Tables read. Every cell is kept as its text; what a cell means is the schema's business."""

from __future__ import annotations

import csv
import itertools
import re
from array import array
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TextIO

import numpy as np
import pandas as pd

from ..errors import TableError
from . import formats, workbook
from .written import Written, WrittenParquet, WrittenText

Kind = Literal["int", "float", "date", "text"]
MISSING_TOKENS = frozenset({"", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "<NA>"})
_INT = re.compile(r"[-+]?[0-9]{1,15}$")
_WHOLE = re.compile(r"[-+]?([0-9]{1,15})(?:\.0*)?$")
_NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?$")
_DECIMAL_COMMA = re.compile(r"[-+]?[0-9]+,[0-9]+$")
BLOCK_ROWS = 256  # of a text file, whose fields are numbered at once
LARGEST_WHOLE = 2.0**53  # whole floats below it are written as whole numbers: all of them are exact


@dataclass(frozen=True)
class Table:
    """A table as text: `where` names it in messages; `cells` has one stripped string a cell.

    `form` describes how the file was written, if not as usual; `written` keeps what is needed to write some of its
    rows as they stood there. `expected_rows`: of a part that secret draws took out of a table, how many were expected.
    Nothing else is kept: dtypes of a frame depend on its cells, and nobody after this could release them.
    """

    where: str
    header: tuple[str, ...]
    cells: pd.DataFrame = field(repr=False)
    form: str = ""
    written: Written | None = field(default=None, repr=False)
    expected_rows: int | None = None

    @property
    def public_rows(self) -> int:
        """The number of rows that counts as public: never what secret draws left."""
        return len(self.cells) if self.expected_rows is None else self.expected_rows


def read(path: Path | str, encoding: str | None = None) -> Table:
    """The table at `path`: Parquet, a workbook of one sheet, or text with one header line, packed or not.

    Text is UTF-8 or of the `encoding` given.
    The header line decides the delimiter; bytes that are no text are kept in their own cells, escaped. The file is
    read once. Raises TableError, naming the place and the cure and never a cell, for a file that is no such table,
    UsageError for an encoding that does not exist.
    """
    path = Path(path)
    formats.check_encoding(encoding)
    formats.check_regular(path)
    try:
        if workbook.is_workbook(path):
            return _read_workbook(path)
        return _read_parquet(path) if formats.is_parquet(path) else _read_text(path, encoding)
    except FileNotFoundError:
        raise TableError(f"There is no file {path}. Check the name and the folder.") from None
    except IsADirectoryError:
        raise TableError(f"{path} is a folder. Name the table in it.") from None
    except csv.Error:
        raise TableError(f"{path} is not a CSV table. Check that its quotes are closed.") from None
    except formats.DAMAGE_ERRORS:
        raise TableError(f"{path} is packed, and damaged. Copy it again, or pack it anew.") from None
    except OSError as error:
        raise TableError(f"{path} cannot be read ({error.strerror or 'damaged'}).") from None


def _read_parquet(path: Path) -> Table:
    import pyarrow
    import pyarrow.parquet

    try:
        types = [field.type for field in pyarrow.parquet.read_schema(path)]
        if nested := [k for k, kind in enumerate(types, 1) if pyarrow.types.is_nested(kind)]:
            raise TableError(
                f"{path}: column {nested[0]} holds lists or structures. Write them as columns of their own."
            )
        frame = pd.read_parquet(path)
    except (pyarrow.ArrowException, ValueError, KeyError):
        raise TableError(f"{path} begins as a Parquet file and is damaged. Copy it again.") from None
    table = from_frame(frame.reset_index(drop=frame.index.names == [None]), str(path))
    return replace(table, written=WrittenParquet(frame))


def _read_workbook(path: Path) -> Table:
    head, *rows = workbook.cells_of(path)
    header = _check_header(tuple("" if cell is None else _value_text(cell) for cell in head), str(path))
    check_rows(len(rows), str(path))
    table = from_frame(pd.DataFrame(rows, columns=list(header), dtype=object), str(path))
    return replace(table, form="of a workbook", written=WrittenText(header, ","))


def _read_text(path: Path, encoding: str | None) -> Table:
    encoding = formats.encoding_of(path, encoding)
    try:
        with formats.text(path, encoding) as file:
            return _parsed(file, encoding, str(path))
    except UnicodeError:
        raise TableError(f"{path} is no text in {encoding}. Save it as 'CSV UTF-8', or give its `encoding`.") from None


def _parsed(file: TextIO, encoding: str, where: str) -> Table:
    """The table in an open text file. Every record has as many fields as the header: none is padded."""
    start = []
    for line in file:
        start.append(line)
        if line.strip():
            break
    delimiter = formats.delimiter_of(start[-1] if start else "")
    reader = csv.reader(itertools.chain(start, file), strict=True, delimiter=delimiter)
    first = next((record for record in reader if record), None)
    if first is None:
        raise TableError(f"{where} is empty. Export the table again, with a header line.")
    _check_text(first, where, reader.line_num)
    if any(formats.ESCAPED.search(name) for name in first):
        raise TableError(f"{where}: the header is no text in {encoding}. Give the file's `encoding`, such as cp1252.")
    header = _check_header(tuple(name.strip() for name in first), where)
    columns = [_Column() for _ in header]
    records, rows = _records(reader, len(header), where), 0
    while block := list(itertools.islice(records, BLOCK_ROWS)):
        rows += len(block)
        for column, texts in zip(columns, zip(*block, strict=True), strict=True):
            column.codes.extend(map(column.index.__getitem__, texts))
    check_rows(rows, where)
    return _table(columns, header, where, encoding, WrittenText(tuple(first), delimiter))


def _records(reader: Any, fields: int, where: str) -> Iterator[list[str]]:
    """The records that are left, each with so many fields, all of them text."""
    for row, record in enumerate(filter(None, reader), 1):
        if "\0" in "".join(record):
            _check_text(record, where, reader.line_num)
        if len(record) != fields:
            raise TableError(
                f"{where}, row {row} (line {reader.line_num}): this row has "
                f"{'fewer' if len(record) < fields else 'more'} fields than the header's {fields}. "
                "Mend that line: a delimiter inside a value needs quotes around the value."
            )
        yield record


class _Numbers(dict[str, int]):
    """The number of each distinct text: a new one gets the next."""

    def __missing__(self, text: str) -> int:
        self[text] = len(self)
        return self[text]


class _Column:
    """A column while it is read: each distinct field once, and the number of each row's field."""

    def __init__(self) -> None:
        self.index = _Numbers()
        self.codes = array("i")

    def of(self, texts: list[str]) -> pd.Series:
        """The rows' texts, (rows,), given one for each distinct field."""
        return pd.Series(np.array(texts, dtype=object)[np.frombuffer(self.codes, np.intc)])


def _table(columns: list[_Column], header: tuple[str, ...], where: str, encoding: str, written: WrittenText) -> Table:
    """The table of columns that were read: fields without blanks around them, decimal commas as points."""
    cells, fields = {}, {}
    for name, column in zip(header, columns, strict=True):
        distinct = list(column.index)
        texts = [text.strip() for text in distinct]
        if written.delimiter in ";\t":  # where commas may be decimal, 1,5 is 1.5
            texts = [text.replace(",", ".") if _DECIMAL_COMMA.match(text) else text for text in texts]
        cells[name] = column.of(texts)
        if texts != distinct:
            fields[name] = column.of(distinct)
    form = formats.Form(encoding, written.delimiter).description
    return Table(where, header, pd.DataFrame(cells), form=form, written=replace(written, fields=fields))


def _check_text(record: list[str], where: str, line: int) -> None:
    if any("\0" in cell for cell in record):
        raise TableError(f"{where}, line {line}: binary content. This is not a CSV table.")


def check_rows(rows: int, where: str) -> None:
    """Raises TableError for a table of fewer than two rows."""
    if rows < 2:
        raise TableError(f"{where} has a header but too few rows to learn from: at least two are needed.")


def _check_header(header: tuple[str, ...], where: str) -> tuple[str, ...]:
    """The header, if it can be one. Its cells are never printed: they may be a patient's."""
    empty = [k for k, cell in enumerate(header, 1) if not cell or _NUMBER.match(cell)]
    if empty:
        raise TableError(
            f"{where}: no header: column {empty[0]} of the first line is a number or empty. "
            "Put a line of column names on top."
        )
    for k, cell in enumerate(header):
        if cell in header[:k]:
            raise TableError(f"{where}: columns {header.index(cell) + 1} and {k + 1} have one name. Rename one.")
    return header


def from_frame(frame: pd.DataFrame, where: str = "table") -> Table:
    """A pandas frame as a table of text. Raises TableError for repeated column names or fewer than two rows."""
    header = tuple(str(name) for name in frame.columns)
    if len(set(header)) < len(header):
        raise TableError(f"{where}: two columns have one name. Rename one.")
    if len(frame) < 2:
        raise TableError(f"{where}: too few rows to learn from: at least two are needed.")
    try:
        cells = {name: _text(frame.iloc[:, k]) for k, name in enumerate(header)}
    except Exception:  # whatever an object in a cell does when it is asked for its text
        raise TableError(f"{where}: a cell holds an object that cannot be written as text. Take it out.") from None
    return Table(where, header, pd.DataFrame(cells))


def _text(column: pd.Series) -> pd.Series:
    """A column's values as text: missing as "", booleans in lower case, whole floats without a point.

    Each value by itself: equal values of several types (True and 1, 5 and a Decimal of 5.00) have texts of their own,
    so that no row decides how another is written.
    """
    values = column.astype(object).reset_index(drop=True)
    missing = values.isna().to_numpy()
    texts = ["" if gone else _value_text(value) for value, gone in zip(values, missing, strict=True)]
    known: dict[str, str] = {}  # each distinct text once in memory
    return pd.Series([known.setdefault(text, text) for text in texts], dtype=object)


def _value_text(value: object) -> str:
    if isinstance(value, bool | np.bool_):
        return str(value).lower()
    if isinstance(value, float | np.floating) and float(value).is_integer() and abs(float(value)) < LARGEST_WHOLE:
        return str(int(value))
    return str(value).strip()


def is_number(text: str) -> bool:
    """Whether a text is a decimal number, of any size; 007 is a name and no number."""
    return bool(_NUMBER.match(text)) and not _padded(text)


def whole_text(text: str) -> str | None:
    """A whole number of at most 15 digits without sign or point that it can do without; None for another text.

    >>> whole_text("+8.0"), whole_text("-0"), whole_text("8.5")
    ('8', '0', None)
    """
    found = _WHOLE.match(text)
    return None if found is None or _padded(text) else str(int(text.partition(".")[0]))


def dtypes(table: Table) -> dict[str, Kind]:
    """What each column's cells are, missing ones aside, exactly: for drafts and reports, which a person keeps back."""
    return {name: _dtype(table.cells[name]) for name in table.header}


def _dtype(column: pd.Series) -> Kind:
    words = [word for word in column.unique() if word not in MISSING_TOKENS]
    if words and all(_INT.match(word) and not _padded(word) for word in words):
        return "int"
    return "float" if words and all(_NUMBER.match(word) and not _padded(word) for word in words) else "text"


def _padded(word: str) -> bool:
    """Whether a number starts with a zero that would be lost: 007 is a name, not a number."""
    digits = word.lstrip("+-")
    return len(digits) > 1 and digits[0] == "0" and digits[1].isdigit()
