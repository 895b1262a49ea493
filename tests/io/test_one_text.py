"""A value of a frame has one text, whatever dtype its column has: pandas chooses dtypes by looking at all cells.

Each table is read as a user reads it, with and without one odd cell. All other rows that have equal values have equal
texts. Keys that are floats are refused by the dtype alone.
"""

import enum
import io
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from dtypes import alike, rows_alike

from medsynth.errors import SchemaError, TableError
from medsynth.fitting.private_rows import order_of_rows, patients
from medsynth.fitting.private_table import TYPED_FRAME, open_table
from medsynth.fitting.private_tables import private_tables
from medsynth.fitting.schema_check import check_schema
from medsynth.fitting.settings import TableSettings
from medsynth.io.reader import read, read_large
from medsynth.io.table import from_frame
from medsynth.schema import Schema
from medsynth.schema.linked import LinkedTables

LONG = [900000000000207008, 900000000000013009, 138875005000001104]
ARROW = [pa.bool_(), *(getattr(pa, f"{kind}{bits}")() for kind in ("int", "uint", "float") for bits in (16, 32, 64)),
         pa.decimal128(38, 0), pa.decimal128(38, 4), pa.decimal256(60, 9)]  # fmt: skip
DTYPES: list[Any] = [
    object, "category", *(f"{kind}{bits}" for kind in ("int", "uint", "float") for bits in (16, 32, 64)), "bool",
    *(f"{kind}{bits}" for kind in ("Int", "UInt") for bits in (16, 32, 64)), "Float32", "Float64", "boolean",
    np.longdouble, *(pd.SparseDtype(kind) for kind in (np.int64, np.float64, np.bool_)), *map(pd.ArrowDtype, ARROW),
]  # fmt: skip
EQUAL: dict[str, list[Any]] = {
    "True": [True, np.bool_(True)],
    "False": [False],
    "0": [0, 0.0, -0.0, Decimal("0.00"), Decimal("-0"), Decimal("0E+9"), np.uint8(0)],
    "1": [1, 1.0, Decimal("1"), Decimal("1.0000"), Fraction(1), np.float16(1), np.int8(1), np.longdouble(1)],
    "2.5": [2.5, Decimal("2.5"), Decimal("2.50"), Decimal("25E-1"), Fraction(5, 2), np.float32(2.5)],
    "900000000000207008": [LONG[0], np.int64(LONG[0]), Decimal(LONG[0]), Decimal("900000000000207008.00")],
    "1152921504606846976": [2**60, 2.0**60, np.float32(2.0**60), np.uint64(2**60), Decimal(2**60)],
    "18446744073709551615": [2**64 - 1, np.uint64(2**64 - 1), Decimal(2**64 - 1)],
    "1.8446744073709552e+19": [2**64, 2.0**64, Decimal(2**64)],
    "100000000000000000000000000000": [10**29, Decimal(10**29), Decimal("1E+29"), Decimal("1E+29").scaleb(0)],
    "1e+22": [1e22, 10**22, Decimal("1E+22")],
    "inf": [float("inf"), np.float32("inf"), Decimal("Infinity")],
    "0.1": [0.1, np.float64(0.1)],
    "0.125": [0.125, Decimal("0.1250"), np.float16(0.125)],
    "": [None, float("nan"), pd.NA, pd.NaT, Decimal("NaN"), np.float32("nan"), np.datetime64("NaT")],
    "nan": ["nan", np.str_("nan"), " nan "],
}


def cells(column: pd.Series) -> list[str]:
    return list(from_frame(pd.DataFrame({"x": column})).cells["x"])


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("text", EQUAL)
def test_equal_values_have_one_text_in_all_dtypes(text: str) -> None:
    typed = 0
    for value in EQUAL[text]:
        assert cells(pd.Series([value, "other"], dtype=object))[0] == text, value
        for dtype in DTYPES:
            try:
                column = pd.Series([value, value], dtype=object).astype(dtype)
            except (TypeError, ValueError, OverflowError, NotImplementedError, pa.ArrowException):
                continue
            if alike(column[0], value):
                assert cells(column) == [text, text], (value, dtype)
                typed += dtype is not object
    assert typed


