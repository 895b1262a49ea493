"""Tables read. Every cell is kept as its text; what a cell means is the schema's business."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import TableError
from . import formats, text, workbook
from .text import NUMBER
from .written import Written, WrittenBatch, WrittenParquet, WrittenText

Kind = Literal["int", "float", "date", "text"]
MISSING_TOKENS = frozenset({"", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "<NA>"})
_INT = re.compile(r"[-+]?[0-9]{1,15}$")
_WHOLE = re.compile(r"[-+]?([0-9]{1,15})(?:\.0*)?$")
LARGEST_WHOLE = 2.0**53  # whole floats below it are written as whole numbers: all of them are exact


@dataclass(frozen=True)
class Table:
    """A table as text: `where` names it in messages; `cells` has one stripped string a cell.

    `form` describes how the file was written, if not as usual; `written` keeps what is needed to write some of its
    rows as they stood there. `expected_rows`: of a part that secret draws took out of a table, how many were expected,
    and `expected_std` the standard deviation of how many there are.
    `before`: of a part that is read by itself, how many rows of the table stand before it. Nothing else is kept: dtypes
    of a frame depend on its cells, and nobody after this could release them.
    """

    where: str
    header: tuple[str, ...]
    cells: pd.DataFrame = field(repr=False)
    form: str = ""
    written: Written | WrittenBatch | None = field(default=None, repr=False)
    expected_rows: int | None = None
    expected_std: float = 0.0
    before: int = 0

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.cells)

    @property
    def digest(self) -> str:
        """What identifies the names and cells: for the private checkpoint alone."""
        found = sha256("\x1f".join(self.header).encode())
        found.update(pd.util.hash_pandas_object(self.cells, index=False).to_numpy().tobytes())
        return found.hexdigest()

    def chunks(self) -> Iterator[Table]:
        """The table in one piece: larger ones come in several."""
        yield self

    def only(self, rows: NDArray[np.int64]) -> Table:
        """Some of the rows, by their positions."""
        return replace(self, cells=self.cells.iloc[rows].reset_index(drop=True))

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
    with readable(path):
        if workbook.is_workbook(path):
            return _read_workbook(path)
        return _read_parquet(path) if formats.is_parquet(path) else _read_text(path, encoding)


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Whatever can go wrong while a table's file is read is a TableError that says what, and the cure."""
    try:
        yield
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
    with parquet_errors(path):
        check_parquet(path)
        frame = pd.read_parquet(path)
    table = from_frame(with_index(frame), str(path))
    return replace(table, written=WrittenParquet(frame))


def with_index(frame: pd.DataFrame) -> pd.DataFrame:
    """A frame whose index, where it has a name, is a column."""
    return frame.reset_index(drop=frame.index.names == [None])


