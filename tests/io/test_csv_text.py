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
from medsynth.io.reader import read
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