def test_a_category_never_makes_a_truth_of_a_number() -> None:
    """pandas takes True and 1 for one category, and the first cell decides which."""
    for values in ([True, 0, 1, "x"], [0, True, 1], [True, False, "x"]):
        with pytest.raises(TableError, match="categories of the type bool"):
            cells(pd.Series(values, dtype=object).astype("category"))
    assert cells(pd.Series([True, None, False], dtype=object).astype("category")) == ["True", "", "False"]


ZONED = pd.Timestamp("2020-01-01 12:00", tz="UTC")


class Code(enum.StrEnum):
    """A text that equals another, and is written in another way."""

    HIV = "hiv"

    def __str__(self) -> str:
        return "HIV"


@pytest.mark.parametrize("pair", [(ZONED, ZONED.tz_convert("Asia/Tokyo")), (Code.HIV, "hiv"), (True, 1)])
def test_objects_that_are_equal_and_written_in_two_ways_are_no_categories(pair: tuple[Any, Any]) -> None:
    """pandas keeps one of two equal categories, or of two equal keys in several levels: the one it meets first."""
    column = pd.Series([*pair, "x"], dtype=object)
    with pytest.raises(TableError, match="categories of the type"):
        cells(column.astype("category"))
    index = pd.MultiIndex.from_arrays([column, range(3)], names=["key", "row"])
    with pytest.raises(TableError, match="categories of the type"):
        from_frame(pd.DataFrame({"x": [1, 2, 3]}, index=index))


def test_an_index_keeps_its_own_type(recwarn: pytest.WarningsRecorder) -> None:
    """`reset_index` makes floats of all keys in an index of objects if one of them is, and of a level with a gap."""
    for odd in (0.5, "x", None, 7):
        column = [*LONG, odd]
        index = pd.Index(column, dtype=object, name="key")
        for frame in (pd.DataFrame({"x": [1, 2, 3, 4]}, index=index), pd.DataFrame({"key": index, "x": [1, 2, 3, 4]})):
            table = from_frame(frame)
            assert table.cells["key"].tolist()[:3] == list(map(str, LONG)) and not table.floats
    whole = pd.array([*LONG, None], dtype="Int64")
    levels = pd.MultiIndex.from_arrays([whole, [1.0, 2.0, 3.0, 4.0]], names=["key", "time"])
    table = from_frame(pd.DataFrame({"x": [1, 2, 3, 4]}, index=levels))
    assert table.cells["key"].tolist() == [*map(str, LONG), ""] and table.floats == {"time"}
    found = pd.DataFrame({"ward": ["x", "y", None], "v": [1, 2, 3]}).groupby(["ward", "v"], dropna=False).first()
    assert from_frame(found).cells["ward"].tolist() == ["x", "y", ""]


def test_parquet_that_pandas_wrote_says_so(tmp_path: Path) -> None:
    """pandas gives all decimals the places of the longest; a database declares them."""
    for odd in ("2.5", "1.005"):
        frame = pd.DataFrame({"x": [Decimal("0.50"), Decimal("2.00"), Decimal(odd)], "y": ["a", "b", "c"]})
        frame.to_parquet(tmp_path / "t.parquet")
        table = read(tmp_path / "t.parquet")
        assert table.cells["x"].tolist() == ["0.5", "2", odd] and "types of its columns count as public" in table.form
    pq.write_table(pa.table({"x": pa.array([Decimal("0.50"), Decimal("2.00")])}), tmp_path / "t.parquet")
    table = read(tmp_path / "t.parquet")
    assert table.cells["x"].tolist() == ["0.50", "2.00"] and table.form == ""


