"""A table's file, read: Parquet, a workbook of one sheet, or delimited text.

A small file takes the path of a large one, as one piece. A cell's text does not depend on its piece.
"""

from __future__ import annotations

import csv
import hashlib
import os
import warnings
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime, time
from functools import partial
from pathlib import Path

import pandas as pd

from ..errors import TableError
from . import formats, parquet, text
from .cell_text import value_text
from .table import LargeTable, OpenTable, Table, check_rows
from .writer import WrittenText

CHUNK_CELLS = 1 << 22  # of a piece: some tens of MB as text
LARGE_CELLS = 1 << 25  # of a Parquet file, from which on it is read in pieces
LARGE_BYTES = 1 << 28  # of a text file; packed ones are some five times as large as they look
PACKED = 5
WORKBOOK_CURE = "Save the sheet as 'CSV UTF-8'."


def read(path: Path | str, encoding: str | None = None) -> Table:
    """The table at `path`: Parquet, a workbook of one sheet, or text with one header line, packed or not.

    Text is UTF-8 or of the `encoding` given. The header line decides the delimiter; bytes that are no text are kept in
    their own cells, escaped. The file is read once. Raises TableError, naming the place and the cure and never a cell,
    for a file that is no such table, UsageError for an encoding that does not exist.
    """
    path = Path(path)
    formats.check_encoding(encoding)
    formats.check_regular(path)
    with _opened(path, encoding) as file:
        (table,) = file.pieces(None)
    check_rows(table.rows, str(path))
    return table


def is_large(path: Path) -> bool:
    """Whether the file is a table that is read in pieces: by its size and, of Parquet, by its rows and columns."""
    if not path.is_file() or formats.is_workbook(path):
        return False
    if formats.is_parquet(path):
        return parquet.count_cells(path) > LARGE_CELLS
    with _readable(path), path.open("rb") as file, formats.unpacked(path) as raw:
        packed = file.read(4) != raw.read(4)
    return path.stat().st_size * (PACKED if packed else 1) > LARGE_BYTES


def read_large(path: Path, encoding: str | None = None, *, part: bool = False) -> LargeTable:
    """The table at `path`, of a form that `read` reads: gone through once, and counted.

    A `part` of a table may have no row. Raises TableError and UsageError as that does.
    """
    formats.check_encoding(encoding)
    stamp = _stamp(path)
    with _opened(path, encoding) as file:
        rows = file.rows
        if rows is None:
            rows = sum(piece.rows for piece in file.pieces(_rows_of_a_chunk(len(file.header))))
        if not part:
            check_rows(rows, str(path))
        with path.open("rb") as raw:
            digest = hashlib.file_digest(raw, "sha256").hexdigest()
        return LargeTable(str(path), file.header, rows, file.form, digest, partial(_pieces, path, encoding, stamp))


def _pieces(path: Path, encoding: str | None, stamp: tuple[int, int]) -> Iterator[Table]:
    _check_unchanged(path, stamp)
    with _opened(path, encoding) as file:
        yield from file.pieces(_rows_of_a_chunk(len(file.header)))
    _check_unchanged(path, stamp)


def _stamp(path: Path) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns


def _check_unchanged(path: Path, stamp: tuple[int, int]) -> None:
    with _readable(path):
        if _stamp(path) != stamp:
            raise TableError(f"{path} was changed while it was read. Fit it again when nobody writes to it.")


def _rows_of_a_chunk(columns: int) -> int:
    return max(1, CHUNK_CELLS // columns)


@contextmanager
def _opened(path: Path, encoding: str | None) -> Iterator[OpenTable]:
    """The file at `path`, its header read. Whatever goes wrong while it is read is a TableError."""
    with _readable(path):
        if formats.is_workbook(path):
            opened: AbstractContextManager[OpenTable] = nullcontext(_workbook(path))
        else:
            opened = parquet.opened(path) if formats.is_parquet(path) else text.opened(path, encoding)
        with opened as file:
            yield file


@contextmanager
def _readable(path: Path) -> Iterator[None]:
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


def _workbook(path: Path) -> OpenTable:
    """A workbook's only sheet; values of formulas as they were saved.

    The first row that holds something is the header. Rows between it and the last one that holds something are rows of
    the table, empty ones too. All are as wide as the header, and wider where a cell has no name above it.

    Raises TableError where there is no such sheet, or without the package openpyxl.
    """
    try:
        import openpyxl
    except ImportError:
        raise TableError(f"{path} is a workbook. {WORKBOOK_CURE} Or: pip install 'medsynth[excel]'.") from None
    try:
        with warnings.catch_warnings():  # they quote cells
            warnings.simplefilter("ignore")
            book = openpyxl.load_workbook(path, read_only=True, data_only=True)
            sheets = [list(sheet.iter_rows(values_only=True)) for sheet in book.worksheets]
            book.close()
    except Exception:  # whatever a damaged archive provokes in a parser of a foreign format
        raise TableError(f"{path} is a workbook that cannot be read. {WORKBOOK_CURE}") from None
    found = [trimmed for rows in sheets if (trimmed := _trimmed([list(map(_cell_text, row)) for row in rows]))]
    if len(found) != 1:
        raise TableError(f"{path} is a workbook with {len(found)} sheets that hold something. {WORKBOOK_CURE}")
    head, *rows = found[0]
    header = text.check_header(tuple(head), str(path))
    cells = pd.DataFrame(rows, columns=list(header), dtype=object)
    table = Table(str(path), header, cells, "of a workbook", WrittenText(header, ","))
    return OpenTable(header, table.form, lambda most: iter([table]))


def _cell_text(cell: object) -> str:
    """A cell as text would hold it, by itself: of a moment without a time of day, the day."""
    if cell is None:
        return ""
    return value_text(cell.date() if isinstance(cell, datetime) and cell.time() == time() else cell)


def _trimmed(rows: list[list[str]]) -> list[list[str]]:
    """The rows from the first to the last that hold something, all as wide as the widest of them."""
    widths = [max((k for k, text in enumerate(row, 1) if text), default=0) for row in rows]
    filled, most = [k for k, width in enumerate(widths) if width], max(widths, default=0)
    return [[*row[:most], *[""] * (most - len(row))] for row in rows[filled[0] : filled[-1] + 1]] if filled else []
