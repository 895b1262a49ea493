"""Rows as lines of a CSV file: to the last byte what pandas writes."""

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medsynth.io.writer import csv_text

CELLS = st.text(st.sampled_from("a ,\"\n\r;'é"), max_size=4)


@given(st.integers(1, 3).flatmap(lambda width: st.lists(st.tuples(*[CELLS] * width), min_size=1, max_size=6)))
@pytest.mark.parametrize("header", [True, False])
def test_lines_are_those_of_pandas(header: bool, rows: list[tuple[str, ...]]) -> None:
    names = ["a,b", "plain", 'q"'][: len(rows[0])]
    cells = pd.DataFrame(rows, columns=names, dtype=object)
    assert csv_text(cells, header=header) == cells.to_csv(index=False, header=header, lineterminator="\n")
