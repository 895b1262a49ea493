"""Conditions on columns, as people write them (`sex=F`, `age=40..60`), as ranges of codes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

from ..errors import UsageError
from ..schema import Binary, Categorical, Schema
from .columns import Column, Date, Identifier
from .dates import ordinal
from .table_codec import size

Ranges = dict[str, tuple[int, int]]  # of codes, both ends included


def parse(words: Sequence[str], schema: Schema) -> Ranges:
    """The codes that each condition allows. A range includes both ends; nothing after the sign means missing.

    Raises UsageError for words that are no condition, unknown columns or levels, and ranges that hold no value.

    >>> from medsynth.schema import Schema
    >>> schema = Schema.from_dict({"name": "t", "columns": {"age": {"kind": "count", "bounds": [18, 99]}}})
    >>> parse(["age=20..30"], schema)
    {'age': (2, 12)}
    """
    found: Ranges = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or name not in schema.columns:
            raise UsageError(f"--where takes COLUMN=VALUE or COLUMN=LOW..HIGH; {name!r} is no column of the model.")
        if name in found:
            raise UsageError(f"--where names {name!r} twice. Give one condition a column.")
        found[name] = _codes(name, value.strip(), schema.columns[name])
    return found


def _codes(name: str, value: str, column: Column) -> tuple[int, int]:
    if value == "":
        if not column.missing:
            raise UsageError(f"--where {name}= asks for missing values, which the schema does not have there.")
        return size(column), size(column) + column.gaps - 1
    if value in column.gap_words:
        gap = size(column) + column.gap_words.index(value)
        return gap, gap
    if isinstance(column, Binary | Categorical):
        levels = [str(level) for level in column.levels]
        if value not in levels:
            raise UsageError(f"--where {name}: no such level. The levels are: {', '.join(levels[:20])}.")
        return levels.index(value), levels.index(value)
    if isinstance(column, Identifier):
        raise UsageError(f"--where {name}: an identifier is made fresh and cannot be asked for.")
    low, high = column.units
    if isinstance(column, Date) and column.after is None:
        value = "..".join(f"{ordinal(part, column.format):.0f}" for part in value.split(".."))
    try:
        ends = [Decimal(part) * 10**column.places for part in (value.split("..") if ".." in value else [value, value])]
        first, last = math.ceil(ends[0]), math.floor(ends[-1])
    except (InvalidOperation, ValueError, OverflowError):
        raise UsageError(f"--where {name}: not a number, nor LOW..HIGH. Example: {name}=40..60") from None
    if len(ends) != 2 or first > last or last < low or first > high:
        raise UsageError(f"--where {name}: no value of the column lies there. Its bounds are {column.bounds}.")
    return max(first, low) - low, min(last, high) - low
