"""Neighbours from files: a row is emptied, or one of its cells is, or holds something else; all other rows stay.

The tables are Parquet files of every Arrow type, workbooks, text files, and frames of every pandas dtype, which are
made as a user makes them: pandas chooses the dtype again once a cell is missing. Values are at the extremes of their
types. What must be the same for all other rows: the text of each cell, its code by a declared schema, and, with all
releases held fixed, every byte that a whole fit gives away. A table that is read in pieces has the same texts as one
that is read whole.

In a frame, a row counts as another one if its value is: a float64 column rounds whole numbers of 17 digits.
"""

import datetime
import uuid
from collections.abc import Callable, Iterator
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from dtypes import assert_texts_alike, rows_alike
from held import FixedReleases, measure_alone, released
from hypothesis import given, settings
from hypothesis import strategies as st

from medsynth.io import reader
from medsynth.io.reader import read
from medsynth.io.split import split
from medsynth.io.table import Table, from_frame
from medsynth.schema import Schema
from medsynth.schema.codec import encode

CODES = [900000000000207008, 900000000000013009, 138875005000001104]
ROWS = 8
UNITS: tuple[Literal["s", "ms", "us", "ns"], ...] = ("s", "ms", "us", "ns")
DAY = 86_400 * 10**9
WORDS = ["a", " b ", "ü", "", "NA", "007", "a,b", "c"]
WHOLE = [0, 1, -1, 2**53 + 1, 2**60 + 1, 7, 2**63 - 1, -(2**63)]


