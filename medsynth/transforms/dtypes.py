"""Sampled columns in the dtypes of the frame that was fitted, where these can represent them."""

from __future__ import annotations

import re

import pandas as pd
from pandas.api.types import pandas_dtype

from .column import Column

_NUMBERS = r"u?int(8|16|32|64)|float|double|bool"
# What an artifact may name: it may come from anywhere.
KNOWN_DTYPE = re.compile(
    r"object|category|bool|boolean|u?int(8|16|32|64)|U?Int(8|16|32|64)|[fF]loat(32|64)|string\[\w+\]"
    rf"|datetime64\[(s|ms|us|ns)\]|arrow:({_NUMBERS}|string|large_string)"
)


def cast(values: pd.Series, dtype: str, column: Column) -> pd.Series:
    """Values in the dtype of that name, or as they are where it is unknown or cannot represent them all."""
    if not KNOWN_DTYPE.fullmatch(dtype):
        return values
    try:
        if dtype == "category":
            return values.astype(column.category_dtype())
        if dtype == "object":
            return values.astype(object).mask(values.isna(), None)
        found = _arrow(dtype[6:]) if dtype.startswith("arrow:") else pandas_dtype(dtype)
        words = isinstance(found, pd.StringDtype) or dtype.endswith("string")
        return (values.map(str, na_action="ignore") if words else values).astype(found)
    except (ValueError, TypeError):
        return values


def _arrow(name: str) -> pd.ArrowDtype:
    import pyarrow

    return pd.ArrowDtype(pyarrow.type_for_alias(name))