FIELDS: dict[str, list[str]] = {
    "long codes": [*map(str, LONG), "7", "12", "15"],
    "exact long codes": [str(2**60), str(2**61), str(5 * 2**57), "7", "12", "15"],
    "whole": ["1", "2", "3", "40", "50", "6"],
    "decimals": ["1.5", "2.25", "3.0", "4", "5.125", "0.1"],
    "truths": ["True", "False", "True", "True", "False", "True"],
    "words": ["a", "b", "c", "d", "e", "f"],
    "days": [f"2020-0{k}-01" for k in range(1, 7)],
    "whole floats": ["1.0", "2.0", "3.0", "4.0", "5.0", "6.0"],
    "mixed": ["x", "7", "1.0", "True", "", "007"],
}
ODD = ["", "x", "1.5", "2.0", "-1", "1e3", "18446744073709551615", "99999999999999999999", "NA", "007", "True", "inf",
       " 5", "+5", "0x1F", "2020-01-01", "1e400", "-0"]  # fmt: skip
HOWS: dict[str, Callable[[Any], pd.DataFrame]] = {
    "plain": pd.read_csv,
    "nullable": lambda file: pd.read_csv(file, dtype_backend="numpy_nullable"),
    "pyarrow": lambda file: pd.read_csv(file, dtype_backend="pyarrow"),
    "converted": lambda file: pd.read_csv(file).convert_dtypes(),
    "to Arrow": lambda file: pd.read_csv(file).convert_dtypes(dtype_backend="pyarrow"),
    "categories": lambda file: pd.read_csv(file).astype("category"),
    "texts": lambda file: pd.read_csv(file, dtype=str, keep_default_na=False),
}


def lines(columns: dict[str, list[str]]) -> str:
    return "\n".join(",".join(row) for row in [list(columns), *zip(*columns.values(), strict=True)]) + "\n"


@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("how", HOWS)
def test_an_odd_cell_of_a_file_that_pandas_reads_is_one_cell(how: str, tmp_path: Path) -> None:
    read_frame, row = HOWS[how], 3
    usual = read_frame(io.StringIO(lines(FIELDS)))
    texts = from_frame(usual).cells
    for odd in ODD:
        other = {name: [*fields[:row], odd, *fields[row + 1 :]] for name, fields in FIELDS.items()}
        frame = read_frame(io.StringIO(lines(other)))
        found = from_frame(frame).cells
        for name in FIELDS:
            same = rows_alike(usual[name], frame[name], row)
            assert list(texts[name][same]) == list(found[name][same]), (name, odd)
            assert len(same) == 5 or how != "texts"
        assert list(found["truths"].drop(index=row)) == ["True", "False", "True", "False", "True"]
        if how == "texts":
            (tmp_path / "t.csv").write_text(lines(other))
            pd.testing.assert_frame_equal(found, read(tmp_path / "t.csv").cells)


def arrow(values: list[Any], kind: pa.DataType) -> pd.Series:
    plain = getattr(kind, "value_type", kind)
    stored = pa.array(values).cast(plain)
    stored = stored if plain == kind else stored.dictionary_encode()
    return pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([stored])))


