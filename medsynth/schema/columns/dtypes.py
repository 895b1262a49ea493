"""The dtypes that a schema may declare for sampled values: their names, and values turned into them.

A fit never reads the dtypes of its table, because they depend on cells. So a dtype is declared or the kind's own.
"""

from __future__ import annotations

import re
from datetime import time
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from pandas.api.types import pandas_dtype

from ...errors import EntryError

if TYPE_CHECKING:
    import pyarrow

_UNITS = "(s|ms|us|ns)"
# Names of the time zone database, and offsets. Others that pandas reads could be files of this machine.
_ZONE = r"(?P<zone>UTC([+-]\d\d:\d\d)?|[+-]\d\d:\d\d|[A-Z]\w+([/+-][A-Z0-9][\w+-]*)*)"
_DECIMAL = r"decimal128\((?P<digits>\d{1,2}), (?P<places>\d{1,2})\)"
_DICTIONARY = r"dictionary<values=(large_)?string, indices=(?P<indices>u?int(8|16|32|64)), ordered=(?P<ordered>[01])>"
_PANDAS = (
    "object", "category", r"bool(ean)?", r"(u?i|U?I)nt(8|16|32|64)", r"[fF]loat(32|64)", r"string\[\w+\]",
    rf"(datetime|timedelta)64\[{_UNITS}\]", rf"datetime64\[{_UNITS}, [^\]]+\]",
)  # fmt: skip
_ARROW = (
    r"u?int(8|16|32|64)", "float", "double", "bool", r"(large_)?string", r"date32\[day\]", r"date64\[ms\]",
    r"time32\[m?s\]", r"time64\[[un]s\]", rf"(timestamp|duration)\[{_UNITS}\]", rf"timestamp\[{_UNITS}, tz=[^\]]+\]",
    r"decimal128\(.+\)", "dictionary<.+>",
)  # fmt: skip
KNOWN_DTYPE = re.compile("|".join((*_PANDAS, *(f"arrow:({name})" for name in _ARROW))))
_ZONED = re.compile(rf"(datetime64|arrow:timestamp)\[(?P<unit>s|ms|us|ns), (tz=)?{_ZONE}\]")
_MOMENTS = ("datetime64", "arrow:timestamp", "arrow:date")


def checked(name: str) -> str:
    """Return the name of a dtype. Raise ValueError if it is not one that a schema may declare."""
    if not KNOWN_DTYPE.fullmatch(name):
        raise EntryError("dtype", "`dtype` must be a pandas dtype, such as category, Int16, float32 or string[python]")
    if not set("(,") & set(name):
        return name
    try:
        if name.startswith("arrow:"):
            _arrow_type(name.removeprefix("arrow:"))
        if holds_moments(name):
            _zone(name)
    except (ValueError, TypeError, KeyError):
        raise EntryError(
            "dtype",
            "`dtype`: its zone or parameters are not known. Write datetime64[ns, Europe/Zurich], "
            "arrow:timestamp[us, tz=UTC] or arrow:decimal128(9, 2)",
        ) from None
    return name


def holds_moments(name: str) -> bool:
    """Return whether values of that dtype are days or moments."""
    return name.startswith(_MOMENTS)


def dtype_name(dtype: object) -> str | None:
    """Return the name by which `cast` finds a dtype, without the values of a category; None if it has no name."""
    if isinstance(dtype, pd.ArrowDtype):
        name = f"arrow:{dtype.pyarrow_dtype}"
    else:
        name = f"string[{dtype.storage}]" if isinstance(dtype, pd.StringDtype) else str(dtype)
    try:
        return checked(name)
    except ValueError:
        return None


def cast(values: pd.Series, dtype: str, categories: pd.CategoricalDtype) -> pd.Series:
    """Return values in the dtype of that name, or unchanged if it is unknown or cannot represent them all.

    A dtype with a zone has the moments at which its clocks show the values: the first of two, and after a gap the next.
    """
    try:
        checked(dtype)
        if dtype == "category":
            return values.astype(categories)
        if dtype == "object":
            return values.astype(object).mask(values.isna(), None)
        if (zone := _zone(dtype)) is not None:
            first = np.ones(len(values), np.bool_)
            values = values.astype("datetime64[ns]").dt.tz_localize(zone, ambiguous=first, nonexistent="shift_forward")
        if dtype.startswith("arrow:"):
            return _arrow(values, _arrow_type(dtype.removeprefix("arrow:")), categories)
        found: Any = pandas_dtype(dtype)
        return (values.map(str, na_action="ignore") if isinstance(found, pd.StringDtype) else values).astype(found)
    except (ValueError, TypeError, ArithmeticError, NotImplementedError):
        return values


def _zone(name: str) -> Any:
    """Return the zone of a dtype, None if it has none. Raise ValueError or TypeError if it does not exist."""
    found = _ZONED.fullmatch(name)
    if found is None and holds_moments(name) and ", " in name:
        raise ValueError("not a zone")
    zone: Any = None if found is None else pd.DatetimeTZDtype("ns", found["zone"]).tz
    return zone


def _arrow_type(name: str) -> pyarrow.DataType:
    """Return the Arrow type of that name. Raise ValueError if there is none."""
    import pyarrow

    if found := re.fullmatch(_DECIMAL, name):
        return pyarrow.decimal128(int(found["digits"]), int(found["places"]))
    if found := re.fullmatch(_DICTIONARY, name):
        words = pyarrow.large_string() if found[1] else pyarrow.string()
        return pyarrow.dictionary(getattr(pyarrow, found["indices"])(), words, ordered=found["ordered"] == "1")
    if found := _ZONED.fullmatch(f"arrow:{name}"):
        return pyarrow.timestamp(found["unit"], found["zone"])
    return pyarrow.type_for_alias(name)


def _arrow(values: pd.Series, kind: pyarrow.DataType, categories: pd.CategoricalDtype) -> pd.Series:
    """Return values in an Arrow type. Raise one of the errors that `cast` catches if it cannot represent them."""
    import pyarrow

    types = pyarrow.types
    if types.is_dictionary(kind):
        words = [str(level) for level in categories.categories] if categories.categories is not None else None
        listed = pd.Categorical(values.map(str, na_action="ignore"), words)
        if (listed.codes < 0).sum() > values.isna().sum():
            raise ValueError("a value is not a level")
        place = pyarrow.array(listed.codes, kind.index_type, mask=listed.codes < 0)
        levels = pyarrow.array(listed.categories, kind.value_type)
        made: Any = pyarrow.DictionaryArray.from_arrays(place, levels, ordered=kind.ordered)
    elif types.is_decimal(kind):
        made = pyarrow.array([None if pd.isna(value) else Decimal(str(value)) for value in values], kind)
    elif types.is_time(kind):
        made = pyarrow.array([None if pd.isna(value) else time.fromisoformat(value) for value in values], kind)
    else:
        if types.is_duration(kind):
            values = values.astype("timedelta64[ns]")
        words = types.is_string(kind) or types.is_large_string(kind)
        return (values.map(str, na_action="ignore") if words else values).astype(pd.ArrowDtype(kind))
    return pd.Series(pd.arrays.ArrowExtensionArray(pyarrow.chunked_array([made])), index=values.index)