@contextmanager
def parquet_errors(path: Path) -> Iterator[None]:
    """A damaged Parquet file is a TableError."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, ValueError, KeyError):
        raise TableError(f"{path} begins as a Parquet file and is damaged. Copy it again.") from None


def check_parquet(path: Path) -> None:
    """Raises TableError for a column of lists or structures."""
    import pyarrow.parquet

    types = [field.type for field in pyarrow.parquet.read_schema(path)]
    if nested := [k for k, kind in enumerate(types, 1) if pyarrow.types.is_nested(kind)]:
        raise TableError(f"{path}: column {nested[0]} holds lists or structures. Write them as columns of their own.")


def _read_workbook(path: Path) -> Table:
    head, *rows = workbook.cells_of(path)
    header = text.check_header(tuple("" if cell is None else _value_text(cell) for cell in head), str(path))
    check_rows(len(rows), str(path))
    table = from_frame(pd.DataFrame(rows, columns=list(header), dtype=object), str(path))
    return replace(table, form="of a workbook", written=WrittenText(header, ","))


def _read_text(path: Path, encoding: str | None) -> Table:
    with text.opened(path, encoding) as file:
        (rows,) = file.rows()
        check_rows(rows.size, str(path))
        written = WrittenText(file.first, file.form.delimiter, rows.fields)
        return Table(str(path), file.header, rows.cells, form=file.form.description, written=written)


def check_rows(rows: int, where: str) -> None:
    """Raises TableError for a table of fewer than two rows."""
    if rows < 2:
        raise TableError(f"{where} has a header but too few rows to learn from: at least two are needed.")


def from_frame(frame: pd.DataFrame, where: str = "table") -> Table:
    """A pandas frame as a table of text. Raises TableError for repeated column names or fewer than two rows."""
    header = tuple(str(name) for name in frame.columns)
    if len(set(header)) < len(header):
        raise TableError(f"{where}: two columns have one name. Rename one.")
    if len(frame) < 2:
        raise TableError(f"{where}: too few rows to learn from: at least two are needed.")
    return Table(where, header, texts_of(frame, where))


def texts_of(frame: pd.DataFrame, where: str) -> pd.DataFrame:
    """The text of each cell. Raises TableError for an object that has none."""
    try:
        return pd.DataFrame({str(name): _text(frame.iloc[:, k]) for k, name in enumerate(frame.columns)})
    except Exception:  # whatever an object in a cell does when it is asked for its text
        raise TableError(f"{where}: a cell holds an object that cannot be written as text. Take it out.") from None


def _text(column: pd.Series) -> pd.Series:
    """A column's values as text: missing as "", booleans in lower case, whole floats without a point.

    Each value by itself: equal values of several types (True and 1, 5 and a Decimal of 5.00) have texts of their own,
    so that no row decides how another is written.
    """
    if column.dtype == object and pd.api.types.infer_dtype(column, skipna=True) != "string":
        place, distinct = np.arange(len(column)), column
    else:  # of one type, values that are equal have one text
        place, found = pd.factorize(column)
        distinct = pd.Series(found)
    values = distinct.astype(object)
    missing = values.isna().to_numpy()
    texts = ["" if gone else _value_text(value) for value, gone in zip(values, missing, strict=True)]
    known: dict[str, str] = {}  # each distinct text once in memory
    once = np.array([known.setdefault(text, text) for text in [*texts, ""]], dtype=object)
    return pd.Series(once[place])  # a missing value has the place -1, which is that of ""


def _value_text(value: object) -> str:
    if isinstance(value, bool | np.bool_):
        return str(value).lower()
    if isinstance(value, float | np.floating) and float(value).is_integer() and abs(float(value)) < LARGEST_WHOLE:
        return str(int(value))
    return str(value).strip()


def is_number(text: str) -> bool:
    """Whether a text is a decimal number, of any size; 007 is a name and no number."""
    return bool(NUMBER.match(text)) and not is_padded(text)


def whole_text(text: str) -> str | None:
    """A whole number of at most 15 digits without sign or point that it can do without; None for another text.

    >>> whole_text("+8.0"), whole_text("-0"), whole_text("8.5")
    ('8', '0', None)
    """
    found = _WHOLE.match(text)
    return None if found is None or is_padded(text) else str(int(text.partition(".")[0]))


def dtypes(table: Table) -> dict[str, Kind]:
    """What each column's cells are, missing ones aside, exactly: for drafts and reports, which a person keeps back."""
    return {name: _dtype(table.cells[name]) for name in table.header}


def _dtype(column: pd.Series) -> Kind:
    words = [word for word in column.unique() if word not in MISSING_TOKENS]
    if words and all(_INT.match(word) and not is_padded(word) for word in words):
        return "int"
    return "float" if words and all(NUMBER.match(word) and not is_padded(word) for word in words) else "text"


def is_padded(word: str) -> bool:
    """Whether a number starts with a zero that would be lost: 007 is a name, not a number."""
    digits = word.lstrip("+-")
    return len(digits) > 1 and digits[0] == "0" and digits[1].isdigit()
