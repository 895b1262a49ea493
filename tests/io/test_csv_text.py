"""Rows as lines of a CSV file: to the last byte what pandas writes."""

import csv
import io
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medsynth.errors import TableError, UsageError
from medsynth.io.formats import check_encoding
from medsynth.io.reader import read, read_large
from medsynth.io.table import Table
from medsynth.io.writer import Sink, WrittenText, csv_text

CELLS = st.text(st.sampled_from("a ,\"\n\r;'é"), max_size=4)


@given(st.integers(1, 3).flatmap(lambda width: st.lists(st.tuples(*[CELLS] * width), min_size=1, max_size=6)))
@pytest.mark.parametrize("header", [True, False])
def test_lines_are_those_of_pandas(header: bool, rows: list[tuple[str, ...]]) -> None:
    names = ["a,b", "plain", 'q"'][: len(rows[0])]
    cells = pd.DataFrame(rows, columns=names, dtype=object)
    assert csv_text(cells, header=header) == cells.to_csv(index=False, header=header, lineterminator="\n")


HEAD = "age,height,sex\n"
ROW = "40,180,F\n"


def opened(path: Path, text: str) -> Table:
    path.write_text(text, newline="")
    return read(path)


def test_a_lone_quote_takes_no_row_for_its_own(tmp_path: Path) -> None:
    """Whatever later fields hold, the file is refused: else one cell could swallow the rows up to another quote."""
    with pytest.raises(TableError, match="quotes"):
        opened(tmp_path / "t.csv", f"{HEAD}{ROW}40,5'11\",F\n{ROW}")
    path = tmp_path / "t.csv"
    for later in ('"180"', '""', '",180"', '"\n180"', '"180\n"', '"1""80"', "180"):
        for cell in ('"', '"180', '18"0', '180"'):  # each has one quote
            rows = [ROW] * 3 + [f"40,{cell},F\n"] + [ROW] * 3 + [f"40,{later},F\n"] + [ROW] * 3
            with pytest.raises(TableError):
                opened(path, HEAD + "".join(rows))


def test_fields_in_quotes_are_read_whatever_they_hold(tmp_path: Path) -> None:
    cells = ["5'11\"", "a,b", "two\nlines", "two\rlines", "", 'say "8"', '"', '""', " x "]
    text = HEAD + "".join('40,"{}",F\r\n'.format(cell.replace('"', '""')) for cell in cells)
    table = opened(tmp_path / "t.csv", text)
    assert table.cells["height"].tolist() == [cell.strip() for cell in cells]
    # A part of it is read as the whole is.
    part = io.BytesIO()
    Sink(part).add(pd.DataFrame({"height": cells}), WrittenText(("height",), ","), np.ones(9, np.bool_))
    again = [row[0] for row in csv.reader(io.StringIO(part.getvalue().decode(), newline="")) if row]
    assert again == ["height", *cells]


def test_an_encoding_in_which_a_cell_changes_others_is_refused() -> None:
    refused = []
    for name in ("hz", "iso2022_jp", "iso2022_kr", "utf_7", "unicode_escape", "idna"):
        try:
            check_encoding(name)
        except UsageError as error:
            refused.append(name)
            assert "all later ones" in str(error)
    assert refused == ["hz", "iso2022_jp", "iso2022_kr", "utf_7", "unicode_escape", "idna"]
    for name in ("utf-8", "cp1252", "latin-1", "shift_jis", "gb18030", "utf-16"):
        check_encoding(name)


HEADERS = {
    "row numbers of pandas": (",age,sex\n0,54,F\n1,60,M\n", "without the first column, which has no name"),
    "row numbers of R": (
        '"age"\t"sex"\n"1"\t54\t"F"\n"2"\t60\t"M"\n',
        "separated by tabs, 1,5 read as 1.5; without the first column, which has no name"),
    "a delimiter at the end": ("age,sex,\n54,F,\n60,M,\n", "without the last column, which has no name"),
    "row numbers and a delimiter at the end": (
        ",age,sex,\n0,54,F,\n1,60,M,\n", "without the first column and the last column, which has no name"),
    "a line for Excel": ("sep=;\nage;sex\n54;F\n60;M\n", "separated by semicolons, 1,5 read as 1.5"),
    "a mark and a line for Excel": ("\ufeffsep=,\nage,sex\n54,F\n60,M\n", ""),
    "comments": ("# exported on Monday\n#\nage,sex\n54,F\n60,M\n", ""),
    "comments with delimiters": ("# site A, ward B, draft\nage,sex\n54,F\n60,M\n", ""),
    "empty lines first": ("\n\nage,sex\n54,F\n60,M\n", ""),
}  # fmt: skip


@pytest.mark.parametrize("name", HEADERS)
def test_what_stands_around_the_columns_is_left_out(name: str, tmp_path: Path) -> None:
    text, form = HEADERS[name]
    (tmp_path / "t.csv").write_text(text)
    table = read(tmp_path / "t.csv")
    assert table.header == ("age", "sex") and table.form == form
    assert table.cells.to_numpy().tolist() == [["54", "F"], ["60", "M"]]
    large = read_large(tmp_path / "t.csv")
    assert large.header == table.header and [*large.chunks()][0].cells.equals(table.cells)


def test_names_in_brackets_are_names(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("[id],[age]\n7,54\n8,60\n")
    assert read(tmp_path / "t.csv").header == ("[id]", "[age]")


def test_a_header_that_starts_with_a_hash_is_a_header(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("#id,age\n7,54\n8,60\n")
    assert read(tmp_path / "t.csv").header == ("#id", "age")


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ('[{"age": 54}, {"age": 60}]', "is JSON. Save the table as CSV"),
        ('[\n{"age": 54},\n{"age": 60}]', "is JSON. Save the table as CSV"),
        ('{"age": [54, 60]}', "is JSON. Save the table as CSV"),
        ("age sex ward day\n54 F A 1\n60 M B 2\n", "Save the table with commas"),
        ("2019,2020\n54,60\n61,62\n", "If a number is a name there, put a letter before it"),
        ("age,sex\n54,F,1\n60,M,1\n", "If R wrote row numbers"),
    ],
)
def test_what_is_not_such_a_table_is_refused_with_the_cure(text: str, cure: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(TableError) as caught:
        read(tmp_path / "t.csv")
    said = str(caught.value).replace(str(tmp_path), "")
    assert cure in said and "54" not in said


@pytest.mark.parametrize("before", ["", "\n\n", "sep=,\n", "# a comment\n#\n\n"])
def test_a_wrong_line_is_named_by_its_number_in_the_file(before: str, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text(f"{before}age,sex\n54,F\n60\n")
    with pytest.raises(TableError, match=rf"row 2 \(line {before.count(chr(10)) + 3}\)"):
        read(tmp_path / "t.csv")
