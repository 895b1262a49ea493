"""Columns whose released words a spreadsheet would run as formulas when it opens a CSV file of sampled rows."""

from __future__ import annotations

from ..io.writer import runs_as_formula
from ..schema import Schema


def formula_columns(schema: Schema) -> list[str]:
    """Their names: of columns whose name, levels or codes of missing values begin as formulas do.

    Rows keep such words as they are, for a cell that was altered is another cell; a person is told instead.
    """
    found = []
    for name, column in schema.columns.items():
        words = [name, *map(str, column.levels), *column.gap_words, str(getattr(column, "shape", ""))]
        if any(runs_as_formula(word) for word in words):
            found.append(name)
    return found
