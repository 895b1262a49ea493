"""Read a table's file: Parquet, a workbook of one sheet, a file of SPSS, Stata or SAS, or delimited text.

A small file is read like a large one, as one piece. A cell's text does not depend on its piece.
"""

from __future__ import annotations

import csv
import hashlib
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import cast

import pandas as pd

from ..errors import TableError
from . import formats, parquet, statistical, text
from .cell_text import workbook_text
from .formats import USUAL, SavedAs
from .table import LargeTable, OpenTable, Table, check_rows
from .writer import WrittenText

CHUNK_CELLS = 1 << 22  # per piece: some tens of MB as text
LARGE_CELLS = 1 << 25  # of a Parquet file; a larger one is read in pieces
LARGE_BYTES = 1 << 28  # of a text file; packed ones are about five times as large as their file
PACKED = 5
WORKBOOK_CURE = "Save the sheet as 'CSV UTF-8'."


def read(path: Path | str, saved: SavedAs = USUAL) -> Table:
    """Read the table at `path`: Parquet, a workbook of one sheet, an SPSS, Stata or SAS file, or text, packed or not.

    Its header alone decides the delimiter of text. Undecodable bytes are escaped in their own cells. The file is read
    once. Raises TableError with the place and the cure, never with a cell, for another file. Raises UsageError for an
    encoding that does not exist, and for skipped lines of a file that is not text.
    """
    path = Path(path)
    with _opened(path, saved) as file:
        (table,) = file.pieces(None)
    check_rows(table.rows, str(path))
    return replace(table, file_form=file.file_form)


def header(path: Path, saved: SavedAs = USUAL) -> Table:
    """Return the table at `path` without its rows. Raise as `read` does, unless only a row is wrong."""
    if formats.is_workbook(path):
        with _opened(path, saved) as file:
            found = file.header
    else:
        found = names(path, saved)
    return Table(str(path), found, pd.DataFrame(columns=list(found)))


def names(path: Path, saved: SavedAs = USUAL) -> tuple[str, ...]:
    """Return the column names of the table at `path` from its header line or its Parquet schema: no row is parsed.

    Raises TableError for a workbook, whose header cannot be read without its rows, and as `header` does.
    """
    saved.check()
    formats.check_regular(path)
    with _readable(path):
        if formats.is_workbook(path):
            raise TableError(f"{path} is a workbook. Save its header line as CSV, and pass that.")
        if (kind := formats.statistical_kind(path)) is not None:
            saved.check(kind)
            return statistical.names(path, kind, saved.encoding)
        if not formats.is_parquet(path):
            return text.header_names(path, saved)
        saved.check("parquet")
        with parquet.opened(path) as file:
            return file.header


def is_large(path: Path) -> bool:
    """Return whether the file is read in pieces: by its size or, for Parquet, its rows and columns."""
    if not path.is_file() or formats.is_workbook(path):
        return False
    with _readable(path):
        if formats.statistical_kind(path) is not None:
            return False
    if formats.is_parquet(path):
        return parquet.count_cells(path) > LARGE_CELLS
    with _readable(path), path.open("rb") as file, formats.unpacked(path) as raw:
        packed = file.read(4) != raw.read(4)
    return path.stat().st_size * (PACKED if packed else 1) > LARGE_BYTES


def read_large(path: Path, saved: SavedAs = USUAL, *, part: bool = False) -> LargeTable:
    """Count the table at `path`, in any format of `read`, in one pass. Its rows are read later, in pieces.

    A `part` of a table may have no rows. Raises TableError and UsageError as `read` does.
    """
    stamp = _stamp(path)
    with _opened(path, saved) as file:
        rows = file.rows
        if rows is None:
            rows = sum(piece.rows for piece in file.pieces(_rows_of_a_chunk(len(file.header))))
        if not part:
            check_rows(rows, str(path))
        with path.open("rb") as raw:
            digest = hashlib.file_digest(raw, "sha256").hexdigest()
        pieces = partial(_pieces, path, saved, stamp)
        return LargeTable(
            str(path), file.header, rows, file.form, digest, pieces, file_form=file.file_form, floats=file.floats
        )


def _pieces(path: Path, saved: SavedAs, stamp: tuple[int, int]) -> Iterator[Table]:
    _check_unchanged(path, stamp)
    with _opened(path, saved) as file:
        yield from file.pieces(_rows_of_a_chunk(len(file.header)))
    _check_unchanged(path, stamp)


