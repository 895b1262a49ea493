"""Columns of a frame to text: distinct values at once, with the texts that each value has by itself."""

import datetime
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from medsynth.io.cell_text import arrow_texts, frame_texts

DAYS = pd.to_datetime(pd.Series(["2020-01-01", None, "2020-01-01 10:00", "2020-01-01"]), format="mixed")
COLUMNS = {
    "floats": pd.Series([1.0, -0.0, 0.0, np.nan, 2.5, 1e300, np.inf, -np.inf, 2.0**53, 2.0**52] * 2),
    "objects": pd.Series([True, 1, 1.0, "1", None, np.nan, Decimal("5.00"), 5, pd.NaT, " a ", "a"]),
    "texts": pd.Series(["a", "b", None, "a ", "nan", np.nan, "a"]),
    "strings": pd.Series(["a", "b", None, "a"], dtype="string"),
    "categories": pd.Series(["a", "b", None, "a"], dtype="category"),
    "numbers as categories": pd.Series([1.25, None, 3.0, 3.0], dtype="category"),
    "whole": pd.Series([1, 2, None, 2], dtype="Int64"),
    "truths": pd.Series([True, False, None, True], dtype="boolean"),
    "plain truths": pd.Series([True, False, True]),
    "days": DAYS,
    "days in a zone": DAYS.dt.tz_localize("UTC"),
    "spans": pd.Series(pd.to_timedelta([1, None, 1], unit="D")),
    "months": pd.Series(pd.period_range("2020-01", periods=2, freq="M")),
    "single floats": pd.Series([1.5, np.nan, 16777217, 0.1], dtype="float32"),
    "dates": pd.Series([datetime.date(2020, 1, 1), None, datetime.date(2020, 1, 1)]),
    "no floats": pd.Series([], dtype=float),
    "no objects": pd.Series([], dtype=object),
    "other index": pd.Series([1, 2, 1], index=[5, 6, 7]),
}


@pytest.mark.parametrize("name", COLUMNS)
def test_each_value_has_the_text_that_it_has_by_itself(name: str) -> None:
    column = COLUMNS[name]
    found = frame_texts(column)
    assert list(found) == [frame_texts(column.iloc[k : k + 1])[0] for k in range(len(column))] and found.dtype == object
    assert [text == "" for text in found] == column.isna().to_list()


def counts(kind: pa.DataType, *stored: int | None) -> pa.Array:
    return pa.array(stored, pa.int32() if kind.bit_width == 32 else pa.int64()).view(kind)


LEAST = -(2**63)
ARROW: list[tuple[pa.Array, list[str]]] = [
    (pa.array([2**63 - 1, LEAST, None]), ["9223372036854775807", "-9223372036854775808", ""]),
    (pa.array([2**64 - 1, None], pa.uint64()), ["18446744073709551615", ""]),
    (pa.array([2.0, 0.1, float("nan"), float("inf"), 2.0**53]), ["2", "0.1", "", "inf", "9007199254740992.0"]),
    (pa.array([0.1, 16_777_217.0], pa.float32()), ["0.1", "16777216"]),
    (pa.array([Decimal("5.00"), None], pa.decimal128(9, 2)), ["5.00", ""]),
    (pa.array([True, False, None]), ["true", "false", ""]),
    (pa.array([" a ", "", None]), ["a", "", ""]),
    (pa.nulls(2), ["", ""]),
    (pa.array([2**60 + 1, None, 3]).dictionary_encode(), ["1152921504606846977", "", "3"]),
    (pa.DictionaryArray.from_arrays(pa.array([1, 0, None]), pa.array([1, None])), ["", "1", ""]),
    (counts(pa.date32(), 18_262, 2**31 - 1, None), ["2020-01-01", "5881580-07-11", ""]),
    (counts(pa.date64(), 1000, -1), ["1970-01-01", "1969-12-31"]),
    (counts(pa.time32("s"), 86_399), ["23:59:59"]),
    (counts(pa.time64("ns"), 1, 1000), ["00:00:00.000000001", "00:00:00.000001"]),
    (counts(pa.timestamp("ns"), 1, 10**9, LEAST), ["1970-01-01 00:00:00.000000001", "1970-01-01 00:00:01", ""]),
    (counts(pa.timestamp("s", "Europe/Zurich"), 0, None), ["1970-01-01 01:00:00+01:00", ""]),
    (counts(pa.timestamp("s"), 2**63 - 1), ["292277026596-12-04 15:30:07"]),
    (counts(pa.timestamp("us", "UTC"), 2**63 - 1), ["294247-01-10 04:00:54.775807+00:00"]),
    (counts(pa.duration("s"), 2**63 - 1, -1, None), ["106751991167300 days 15:30:07", "-1 days +23:59:59", ""]),
]


