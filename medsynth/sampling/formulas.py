"""Find columns whose words a spreadsheet would run as formulas when it opens a CSV file of sampled rows."""

from __future__ import annotations

from ..io.writer import runs_as_formula
from ..schema import Schema


def formula_columns(schema: Schema) -> list[str]:
    """Return the columns whose name, levels or codes of missing values start as formulas do.

    The words stay unchanged in the rows, since a changed cell is another cell; a warning names the columns instead.
    """
    found = []
    for name, column in schema.columns.items():
        words = [name, *map(str, column.levels), *column.gap_words, str(getattr(column, "shape", ""))]
        if any(runs_as_formula(word) for word in words):
            found.append(name)
    return found