WHOLE = [1.0, 2.0, 3.0, 4.0]
FLOATS: dict[str, pd.Series] = {
    **{name: pd.Series(WHOLE, dtype=name) for name in ("float16", "float32", "float64", "Float32", "Float64")},
    "longdouble": pd.Series(WHOLE, dtype=np.longdouble),
    "categories": pd.Series(WHOLE).astype("category"),
    "sparse": pd.Series(pd.arrays.SparseArray(np.array(WHOLE))),
    "intervals": pd.Series(pd.IntervalIndex.from_breaks([0.0, *WHOLE])),
    **{str(kind): arrow(WHOLE, kind) for kind in (pa.float16(), pa.float32(), pa.float64())},
    "dictionary": arrow(WHOLE, pa.dictionary(pa.int32(), pa.float64())),
}
NO_FLOATS: dict[str, pd.Series] = {
    **{name: pd.Series(LONG + [5], dtype=name) for name in ("int64", "uint64", "Int64", "UInt64", "object", "string")},
    "numbers of both kinds": pd.Series([0.5, *LONG], dtype=object),
    "categories": pd.Series(LONG + [5]).astype("category"),
    "Arrow": arrow(LONG + [5], pa.int64()),
    "dictionary": arrow(LONG + [5], pa.dictionary(pa.int32(), pa.int64())),
    "decimals": arrow(LONG + [5], pa.decimal128(20, 0)),
    "texts of Arrow": arrow(["a", "b", "c", "d"], pa.string()),
}
KEY, COUNT = {"kind": "identifier"}, {"kind": "count", "bounds": [0, 9]}
SICK = {"kind": "binary", "levels": [0, 1]}
COLUMNS = {"key": KEY, "when": KEY, "n": COUNT, "sick": SICK}
DECLARED: dict[str, Any] = {"name": "t", "target": "sick", "max_rows": 2, "columns": COLUMNS}
LINKED = LinkedTables.from_dict({"name": "x", "key": "key", "tables": {
    "first": {"columns": {"key": KEY, "sick": SICK}},
    "later": {"columns": {"key": KEY, "when": KEY, "n": COUNT}, "order": "when", "max_rows": 2},
}})  # fmt: skip


def frame_of(**changed: pd.Series) -> pd.DataFrame:
    numbers = [1, 2, 3, 4]
    return pd.DataFrame({"key": numbers, "when": numbers, "n": numbers, "sick": [0, 1, 0, 1], **changed})


def quiet(text: str) -> None:
    """Drop a notice."""


def linked(frame: pd.DataFrame) -> None:
    parts = frame[["key", "sick"]], frame[["key", "when", "n"]]
    private_tables(LINKED, {"first": from_frame(parts[0]), "later": from_frame(parts[1])})


UNIT = Schema.from_dict({**DECLARED, "unit": "key"})
ORDER = Schema.from_dict({**DECLARED, "unit": "key", "order": "when"})
ROUTES: dict[str, tuple[str, Callable[[pd.DataFrame], Any]]] = {
    "declared": ("key", lambda frame: open_table(frame, TableSettings(schema=UNIT), quiet)),
    "bare": ("key", lambda frame: open_table(frame, TableSettings(target="sick", unit="key"), quiet)),
    "patients": ("key", lambda frame: patients(from_frame(frame), "key")),
    "order": ("when", lambda frame: open_table(frame, TableSettings(schema=ORDER), quiet)),
    "several tables": ("key", linked),
    "order of several tables": ("when", linked),
}


@pytest.mark.parametrize("route", ROUTES)
def test_keys_that_are_floats_are_refused_by_their_dtype(route: str) -> None:
    """Also whole ones, none of them missing; other dtypes never are, whatever numbers they contain."""
    name, read_frame = ROUTES[route]
    for column in FLOATS.values():
        with pytest.raises(SchemaError, match=f"column '{name}' has a type of floats, which rounds its keys. Read it"):
            read_frame(frame_of(**{name: column}))
    for column in NO_FLOATS.values():
        read_frame(frame_of(**({"key": column, "when": column} if name == "when" else {name: column})))


def test_keys_of_a_parquet_file_are_refused_by_its_schema(tmp_path: Path) -> None:
    """Read as a whole and in pieces; an index of floats is a column, too."""
    path = tmp_path / "t.parquet"
    for column in (pd.Series(WHOLE), arrow(WHOLE, pa.float32()), pd.Series(WHOLE).astype("category")):
        frame_of(key=column).to_parquet(path)
        for settings in (TableSettings(schema=UNIT), TableSettings(target="sick", unit="key")):
            for table in (path, read_large(path)):
                with pytest.raises(SchemaError, match="column 'key' has a type of floats"):
                    open_table(table, settings, quiet)
        assert "type of floats" in check_schema(path, unit_file(tmp_path)).problems[0]
    by_key = frame_of().drop(columns="key").set_index(pd.Index(WHOLE, name="key"))
    by_key.to_parquet(path)
    indexed: list[Path | pd.DataFrame] = [path, by_key]
    for one in indexed:
        with pytest.raises(SchemaError, match="column 'key' has a type of floats"):
            open_table(one, TableSettings(schema=UNIT), quiet)
    frame_of().to_parquet(path)
    open_table(path, TableSettings(schema=UNIT), quiet)