def test_the_texts_of_arrow_values() -> None:
    for column, texts in ARROW:
        assert list(arrow_texts(pa.chunked_array([column]))) == texts
        assert list(arrow_texts(pa.chunked_array([column[:1], column[1:1], column[1:]]))) == texts
    assert list(arrow_texts(pa.chunked_array([], pa.int64()))) == []


def test_spans_and_moments_have_the_texts_of_pandas() -> None:
    """Whatever their unit, in a typed column and among objects."""
    draw = np.random.default_rng(0)
    numbers = [*draw.integers(-(2**62), 2**62, 200), *draw.integers(-(10**10), 10**10, 200), 0, -1, 10**9, 10**6]
    for unit in ("ns", "us", "ms", "s"):
        exact = pd.Series(np.array(numbers) // (1 if unit == "ns" else 10**10))
        for kind in (f"m8[{unit}]", f"M8[{unit}]"):
            column = exact.astype(pd.api.types.pandas_dtype(kind))
            assert list(frame_texts(column)) == list(map(str, column)) == list(frame_texts(column.astype(object)))


def test_texts_that_pandas_takes_for_one_another_are_apart() -> None:
    """pandas groups texts as C strings: by what stands before a NUL, and lone surrogates by anything at all."""
    words = ["icu", "icu\0Jane Doe", "icu\0", "\0", "K\udcf6ln", "M\udcfcnchen", "K\udcf6ln", "ward"]
    found = {
        "objects": frame_texts(pd.Series(words, dtype=object)),
        "text": frame_texts(pd.Series(words, dtype=pd.StringDtype("python"))),
        "categories": frame_texts(pd.Series(pd.Categorical.from_codes([0, 1], pd.Index(["icu", "icu\0Jane Doe"])))),
        "arrow": arrow_texts(pa.chunked_array([pa.array(words[:4])])),
    }
    for texts in found.values():
        assert not any("\0" in text or any("\ud800" <= c <= "\udfff" for c in text) for text in texts)
        place, distinct = pd.factorize(texts)
        assert [distinct[k] for k in place] == texts.tolist()
    assert found["objects"].tolist()[:3] == ["icu", "icu\\x00Jane Doe", "icu\\x00"]
    assert found["objects"][4] == "K\\udcf6ln" == found["objects"][6] != found["objects"][5]


def test_a_missing_cell_of_a_sparse_column_is_one_cell() -> None:
    columns: dict[str, Any] = {
        "booleans": ([True, False, True, True], pd.SparseDtype(bool, np.nan)),
        "numbers": ([1.0, 2.5, 1.0, 0.0], pd.SparseDtype(np.float64, np.nan)),
        "zeros": ([1.0, 2.5, 1.0, 0.0], pd.SparseDtype(np.float64, 0.0)),
        "whole numbers": ([1, 0, 2, 3], pd.SparseDtype(np.int64, 0)),
        "spans": ([pd.Timedelta(k, "D") for k in range(1, 5)], pd.SparseDtype("timedelta64[ns]")),
    }
    for name, (values, kind) in columns.items():
        whole = frame_texts(pd.Series(values).astype(kind))
        assert "" not in whole, name
        if name != "whole numbers":  # zero-filled ones cannot hold a missing cell
            assert frame_texts(pd.Series([None, *values[1:]]).astype(kind))[1:].tolist() == whole[1:].tolist(), name
