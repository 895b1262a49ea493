"""What comes back of each dtype, by each route: what is declared comes back as declared, else the kind's own.

A fit reads no dtype, since dtypes depend on cells. So without a schema, columns of one kind come back alike, whatever
type they had. `schema.with_dtypes(frame)` declares types, and then each comes back as it was.
"""

import datetime
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from held import FixedReleases, measure_alone, released

import medsynth
from medsynth import rng
from medsynth.errors import TIMES, Message
from medsynth.io.table import from_frame
from medsynth.io.writer import write
from medsynth.schema import Schema
from medsynth.schema.codec import decode, encode

pytestmark = pytest.mark.usefixtures("quick", "seeded_entropy")

ROWS, EPSILON = 300, 4000.0
DRAW = np.random.default_rng(0)
WHOLE = DRAW.integers(20, 60, ROWS)
TENTHS = np.round(DRAW.uniform(20, 60, ROWS), 1)
TRUTH = DRAW.random(ROWS) < 0.4
WORDS = DRAW.choice(["a", "b", "c"], ROWS)
DAYS = pd.Series(pd.to_datetime("2020-01-01") + pd.to_timedelta(DRAW.integers(0, 300, ROWS), unit="D"))
MOMENTS = pd.Series(pd.to_datetime("2020-01-01") + pd.to_timedelta(DRAW.integers(0, 300 * 86_400, ROWS), unit="s"))
ZONED = MOMENTS.dt.tz_localize("Europe/Zurich", ambiguous="NaT", nonexistent="shift_forward").ffill()
GONE = DRAW.random(ROWS) < 0.2
NO_VALUES: list[Any] = [None] * ROWS


class Back(NamedTuple):
    """A column, with what comes back of it without a schema, and with a schema of this `column`."""

    cells: pd.Series
    dtype: str  # of sampled values
    stored: str  # in Parquet
    column: dict[str, Any]


def arrow(values: Any, kind: pa.DataType) -> pd.Series:
    return pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([pa.array(list(values), kind, from_pandas=True)])))


COUNT: dict[str, Any] = {"kind": "count", "bounds": [0, 100]}
NUMBER: dict[str, Any] = {"kind": "continuous", "bounds": [0, 100], "decimals": 1}
TRUTHS: dict[str, Any] = {"kind": "binary", "levels": [False, True]}
LEVELS: dict[str, Any] = {"kind": "categorical", "levels": ["c", "b", "a", "never seen"]}
DAY: dict[str, Any] = {"kind": "date", "bounds": ["2019-01-01", "2021-12-31"]}
MOMENT: dict[str, Any] = {**DAY, "resolution": "second", "format": "%Y-%m-%d %H:%M:%S"}
CLOCK: dict[str, Any] = {"kind": "date", "bounds": ["1900-01-01", "1900-01-01"], "resolution": "second",
                         "format": "%H:%M:%S"}  # fmt: skip
GAPS: dict[str, Any] = {"missing": True}
KEPT: dict[str, Any] = {"missing": True, "unknown": "missing"}
EMPTY: dict[str, Any] = {**LEVELS, **GAPS}
SPANS = pd.Series(pd.to_timedelta(WHOLE % 3, unit="D"))
TIMES_OF_DAY = [datetime.time(8 + k % 3, 30) for k in range(ROWS)]


def words_of(values: pd.Series) -> dict[str, Any]:
    return {"kind": "categorical", "levels": sorted(set(from_frame(pd.DataFrame({"x": values})).cells["x"]))}


