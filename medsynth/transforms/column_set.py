"""What the table codec needs of a schema, a room above: columns by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from .column import Column


class ColumnSet(Protocol):
    """Columns by name, in a table's order, as a schema declares them."""

    @property
    def name(self) -> str:
        """The schema's name, for messages."""

    @property
    def columns(self) -> Mapping[str, Column]:
        """The columns."""

    @property
    def names(self) -> tuple[str, ...]:
        """Their names in the table's order."""
