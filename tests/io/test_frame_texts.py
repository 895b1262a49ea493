"""Columns of a frame to text: distinct values at once, with the texts that each value has by itself."""

import datetime
import decimal

import numpy as np
import pandas as pd
import pytest

from medsynth.io import table

DAYS = pd.to_datetime(pd.Series(["2020-01-01", None, "2020-01-01 10:00", "2020-01-01"]), format="mixed")
COLUMNS = {
    "floats": pd.Series([1.0, -0.0, 0.0, np.nan, 2.5, 1e300, np.inf, -np.inf, 2.0**53, 2.0**52] * 2),
    "objects": pd.Series([True, 1, 1.0, "1", None, np.nan, decimal.Decimal("5.00"), 5, pd.NaT, " a ", "a"]),
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
    alone = ["" if gone else table._value_text(v) for v, gone in zip(column.astype(object), column.isna(), strict=True)]
    found = table._text(column)
    assert list(found) == alone and list(found.index) == list(range(len(column))) and found.dtype == object