def table() -> dict[str, Back]:
    days = [day.date() for day in DAYS]
    listed = pd.CategoricalDtype(["c", "b", "a", "never seen"])
    ranked = pd.CategoricalDtype(listed.categories, ordered=True)
    gaps = {**NUMBER, **KEPT}
    found = {
        "int64": Back(pd.Series(WHOLE), "int64", "int64", COUNT),
        "int16": Back(pd.Series(WHOLE, dtype="int16"), "int64", "int64", COUNT),
        "uint8": Back(pd.Series(WHOLE, dtype="uint8"), "int64", "int64", COUNT),
        "Int64": Back(pd.Series(WHOLE, dtype="Int64"), "int64", "int64", COUNT),
        "Int64, missing": Back(pd.Series(WHOLE, dtype="Int64").mask(GONE), "Int64", "int64", {**COUNT, **KEPT}),
        "whole floats": Back(pd.Series(WHOLE * 1.0), "int64", "int64", COUNT),
        "whole floats, missing": Back(pd.Series(WHOLE * 1.0).mask(GONE), "Int64", "int64", {**COUNT, **KEPT}),
        "float64": Back(pd.Series(TENTHS), "float64", "double", NUMBER),
        "float32": Back(pd.Series(TENTHS, dtype="float32"), "float64", "double", NUMBER),
        "Float64, missing": Back(pd.Series(TENTHS, dtype="Float64").mask(GONE), "float64", "double", gaps),
        "bool": Back(pd.Series(TRUTH), "bool", "bool", TRUTHS),
        "boolean": Back(pd.Series(TRUTH, dtype="boolean"), "bool", "bool", TRUTHS),
        "boolean, missing": Back(pd.Series(TRUTH, dtype="boolean").mask(GONE), "boolean", "bool", {**TRUTHS, **GAPS}),
        "bool, missing": Back(pd.Series(TRUTH).astype(object).mask(GONE, None), "boolean", "bool", {**TRUTHS, **GAPS}),
        "words": Back(pd.Series(WORDS, dtype=object), "object", "string", LEVELS),
        "string": Back(pd.Series(WORDS, dtype="string[python]"), "object", "string", LEVELS),
        "string of Arrow": Back(pd.Series(WORDS, dtype="string[pyarrow]"), "object", "string", LEVELS),
        "category": Back(pd.Series(WORDS).astype(listed), "object", "string", LEVELS),
        "ordered": Back(pd.Series(WORDS).astype(ranked), "object", "string", {**LEVELS, "kind": "ordinal"}),
        "category of numbers": Back(pd.Series(WHOLE % 3).astype("category"), "int64", "int64",
                                    {"kind": "categorical", "levels": [0, 1, 2]}),
        "days": Back(DAYS, "datetime64[ns]", "date32[day]", DAY),
        "days in us": Back(DAYS.dt.as_unit("us"), "datetime64[ns]", "date32[day]", DAY),
        "dates": Back(pd.Series(days), "datetime64[ns]", "date32[day]", DAY),
        "moments": Back(MOMENTS, "datetime64[ns]", "timestamp[ns]", MOMENT),
        "moments in s": Back(MOMENTS.dt.as_unit("s"), "datetime64[ns]", "timestamp[ns]", MOMENT),
        "zoned": Back(ZONED, "datetime64[ns]", "timestamp[ns]", MOMENT),
        "days in UTC": Back(DAYS.dt.tz_localize("UTC"), "datetime64[ns]", "date32[day]", DAY),
        "spans": Back(SPANS, "object", "string", words_of(SPANS)),
        "months": Back(pd.Series(pd.PeriodIndex(DAYS, freq="M")), "object", "string", {}),
        "ranges": Back(pd.Series(pd.cut(WHOLE, [0, 30, 40, 60])), "object", "string", {}),
        "times of day": Back(pd.Series(TIMES_OF_DAY), "object", "string", CLOCK),
        "decimals": Back(pd.Series([Decimal(str(k)) for k in TENTHS]), "float64", "double", {}),
        "sparse": Back(pd.Series(pd.arrays.SparseArray(WHOLE)), "int64", "int64", {}),
        "Arrow int64": Back(arrow(WHOLE, pa.int64()), "int64", "int64", COUNT),
        "Arrow double": Back(arrow(TENTHS, pa.float64()), "float64", "double", NUMBER),
        "Arrow float": Back(arrow(TENTHS, pa.float32()), "float64", "double", NUMBER),
        "Arrow bool": Back(arrow(TRUTH, pa.bool_()), "bool", "bool", TRUTHS),
        "Arrow string": Back(arrow(WORDS, pa.string()), "object", "string", LEVELS),
        "Arrow large string": Back(arrow(WORDS, pa.large_string()), "object", "string", LEVELS),
        "dictionary": Back(arrow(WORDS, pa.dictionary(pa.int32(), pa.string())), "object", "string", LEVELS),
        "date32": Back(arrow(days, pa.date32()), "datetime64[ns]", "date32[day]", DAY),
        "date64": Back(arrow(days, pa.date64()), "datetime64[ns]", "date32[day]", DAY),
        "timestamp": Back(arrow(MOMENTS, pa.timestamp("us")), "datetime64[ns]", "timestamp[ns]", MOMENT),
        "zoned timestamp": Back(arrow(ZONED, pa.timestamp("us", "Europe/Zurich")), "datetime64[ns]", "timestamp[ns]",
                                MOMENT),
        "decimal128": Back(arrow([Decimal(str(k)) for k in TENTHS], pa.decimal128(9, 1)), "float64", "double", NUMBER),
        "time32": Back(arrow(TIMES_OF_DAY, pa.time32("s")), "object", "string", CLOCK),
        "time64": Back(arrow(TIMES_OF_DAY, pa.time64("us")), "object", "string", CLOCK),
        "duration": Back(arrow(SPANS, pa.duration("us")), "object", "string", words_of(SPANS)),
    }  # fmt: skip
    for name, dtype in (("float64", "float64"), ("object", "object"), ("Int64", "Int64"), ("boolean", "boolean"),
                        ("moments", "datetime64[ns]"), ("zoned", "datetime64[ns, UTC]"), ("string", "string[python]"),
                        ("spans", "timedelta64[ns]")):  # fmt: skip
        found[f"no {name}"] = Back(pd.Series(NO_VALUES, dtype=dtype), "object", "string", EMPTY)
    found["no category"] = Back(pd.Series(NO_VALUES).astype(listed), "object", "string", EMPTY)
    found["no levels"] = Back(pd.Series(pd.Categorical(NO_VALUES)), "object", "string", {})
    found["no months"] = Back(pd.Series(pd.PeriodIndex(NO_VALUES, freq="M")), "object", "string", {})
    found["no Arrow"] = Back(arrow(NO_VALUES, pa.null()), "object", "string", {})
    for name, kind in (("int64", pa.int64()), ("string", pa.string()), ("date32", pa.date32()), ("bool", pa.bool_())):
        found[f"no Arrow {name}"] = Back(arrow(NO_VALUES, kind), "object", "string", EMPTY)
    return found


