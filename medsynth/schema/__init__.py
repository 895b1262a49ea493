"""What is public about a table: its columns, their bounds and levels, its target."""

from ..transforms.categorical import Binary, Categorical
from ..transforms.column import Column
from ..transforms.date import Date
from ..transforms.identifier import Identifier
from ..transforms.number import Continuous, Count
from .schema import Schema, bundled, bundled_for

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
]
