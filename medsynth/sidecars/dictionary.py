"""The data dictionary: a CSV file with one line per column of the synthetic tables."""

from __future__ import annotations

import pandas as pd

from ..io.writer import BETWEEN, csv_text, inert
from .facts import Facts, SharedColumn, SharedTable


def dictionary(facts: Facts) -> str:
    """Return the data dictionary as CSV text. Its last column states on each line that the table is synthetic."""
    lines = [
        {name: inert(text) for name, text in _line(table, column).items()} | {"statement": facts.statement}
        for table in facts.tables
        for column in table.columns
    ]
    return csv_text(pd.DataFrame(lines, dtype=object), header=True)


def with_label(column: SharedColumn, code: str, shown: str) -> str:
    """Return a code and its label as codebooks write them: 1=mild."""
    label = column.value_labels.get(code, "").replace(";", ",")
    return f"{shown}={label}" if label else shown


def _line(table: SharedTable, column: SharedColumn) -> dict[str, str]:
    """Return the cells of a column's line, by the names of the dictionary's columns."""
    found = column.summary
    low, middle, high = found.quartiles if found and found.quartiles else ("", "", "")
    shares = found.shares if found else ()
    return {
        "table": table.name,
        "file": table.file,
        "column": column.name,
        "label": column.label,
        "kind": column.kind,
        "type": column.values,
        "role": column.role,
        "unit": column.unit,
        "minimum_allowed": column.low,
        "maximum_allowed": column.high,
        "levels": BETWEEN.join(with_label(column, level, level) for level in column.levels),
        "levels_in_order": "yes" if column.ordered else "",
        "declared_or_learned": column.origin,
        "missing_codes": BETWEEN.join(with_label(column, word, word or "(empty)") for word in column.missing),
        "decimals": "" if column.decimals is None else str(column.decimals),
        "format": column.format,
        "key": "yes" if column.is_key else "",
        "refers_to": ".".join(column.refers_to or ()),
        "notes": BETWEEN.join(column.about),
        "synthetic_share_missing": f"{found.missing:.4f}" if found else "",
        "synthetic_quartile_1": low,
        "synthetic_median": middle,
        "synthetic_quartile_3": high,
        "synthetic_level_shares": BETWEEN.join(f"{level}: {share:.4f}" for level, share in shares),
    }
