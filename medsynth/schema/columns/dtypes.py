"""Texts and sampled columns in the types that a schema declares, where these can represent them."""

from __future__ import annotations

import re
from typing import Annotated

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import pandas_dtype
from pydantic import AfterValidator

from ...io.table import whole_text

FLOATS = re.compile(r"[fF]loat(32|64)")
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


def canonical(word: str, level: object) -> str:
    """A text as a level of that type is written: 1.0 as 1, True as true."""
    if isinstance(level, bool):
        return word.lower()
    if isinstance(level, int) and "." in word:
        whole, _, rest = word.partition(".")
        return whole if not rest.strip("0") else word
    return word


def with_point(text: str, dtype: str | None) -> str:
    """The text of a value without decimals in a CSV file: 8.0 for 8 in a dtype of floats, which readers find again."""
    return f"{text}.0" if dtype and FLOATS.fullmatch(dtype) and whole_text(text) == text else text


def _arrow(name: str) -> pd.ArrowDtype:
    import pyarrow

    return pd.ArrowDtype(pyarrow.type_for_alias(name))


def numbers_of(texts: NDArray[np.object_]) -> NDArray[np.float64]:
    """The number that each text is, NaN for none: (texts,). Each is parsed as a float, whatever the others are."""
    beside = pd.Series([*texts, "0.5"], dtype=object)  # texts of whole numbers alone would be parsed as integers
    return pd.to_numeric(beside, errors="coerce").to_numpy(np.float64)[:-1]
