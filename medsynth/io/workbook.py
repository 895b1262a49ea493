"""Workbooks of one sheet, as Excel saves them: each cell as the text that a CSV file would hold."""

from __future__ import annotations

import warnings
import zipfile
from datetime import datetime, time
from pathlib import Path

from ..errors import TableError
from .cell_text import value_text

CURE = "Save the sheet as 'CSV UTF-8'."


def is_workbook(path: Path) -> bool:
    """Whether a file is a zip archive with the parts of a workbook."""
    try:
        with zipfile.ZipFile(path) as archive:
            return "[Content_Types].xml" in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def cells_of(path: Path) -> list[list[str]]:
    """The texts of the cells of a workbook's only sheet, row by row; values of formulas as they were saved.

    The first row that holds something is the header. Rows between it and the last one that holds something are rows of
    the table, empty ones too. All are as wide as the header, and wider where a cell has no name above it.

    Raises TableError where there is no such sheet, or without the package openpyxl.
    """
    try:
        import openpyxl
    except ImportError:
        raise TableError(f"{path} is a workbook. {CURE} Or: pip install 'medsynth[excel]'.") from None
    try:
        with warnings.catch_warnings():  # they quote cells
            warnings.simplefilter("ignore")
            book = openpyxl.load_workbook(path, read_only=True, data_only=True)
            sheets = [list(sheet.iter_rows(values_only=True)) for sheet in book.worksheets]
            book.close()
    except Exception:  # whatever a damaged archive provokes in a parser of a foreign format
        raise TableError(f"{path} is a workbook that cannot be read. {CURE}") from None
    found = [trimmed for rows in sheets if (trimmed := _trimmed([[_text(cell) for cell in row] for row in rows]))]
    if len(found) != 1:
        raise TableError(f"{path} is a workbook with {len(found)} sheets that hold something. {CURE}")
    return found[0]


def _text(cell: object) -> str:
    """A cell as text would hold it, by itself: of a moment without a time of day, the day."""
    if cell is None:
        return ""
    return value_text(cell.date() if isinstance(cell, datetime) and cell.time() == time() else cell)


def _trimmed(rows: list[list[str]]) -> list[list[str]]:
    """The rows from the first to the last that hold something, all as wide as the widest of them."""
    widths = [max((k for k, text in enumerate(row, 1) if text), default=0) for row in rows]
    filled, most = [k for k, width in enumerate(widths) if width], max(widths, default=0)
    return [[*row[:most], *[""] * (most - len(row))] for row in rows[filled[0] : filled[-1] + 1]] if filled else []
