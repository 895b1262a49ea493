"""Rows that are not patients, such as units and totals, are declared by their number, never found among the rows."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medsynth.errors import TableError, UsageError
from medsynth.io.formats import SavedAs
from medsynth.io.reader import header as table_header
from medsynth.io.reader import read, read_large

LAYOUT = SavedAs(skip_lines=1, skip_rows=1, skip_last_rows=2)
TOTALS = ('"Total, all",2,9\n', "\n", "(2 rows affected)\n", "\n")
ROWS = ["54,13.1\n", "60,\n"]


def text(units: str = "years,g/dl\n", totals: tuple[str, ...] = TOTALS, rows: list[str] = ROWS) -> str:
    return "".join(["Report of ward 3\n", "\n", "age,hb\n", units, *rows, *totals])


FILES: dict[str, Callable[[str], bytes]] = {
    "commas": str.encode,
    "packed": lambda content: gzip.compress(content.encode()),
    "semicolons": lambda content: content.replace("Total, all", "Total").replace(",", ";").encode("cp1252"),
    "utf-16": lambda content: content.replace("\n", "\r\n").encode("utf-16"),
}


@pytest.mark.parametrize("kind", FILES)
def test_declared_rows_are_left_out_whatever_they_contain(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    for content in (text(), text("a,b,c,d\n", ("x\n", "1,2,3,4,5\n")), text("1,2\n", ("3,4\n", "5,6\n"))):
        path.write_bytes(FILES[kind](content))
        table = read(path, LAYOUT)
        assert table.header == table_header(path, LAYOUT).header == ("age", "hb")
        assert table.cells.to_numpy().tolist() == [["54", "13.1"], ["60", ""]]
        assert read_large(path, LAYOUT).rows == 2


def test_a_row_moves_no_other_row_in_or_out(tmp_path: Path) -> None:
    path = tmp_path / "t.csv"
    for row in ("", "Total,2", "n,%", '"1\u20052",x'):
        path.write_text(text(rows=["54,13.1\n", f"{row or ','}\n", "60,\n"]), "utf-8")
        assert read(path, LAYOUT).cells.to_numpy().tolist()[::2] == [["54", "13.1"], ["60", ""]]


def test_lines_of_a_wrong_row_are_those_of_the_file(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text(rows=["54,13\n", "1,2,3\n", "60,\n"]))
    with pytest.raises(TableError, match=r"row 2 \(line 6\)"):
        read(tmp_path / "t.csv", LAYOUT)


def test_no_more_rows_are_left_out_than_there_are(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text())
    for saved in (SavedAs(skip_lines=1, skip_rows=99), SavedAs(skip_lines=1, skip_last_rows=99)):
        with pytest.raises(TableError, match="too few rows"):
            read(tmp_path / "t.csv", saved)
    with pytest.raises(UsageError, match="`skip_rows` must be 0 or more"):
        read(tmp_path / "t.csv", SavedAs(skip_rows=-1))


def workbook(path: Path, *merged: str) -> Path:
    openpyxl = pytest.importorskip("openpyxl")
    rows: list[list[Any]] = [
        ["Report"],
        [],
        ["age", "hb"],
        ["years"],
        [54, 13.1],
        [60],
        ["Total", 2],
        ["of all", 2, "x"],
    ]
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    for cells in merged:
        book.active.merge_cells(cells)
    book.save(path)
    return path


def test_a_workbook_has_such_rows_too(tmp_path: Path) -> None:
    """Merged titles, merged header cells and cells that are merged in one row stay readable."""
    found = read(workbook(tmp_path / "t.xlsx", "A1:B2", "B3:B4", "A5:B5"), LAYOUT)
    assert found.header == ("age", "hb")
    assert found.cells.to_numpy().tolist() == [["54", ""], ["60", ""]]


def test_cells_merged_over_rows_are_refused_with_the_cure(tmp_path: Path) -> None:
    """One patient's cell would be that of the next ones."""
    for path, saved in ((workbook(tmp_path / "a.xlsx", "A5:A6"), LAYOUT),
                        (workbook(tmp_path / "b.xlsx", "B3:B4"), SavedAs(skip_lines=1))):  # fmt: skip
        with pytest.raises(TableError, match=r"merged cells.*[Ff]ill in each row's own value"):
            read(path, saved)
