"""What is public about a table: its columns, their bounds and levels, its target."""

from ..transforms.columns import Binary, Categorical, Column, Continuous, Count, Date, Identifier
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
