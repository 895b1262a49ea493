"""Workbooks of one sheet, as Excel saves them: each cell as the text that a CSV file would hold."""

from __future__ import annotations

import zipfile
from datetime import datetime, time
from pathlib import Path

from ..errors import TableError

CURE = "Save the sheet as 'CSV UTF-8'."


def is_workbook(path: Path) -> bool:
    """Whether a file is a zip archive with the parts of a workbook."""
    try:
        with zipfile.ZipFile(path) as archive:
            return "[Content_Types].xml" in archive.namelist()
    except (OSError, zipfile.BadZipFile):
        return False


def cells_of(path: Path) -> list[list[object]]:
    """The cells of a workbook's only sheet, row by row, all of one length; values of formulas as they were saved.

    Raises TableError where there is no such sheet, or without the package openpyxl.
    """
    try:
        import openpyxl
    except ImportError:
        raise TableError(f"{path} is a workbook. {CURE} Or: pip install 'medsynth[excel]'.") from None
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        sheets = [list(sheet.iter_rows(values_only=True)) for sheet in book.worksheets]
        book.close()
    except Exception:  # whatever a damaged archive provokes in a parser of a foreign format
        raise TableError(f"{path} is a workbook that cannot be read. {CURE}") from None
    filled = [rows for rows in sheets if any(cell is not None for row in rows for cell in row)]
    if len(filled) != 1:
        raise TableError(f"{path} is a workbook with {len(filled)} sheets that hold something. {CURE}")
    rows = [list(row) for row in filled[0] if any(cell is not None for cell in row)]
    width = max(len(row) for row in rows)
    return [[_value(cell) for cell in row] + [None] * (width - len(row)) for row in rows]


def _value(cell: object) -> object:
    """A cell as text would hold it: of a moment without a time of day, the day."""
    return cell.date() if isinstance(cell, datetime) and cell.time() == time() else cell
