"""The public facts of a table: its columns, their bounds and levels, its target."""

from .columns.categorical import Binary, Categorical
from .columns.column import Column
from .columns.date import Date
from .columns.identifier import Identifier
from .columns.number import Continuous, Count
from .schema import Schema, bundled, bundled_for, open_schema

__all__ = [
    "Binary",
    "Categorical",
    "Column",
    "Continuous",
    "Count",
    "Date",
    "Identifier",
    "Schema",
    "bundled",
    "bundled_for",
    "open_schema",
]
