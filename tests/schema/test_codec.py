"""decode(encode(x)) is x for every kind of column; refusals name the place and never the cell."""

from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medsynth.errors import SchemaError
from medsynth.io.table import Table, from_frame
from medsynth.schema import Binary, Categorical, Continuous, Count, Schema
from medsynth.schema.codec import csv_cells, decode, encode
from medsynth.schema.columns.grid import Grid, grid

words = st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1, max_size=6)


def one_column(column: Any) -> Any:
    return Schema(name="t", columns={"x": column})


def text_table(cells: Any) -> Any:
    return Table("t.csv", ("x",), pd.DataFrame({"x": pd.Series(cells, dtype=object)}))


@st.composite
def numbers(draw: Any) -> Any:
    decimals = draw(st.integers(0, 6))
    low = draw(st.integers(-500, 500))
    high = low + draw(st.integers(1, 2000))
    unit = Decimal(1).scaleb(-decimals)
    log = low >= 0 and draw(st.booleans())
    column = Continuous(
        bounds=(float(low * unit), float(high * unit)),
        decimals=decimals,
        scale="log" if log else "linear",
        missing=draw(st.booleans()),
    )
    units = draw(st.lists(st.none() if column.missing and draw(st.booleans()) else st.integers(low, high), min_size=2))
    return column, [None if u is None else float(u * unit) for u in units]


@settings(deadline=None)
@given(numbers())
def test_numbers_come_back(case: Any) -> None:
    column, values = case
    frame = pd.DataFrame({"x": pd.Series(values, dtype=float)})
    schema = one_column(column)
    codes = encode(from_frame(frame), schema)
    pd.testing.assert_frame_equal(decode(codes, schema), frame)
    again = encode(Table("t", ("x",), csv_cells(codes, schema)), schema)
    assert np.array_equal(codes, again)
    cells = grid(column, 16)
    assert cells.cell_of(codes[:, 0]).max() < cells.cells <= 17 + column.missing


@settings(deadline=None)
@given(st.lists(st.one_of(st.none(), st.integers(-5, 50)), min_size=2), st.booleans())
def test_counts_come_back(values: Any, log: Any) -> None:
    column = Count(bounds=(-5, 50) if not log else (0, 60), scale="log" if log else "linear", missing=True)
    values = [v if v is None or not log else v + 5 for v in values]
    frame = pd.DataFrame({"x": pd.Series(values, dtype="Int64")})
    schema = one_column(column)
    pd.testing.assert_frame_equal(decode(encode(from_frame(frame), schema), schema), frame)


@settings(deadline=None)
@given(st.lists(words, min_size=1, max_size=6, unique=True), st.data())
def test_levels_come_back(levels: Any, data: Any) -> None:
    column = Categorical(levels=tuple(levels))
    values = data.draw(st.lists(st.sampled_from(levels), min_size=2))
    frame = pd.DataFrame({"x": pd.Series(values, dtype=object)})
    schema = one_column(column)
    pd.testing.assert_frame_equal(decode(encode(from_frame(frame), schema), schema), frame)


@pytest.mark.parametrize(
    "column, values, dtype",
    [
        (Binary(levels=(0, 1)), [0, 1, 1], "int64"),
        (Binary(levels=(0, 1), missing=True), [0, None, 1], "Int64"),
        (Binary(levels=("M", "F")), ["F", "M", "F"], "object"),
        (Binary(levels=(False, True)), [True, False, True], "bool"),
        (Binary(levels=(False, True), missing=True), [True, None, True], "boolean"),
        (Categorical(levels=("01", "1")), ["01", "1", "1"], "object"),
        (Count(bounds=(0, 9)), [0, 9, 3], "int64"),
        (Count(bounds=(0, 9), missing=True), [None, None, None], "Int64"),
        (Continuous(bounds=(0, 1), missing=True), [None, None, None], "float64"),
    ],
)
def test_kinds_and_dtypes_come_back(column: Any, values: Any, dtype: str) -> None:
    frame = pd.DataFrame({"x": pd.Series(values, dtype=dtype)})
    schema = one_column(column)
    pd.testing.assert_frame_equal(decode(encode(from_frame(frame), schema), schema), frame)


