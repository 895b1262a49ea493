"""Columns of frames with one other cell: which of the other rows have the same values, and whether their texts are."""

import contextlib
import datetime
from typing import Any

import numpy as np
import pandas as pd

from medsynth.io.table import from_frame


def alike(one: Any, two: Any) -> bool:
    """Whether two values are equal as Python compares them; a truth equals no number, and missing ones are equal."""
    if pd.isna(one) or pd.isna(two):
        return bool(pd.isna(one) and pd.isna(two))
    one, two = (v.item() if isinstance(v, np.generic) and not _of_time(v) else v for v in (one, two))
    if isinstance(one, bool) != isinstance(two, bool):
        return False
    if isinstance(one, pd.Interval) and isinstance(two, pd.Interval):  # pandas compares their ends as floats
        return one.closed == two.closed and alike(one.left, two.left) and alike(one.right, two.right)
    if type(one) is not type(two) and not _of_time(one):  # pandas compares a day with a moment in its own way
        with contextlib.suppress(TypeError, ValueError):
            return hash(one) == hash(two) and bool(one == two)
        return False
    return bool(one == two)


def _of_time(value: Any) -> bool:
    return isinstance(value, datetime.date | datetime.timedelta | np.datetime64 | np.timedelta64)


def rows_alike(one: pd.Series, two: pd.Series, row: int) -> list[int]:
    """The rows other than `row` that have the same value in both columns."""
    return [k for k, values in enumerate(zip(one, two, strict=True)) if k != row and alike(*values)]


def assert_texts_alike(one: pd.Series, two: pd.Series, rows: list[int]) -> None:
    """Both columns have the same texts in these rows."""
    first, second = (from_frame(pd.DataFrame({"x": column})).cells["x"] for column in (one, two))
    assert list(first[rows]) == list(second[rows])
