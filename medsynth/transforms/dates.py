"""Dates to whole numbers of days and back: since the day before 0001-01-01, or after another date column."""

from __future__ import annotations

from datetime import date, datetime

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..io.table import MISSING_TOKENS, Table
from ..schema import Date, Schema

Floats = NDArray[np.float64]
Codes = NDArray[np.int32]


def as_days(table: Table, schema: Schema) -> Table:
    """The table with its date columns as texts of whole numbers; a cell that is no date is kept as it is."""
    columns = {name: c for name, c in schema.columns.items() if isinstance(c, Date) and name in table.header}
    if not columns:
        return table
    read = {name: _ordinals(table.cells[name], column) for name, column in columns.items()}
    cells = table.cells.copy()
    for name, column in columns.items():
        days = read[name] if column.after is None else read[name] - read[column.after]
        lost = np.isnan(days) & ~np.isnan(read[name])  # the other date is missing
        words = np.array([f"{d:.0f}" for d in np.nan_to_num(days)], dtype=object)
        none = column.gap_words[0] if column.gaps else ""
        cells[name] = np.where(lost, none, np.where(np.isnan(days), cells[name].to_numpy(object), words))
    return Table(table.where, table.header, cells)


def ordinal(word: str, form: str) -> float:
    """A date's day number, by its format or as ISO writes it; NaN for what is no date."""
    try:
        return float(datetime.strptime(word, form).toordinal())
    except ValueError:
        pass
    try:
        return float(datetime.fromisoformat(word).toordinal())
    except ValueError:
        return float("nan")


def _ordinals(cells: pd.Series, column: Date) -> Floats:
    place, words = pd.factorize(cells, use_na_sentinel=False)
    gone = MISSING_TOKENS | set(column.gap_words)
    numbers = [float("nan") if word in gone else ordinal(str(word), column.format) for word in words]
    return np.array(numbers, np.float64)[place]


def days(codes: Codes, schema: Schema, name: str) -> Floats:
    """The absolute day number of a date column in each row, NaN for missing ones: (rows,)."""
    column, code = schema.columns[name], codes[:, schema.names.index(name)].astype(np.float64)
    assert isinstance(column, Date)
    low, high = column.units
    own = np.where(code > high - low, np.nan, code + low)
    return own if column.after is None else np.clip(own + days(codes, schema, column.after), 1, date.max.toordinal())


def texts(numbers: Floats, column: Date) -> pd.Series:
    """Day numbers as texts in the column's format, missing ones empty."""
    distinct, place = np.unique(np.nan_to_num(numbers), return_inverse=True)
    words = ["" if d < 1 else date.fromordinal(int(d)).strftime(column.format) for d in distinct]
    return pd.Series(np.array(words, dtype=object)[place])


def stamps(numbers: Floats) -> pd.Series:
    """Day numbers as pandas' timestamps; days that those cannot hold are missing."""
    iso = pd.Series([None if np.isnan(d) else date.fromordinal(int(d)).isoformat() for d in numbers], dtype=object)
    return pd.to_datetime(iso, errors="coerce")
