"""Workbooks of one sheet are read as the CSV file that they would be saved as; all others are refused with the cure."""

import datetime
import re
import sys
import zipfile
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from medsynth.errors import TableError
from medsynth.io.reader import read
from medsynth.io.split import split

openpyxl = pytest.importorskip("openpyxl")
ROWS: list[list[Any]] = [
    ["age", "dose", "seen", "ok", "note"],
    [40, 1.5, datetime.datetime(2020, 1, 5), True, " a "],
    [41.0, None, datetime.datetime(2020, 1, 6), False, "b,c"],
    [42, 2, datetime.datetime(2020, 1, 7, 8, 30), True, "007"],
]


def saved(path: Path, *sheets: list[list[Any]]) -> Path:
    book = openpyxl.Workbook()
    book.remove(book.active)
    for k, rows in enumerate(sheets):
        sheet = book.create_sheet(f"sheet {k}")
        for row in rows:
            sheet.append(row)
    book.save(path)
    return path


def test_cells_are_what_a_csv_file_would_hold(tmp_path: Path) -> None:
    table = read(saved(tmp_path / "t.xlsx", ROWS, []))
    assert table.header == ("age", "dose", "seen", "ok", "note") and "workbook" in table.form
    assert table.cells.to_numpy().tolist() == [
        ["40", "1.5", "2020-01-05", "true", "a"],
        ["41", "", "2020-01-06", "false", "b,c"],
        ["42", "2", "2020-01-07 08:30:00", "true", "007"],
    ]


def test_a_split_of_a_workbook_is_text(tmp_path: Path) -> None:
    path = saved(tmp_path / "t.xlsx", [["a", "y"], *[[k, k % 2] for k in range(60)]])
    split(read(path), 0.5, tmp_path / "train.csv", tmp_path / "heldout.csv", force=False)
    parts = [pd.read_csv(tmp_path / name) for name in ("train.csv", "heldout.csv")]
    assert sorted(pd.concat(parts)["a"]) == list(range(60))


@pytest.mark.parametrize(("sheets", "words"), [
    ([ROWS, ROWS], "2 sheets"), ([[]], "0 sheets"), ([ROWS[:2]], "rows"),
    ([[["a", None], [1, 2], [3, 4]]], "no header"),
])  # fmt: skip
def test_what_is_no_table_is_refused(tmp_path: Path, sheets: list[list[list[Any]]], words: str) -> None:
    with pytest.raises(TableError, match=words):
        read(saved(tmp_path / "t.xlsx", *sheets))


def test_without_the_package_the_cure_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path / "t.xlsx", ROWS)
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(TableError, match=r"workbook.*CSV UTF-8.*medsynth\[excel\]"):
        read(path)


def test_no_warning_shows_a_cell(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    """openpyxl quotes a number that is too large for the date that its format makes of it."""
    book = openpyxl.Workbook()
    sheet = book.active
    for row in [["seen", "y"], *([45000, "a"] for _ in range(4))]:
        sheet.append(row)
    for k in range(2, 6):
        sheet.cell(k, 1).number_format = "yyyy-mm-dd"
    sheet.cell(3, 1).value = 987654321
    book.save(tmp_path / "t.xlsx")
    assert read(tmp_path / "t.xlsx").rows == 4 and not recwarn.list


@pytest.mark.parametrize("stated", ["A1:B3", "A1:A4", "A1"])
def test_a_wrong_statement_of_a_sheets_size_loses_no_cell(stated: str, tmp_path: Path) -> None:
    saved(tmp_path / "t.xlsx", [["a", "b"], [1, 2], [3, 4], [5, 6]])
    with zipfile.ZipFile(tmp_path / "t.xlsx") as archive, zipfile.ZipFile(tmp_path / "u.xlsx", "w") as other:
        for name in archive.namelist():
            content = archive.read(name)
            changed = re.sub(rb'<dimension ref="[A-Z0-9:]+"', f'<dimension ref="{stated}"'.encode(), content)
            assert (changed != content) == name.endswith("sheet1.xml")
            other.writestr(name, changed)
    assert read(tmp_path / "u.xlsx").cells.to_numpy().tolist() == [["1", "2"], ["3", "4"], ["5", "6"]]