def whole(bits: int, signed: bool) -> pa.Array:
    """Whole numbers at the extremes of a type."""
    least, most = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    kind = getattr(pa, f"{'' if signed else 'u'}int{bits}")()
    return pa.array([least, most, most - 1, 0, 1, 2, most // 3, most // 7], kind)


def counts(kind: pa.DataType, *most: int) -> pa.Array:
    """Dates, times and moments by the numbers that are stored."""
    width = pa.int32() if kind.bit_width == 32 else pa.int64()
    return pa.array([0, 1, most[0], most[0] - 1, 7, 1000, 1001, 60_061], width).view(kind)


def from_storage(kind: pa.DataType, values: list[Any], stored: pa.DataType) -> pa.Array:
    return pa.ExtensionArray.from_storage(kind, pa.array(values, stored))


def arrow_columns() -> dict[str, pa.Array]:
    """A column of each type, of eight values without a missing one."""
    floats = [0.1, 2.0, -0.0, float("nan"), float("inf"), float("-inf"), 16_777_217.0, 1e4]
    found = {f"int{bits} {signed}": whole(bits, signed) for bits in (8, 16, 32, 64) for signed in (True, False)}
    found |= {str(kind): pa.array(np.array(floats)).cast(kind) for kind in (pa.float32(), pa.float64())}
    found["float16"] = pa.array(np.array([*floats[:6], 2048.0, 0.3], np.float16))
    found["float64, far"] = pa.array([1e308, 5e-324, 2.0**53, 2.0**52, 9e17, -1e16, 0.5, 1e22])
    tens = [Decimal(k).scaleb(-2) for k in (0, 1, -1, 500, 99_999, -99_999, 100, 12_345)]
    far = [Decimal("9" * 70).scaleb(-10) * k for k in range(8)]
    decimals = [pa.decimal128(20, 2), pa.decimal256(50, 2), *(
        getattr(pa, name)(7, 2) for name in ("decimal32", "decimal64") if hasattr(pa, name))]  # fmt: skip
    found |= {str(kind): pa.array(tens, kind) for kind in decimals} | {"far": pa.array(far, pa.decimal256(76, 10))}
    found |= {"date32": counts(pa.date32(), 2**31 - 1), "date64": counts(pa.date64(), 10**14)}
    found |= {f"time32 {u}": counts(pa.time32(u), most) for u, most in (("s", 86_399), ("ms", 86_399_999))}
    found |= {f"time64 {u}": counts(pa.time64(u), most) for u, most in (("us", DAY // 1000 - 1), ("ns", DAY - 1))}
    for unit in UNITS:
        most = 2**63 - 1 if unit != "s" else (2**63 - 1) // 1000  # Parquet has no seconds
        for zone in (None, "Europe/Zurich", "+05:30"):
            found[f"{zone} {unit}"] = counts(pa.timestamp(unit, zone), most)
        found[f"duration {unit}"] = counts(pa.duration(unit), 2**63 - 1)
    found["bool"] = pa.array([True, False] * 4)
    found |= {str(kind): pa.array(WORDS, kind) for kind in (pa.string(), pa.large_string(), pa.string_view())}
    raw = pa.array([b"\xff\xfe", b"a", b"b", b"\x80c", *(word.encode() for word in WORDS[:4])], pa.binary())
    found["no UTF-8"] = pa.StringArray.from_buffers(ROWS, raw.buffers()[1], raw.buffers()[2])
    found["null"] = pa.nulls(ROWS)
    inner = ("int64 True", "int64 False", "date32", "string", "double", "decimal128(20, 2)", "None us")
    found |= {f"dictionary of {name}": found[name].dictionary_encode() for name in inner}
    found["months"] = pa.array(pd.Series(pd.period_range("2020-01", periods=ROWS, freq="M")))
    found["intervals"] = pa.array(pd.Series(pd.interval_range(0, ROWS)))
    found["uuid"] = from_storage(pa.uuid(), [uuid.UUID(int=k).bytes for k in range(ROWS)], pa.binary(16))
    found["json"] = from_storage(pa.json_(), [f'{{"a": {k}}}' for k in range(ROWS)], pa.string())
    return found


def only_in_frames() -> dict[str, pa.Array]:
    """Columns that Parquet has no type for."""
    found = {f"runs of {k}": pc.run_end_encode(pa.array(v * 2)) for k, v in (
        ("whole", WHOLE[:4]), ("floats", [0.5, 2.0, float("inf"), 0.1]))}  # fmt: skip
    found |= {f"{zone} seconds": counts(pa.timestamp("s", zone), 2**63 - 1) for zone in (None, "UTC")}
    return found


def emptied(column: pa.Array, row: int) -> pa.Array:
    """The column without the value of one row."""
    if pa.types.is_run_end_encoded(column.type):
        return pc.run_end_encode(emptied(pc.run_end_decode(column), row))
    if pa.types.is_null(column.type):
        return column
    parts = [column[:row], pa.nulls(1, column.type), column[row + 1 :]]
    if isinstance(column.type, pa.BaseExtensionType):
        stored = pa.concat_arrays([p.storage if len(p) != 1 or p.null_count == 0 else pa.nulls(1, p.type.storage_type)
                                   for p in parts])  # fmt: skip
        return pa.ExtensionArray.from_storage(column.type, stored)
    if pa.types.is_dictionary(column.type):  # anew: the dictionary loses the value, and others move up
        values = column.dictionary_decode()
        return emptied(values, row).dictionary_encode()
    return pa.concat_arrays(parts)


def others(table: Table, row: int) -> pd.DataFrame:
    return table.cells.drop(index=row)


def in_pieces(path: Path, rows: int) -> Table:
    """The table at a path as a large one is read."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reader, "_rows_of_a_chunk", lambda columns: rows)
        pieces = list(reader.read_large(path).chunks())
    assert max(piece.rows for piece in pieces) <= rows
    return Table(str(path), pieces[0].header, pd.concat([piece.cells for piece in pieces], ignore_index=True))


def declared(table: Table) -> Schema:
    """A schema that names each text of each column: two texts have two codes."""
    columns = {}
    for name in table.header:
        levels = list(dict.fromkeys(text for text in table.cells[name] if text))
        if len(levels) > 1:
            columns[name] = {"kind": "categorical", "levels": levels, "unknown": levels[0], "missing": [""]}
    return Schema.from_dict({"name": "t", "columns": columns})


def check_codes(whole: Table, neighbours: Iterator[tuple[int, Table]] | list[tuple[int, Table]]) -> None:
    """All other rows of the neighbours have the same texts and the same codes."""
    schema = declared(whole)
    codes = encode(whole, schema)
    assert all(len(set(column)) > 1 for column in codes.T)
    for row, table in neighbours:
        for name in whole.header:
            assert list(others(table, row)[name]) == list(others(whole, row)[name]), name
        assert (np.delete(encode(table, schema), row, 0) == np.delete(codes, row, 0)).all()


def test_a_missing_cell_of_any_arrow_type_is_one_cell(tmp_path: Path) -> None:
    """A row of a Parquet file is emptied, so each cell of each column; and in pieces as whole."""
    columns, path = arrow_columns(), tmp_path / "t.parquet"
    pq.write_table(pa.table(columns), path)
    table, found = read(path), []
    for size in (1, 2, 7, ROWS):
        pd.testing.assert_frame_equal(in_pieces(path, size).cells, table.cells)
    for row in range(ROWS):
        pq.write_table(pa.table({name: emptied(c, row) for name, c in columns.items()}), path, row_group_size=3)
        found.append((row, read(path)))
        assert (found[-1][1].cells.iloc[row] == "").all()
        if row == 2:
            pd.testing.assert_frame_equal(in_pieces(path, 2).cells, found[-1][1].cells)
    check_codes(table, found)


def test_a_row_alone_has_the_texts_that_it_has_among_others(tmp_path: Path) -> None:
    """All other rows are emptied at once."""
    columns, path = arrow_columns(), tmp_path / "t.parquet"
    pq.write_table(pa.table(columns), path)
    table = read(path)
    for row in (0, 2, 6):
        alone = columns
        for other in set(range(ROWS)) - {row}:
            alone = {name: emptied(column, other) for name, column in alone.items()}
        pq.write_table(pa.table(alone), path)
        assert list(read(path).cells.iloc[row]) == list(table.cells.iloc[row])


def test_arrow_columns_of_frames(tmp_path: Path) -> None:
    """The same texts as in Parquet, but for booleans, decimals and floats; also types that Parquet lacks."""

    def frame(columns: dict[str, pa.Array]) -> pd.DataFrame:
        return pd.DataFrame({name: pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([column])))
                             for name, column in columns.items()})  # fmt: skip

    columns = {name: column for name, column in arrow_columns().items()
               if not isinstance(column.type, pa.BaseExtensionType)}  # fmt: skip
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table(columns), path)
    own = [name for name, column in columns.items() if by_value(getattr(column.type, "value_type", column.type))]
    known, made = read(path).cells.drop(columns=own), from_frame(frame(columns)).cells.drop(columns=own)
    assert len(own) == 12
    pd.testing.assert_frame_equal(known, made)
    columns |= only_in_frames()
    neighbours = ({name: emptied(c, row) for name, c in columns.items()} for row in range(ROWS))
    check_codes(from_frame(frame(columns)), [(row, from_frame(frame(c))) for row, c in enumerate(neighbours)])


def by_value(kind: pa.DataType) -> bool:
    """Whether a frame writes these by their values alone, and a file by their declared type."""
    return bool(pa.types.is_boolean(kind) or pa.types.is_decimal(kind) or pa.types.is_floating(kind))


def texts(values: Any, **given: Any) -> list[str]:
    return list(from_frame(pd.DataFrame({"x": pd.Series(values, **given)})).cells["x"])


ZURICH = datetime.timezone(datetime.timedelta(hours=1))
MOMENTS = [datetime.datetime(2020, 1, k, 10 * (k % 2), 0, k % 3, 500 * (k % 2)) for k in range(1, 9)]
LISTS: dict[str, list[Any]] = {
    "small": [0, 1, -1, 2, 3, 4, 2**31, -(2**53) + 1],
    "long": [2**53, 2**53 + 1, 2**60 + 1, 5, 6, -(2**62) - 1, *CODES[:2]],
    "beyond int64": [2**63, 2**64 - 1, 2**63 + 1, 5, 1, 2, 3, 4],
    "beyond 64 bits": [2**64, 10**30, 5, 1, 2, 3, 4, 6],
    "floats": [0.1, 2.0, -0.0, 1e300, 5e-324, 2.0**53, float("inf"), 1e16],
    "truths": [True, False] * 4,
    "words": WORDS,
    "decimals": [Decimal(k).scaleb(-2) for k in range(8)],
    "dates": [datetime.date(2020, 1, k) for k in range(1, 9)],
    "times": [datetime.time(k, 1, 2, k) for k in range(8)],
    "moments": MOMENTS,
    "zoned": [m.replace(tzinfo=ZURICH) for m in MOMENTS],
    "stamps": [pd.Timestamp(k) for k in range(8)],
    "far moments": [datetime.datetime(9999, 1, k) for k in range(1, 9)],
    "spans": [datetime.timedelta(k, k, k) for k in range(-4, 4)],
    "long spans": [datetime.timedelta(10**6 * k) for k in range(8)],
    "pandas spans": [pd.Timedelta(k) for k in range(8)],
    "numpy moments": [np.datetime64(f"2020-01-0{k}") for k in range(1, 9)],
    "numpy spans": [np.timedelta64(k, "h") for k in range(8)],
    "single": [np.float32(k / 10) for k in range(8)],
    "half": [np.float16(k / 10) for k in range(8)],
    "numpy truths": [np.bool_(k % 2) for k in range(8)],
    "numpy whole": [np.int64(2**60 + 128 * k + 1) for k in range(8)],
    "months": [pd.Period(f"2020-0{k}", "M") for k in range(1, 9)],
    "ranges": [pd.Interval(k, k + 1) for k in range(8)],
    "long ranges": [pd.Interval(2**60 + k, 2**60 + 999) for k in range(8)],
    "mixed": [True, 1, 1.5, "1", Decimal("1.0"), MOMENTS[0], datetime.date(2020, 1, 1), np.float32(0.1)],
}
ROUNDED = {
    "long",
    "numpy whole",
    "long ranges",
    "beyond int64",
    "beyond 64 bits",
}  # pandas makes other values of these: floats
ODD: dict[str, Any] = {
    "None": None,
    "NaN": float("nan"),
    "NA": pd.NA,
    "NaT": pd.NaT,
    "a word": "x",
    "a float": 0.5,
    "beyond 64 bits": 2**64,
    "a long number": 2**53 + 1,
    "below zero": -1,
    "a decimal": Decimal("1.50"),
    "a truth": True,
    "a day": datetime.date(2020, 2, 29),
    "a moment": MOMENTS[0],
    "a moment in a zone": MOMENTS[0].replace(tzinfo=ZURICH),
    "a far moment": datetime.datetime(9999, 1, 1),
    "a fine moment": pd.Timestamp(1),
    "a span": datetime.timedelta(1),
    "a long span": datetime.timedelta(10**6),
    "a numpy moment": np.datetime64("2020-01-01T10:00"),
    "a month": pd.Period("2020-01"),
    "a single float": np.float32(0.1),
    "a range": pd.Interval(0.5, 1.5),
    "no number of time": np.datetime64("NaT"),
    "a fraction": Fraction(1, 3),
}


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
def test_an_odd_cell_of_a_frame_of_any_dtype_is_one_cell() -> None:
    """pandas makes a column of a list, and makes another of the list with one odd cell: its dtype is often another."""
    for name, values in LISTS.items():
        assert texts(values, dtype=object) == [texts([value, values[0]], dtype=object)[0] for value in values], name
        for number, (odd, cell) in enumerate(ODD.items()):
            row = (0, 5)[number % 2]
            other = [*values[:row], cell, *values[row + 1 :]]
            same = rows_alike(pd.Series(values), pd.Series(other), row)
            assert len(same) == ROWS - 1 or name in ROUNDED, (name, odd)
            assert_texts_alike(pd.Series(values), pd.Series(other), same)


WHOLE_TYPES = [f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)]
NUMPY = [*WHOLE_TYPES, "float16", "float32", "float64", "bool"]
NULLABLE = [*(f"{kind}{bits}" for kind in ("Int", "UInt") for bits in (8, 16, 32, 64)), "Float32", "Float64", "boolean"]


def typed() -> dict[str, pd.Series]:
    """A column of each dtype, of eight values."""
    found = dict[str, pd.Series]()
    for name in [*NUMPY, *NULLABLE]:
        plain = np.dtype(name.lower().replace("boolean", "bool"))
        most = np.iinfo(plain).max if plain.kind in "iu" else 1
        most = 2**53 if name in ("int64", "uint64") else most  # a larger one is rounded once a cell is missing
        values = np.array([0, 1, 1, most, most - 1, most // 3, most // 7, 0], "object")
        found[name] = pd.Series((values * 0.3 if plain.kind == "f" else values).astype(plain)).astype(
            pd.api.types.pandas_dtype(name)
        )
    found["words"] = pd.Series(WORDS, dtype="string")
    found["words of Arrow"] = pd.Series(WORDS, dtype="string[pyarrow]")
    moments = pd.Series(pd.to_datetime(MOMENTS))
    for unit in UNITS:
        found[f"moments in {unit}"] = moments.dt.as_unit(unit)
        found[f"zoned in {unit}"] = moments.dt.as_unit(unit).dt.tz_localize("Europe/Zurich")
        found[f"spans in {unit}"] = pd.Series(pd.to_timedelta(range(ROWS), unit="h")).dt.as_unit(unit)
    found |= {name: pd.Series(LISTS[name]) for name in ("months", "ranges")}
    return found


def derived(columns: dict[str, pd.Series]) -> Table:
    """The table of some columns, of the same as categories and as objects, and of some that are sparse."""
    found = dict(columns)
    for name, column in columns.items():
        found[f"{name} as objects"] = column.astype(object)
        if name != "float16":  # pandas makes no index of them
            found[f"{name} as categories"] = column.astype("category")
        if name in ("int64", "float64", "bool"):
            found[f"{name} sparse"] = pd.Series(pd.arrays.SparseArray(column))
    return from_frame(pd.DataFrame(found))


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::RuntimeWarning")
def test_a_missing_cell_of_any_dtype_is_one_cell() -> None:
    """The cell is taken out as pandas does it, which changes the dtype of columns that have no missing value."""
    columns, found = typed(), []
    for row in (0, 3, 7):
        left = {name: column.drop(index=row).reindex(range(ROWS)) for name, column in columns.items()}
        found.append((row, derived(left)))
        assert (found[-1][1].cells.iloc[row] == "").all()
    check_codes(derived(columns), found)


SCALARS = st.one_of(
    st.integers(-(2**70), 2**70), st.integers(2**53 - 4, 2**53 + 4), st.floats(), st.booleans(), st.text(max_size=5),
    st.none(), st.decimals(allow_nan=False), st.dates(), st.datetimes(), st.times(), st.timedeltas(),
    st.sampled_from([pd.NA, pd.NaT, np.float32(0.1), np.int8(5), np.datetime64("2020-01-01"), *ODD.values()]),
)  # fmt: skip


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::RuntimeWarning")
@settings(max_examples=100)
@given(st.lists(SCALARS, min_size=2, max_size=6), SCALARS, st.randoms(use_true_random=False))
def test_any_cells_of_a_frame_are_texts_by_themselves(cells: list[Any], odd: Any, draw: Any) -> None:
    """As pandas makes a column of them, and as objects."""
    row = draw.randrange(len(cells))
    for dtype in (None, object):
        try:
            one = pd.Series(cells, dtype=dtype)
            two = pd.Series([*cells[:row], odd, *cells[row + 1 :]], dtype=dtype)
        except (OverflowError, TypeError, ValueError):  # pandas makes no column of these
            continue
        same = rows_alike(one, two, row)
        assert dtype is None or len(same) == len(cells) - 1
        assert_texts_alike(one, two, same)


WORKBOOK: list[list[Any]] = [
    ["whole", "float", "truth", "moment", "day", "time", "span", "word", "mixed"],
    *(
        [
            [7, 900000000000207008, 2][k % 3],
            [1.5, 2.0, 1e300][k % 3],
            k % 2 == 0,
            datetime.datetime(2020, 1, k + 1, 8 * (k % 2), 30 * (k % 2)),
            datetime.date(2020, 2, k + 1),
            datetime.time(k, 30),
            datetime.timedelta(k, 60 * k),
            ["a", "b ", "007"][k % 3],
            [1, "x", True, 2.5, datetime.date(2020, 1, 1), "#N/A", "1", None][k],
        ]
        for k in range(ROWS)
    ),
]


def saved(rows: list[list[Any]], path: Path) -> Path:
    book = pytest.importorskip("openpyxl").Workbook()
    for row in rows:
        book.active.append(row)
    book.save(path)
    return path


def test_a_cell_of_a_workbook_is_one_cell(tmp_path: Path) -> None:
    """A row that is emptied stays a row; blank cells on the right and blank rows below are none."""
    path = tmp_path / "t.xlsx"
    table, width, found = read(saved(WORKBOOK, path)), len(WORKBOOK[0]), []
    for row in (0, 4, 6):
        for cells in ([None] * width, ["x"] * width, [0.25] * width, [MOMENTS[0]] * width, [*WORKBOOK[row + 1], None]):
            rows = [*WORKBOOK[: row + 1], cells, *WORKBOOK[row + 2 :], [None] * (width + 3), []]
            found.append((row, read(saved(rows, path))))
            assert found[-1][1].rows == ROWS
    check_codes(table, found)


TEXT = [[str(k), f" {k},5", f'"{k}""{k}"', ["a", "b"][k % 2], "Zürich"] for k in range(ROWS)]
LINES = [["n", "x", "quoted", "word", "town"], *TEXT]
RAW = {"emptied": b";;;;", "words": b"x;x;x;x;x", "numbers": b"0.5;1e9;0,25;2;3", "dates": b"2020-01-01;1.2.2020;;;",
       "a byte that is no UTF-8": b"\xff;\xff;\xff;\xff;\xff", "a quoted line end": b'"1\n2";"a;b";"";" ";"x"',
       "long": b"9" * 400 + b";" + b"x" * 9000 + b";1;2;3"}  # fmt: skip


def test_a_cell_of_a_text_file_is_one_cell(tmp_path: Path) -> None:
    """In pieces as whole: nothing but the header line decides how a field is read."""
    path = tmp_path / "t.csv"
    lines = [";".join(line).encode() for line in LINES]
    path.write_bytes(b"\n".join(lines) + b"\n")
    table, found = read(path), []
    for row in (0, 4, 7):
        for line in RAW.values():
            path.write_bytes(b"\n".join([*lines[: row + 1], line, *lines[row + 2 :]]) + b"\n")
            found.append((row, read(path)))
            for size in (1, 2, 7):
                pd.testing.assert_frame_equal(in_pieces(path, size).cells, found[-1][1].cells)
    check_codes(table, found)


@pytest.mark.usefixtures("seeded_entropy")
def test_a_part_that_is_held_out_has_the_types_and_texts_of_the_whole(tmp_path: Path) -> None:
    """Of every Arrow type; a part of a part too, whose row numbers pandas keeps beside it."""
    path, parts = tmp_path / "t.parquet", [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for columns in ({"n": whole(64, True), "words": pa.array(WORDS)}, arrow_columns()):
        rows = pa.table({name: emptied(column, 1) for name, column in columns.items()})
        pq.write_table(pa.concat_tables([rows] * 20), path)
        cells, types = read(path).cells.to_numpy(), pq.read_schema(path)
        split(read(path), 0.5, *parts, force=True)
        for part in parts:
            assert pq.read_schema(part).equals(types)
            assert set(map(tuple, read(part).cells.to_numpy())) <= set(map(tuple, cells))
    frame = pd.DataFrame({"n": pd.array([2**60 + 1, None] * 20, "Int64"), "x": range(40)})
    for index in (pd.RangeIndex(40, name="row"), pd.Index(range(40, 80), name="key"), pd.RangeIndex(40)):
        frame.set_axis(index).to_parquet(path)
        table = read(path)
        assert table.header == (*filter(None, [index.name]), "n", "x") and table.cells["n"][0] == str(2**60 + 1)
        pd.testing.assert_frame_equal(in_pieces(path, 7).cells, table.cells)
        one = split(read(path), 0.5, *parts, force=True)
        pd.testing.assert_frame_equal(one.cells, read(parts[0]).cells)
        assert one.header == read(parts[0]).header == read(parts[1]).header == table.header


# Whole fits.

FITTED = 40
DRAW = np.random.default_rng(0)
CODE = [CODES[k] for k in DRAW.integers(0, 3, FITTED)]
SICK = [int(k) for k in DRAW.integers(0, 2, FITTED)]
AGE = [int(k) for k in DRAW.integers(20, 80, FITTED)]
FITS: dict[str, dict[str, Any]] = {
    "code": {"kind": "categorical", "levels": CODES, "unknown": CODES[2], "missing": [""]},
    "age": {"kind": "count", "bounds": [0, 120], "missing": True, "unknown": "missing"},
    "sick": {"kind": "binary", "levels": [0, 1], "unknown": 0},
}
DECLARED = Schema.from_dict({"name": "t", "target": "sick", "columns": FITS})


def source(form: str, cells: dict[str, list[Any]], folder: Path) -> Any:
    """The table in a form that a hospital may have it in."""
    if form == "frame":
        return pd.DataFrame({**cells, "code": pd.array(cells["code"], "Int64")})
    if form == "spss":
        pytest.importorskip("pyreadstat").write_sav(pd.DataFrame(cells), folder / "t.sav")
        return folder / "t.sav"
    if form == "workbook":
        return saved([list(cells), *map(list, zip(*cells.values(), strict=True))], folder / "t.xlsx")
    if form == "text":
        pd.DataFrame(cells, dtype=object).to_csv(folder / "t.csv", index=False)
        return folder / "t.csv"
    columns = {name: pa.array(values, pa.int64()) for name, values in cells.items()}
    if form == "dictionaries":
        columns = {name: column.dictionary_encode() for name, column in columns.items()}
    pq.write_table(pa.table(columns), folder / "t.parquet")
    return folder / "t.parquet"


@pytest.fixture(scope="module", autouse=True)
def plain_method() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        measure_alone(patch)
        yield


@pytest.mark.matrix
@pytest.mark.usefixtures("seeded_entropy")
@pytest.mark.filterwarnings("ignore::medsynth.errors.MedsynthWarning")
@pytest.mark.nightly_for("spss")
@pytest.mark.parametrize("form", ["parquet", "dictionaries", "frame", "workbook", "spss", "text"])
def test_fits_of_neighbouring_files_release_the_same_bytes(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A row is emptied, or its code: with all releases held fixed, nothing that a fit gives away is another.

    And each release would have been drawn within its sensitivity of the first one.
    """
    cells = {"code": CODE, "age": AGE, "sick": SICK}
    for schema in (DECLARED, None):
        with monkeypatch.context() as patch:
            fixed = FixedReleases(patch)
            first = released(source(form, cells, tmp_path), schema, tmp_path)
            for names in (("code",), tuple(cells)):
                fixed.again()
                other = {name: [*c[:7], None, *c[8:]] if name in names else c for name, c in cells.items()}
                assert released(source(form, other, tmp_path), schema, tmp_path) == first
                # A row that holds something else is two steps: one to the empty record, and one from it.
                assert fixed.moved and max(fixed.moved.values()) <= 2 + 1e-9


def test_a_rounded_code_is_still_its_declared_level() -> None:
    """A statistical file, or a CSV file that pandas wrote, has floats; codes that round alike are told from none."""
    rounded = {code: f"{float(code)}" for code in CODES}
    for codes in ([str(code) for code in CODE], [rounded[code] for code in CODE]):
        table = from_frame(pd.DataFrame({"code": codes, "age": AGE, "sick": SICK}))
        assert list(encode(table, DECLARED)[:, 0]) == [CODES.index(code) for code in CODE]
        assert list(DECLARED.columns["code"].at_levels(table.cells["code"])) == list(map(str, CODE))
    alike = [2**60 + 1, 2**60 + 2, 5]
    columns = {"code": {**FITS["code"], "levels": alike, "unknown": 5}, "sick": FITS["sick"]}
    schema = Schema.from_dict({"name": "t", "columns": columns})
    table = from_frame(pd.DataFrame({"code": [str(float(code)) for code in alike], "sick": [0, 1, 0]}))
    assert list(encode(table, schema)[:, 0]) == [2, 2, 2]


def test_patients_of_long_keys_stay_apart() -> None:
    """Their column has no missing cell, so its dtype is no secret: rounded keys would make one patient of two."""
    from medsynth.fitting.private_rows import patients
    from medsynth.fitting.private_table import open_table
    from medsynth.fitting.settings import TableSettings

    keys = [2**60 + k // 2 for k in range(FITTED)]
    frame = pd.DataFrame({"who": keys, "age": AGE, "sick": SICK})
    notices = list[str]()
    notice: Callable[[str], None] = notices.append
    columns = {"who": {"kind": "identifier"}, "age": FITS["age"], "sick": FITS["sick"]}
    schema = Schema.from_dict({"name": "t", "target": "sick", "unit": "who", "max_rows": 2, "columns": columns})
    for table in (
        open_table(frame, TableSettings(schema=schema), notice),
        open_table(frame, TableSettings(target="sick", unit="who", max_rows=2), notice),
    ):
        assert list(patients(table.data, "who")) == [k // 2 for k in range(FITTED)]