def _stamp(path: Path) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns


def _check_unchanged(path: Path, stamp: tuple[int, int]) -> None:
    with _readable(path):
        if _stamp(path) != stamp:
            raise TableError(f"{path} was changed while it was read. Fit again when nobody writes to it.")


def _rows_of_a_chunk(columns: int) -> int:
    return max(1, CHUNK_CELLS // columns)


@contextmanager
def _opened(path: Path, saved: SavedAs) -> Iterator[OpenTable]:
    """Open the file at `path` and read its header. Whatever goes wrong while it is read is a TableError."""
    saved.check()
    formats.check_regular(path)
    with _readable(path):
        if formats.is_workbook(path):
            kind, opened = "workbook", cast("AbstractContextManager[OpenTable]", nullcontext(_workbook(path)))
        elif (found := formats.statistical_kind(path)) is not None:
            kind, opened = found, statistical.opened(path, found, saved.encoding)
        elif formats.is_parquet(path):
            kind, opened = "parquet", parquet.opened(path)
        else:
            kind, opened = "text", text.opened(path, saved)
        saved.check(kind)
        with opened as file:
            yield file._replace(file_form=replace(file.file_form, ending=formats.ending_of(path, kind)))


@contextmanager
def _readable(path: Path) -> Iterator[None]:
    """Turn whatever can go wrong while a table's file is read into a TableError with the cause and the cure."""
    try:
        yield
    except FileNotFoundError:
        raise TableError(f"There is no file {path}. Check the name and the folder.") from None
    except IsADirectoryError:
        raise TableError(f"{path} is a folder. Pass a table in it.") from None
    except csv.Error:
        raise TableError(f"{path} is not a CSV table. Check that its quotes are closed.") from None
    except formats.DAMAGE_ERRORS:
        raise TableError(f"{path} is packed and damaged. Copy it again, or pack it again.") from None
    except OSError as error:
        raise TableError(f"{path} cannot be read ({error.strerror or 'damaged'}). Check the file.") from None


def _workbook(path: Path) -> OpenTable:
    """Read a workbook's only sheet, with the saved values of formulas.

    The first row with content is the header. All rows between it and the last row with content belong to the table,
    empty ones too. They are as wide as the header, and wider if a cell has no name above it.

    Raises TableError if there is no such sheet, or without the package openpyxl.
    """
    try:
        with formats.worksheets(path) as opened:
            sheets = [list(sheet.iter_rows(values_only=True)) for sheet in opened]
    except ImportError:
        raise TableError(f"{path} is a workbook. {WORKBOOK_CURE} Or run: pip install 'medsynth[excel]'.") from None
    except Exception:  # a damaged archive can cause any error in the parser
        raise TableError(f"{path} is a workbook that cannot be read. {WORKBOOK_CURE}") from None
    texts = ([list(map(workbook_text, row)) for row in rows] for rows in sheets)
    found = [(rows, kept) for rows, own in zip(sheets, texts, strict=True) if (kept := _trimmed(own))]
    if len(found) != 1:
        raise TableError(f"{path} is a workbook with {len(found)} sheets that are not empty. {WORKBOOK_CURE}")
    ((written, (head, *rows)),) = found
    first = next(row for row in written if any(map(workbook_text, row)))
    # Names keep their blanks, unlike cells.
    names = (cell if isinstance(cell, str) else own for cell, own in zip(first, head, strict=False))
    header = text.check_header((*names, *head[len(first) :]), str(path))
    frame = pd.DataFrame(rows, columns=list(header), dtype=object)
    table = Table(str(path), header, frame, "of a workbook", WrittenText(header, ","))
    return OpenTable(header, table.form, lambda most: iter([table]))


def _trimmed(rows: list[list[str]]) -> list[list[str]]:
    """Return the rows from the first to the last with content, all as wide as the widest of them."""
    widths = [max((k for k, text in enumerate(row, 1) if text), default=0) for row in rows]
    filled, most = [k for k, width in enumerate(widths) if width], max(widths, default=0)
    return [[*row[:most], *[""] * (most - len(row))] for row in rows[filled[0] : filled[-1] + 1]] if filled else []
