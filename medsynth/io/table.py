"""Tables read. Every cell is kept as its text; what a cell means is the schema's business."""

from __future__ import annotations

import csv
import itertools
import re
from array import array
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, TextIO

import numpy as np
import pandas as pd

from ..errors import TableError
from . import formats
from .written import Written, WrittenParquet, WrittenText

Kind = Literal["int", "float", "text"]
MISSING_TOKENS = frozenset({"", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "<NA>"})
_INT = re.compile(r"[-+]?\d{1,15}$")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?$")
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+$")


@dataclass(frozen=True)
class Table:
    """A table as text: `where` names it in messages; `cells` has one stripped string a cell.

    `dtypes` are those that a frame or a Parquet file had; `form` describes how the file was written, if not as usual;
    `written` keeps what is needed to write some of its rows as they stood there.
    """

    where: str
    header: tuple[str, ...]
    cells: pd.DataFrame = field(repr=False)
    dtypes: dict[str, str] = field(default_factory=dict)
    form: str = ""
    written: Written | None = field(default=None, repr=False)


def read(path: Path | str) -> Table:
    """The table at `path`: Parquet, or text with one header line, packed or not; delimiter and encoding are found.

    The file is read once; text that is not UTF-8 a second time. Raises TableError, naming the place and the cure and
    never a cell, for a file that is no such table.
    """
    path = Path(path)
    try:
        return _read_parquet(path) if formats.is_parquet(path) else _read_text(path)
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

    try:
        frame = pd.read_parquet(path)
    except (pyarrow.ArrowException, ValueError, KeyError):
        raise TableError(f"{path} begins as a Parquet file and is damaged. Copy it again.") from None
    table = from_frame(frame.reset_index(drop=frame.index.names == [None]), str(path))
    return replace(table, written=WrittenParquet(frame))


def _read_text(path: Path) -> Table:
    """The table in the first encoding that decodes the whole file."""
    for encoding in formats.encodings(path):
        try:
            with formats.text(path, encoding) as file:
                return _parsed(file, encoding, str(path))
        except UnicodeError:
            continue
    raise TableError(f"{path} is no text in UTF-8, UTF-16 or Windows-1252. Save it as 'CSV UTF-8'.")


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
    header = _check_header(tuple(name.strip() for name in first), where)
    columns = [_Column() for _ in header]
    rows = 0
    for record in reader:
        if not record:
            continue
        rows += 1
        if len(record) != len(header):
            _check_text(record, where, reader.line_num)
            raise TableError(
                f"{where}, row {rows} (line {reader.line_num}): this row has "
                f"{'fewer' if len(record) < len(header) else 'more'} fields than the header's {len(header)}. "
                "Mend that line: a delimiter inside a value needs quotes around the value."
            )
        for column, field_ in zip(columns, record, strict=True):
            if (code := column.index.get(field_)) is None:
                _check_text([field_], where, reader.line_num)
                code = column.index[field_] = len(column.index)
            column.codes.append(code)
    check_rows(rows, where)
    return _table(columns, header, where, encoding, WrittenText(tuple(first), delimiter))


class _Column:
    """A column while it is read: each distinct field once, and the number of each row's field."""

    def __init__(self) -> None:
        self.index: dict[str, int] = {}
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
    cells = {name: _text(frame.iloc[:, k]) for k, name in enumerate(header)}
    return Table(
        where, header, pd.DataFrame(cells), {n: _dtype_name(frame.dtypes.iloc[k]) for k, n in enumerate(header)}
    )


def _dtype_name(dtype: object) -> str:
    """A name by which `transforms.dtypes` finds the dtype again; without the values of a category."""
    if isinstance(dtype, pd.ArrowDtype):
        return f"arrow:{dtype.pyarrow_dtype}"
    return f"string[{dtype.storage}]" if isinstance(dtype, pd.StringDtype) else str(dtype)


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
    if isinstance(value, float | np.floating) and float(value).is_integer() and abs(float(value)) < 1e15:
        return str(int(value))
    return str(value).strip()


def dtypes(table: Table) -> dict[str, Kind]:
    """What each column's cells are, missing ones aside: whole numbers, numbers or text. Counts as public."""
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
