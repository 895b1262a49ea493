"""Conditions on columns, as people write them (`sex=F`, `age=40..60`), as ranges of codes."""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import UsageError
from .column_set import ColumnSet

Ranges = dict[str, tuple[int, int]]  # of codes, both ends included


def parse(words: Sequence[str], schema: ColumnSet) -> Ranges:
    """The codes that each condition allows. A range includes both ends; nothing after the sign means missing.

    Raises UsageError for words that are no condition, unknown columns or levels, and ranges without a value.

    >>> from medsynth.schema import Schema
    >>> schema = Schema.from_dict({"name": "t", "columns": {"age": {"kind": "count", "bounds": [18, 99]}}})
    >>> parse(["age=20..30"], schema)
    {'age': (2, 12)}
    """
    found: Ranges = {}
    for word in words:
        name, sign, value = word.partition("=")
        if not sign or name not in schema.columns:
            raise UsageError(f"`where` takes COLUMN=VALUE or COLUMN=LOW..HIGH; {name!r} is no column of the model.")
        if name in found:
            raise UsageError(f"`where` names {name!r} twice. Give one condition a column.")
        try:
            found[name] = schema.columns[name].code_range(value.strip())
        except ValueError as error:
            raise UsageError(f"`where` {name}: {error}") from None
    return found
