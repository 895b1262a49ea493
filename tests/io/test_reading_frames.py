"""What a frame or a Parquet file may contain: single values under names that are texts. An index with a name counts."""

import datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from medsynth.errors import TableError
from medsynth.io.reader import read
from medsynth.io.table import Table, from_frame

CANARY = "7431"  # Stands in the cells of all frames below, and must be in no message.
FRAME = pd.DataFrame({"x": [7431, 2, 3], "y": ["a", "b", "c"]})


def both(frame: pd.DataFrame, folder: Path) -> dict[str, Table | str]:
    """The table, or the message of its refusal, from the frame and from its Parquet file."""
    found = dict[str, Table | str]()
    path = folder / "t.parquet"
    frame.to_parquet(path)
    for name, source in (("frame", frame), ("parquet", path)):
        try:
            found[name] = from_frame(source) if isinstance(source, pd.DataFrame) else read(source)
        except TableError as error:
            found[name] = str(error)
            assert CANARY not in str(error)
    return found


class Silent:
    """An object whose text is its place in memory."""


OBJECTS: dict[str, tuple[Any, str]] = {
    "a list": ([7431], "lists"),
    "an empty list": ([], "lists"),
    "a tuple": ((7431, 2), "tuples"),
    "a dictionary": ({"a": 7431}, "dictionaries"),
    "a set": ({7431}, "sets"),
    "a frozen set": (frozenset({7431}), "sets"),
    "an array": (np.array([7431, 2]), "arrays"),
    "an array of one": (np.array(7431), "arrays"),
    "an array of pandas": (pd.array([7431]), "arrays"),
    "a series": (pd.Series([7431]), "series"),
    "an index": (pd.Index([7431]), "indexes"),
    "a frame": (FRAME, "frames"),
    "bytes": (b"7431", "bytes"),
    "bytes of numpy": (np.bytes_(b"7431"), "bytes"),
    "bytes that change": (bytearray(b"7431"), "bytes"),
    "a view of bytes": (memoryview(b"7431"), "bytes"),
    "a complex number": (7431 + 1j, "complex numbers"),
    "a complex number of numpy": (np.complex64(7431 + 1j), "complex numbers"),
    "a record": (np.array([(7431, 1)], "i4,i4")[0], "records"),
    "an object": (Silent(), "objects without a text"),
}


@pytest.mark.parametrize("dtype", ["object", "category"])
@pytest.mark.parametrize("name", OBJECTS)
def test_a_cell_that_is_not_a_single_value_is_refused_by_its_columns_name(name: str, dtype: str) -> None:
    """One such cell suffices: that a frame has single values is declared, as docs/privacy.md lists."""
    cell, words = OBJECTS[name]
    column = pd.Series([7431, "a", None, cell], dtype=object, name="dose")
    if dtype == "category":
        try:
            column = column.astype("category")
        except (TypeError, ValueError):
            pytest.skip("no category of these")
    with pytest.raises(TableError, match=f"column 'dose' contains {words}. Give each part its own column") as error:
        from_frame(pd.DataFrame({"age": [1, 2, 3, 4], "dose": column}))
    assert CANARY not in str(error.value)


def test_complex_columns_are_refused_by_their_type() -> None:
    for kind in (np.complex64, np.complex128):
        with pytest.raises(TableError, match="column 'dose' contains complex numbers"):
            from_frame(pd.DataFrame({"dose": np.array([1, 2], kind)}))


LISTS, BYTES = "lists or structures", "bytes"
NESTED: dict[str, tuple[pa.DataType, Any, str]] = {
    "list": (pa.list_(pa.int64()), [7431], LISTS),
    "large list": (pa.large_list(pa.int64()), [7431], LISTS),
    "list of one": (pa.list_(pa.int64(), 1), [7431], LISTS),
    "structure": (pa.struct({"a": pa.int64()}), {"a": 7431}, LISTS),
    "map": (pa.map_(pa.string(), pa.int64()), [("a", 7431)], LISTS),
    "list of structures": (pa.list_(pa.struct({"a": pa.int64()})), [{"a": 7431}], LISTS),
    "binary": (pa.binary(), b"7431", BYTES),
    "large binary": (pa.large_binary(), b"7431", BYTES),
    "binary of four": (pa.binary(4), b"7431", BYTES),
    "view": (pa.binary_view(), b"7431", BYTES),
    "dictionary": (pa.dictionary(pa.int32(), pa.binary()), b"7431", BYTES),
}


