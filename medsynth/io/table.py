"""Tables read. Every cell is kept as its text; what a cell means is the schema's business."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, TextIO

import numpy as np
import pandas as pd

from ..errors import TableError
from . import formats

Kind = Literal["int", "float", "text"]
MISSING_TOKENS = frozenset({"", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "<NA>"})
_INT = re.compile(r"[-+]?\d{1,15}$")
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?$")
_DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+$")


@dataclass(frozen=True)
class Table:
    """A table as text: `where` names it in messages; `cells` holds one stripped string a cell.

    `dtypes` are those that a frame or a Parquet file had; `form` says how the file was written, if not as usual.
    """

    where: str
    header: tuple[str, ...]
    cells: pd.DataFrame = field(repr=False)
    dtypes: dict[str, str] = field(default_factory=dict)
    form: str = ""


def read(path: Path | str) -> Table:
    """The table at `path`: Parquet, or text with one header line, packed or not; delimiter and encoding are found.

    Raises TableError, naming the place and the cure and never a cell, for a file that is no such table.
    """
    path = Path(path)
    try:
        if formats.is_parquet(path):
            return from_frame(_parquet(path), str(path))
        found = formats.form(path)
        with formats.text(path, found.encoding) as file:
            header = _check_structure(file, found.delimiter, str(path))
        with formats.text(path, found.encoding) as file:
            cells = pd.read_csv(file, sep=found.delimiter, dtype=str, keep_default_na=False, na_filter=False)
    except FileNotFoundError:
        raise TableError(f"There is no file {path}. Check the name and the folder.") from None
    except IsADirectoryError:
        raise TableError(f"{path} is a folder. Name the table in it.") from None
    except (csv.Error, pd.errors.ParserError):
        raise TableError(f"{path} is not a CSV table. Check that its quotes are closed.") from None
    except UnicodeError:
        raise TableError(f"{path} is no text in the encoding that it begins with. Save it as 'CSV UTF-8'.") from None
    except OSError as error:
        raise TableError(f"{path} cannot be read ({error.strerror or 'damaged'}).") from None
    cells.columns = pd.Index(header)
    commas = found.delimiter in ";\t"
    return Table(str(path), header, cells.apply(lambda column: _stripped(column, commas)), form=found.said)


def _parquet(path: Path) -> pd.DataFrame:
    import pyarrow

    try:
        frame = pd.read_parquet(path)
    except (pyarrow.ArrowException, ValueError, KeyError):
        raise TableError(f"{path} begins as a Parquet file and is damaged. Copy it again.") from None
    return frame.reset_index(drop=frame.index.names == [None])


def _stripped(column: pd.Series, decimal_commas: bool) -> pd.Series:
    """Cells without blanks around them, each distinct one once in memory; where commas may be decimal, 1,5 as 1.5."""
    place, words = pd.factorize(column, use_na_sentinel=False)
    clean = [word.strip() for word in words]
    if decimal_commas:
        clean = [word.replace(",", ".") if _DECIMAL_COMMA.match(word) else word for word in clean]
    return pd.Series(np.array(clean, dtype=object)[place], index=column.index)


def records(file: TextIO, delimiter: str = ",") -> Iterator[list[str]]:
    """The records of an open CSV file, blank lines skipped, quotes strict."""
    return (record for record in csv.reader(file, strict=True, delimiter=delimiter) if record)


def _check_structure(file: TextIO, delimiter: str, where: str) -> tuple[str, ...]:
    """The header, once every record has been seen to have its number of fields. pandas would pad in silence."""
    reader = csv.reader(file, strict=True, delimiter=delimiter)
    header: tuple[str, ...] | None = None
    rows = 0
    for record in reader:
        if any("\0" in cell for cell in record):
            raise TableError(f"{where}, line {reader.line_num}: binary content. This is not a CSV table.")
        if not record:
            continue
        if header is None:
            header = _check_header(tuple(cell.strip() for cell in record), where)
            continue
        rows += 1
        if len(record) != len(header):
            raise TableError(
                f"{where}, row {rows} (line {reader.line_num}): this row has "
                f"{'fewer' if len(record) < len(header) else 'more'} fields than the header's {len(header)}. "
                "Mend that line: a delimiter inside a value needs quotes around the value."
            )
    if header is None:
        raise TableError(f"{where} is empty. Export the table again, with a header line.")
    if rows < 2:
        raise TableError(f"{where} has a header but too few rows to learn from: at least two are needed.")
    return header


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
    """A name by which `codec.dtypes` finds the dtype again; a category's values do not stand in it."""
    if isinstance(dtype, pd.ArrowDtype):
        return f"arrow:{dtype.pyarrow_dtype}"
    return f"string[{dtype.storage}]" if isinstance(dtype, pd.StringDtype) else str(dtype)


def _text(column: pd.Series) -> pd.Series:
    """A column's values as text: missing as "", booleans in lower case, whole floats without a point."""

    def one(value: object) -> str:
        if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
            return str(int(value))
        return str(value).lower() if isinstance(value, bool) else str(value).strip()

    values = column.astype(object).reset_index(drop=True)
    missing = values.isna()
    codes, uniques = pd.factorize(values.where(~missing, ""), use_na_sentinel=False)
    words = pd.Series([one(value) for value in uniques], dtype=object)
    return words.iloc[codes].reset_index(drop=True)


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
