"""Sampled columns in the dtypes that a schema declares, where these can represent them."""

from __future__ import annotations

import re
from typing import Annotated

import pandas as pd
from pandas.api.types import pandas_dtype
from pydantic import AfterValidator

_NUMBERS = r"u?int(8|16|32|64)|float|double|bool"
# What a schema may name: it may come with an artifact from anywhere.
KNOWN_DTYPE = re.compile(
    r"object|category|bool|boolean|u?int(8|16|32|64)|U?Int(8|16|32|64)|[fF]loat(32|64)|string\[\w+\]"
    rf"|datetime64\[(s|ms|us|ns)\]|arrow:({_NUMBERS}|string|large_string)"
)


def _checked(name: str) -> str:
    if not KNOWN_DTYPE.fullmatch(name):
        raise ValueError("dtype must be one of pandas', such as category, Int16, float32 or string[python]")
    return name


Dtype = Annotated[str, AfterValidator(_checked)]


def cast(values: pd.Series, dtype: str, categories: pd.CategoricalDtype) -> pd.Series:
    """Values in the dtype of that name, or as they are where it is unknown or cannot represent them all."""
    if not KNOWN_DTYPE.fullmatch(dtype):
        return values
    try:
        if dtype == "category":
            return values.astype(categories)
        if dtype == "object":
            return values.astype(object).mask(values.isna(), None)
        found = _arrow(dtype[6:]) if dtype.startswith("arrow:") else pandas_dtype(dtype)
        words = isinstance(found, pd.StringDtype) or dtype.endswith("string")
        return (values.map(str, na_action="ignore") if words else values).astype(found)
    except (ValueError, TypeError):
        return values


def dtype_name(dtype: object) -> str | None:
    """The name by which `cast` finds a dtype again, without the values of a category; None for one that it lacks."""
    if isinstance(dtype, pd.ArrowDtype):
        name = f"arrow:{dtype.pyarrow_dtype}"
    else:
        name = f"string[{dtype.storage}]" if isinstance(dtype, pd.StringDtype) else str(dtype)
    return name if KNOWN_DTYPE.fullmatch(name) else None


def _arrow(name: str) -> pd.ArrowDtype:
    import pyarrow

    return pd.ArrowDtype(pyarrow.type_for_alias(name))
