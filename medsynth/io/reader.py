"""Read a table's file: Parquet, a workbook of one sheet, a file of SPSS, Stata or SAS, or delimited text.

A small file is read like a large one, as one piece. A cell's text does not depend on its piece.
"""

from __future__ import annotations

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
from .formats import USUAL, SavedAs, TableFile
from .table import LargeTable, OpenTable, Table, check_rows
from .writer import WrittenText

CHUNK_CELLS = 1 << 22  # per piece: some tens of MB as text
LARGE_CELLS = 1 << 25  # of a Parquet file; a larger one is read in pieces
LARGE_BYTES = 1 << 28  # of a text file; packed ones are about five times as large as their file
PACKED = 5
WORKBOOK_CURE = "Save the sheet as 'CSV UTF-8'."
MERGED_CURE = "No cell of a row may depend on another row. Unmerge the cells, and fill in each row's own value."


def read(table: Path | str | TableFile, saved: SavedAs = USUAL) -> Table:
    """Read a table's file: Parquet, a workbook of one sheet, an SPSS, Stata or SAS file, or text, packed or not.

    Its header alone decides the delimiter of text. Undecodable bytes are escaped in their own cells. The file is read
    once. Raises TableError with the place and the cure, never with a cell, for another file. Raises UsageError for an
    encoding that does not exist, and for skipped lines of a file that is not text.
    """
    with _opened(table, saved) as file:
        (found,) = file.pieces(None)
    check_rows(found.rows, found.where)
    return replace(found, file_form=file.file_form)


def header(table: Path | TableFile, saved: SavedAs = USUAL) -> Table:
    """Return a table without its rows, from its header line or its Parquet schema. Raise as `read` does.

    No row is parsed, except of a workbook: its header cannot be found without its rows.
    """
    saved.check()
    file = TableFile.of(table)
    saved.check(file.kind)
    with formats.readable(file.path):
        if file.kind == "text":
            found = text.header_names(file, saved)
        elif file.statistical:
            found = statistical.names(file.path, file.kind, saved.encoding)
        else:
            with _opened(file, saved) as opened:
                found = opened.header
    return Table(str(file.path), found, pd.DataFrame(columns=list(found)))


def is_large(file: TableFile) -> bool:
    """Return whether a file is read in pieces: by its size or, for Parquet, its rows and columns."""
    if file.kind == "parquet":
        return parquet.count_cells(file.path) > LARGE_CELLS
    return file.kind == "text" and file.path.stat().st_size * (PACKED if file.packed else 1) > LARGE_BYTES


def read_large(table: Path | TableFile, saved: SavedAs = USUAL, *, part: bool = False) -> LargeTable:
    """Count a table's file, in any format of `read`, in one pass. Its rows are read later, in pieces.

    A `part` of a table may have no rows. Raises TableError and UsageError as `read` does.
    """
    found = TableFile.of(table)
    path = found.path
    stamp = _stamp(path)
    with _opened(found, saved) as file:
        rows = file.rows
        if rows is None:
            rows = sum(piece.rows for piece in file.pieces(_rows_of_a_chunk(len(file.header))))
        if not part:
            check_rows(rows, str(path))
        with path.open("rb") as raw:
            digest = hashlib.file_digest(raw, "sha256").hexdigest()
        pieces = partial(_pieces, found, saved, stamp)
        return LargeTable(
            str(path), file.header, rows, file.form, digest, pieces, file_form=file.file_form, floats=file.floats
        )


def _pieces(table: TableFile, saved: SavedAs, stamp: tuple[int, int]) -> Iterator[Table]:
    _check_unchanged(table.path, stamp)
    with _opened(table, saved) as file:
        yield from file.pieces(_rows_of_a_chunk(len(file.header)))
    _check_unchanged(table.path, stamp)


def _stamp(path: Path) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns


def _check_unchanged(path: Path, stamp: tuple[int, int]) -> None:
    with formats.readable(path):
        if _stamp(path) != stamp:
            raise TableError(f"{path} was changed while it was read. Fit again when nobody writes to it.")


def _rows_of_a_chunk(columns: int) -> int:
    return max(1, CHUNK_CELLS // columns)


@contextmanager
def _opened(table: Path | str | TableFile, saved: SavedAs) -> Iterator[OpenTable]:
    """Open a table's file and read its header. Whatever goes wrong while it is read is a TableError."""
    saved.check()
    file = TableFile.of(table)
    saved.check(file.kind)
    with formats.readable(file.path):
        if file.kind == "workbook":
            opened = cast("AbstractContextManager[OpenTable]", nullcontext(_workbook(file.path, saved)))
        elif file.kind == "parquet":
            opened = parquet.opened(file.path)
        elif file.statistical:
            opened = statistical.opened(file.path, file.kind, saved.encoding)
        else:
            opened = text.opened(file, saved)
        with opened as found:
            yield found._replace(file_form=replace(found.file_form, ending=formats.ending_of(file)))


def _workbook(path: Path, saved: SavedAs) -> OpenTable:
    """Read a workbook's only sheet, with the saved values of formulas.

    The first row with content below the skipped ones is the header. All rows between it and the last row with content
    belong to the table, empty ones too. They are as wide as the header, and wider if a cell has no name above it.

    Raises TableError if there is no such sheet, if its rows share a merged cell, or without the package openpyxl.
    """
    above = saved.skip_lines or 0
    try:
        with formats.worksheets(path) as opened:
            sheets = [list(sheet.iter_rows(values_only=True))[above:] for sheet in opened]
    except ImportError:
        raise TableError(f"{path} is a workbook. {WORKBOOK_CURE} Or run: pip install 'medsynth[excel]'.") from None
    except Exception:  # a damaged archive can cause any error in the parser
        raise TableError(f"{path} is a workbook that cannot be read. {WORKBOOK_CURE}") from None
    texts = ([list(map(workbook_text, row)) for row in rows] for rows in sheets)
    found = [(rows, kept) for rows, own in zip(sheets, texts, strict=True) if (kept := _trimmed(own, saved))]
    if len(found) != 1:
        raise TableError(f"{path} is a workbook with {len(found)} sheets that are not empty. {WORKBOOK_CURE}")
    ((written, (head, *rows)),) = found
    at = next(k for k, row in enumerate(written) if any(map(workbook_text, row)))
    first = written[at]
    if formats.merges_rows(path, below=above + at + 1 + (saved.skip_rows or 0)):
        raise TableError(f"{path} is a workbook with merged cells over several rows. {MERGED_CURE}")
    # Names keep their blanks, unlike cells.
    names = (cell if isinstance(cell, str) else own for cell, own in zip(first, head, strict=False))
    header = text.check_header((*names, *head[len(first) :]), str(path))
    frame = pd.DataFrame(rows, columns=list(header), dtype=object)
    table = Table(str(path), header, frame, "of a workbook", WrittenText(header, ","))
    return OpenTable(header, table.form, lambda most: iter([table]))


def _trimmed(rows: list[list[str]], saved: SavedAs) -> list[list[str]]:
    """Return the rows from the first to the last with content without skipped ones, as wide as the widest of them."""
    filled = [k for k, row in enumerate(rows) if any(row)]
    if not filled:
        return []
    head, *below = rows[filled[0] : filled[-1] + 1]
    kept = [head, *below[saved.skip_rows or 0 : max(0, len(below) - (saved.skip_last_rows or 0))]]
    most = max(k for row in kept for k, text in enumerate(row, 1) if text)
    return [[*row[:most], *[""] * (most - len(row))] for row in kept]