@pytest.mark.parametrize("cells", ["values", "missing"])
@pytest.mark.parametrize("name", NESTED)
def test_types_without_single_values_are_refused_alike_whatever_the_cells(
    name: str, cells: str, tmp_path: Path
) -> None:
    """Arrow names the type, so that no cell decides."""
    kind, value, words = NESTED[name]
    column = pa.array([value if cells == "values" else None] * 3, kind)
    pq.write_table(pa.table({"age": [1, 2, 3], "dose": column}), tmp_path / "t.parquet")
    match = f"column 'dose' contains {words}. Give each part its own column"
    with pytest.raises(TableError, match=match) as error:
        read(tmp_path / "t.parquet")
    assert CANARY not in str(error.value)
    with pytest.raises(TableError, match=match):
        from_frame(pd.DataFrame({"dose": pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([column])))}))


NAMES: dict[str, tuple[Any, str]] = {
    "two rows of names": (pd.MultiIndex.from_tuples([("a", "x"), ("a", "y")]), "each column has 2 names"),
    "three rows of names": (pd.MultiIndex.from_tuples([("a", "x", 1), ("a", "y", 1)]), "each column has 3 names"),
    "numbers": (pd.RangeIndex(2), "int.*rename"),
    "numbers and texts": (["a", 1], "int.*rename"),
    "floats": ([0.5, 1.5], "float.*rename"),
    "days": (pd.to_datetime(["2020-01-01", "2021-01-01"]), "Timestamp.*rename|datetime64.*rename"),
    "dates": ([datetime.date(2020, 1, 1), datetime.date(2021, 1, 1)], "date.*rename"),
}


@pytest.mark.filterwarnings("ignore:The DataFrame has column names:UserWarning")
@pytest.mark.parametrize("name", NAMES)
def test_names_that_would_not_come_back_are_refused_alike(name: str, tmp_path: Path) -> None:
    names, match = NAMES[name]
    for message in both(FRAME.set_axis(names, axis=1), tmp_path).values():
        assert isinstance(message, str) and pd.Series([message]).str.contains(match)[0], message


def test_two_columns_of_one_name_are_named(tmp_path: Path) -> None:
    with pytest.raises(TableError, match="columns 1 and 3 have the same name. Rename"):
        from_frame(pd.concat([FRAME, FRAME[["x"]]], axis=1))
    columns = [pa.array([1, 2]), pa.array(["a", "b"]), pa.array([3, 4])]
    pq.write_table(pa.Table.from_arrays(columns, names=["x", "y", "x"]), tmp_path / "t.parquet")
    with pytest.raises(TableError, match="columns 1 and 3 have the same name. Rename"):
        read(tmp_path / "t.parquet")


INDEXES: dict[str, tuple[Any, tuple[str, ...]]] = {
    "row numbers": (pd.RangeIndex(3), ()),
    "other row numbers": (pd.RangeIndex(10, 4, -2), ()),
    "some rows": (pd.Index([4, 9, 2]), ()),
    "texts": (pd.Index(["p", "q", "q"]), ()),
    "keys": (pd.Index(["p", "q", "q"], name="who"), ("who",)),
    "numbered keys": (pd.RangeIndex(3, name="row"), ("row",)),
    "days": (pd.DatetimeIndex(["2020-01-01"] * 3, name="day"), ("day",)),
    "categories": (pd.CategoricalIndex(["u", "v", "u"], name="ward"), ("ward",)),
    "keys and visits": (pd.MultiIndex.from_arrays([list("ppq"), [1, 2, 1]], names=["who", "visit"]), ("who", "visit")),
    "keys and rows": (pd.MultiIndex.from_arrays([list("ppq"), [1, 2, 1]], names=["who", None]), ("who", "level_1")),
    "no names": (pd.MultiIndex.from_arrays([list("ppq"), [1, 2, 1]]), ("level_0", "level_1")),
}


@pytest.mark.parametrize("name", INDEXES)
def test_an_index_with_a_name_is_a_column_alike(name: str, tmp_path: Path) -> None:
    """As in `to_csv` and `to_parquet`; row numbers without a name are left out."""
    index, names = INDEXES[name]
    frame = FRAME.set_axis(index)
    found = both(frame, tmp_path)
    one, two = found["frame"], found["parquet"]
    assert isinstance(one, Table) and isinstance(two, Table)
    assert one.header == two.header == (*names, "x", "y")
    pd.testing.assert_frame_equal(one.cells, two.cells)
    assert one.cells["x"].tolist() == ["7431", "2", "3"]
    if "who" in names:
        assert one.cells["who"].tolist() == list(frame.index.get_level_values("who"))


def test_an_index_with_the_name_of_a_column_is_refused(tmp_path: Path) -> None:
    for message in both(FRAME.set_axis(pd.Index([1, 2, 3], name="y")), tmp_path).values():
        assert isinstance(message, str) and "columns 1 and 3 have the same name" in message


def test_the_name_of_all_columns_is_not_one_of_them(tmp_path: Path) -> None:
    """As `pivot` leaves it."""
    for table in both(FRAME.rename_axis(columns="measure"), tmp_path).values():
        assert isinstance(table, Table) and table.header == ("x", "y")
