"""A schema drafted from the header and the columns' dtypes alone: it contains no cell of the table."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import yaml

from ..io.table import Kind
from .columns.registry import KINDS
from .header import keys as keys_by_name

HEAD = """\
# Drafted from column names and from what their cells are: confirm each kind, since the cells are private.
# Replace each value that is still to do by public knowledge: what the assay can measure,
# what the form offers. Never look bounds or levels up in the table: what is copied from patients leaks.
# Add `missing: true` to a column that may be empty, `out_of_range: error` to one that must not be clipped.
"""
_KEY = '{kind: identifier, shape: "########"}  # rows that share a person: name it in `unit`, with `max_rows`'


def draft(name: str, kinds: Mapping[str, Kind]) -> str:
    """YAML text of an unfinished schema. `kinds`: each column's kind of text, in the table's order."""
    known = keys_by_name(kinds)
    last = next((name for name in reversed(list(kinds)) if name not in known), list(kinds)[-1])
    target = yaml.safe_dump({"target": last}, allow_unicode=True).strip()
    head = yaml.safe_dump({"name": name}, allow_unicode=True)
    return f"{HEAD}{head}{target}  # is this the column to predict?\ncolumns:\n" + "\n".join(column_lines(kinds)) + "\n"


def column_lines(kinds: Mapping[str, Kind], keys: Collection[str] = (), key_line: str = _KEY) -> list[str]:
    """A line for each column. `keys`: columns known to be keys, beside those whose names say so; their `key_line`."""
    known = {*keys_by_name(kinds), *keys}
    names = (yaml.safe_dump({key: None}, allow_unicode=True, width=10_000).rsplit(":", 1)[0] for key in kinds)
    forms = {text: form for kind in reversed(KINDS.values()) for text, form in kind.drafts.items()}
    return [
        f"  {key}: {key_line if name in known else forms[kind]}"
        for key, (name, kind) in zip(names, kinds.items(), strict=True)
    ]
