"""A schema drafted from the header and the columns' dtypes alone: no cell of the table stands in it."""

from __future__ import annotations

from collections.abc import Mapping

import yaml

_FORMS = {
    "int": "{kind: count, bounds: [TODO, TODO]}  # or {kind: binary, levels: [0, 1]}, or categorical",
    "float": "{kind: continuous, bounds: [TODO, TODO], decimals: TODO, unit: TODO}  # scale: log for skewed assays",
    "text": "{kind: categorical, levels: [TODO]}  # or {kind: binary, levels: [F, M]}",
}
_HEAD = """\
# Drafted from column names and types alone. Replace every TODO by public knowledge: what the assay can measure,
# what the form offers. Never look bounds or levels up in the table: what is copied from patients leaks.
# Add `missing: true` to a column that may be empty, `out_of_range: error` to one that must not be clipped.
"""


def draft(name: str, kinds: Mapping[str, str]) -> str:
    """YAML text of an unfinished schema. `kinds`: column name to "int", "float" or "text", in the table's order."""
    target = yaml.safe_dump({"target": list(kinds)[-1]}, allow_unicode=True).strip()
    keys = (yaml.safe_dump({key: None}, allow_unicode=True, width=10_000).rsplit(":", 1)[0] for key in kinds)
    lines = [f"  {key}: {_FORMS[kind]}" for key, kind in zip(keys, kinds.values(), strict=True)]
    head = yaml.safe_dump({"name": name}, allow_unicode=True)
    return f"{_HEAD}{head}{target}  # TODO: is this the column to predict?\ncolumns:\n" + "\n".join(lines) + "\n"