def test_zero_is_a_cell_of_its_own_on_a_log_scale() -> None:
    column = Continuous(bounds=(0, 1), scale="log", decimals=5)
    cells = grid(column, 64)
    assert cells.cell_of(np.array([0, 1])).tolist() == [0, 1]
    assert cells.edges[-1] == column.size


@pytest.mark.parametrize(
    "column, cells, reason",
    [
        (Continuous(bounds=(0, 1)), ["0.5", "zebra"], "not a number"),
        (Continuous(bounds=(0, 1)), ["0.5", "inf"], "not a number"),
        (Continuous(bounds=(-1, 1)), ["0.5", ""], "missing value"),
        (Continuous(bounds=(0, 1), out_of_range="error"), ["0.5", "77.7"], "outside"),
        (Count(bounds=(0, 9), out_of_range="error"), ["5", "777"], "outside"),
        (Binary(levels=(0, 1)), ["0", "777"], "level"),
        (Categorical(levels=("a", "b")), ["a", "zebra"], "level"),
    ],
)
def test_a_bad_cell_is_named_by_place_and_not_printed(column: Any, cells: list[str], reason: str) -> None:
    with pytest.raises(SchemaError) as caught:
        encode(text_table(cells), one_column(column))
    message = str(caught.value)
    assert reason in message and "t.csv" in message and "'x'" in message and "row 2" in message
    assert not cells[1] or cells[1] not in message


def test_clipping_is_silent_and_unknown_levels_have_a_code() -> None:
    clip = one_column(Continuous(bounds=(0, 1), decimals=1))
    assert csv_cells(encode(text_table(["-5", "7"]), clip), clip)["x"].tolist() == ["0", "1"]
    other = one_column(Categorical(levels=("a", "other"), unknown="other"))
    assert decode(encode(text_table(["a", "zebra"]), other), other)["x"].tolist() == ["a", "other"]


def test_whole_floats_read_as_integer_levels() -> None:
    schema = one_column(Binary(levels=(0, 1)))
    assert encode(text_table(["0.0", "1.00"]), schema)[:, 0].tolist() == [0, 1]


@pytest.mark.parametrize("rows", [3, 500])
@pytest.mark.parametrize("gaps", [0, 2])
def test_cells_are_found_alike_in_few_rows_and_in_many(rows: int, gaps: int) -> None:
    """By a search and by a table: the cell whose edges the code lies between."""
    cells = Grid(np.array([0, 3, 7, 20]), gaps)
    codes = np.random.default_rng(rows).integers(0, 20 + gaps, rows).astype(np.int32)
    expected = [next(k for k in range(cells.cells) if cells.ends[k] <= c < cells.ends[k + 1]) for c in codes]
    assert cells.cell_of(codes).tolist() == expected


def test_a_value_beyond_the_bounds_is_missing_if_the_schema_asks_for_it() -> None:
    column = Continuous(bounds=(0, 1), decimals=1, missing=("NA",), out_of_range="missing")
    assert encode(text_table(["0.5", "9999", "NA", "-2"]), one_column(column))[:, 0].tolist() == [5, 11, 11, 11]
    with pytest.raises(ValueError, match="need `missing: true`"):
        Continuous(bounds=(0, 1), out_of_range="missing")


@pytest.mark.parametrize(
    ("zeros", "texts"),
    [("none", ["2", "2.5", "2.25"]), ("one", ["2.0", "2.5", "2.25"]), ("all", ["2.00", "2.50", "2.25"])],
)
def test_zeros_at_the_end_are_written_as_declared(zeros: Any, texts: list[str]) -> None:
    schema = one_column(Continuous(bounds=(0, 5), decimals=2, zeros=zeros))
    assert csv_cells(encode(text_table(["2.00", "2.5", "2.25"]), schema), schema)["x"].tolist() == texts
