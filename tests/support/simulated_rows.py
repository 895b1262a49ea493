"""Rows that a schema allows, drawn without a table: uniform values, computed columns, and no broken rule."""

from __future__ import annotations

import numpy as np
import pandas as pd

from medsynth.schema import Schema
from medsynth.schema.rules import evaluate


def simulated_rows(schema: Schema, rows: int, seed: int = 0) -> pd.DataFrame:
    """Return rows as texts. A column that a rule restricts, the first in its text, is empty where it would break it."""
    draw, codes = np.random.default_rng(seed), {}
    for name, column in schema.columns.items():
        whole = column.size + column.gaps if column.modelled else 0
        codes[name] = draw.integers(0, whole, rows).astype(np.int32) if whole else column.fresh(0, rows)
    for rule in schema.parsed_rules:
        values = {name: schema.columns[name].values(codes[name], {}) for name in rule.columns}
        if rule.defines and rule.formula:
            found = np.broadcast_to(evaluate(rule.formula, values), rows).astype(np.float64)
            codes[rule.defines] = schema.columns[rule.defines].code_computed(found, {})
        else:
            hidden = rule.text.split()[0]
            codes[hidden] = np.where(rule.broken(values), schema.columns[hidden].size, codes[hidden]).astype(np.int32)
    return pd.DataFrame({name: schema.columns[name].csv_cells(codes[name], {}) for name in schema.columns})
