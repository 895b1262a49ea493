"""Rows as lines of a CSV file: to the last byte what pandas writes."""

import csv
import gzip
import io
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

import medsynth
from medsynth.errors import TableError, UsageError
from medsynth.fitting.private_table import possible_targets, table_header
from medsynth.fitting.settings import TableSettings
from medsynth.io.formats import OWN, SavedAs, check_encoding
from medsynth.io.reader import header, read, read_large
from medsynth.io.table import Table
from medsynth.io.text import decoded
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


MULTIBYTE = (
    "utf-8", "big5", "big5hkscs", "cp932", "cp949", "cp950", "euc_jis_2004", "euc_jisx0213", "euc_jp", "euc_kr",
    "gb18030", "gb2312", "gbk", "johab", "shift_jis", "shift_jis_2004", "shift_jisx0213",
)  # fmt: skip


@pytest.mark.parametrize("encoding", MULTIBYTE)
def test_bytes_that_an_encoding_does_not_have_change_their_own_cell_alone(encoding: str, tmp_path: Path) -> None:
    """All pairs of bytes in a cell, before a quoted field and before the last line; and parts of longer characters.

    A decoder that waits for more bytes, as that of Korean for eight, finds another error where the file ends.
    """
    pairs = [bytes([one, two]) for one in range(256) for two in range(256) if not {one, two} & set(b'\r\n,"')]
    pairs += [b"\xa4\xd4\xa4\xa1", b"\xa4\xd4\xa4\xa1\xa4\xbf", b"\x81\x30\x81", b"\xf0\x9f\x98"]
    (tmp_path / "t.csv").write_bytes(b"".join(cell + b',"a"\n' for cell in pairs))
    with decoded(tmp_path / "t.csv", encoding) as file:
        lines, errors = list(file), file.errors or ""
    assert len(lines) == len(pairs) and all(line.endswith(',"a"\n') for line in lines)
    assert all((cell + b"\n8\n").decode(encoding, errors).endswith("\n8\n") for cell in pairs if cell[0] > 127)


def test_a_blank_line_under_a_single_name_may_be_a_patient(tmp_path: Path) -> None:
    """An emptied row would change the number of rows, which is public."""
    for below in ("7\n\n8\n", "\n7\n8\n", "7\n8\n\n"):
        (tmp_path / "t.csv").write_text(f"age\n{below}")
        with pytest.raises(TableError, match='the table has one column: it may be an empty cell. Write ""'):
            read(tmp_path / "t.csv")
    (tmp_path / "t.csv").write_text('age\n7\n""\n8\n')
    assert read(tmp_path / "t.csv").cells["age"].tolist() == ["7", "", "8"]


def test_a_delimiter_at_the_end_of_rows_alone_shifts_no_names(tmp_path: Path) -> None:
    """Such rows have one more field than the header, as those of R, whose first field is a row number."""
    (tmp_path / "t.csv").write_text("age;sex\n54;F;\n60;M;\n")
    for call in (read, read_large):
        with pytest.raises(TableError, match="each row ends with a delimiter, and the header does not"):
            call(tmp_path / "t.csv")


