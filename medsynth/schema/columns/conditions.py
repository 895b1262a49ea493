"""Conditions on columns, as people write them (`sex=F`, `age=40..60`, `ward=a,b`), as ranges of codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from ...errors import UsageError, did_you_mean
from .categorical import level_text
from .table_codec import ColumnSet

Range = tuple[int, int]  # of codes, both ends included
Ranges = dict[str, Range]
Where = str | Sequence[str] | Mapping[str, object]


def words(where: Where) -> tuple[str, ...]:
    """Conditions as texts: one text, several, or a mapping of columns to a value, a list of values or a pair of bounds.

    >>> words({"sex": ["F", "M"], "age": (60, None), "smokes": True, "visits": None})
    ('sex=F,M', 'age=60..', 'smokes=true', 'visits=')
    """
    if isinstance(where, str):
        return (where,)
    if isinstance(where, Mapping):
        return tuple(f"{name}={_text(value)}" for name, value in where.items())
    if not all(isinstance(word, str) for word in where):
        raise UsageError("`where` is a text such as 'sex=F', a list of such, or a mapping of columns to values.")
    return tuple(where)


def _text(value: object) -> str:
    if isinstance(value, tuple) and len(value) == 2:
        return "..".join(_text(end) for end in value)
    if isinstance(value, list | tuple | set | frozenset):
        return ",".join(sorted(map(_text, value)) if isinstance(value, set | frozenset) else map(_text, value))
    return "" if value is None else level_text(value)


def parse(where: Where, schema: ColumnSet, parameter: str = "where") -> dict[str, tuple[Range, ...]]:
    """The codes that each condition allows: one range, or several where commas separate values.

    A range includes both ends and may leave one out; nothing after the sign means missing. `parameter`: what messages
    call the conditions. Raises UsageError for words that are no condition, unknown columns or levels, and ranges
    without a value.

    >>> from medsynth.schema import Schema
    >>> schema = Schema.from_dict({"name": "t", "columns": {"age": {"kind": "count", "bounds": [18, 99]}}})
    >>> parse(["age=20..30"], schema), parse("age=90..", schema), parse({"age": [18, 20]}, schema)
    ({'age': ((2, 12),)}, {'age': ((72, 81),)}, {'age': ((0, 0), (2, 2))})
    """
    found: dict[str, tuple[Range, ...]] = {}
    for word in words(where):
        fitting = [name for name in schema.columns if word.startswith(f"{name}=")]
        if not fitting:
            given = word.partition("=")[0][:80]
            raise UsageError(
                f"`{parameter}` takes COLUMN=VALUE, COLUMN=VALUE,VALUE or COLUMN=LOW..HIGH; "
                f"{given!r} is no column of the model.{did_you_mean(given, schema.columns)}"
            )
        name = max(fitting, key=len)  # a name may hold the sign itself
        if name in found:
            raise UsageError(f"`{parameter}` names {name!r} twice. Give one condition a column.")
        try:
            found[name] = _ranges(word[len(name) + 1 :].strip(), schema, name)
        except ValueError as error:
            raise UsageError(f"`{parameter}` {name}: {error}") from None
    return found


def _ranges(value: str, schema: ColumnSet, name: str) -> tuple[Range, ...]:
    """The ranges of one condition's value: as a whole, for a level may hold a comma, else those of its parts."""
    column = schema.columns[name]
    try:
        return (column.code_range(value),)
    except ValueError:
        if "," not in value:
            raise
    return tuple(sorted({column.code_range(part.strip()) for part in value.split(",")}))


def hull(ranges: Sequence[Range]) -> Range:
    """The smallest range that contains some ranges."""
    return min(first for first, _ in ranges), max(last for _, last in ranges)


def met(codes: NDArray[np.int32], ranges: Sequence[Range]) -> NDArray[np.bool_]:
    """Which codes, (rows,), lie in one of the ranges."""
    return np.asarray(np.any([(codes >= first) & (codes <= last) for first, last in ranges], axis=0))