TABLE = table()
IN_PARQUET = [name for name in TABLE if name not in ("sparse", "ranges", "no levels")]  # the others cannot be stored


def stored(frame: pd.DataFrame, days: Any = ()) -> pa.Table:
    """The Parquet file of sampled rows, as it is written."""
    file = pa.BufferOutputStream()
    write({"t": file}, Path("t.parquet"), [{"t": frame}, {"t": frame}], [], {"t": days})
    return pq.read_table(pa.BufferReader(file.getvalue()))


@pytest.mark.nightly
@pytest.mark.matrix
@pytest.mark.parametrize("route", ["frame", "parquet"])
def test_what_comes_back_of_each_dtype_without_a_schema(
    route: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kinds are measured: they give the same dtype by each route. Levels that no row has do not appear.

    The noise is fixed: in one fit of twenty it alone shows a code of missing values in some column.
    """
    monkeypatch.setattr(rng, "system_entropy", lambda: rng.SeededEntropy(2))
    names = list(TABLE) if route == "frame" else IN_PARQUET
    frame = pd.DataFrame({name: TABLE[name].cells for name in names})
    frame["sick"] = np.where(TRUTH, "yes", "no")
    notices = list[str]()
    source: Any = frame
    if route == "parquet":
        source = tmp_path / "t.parquet"
        frame.to_parquet(source)
    model = medsynth.fit(
        source,
        epsilon=EPSILON,
        anyway=True,
        target="sick",
        method="independent",
        seed=1,
        notice=notices.append,
        delta=1e-6,
    )
    drawn = model.sample(ROWS, seed=1)
    types = {field.name: str(field.type) for field in stored(drawn, model.schema.days).schema}
    found = {name: (str(drawn[name].dtype), types[name]) for name in names}
    assert found == {name: (TABLE[name].dtype, TABLE[name].stored) for name in names}
    for name in names:
        texts, drawn_texts = (set(from_frame(f[[name]]).cells[name]) for f in (frame, drawn))
        assert drawn[name].isna().all() == frame[name].isna().all(), name
        assert "never seen" not in drawn_texts, name
        if drawn[name].dtype == object and TABLE[name].column != CLOCK:  # times of a day are numbers
            assert drawn_texts - {"other"} <= texts, name  # noise may make rarer levels likely
    assert any(Message.of(text).about.kind == TIMES and "zoned" in text and "zone" in text for text in notices)


DECLARED = [name for name, back in TABLE.items() if back.column]


@pytest.mark.matrix
@pytest.mark.parametrize("name", DECLARED)
def test_a_declared_dtype_comes_back_as_it_was(name: str) -> None:
    """Also its levels that no row has, its unit and its zone."""
    back = TABLE[name]
    frame = pd.DataFrame({name: back.cells})
    columns = {name: back.column, "sick": {"kind": "binary", "levels": ["no", "yes"]}}
    schema = Schema.from_dict({"name": "t", "columns": columns}).with_dtypes(frame)
    schema = Schema.from_yaml(schema.to_yaml())
    frame["sick"] = "no"
    drawn = decode(encode(from_frame(frame), schema), schema)[name]
    if name in ("dates", "times of day"):  # of objects: dates and times come back as texts
        assert drawn.dtype == object and list(drawn) == list(map(str, back.cells))
        return
    pd.testing.assert_series_equal(drawn, back.cells, check_names=False)
    if isinstance(back.cells.dtype, pd.CategoricalDtype):
        assert drawn.cat.categories.tolist() == list(back.column["levels"])
    if name == "dictionary":
        assert "never seen" in str(drawn.array.__arrow_array__().chunks[0].dictionary)
    columns_back = pq.read_table(pa.BufferReader(_file(pd.DataFrame({name: drawn})))).to_pandas()[name]
    assert columns_back.isna().all() == drawn.isna().all()
    if isinstance(back.cells.dtype, pd.ArrowDtype):
        assert stored(pd.DataFrame({name: drawn})).schema.field(name).type.equals(_plain(back.cells.dtype))


def _plain(dtype: Any) -> pa.DataType:
    """What Parquet keeps of a type: it has no times in seconds and no days in milliseconds."""
    return {"time32[s]": pa.time32("ms"), "date64[ms]": pa.date32()}.get(str(dtype.pyarrow_dtype), dtype.pyarrow_dtype)


def _file(frame: pd.DataFrame) -> Any:
    file = pa.BufferOutputStream()
    write({"t": file}, Path("t.parquet"), [{"t": frame}], [], {"t": ()})
    return file.getvalue()


def test_levels_of_a_category_stay_in_parquet() -> None:
    drawn = TABLE["category"].cells
    again = stored(pd.DataFrame({"x": drawn})).to_pandas()["x"]
    assert again.cat.categories.tolist() == ["c", "b", "a", "never seen"]


@pytest.mark.matrix
@pytest.mark.parametrize("dtype", [
    "datetime64[ns, Europe/Zurich]", "datetime64[s, UTC]", "datetime64[us, +01:00]", "timedelta64[ns]",
    "arrow:timestamp[us, tz=America/New_York]", "arrow:timestamp[ms]", "arrow:date32[day]", "arrow:time64[ns]",
    "arrow:decimal128(38, 2)", "arrow:duration[s]", "arrow:dictionary<values=string, indices=int8, ordered=1>",
])  # fmt: skip
def test_dtypes_that_a_schema_may_declare(dtype: str) -> None:
    found = Schema.from_dict({"name": "t", "columns": {"x": {**LEVELS, "dtype": dtype}, "y": TRUTHS}})
    assert found.columns["x"].dtype == dtype


@pytest.mark.matrix
@pytest.mark.parametrize("dtype", [
    "datetime64[ns, Nowhere/City]", "datetime64[ns, dateutil//etc/passwd]", "datetime64[ns, tzlocal()]",
    "arrow:timestamp[us, tz=../../etc/passwd]", "arrow:decimal128(99, 2)", "arrow:decimal128(9)", "arrow:list<int64>",
    "arrow:dictionary<values=binary, indices=int8, ordered=0>", "complex128", "period[M]", "Sparse[float64, nan]",
])  # fmt: skip
def test_dtypes_that_no_schema_may_declare(dtype: str) -> None:
    with pytest.raises(medsynth.MedsynthError, match="dtype"):
        Schema.from_dict({"name": "t", "columns": {"x": {**LEVELS, "dtype": dtype}, "y": TRUTHS}})


def test_hours_that_a_zone_shows_twice_or_never() -> None:
    """Clocks go back on 25 October 2020 and forward on 29 March: the first of two moments, and the end of the gap."""
    schema = Schema.from_dict({
        "name": "t", "columns": {"x": {**MOMENT, "dtype": "datetime64[ns, Europe/Zurich]"}, "y": TRUTHS}
    })  # fmt: skip
    frame = pd.DataFrame({"x": ["2020-10-25 02:30:00", "2020-03-29 02:30:00"], "y": [True, False]})
    drawn = decode(encode(from_frame(frame), schema), schema)["x"]
    assert list(map(str, drawn)) == ["2020-10-25 02:30:00+02:00", "2020-03-29 03:00:00+02:00"]


@pytest.mark.nightly
def test_a_workbook_comes_back_as_a_frame_does(tmp_path: Path) -> None:
    names = ["int64", "Int64, missing", "float64", "bool", "words", "days", "moments", "no object", "no float64"]
    frame = pd.DataFrame({name: TABLE[name].cells for name in names}).assign(sick=np.where(TRUTH, "yes", "no"))
    pytest.importorskip("openpyxl")
    frame.to_excel(tmp_path / "t.xlsx", index=False)
    model = medsynth.fit(tmp_path / "t.xlsx", epsilon=EPSILON, anyway=True, target="sick", method="independent", seed=1,
                         notice=list[str]().append)  # fmt: skip
    drawn = model.sample(ROWS, seed=1)
    assert {name: str(drawn[name].dtype) for name in names} == {name: TABLE[name].dtype for name in names}
    assert drawn[["no object", "no float64"]].isna().all(axis=None)


# Neighbours: one row holds something else, and pandas or Arrow makes a column of another type.

FEW, ODD = 40, 7


def changed(values: list[Any], cell: Any) -> list[Any]:
    return [*values[:ODD], cell, *values[ODD + 1 :]]


SMALL = WHOLE[:FEW].tolist()
TEXTS = ["a", "b"] * (FEW // 2)
STAMPS = list(MOMENTS[:FEW])
LOCAL = list(ZONED[:FEW])
DATES = [day.date() for day in DAYS[:FEW]]
NOTHING: list[Any] = [None] * FEW
PAIRS: dict[str, tuple[pd.Series, pd.Series]] = {
    "int64 becomes float64": (pd.Series(SMALL), pd.Series(changed(SMALL, None))),
    "int64 becomes float64 by decimals": (pd.Series(SMALL), pd.Series(changed(SMALL, 0.5))),
    "bool becomes object": (pd.Series([True, False] * 20), pd.Series(changed([True, False] * 20, None))),
    "float32 becomes float64": (
        pd.Series(TENTHS[:FEW], dtype="float32"),
        pd.Series(changed(list(TENTHS[:FEW].astype("float32")), None), dtype="float64"),
    ),
    "a category with one level fewer": (
        pd.Series(changed(TEXTS, "only here")).astype("category"),
        pd.Series(TEXTS).astype("category"),
    ),
    "a category that lists more": (
        pd.Series(TEXTS).astype("category"),
        pd.Series(TEXTS).astype(pd.CategoricalDtype(["Jane Doe", "b", "a"], ordered=True)),
    ),
    "a category becomes words": (pd.Series(TEXTS).astype("category"), pd.Series(TEXTS)),
    "no number becomes one": (pd.Series(NOTHING, dtype=float), pd.Series(changed(NOTHING, 5.0), dtype=float)),
    "no word becomes one": (pd.Series(NOTHING, dtype=object), pd.Series(changed(NOTHING, "x"), dtype=object)),
    "no date becomes one": (pd.Series(NOTHING, dtype=object), pd.Series(changed(NOTHING, DATES[0]), dtype=object)),
    "no truth becomes one": (pd.Series(NOTHING, dtype=object), pd.Series(changed(NOTHING, True), dtype=object)),
    "datetime64 with a missing one": (pd.Series(STAMPS), pd.Series(changed(STAMPS, None))),
    "another unit of time": (pd.Series(STAMPS), pd.Series(STAMPS).dt.as_unit("us")),
    "a zone with a missing one": (pd.Series(LOCAL), pd.Series(changed(LOCAL, None))),
    "dates with a missing one": (pd.Series(DATES), pd.Series(changed(DATES, None))),
    "Int64 becomes int64": (pd.Series(changed(SMALL, None), dtype="Int64"), pd.Series(SMALL)),
    "a dictionary with one level fewer": (
        arrow(changed(TEXTS, "only here"), pa.dictionary(pa.int32(), pa.string())),
        arrow(TEXTS, pa.dictionary(pa.int8(), pa.large_string())),
    ),
}
ONLY_FRAMES: dict[str, tuple[pd.Series, pd.Series]] = {
    "int64 becomes objects": (pd.Series(SMALL), pd.Series(changed(SMALL, "x"))),
    "datetime64 becomes objects": (pd.Series(STAMPS), pd.Series(changed(STAMPS, "x"), dtype=object)),
    "a zone becomes objects": (pd.Series(LOCAL), pd.Series(changed(LOCAL, "x"), dtype=object)),
    "two zones": (pd.Series(LOCAL), pd.Series(changed(LOCAL, LOCAL[ODD].tz_convert("UTC")), dtype=object)),
    "a clock without a zone": (pd.Series(LOCAL), pd.Series(changed(LOCAL, STAMPS[ODD]), dtype=object)),
    "sparse becomes dense": (pd.Series(pd.arrays.SparseArray(SMALL)), pd.Series(changed(SMALL, None))),
}


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[FixedReleases]:
    with monkeypatch.context() as patch:
        measure_alone(patch)
        yield FixedReleases(patch)


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("route", "name"), [*(("parquet", name) for name in PAIRS), *(("frame", name) for name in PAIRS | ONLY_FRAMES)]
)
@pytest.mark.filterwarnings("ignore::medsynth.errors.MedsynthWarning")
def test_a_row_that_changes_a_type_changes_nothing_but_measurements(
    route: str, name: str, held: FixedReleases, tmp_path: Path
) -> None:
    """With all releases held fixed: no type, list of levels, statistics or metadata of a file is in the model."""
    found = []
    for k, cells in enumerate((PAIRS | ONLY_FRAMES)[name]):
        source: Any = pd.DataFrame({"x": cells, "age": SMALL, "sick": TEXTS})
        if route == "parquet":
            path = tmp_path / "t.parquet"
            source.to_parquet(path, row_group_size=16 if k else 40)
            source = path
        found.append(released(source, None, tmp_path))
        held.again()
    assert found[0] == found[1]
    assert b"Jane Doe" not in found[1]["model"] and b"only here" not in found[0]["model"]