def test_no_row_is_read_with_the_header(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text('age;sex\n54;"F\n')
    assert header(tmp_path / "t.csv").header == ("age", "sex")
    assert possible_targets(tmp_path / "t.csv", TableSettings()) == ["age", "sex"]


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


FIRST_LINES = ("#id,age", "# site A, ward B", "#", " #id,age", "\ufeff#id,age", "sep=,\n#id,age", "\n\n#id,age")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
@pytest.mark.parametrize("first", FIRST_LINES)
def test_a_first_line_with_a_hash_is_refused_whatever_is_below(first: str, encoding: str, tmp_path: Path) -> None:
    """A comment and a header look alike, and the lines below them are patients."""
    found = set()
    for below in ("id,age\n7,54\n8,60\n", "#p1,54\n8,60\n", '"a\nb",54\n8,60\n', "", ",\n,\n", "1,2,3\n1\n"):
        (tmp_path / "t.csv").write_bytes(f"{first}\n{below}".encode(encoding))
        for call in (read, read_large, table_header):
            with pytest.raises(TableError) as caught:
                call(tmp_path / "t.csv")
            found.add(str(caught.value))
    assert len(found) == 1 and "Set `skip_lines` to the number of lines above the header: 0 if this" in found.pop()


SKIPPED = {
    "#id,age\n7,54\n8,60\n": 0, "# a note\n#id,age\n7,54\n8,60\n": 1, 'a;"b\n\n\n#id,age\n7,54\n8,60\n': 2,
    "sep=,\n# a note\n#id,age\n7,54\n8,60\n": 2, "# a note\nsep=,\n#id,age\n7,54\n8,60\n": 1,
    "\ufeff\n#id,age\n7,54\n8,60\n": 0,
}  # fmt: skip


@pytest.mark.parametrize("text", SKIPPED)
def test_the_header_is_below_the_lines_that_are_skipped(text: str, tmp_path: Path) -> None:
    for content in (text.encode(), text.encode("utf-16"), gzip.compress(text.encode())):
        (tmp_path / "t.csv").write_bytes(content)
        saved = SavedAs(skip_lines=SKIPPED[text])
        table = read(tmp_path / "t.csv", saved)
        assert table.header == table_header(tmp_path / "t.csv", saved) == ("#id", "age")
        assert table.cells.to_numpy().tolist() == [["7", "54"], ["8", "60"]]


def test_lines_are_skipped_in_text_and_workbooks_alone(tmp_path: Path) -> None:
    pd.DataFrame({"a": [1, 2], "b": [3, 4]}).to_parquet(tmp_path / "t.parquet")
    pd.DataFrame({"a": [1, 2], "b": [3, 4]}).to_excel(tmp_path / "t.xlsx", index=False)
    for name in ("skip_lines", "skip_rows", "skip_last_rows"):
        with pytest.raises(UsageError, match=f"`{name}` is for text files"):
            read(tmp_path / "t.parquet", SavedAs(**{name: 0}))
    for path in (tmp_path / "t.parquet", tmp_path / "t.xlsx"):
        with pytest.raises(UsageError, match="`header_lines` is for text files"):
            read(path, SavedAs(header_lines=2))
    with pytest.raises(UsageError, match="must be 0 or more"):
        read(tmp_path / "t.parquet", SavedAs(skip_lines=-1))
    with pytest.raises(UsageError, match="must be 1 or more"):
        TableSettings(header_lines=0)
    with pytest.raises(UsageError, match="`skip_lines` is for text files"):
        medsynth.plan(pd.DataFrame({"a": [1, 2], "b": [3, 4]}), epsilon=3.0, skip_lines=0)


OPEN = '"open\n'
BROKEN = [
    f'id,{OPEN}7,54\n8,60\n', f'id,{OPEN}7,5"\n8,60\n', f'id,{OPEN}7,"\r"\n8,60\n', f'id,{OPEN}7,"54"\n8,60\n',
    f'{OPEN}7\n"\r"\n8\n', f'id,{OPEN}{ROW * 99}',
]  # fmt: skip


@pytest.mark.parametrize("declared", [True, False])
def test_a_quote_that_is_open_in_the_header_reads_no_row_as_a_name(declared: bool, tmp_path: Path) -> None:
    found = set()
    for text in BROKEN:
        (tmp_path / "t.csv").write_text(text, newline="")
        with pytest.raises(TableError) as caught:
            read(tmp_path / "t.csv", SavedAs(header_is_names=declared))
        found.add(str(caught.value))
    assert len(found) == 1 and "a quote that is not closed" in found.pop()


def test_names_with_line_breaks_are_declared(tmp_path: Path) -> None:
    """By the number of lines of the header, so that no row can close a quote that is open in it."""
    (tmp_path / "t.csv").write_text('id,"age\n(years)"\n7,54\n8,60\n9\n')
    for wrong in (None, 1, 3):
        with pytest.raises(TableError, match="set `header_lines` to the number"):
            read(tmp_path / "t.csv", SavedAs(header_lines=wrong, header_is_names=True))
    with pytest.raises(TableError, match=r"row 3 \(line 5\): this row has fewer fields than the header's 2"):
        read(tmp_path / "t.csv", SavedAs(header_lines=2))
    (tmp_path / "t.csv").write_text('"age\n(years, about)";id\n54;7\n60;8\n')
    assert read(tmp_path / "t.csv", SavedAs(header_lines=2)).header == ("age\n(years, about)", "id")
    (tmp_path / "t.csv").write_text('id,"note\nill"\n8,60\n9,61\n')
    with pytest.raises(TableError, match="a quote that is not closed"):
        read(tmp_path / "t.csv", SavedAs(header_is_names=True))


def test_a_mark_decides_the_encoding_whatever_is_declared(tmp_path: Path) -> None:
    for mark in ("utf-8-sig", "utf-16"):
        (tmp_path / "t.csv").write_bytes("#ü,age\n7,54\n8,60\n".encode(mark))
        assert read(tmp_path / "t.csv", SavedAs(encoding="cp1252", skip_lines=0)).header == ("#ü", "age")


@pytest.mark.parametrize("delimiter", [",", "\t"])
@pytest.mark.parametrize("usual", [2, 3])
def test_a_row_of_another_width_is_refused_alike_wherever_it_is(usual: int, delimiter: str, tmp_path: Path) -> None:
    """R writes one name fewer than fields. On the old code the first row alone decided that."""
    found = set()
    for odd in range(4):
        rows = [["1"] * (5 - usual if k == odd else usual) for k in range(4)]
        (tmp_path / "t.csv").write_text("\n".join(map(delimiter.join, [["a", "b"], *rows])))
        with pytest.raises(TableError) as caught:
            read(tmp_path / "t.csv")
        found.add(re.sub("[0-9]+", "N", str(caught.value).replace(str(tmp_path), "")))
    assert len(found) == 1


@pytest.mark.parametrize("names", [("#id", "age"), ("a\rb", "two\nlines"), (" #", "age"), ("#x, y", 'q"')])
def test_what_is_written_here_is_read_without_a_setting(names: tuple[str, ...], tmp_path: Path) -> None:
    cells = pd.DataFrame([["#1", "2"], ["3", "#4"]], columns=list(names))
    (tmp_path / "t.csv").write_bytes(csv_text(cells, header=True).encode())
    with (tmp_path / "part.csv").open("wb") as file:
        Sink(file).add(cells, WrittenText(names, ","), np.ones(2, np.bool_))
    for name in ("t.csv", "part.csv"):
        table = read(tmp_path / name, OWN)
        assert table.header == names and table.cells.equals(cells)


@pytest.mark.parametrize(
    ("text", "cure"),
    [
        ('[{"age": 54}, {"age": 60}]', "is JSON. Save the table as CSV"),
        ('[\n{"age": 54},\n{"age": 60}]', "is JSON. Save the table as CSV"),
        ('{"age": [54, 60]}', "is JSON. Save the table as CSV"),
        ("age sex ward day\n54 F A 1\n60 M B 2\n", "Save the table with commas"),
        ("age,,sex\n54,1,F\n60,2,M\n", "column 2 of the first line is empty"),
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
        read(tmp_path / "t.csv", SavedAs(skip_lines=2 if before.startswith("#") else None))