def unit_file(folder: Path) -> Path:
    (folder / "t.yaml").write_text(UNIT.to_yaml())
    return folder / "t.yaml"


def test_an_order_of_numbers_may_be_floats() -> None:
    """Its rows ascend by their values, which have fewer digits than a float."""
    columns = {**COLUMNS, "when": {"kind": "count", "bounds": [0, 10**9]}}
    schema = Schema.from_dict({**DECLARED, "unit": "key", "order": "when", "columns": columns})
    ranks = [order_of_rows(open_table(frame_of(when=pd.Series(when)), TableSettings(schema=schema), quiet).data, schema)
             for when in ([10**9, 5, 7, 9], [10**9, 5, 0.5, 9])]  # fmt: skip
    assert list(ranks[0][[0, 1, 3]]) == list(ranks[1][[0, 1, 3]])


CODES: dict[str, dict[str, Any]] = {
    "levels": {"kind": "categorical", "levels": LONG, "unknown": "missing", "missing": True},
    "levels as texts": {"kind": "categorical", "levels": [*map(str, LONG), "x"], "unknown": "x"},
    "a code of missing values": {**COUNT, "missing": [9999999999999999]},
    "a tree": {"kind": "categorical", "unknown": "rest", "hierarchy": {"a": [*map(str, LONG)], "b": ["c", "rest"]}},
}


@pytest.mark.parametrize("name", CODES)
def test_declared_codes_of_more_than_15_digits_need_another_type_than_floats(name: str, tmp_path: Path) -> None:
    columns = {"code": CODES[name], "sick": SICK}
    schema = Schema.from_dict({"name": "t", "target": "sick", "columns": columns})
    settings, sick = TableSettings(schema=schema), [0, 1, 0, 1]
    for numbers in ([*LONG, 0.5], [1.0, 2.0, 3.0, 4.0]):
        frame = pd.DataFrame({"code": numbers, "sick": sick}, dtype=float)
        frame.to_parquet(tmp_path / "t.parquet")
        for table in (frame, tmp_path / "t.parquet"):
            with pytest.raises(SchemaError, match="'code' has a type of floats, which rounds declared codes of more"):
                open_table(table, settings, quiet)
    for column in (pd.Series([*LONG, 5], dtype="Int64"), pd.Series([*LONG, 0.5], dtype=object)):
        open_table(pd.DataFrame({"code": column, "sick": sick}), settings, quiet)


def test_a_fit_of_typed_columns_says_that_types_are_public() -> None:
    """Once, by the dtypes alone; columns of texts need no notice."""

    def notices(column: pd.Series, **more: Any) -> int:
        found = list[str]()
        frame = pd.DataFrame({"x": column, "sick": ["a", "b", "a", "b"], **more})
        open_table(frame, TableSettings(target="sick"), found.append)
        return found.count(TYPED_FRAME)

    words = pd.Series(["1", "2", "", "x"])
    for dtype in ("object", "string[python]", "string[pyarrow]", "category", pd.ArrowDtype(pa.string())):
        assert notices(words.astype(dtype)) == 0, dtype
    assert notices(arrow(["a", "b", "c", "d"], pa.dictionary(pa.int32(), pa.string()))) == 0
    typed = [*FLOATS.values(), pd.Series([1, 2, 3, 4]), pd.Series([True, False, True, False]),
             pd.Series(pd.date_range("2020", periods=4)), pd.Series([1, None, 3, 4], dtype="Int64"),
             pd.Series([1, 2, 3, 4]).astype("category"), arrow([1, 2, 3, 4], pa.int64())]  # fmt: skip
    for column in typed:
        assert notices(column) == notices(column, other=column) == 1, column.dtype
