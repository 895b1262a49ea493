"""Rows that a schema allows, drawn without any table: uniform values, with computed columns and without broken rules."""

from __future__ import annotations

import numpy as np
import pandas as pd

from medsynth.schema import Schema


def simulated_rows(schema: Schema, rows: int, seed: int = 0) -> pd.DataFrame:
    """Return rows as texts. A column that a rule about one column restricts is empty where it would break the rule."""
    draw = np.random.default_rng(seed)
    codes = {}
    for name, column in schema.columns.items():
        size = min(column.size, 10**6) + (column.gaps if column.modelled else 0)
        codes[name] = draw.integers(0, size, rows).astype(np.int32) if column.modelled else column.fresh(0, rows)
    for rule in schema.parsed_rules:
        values = {name: schema.columns[name].values(codes[name], {}) for name in rule.columns}
        if rule.defines:
            from medsynth.schema.rules import evaluate

            assert rule.formula is not None
            found = np.broadcast_to(evaluate(rule.formula, values), rows).astype(float)
            codes[rule.defines] = schema.columns[rule.defines].code_computed(found, {})
        else:
            hidden = rule.text.split()[0]
            codes[hidden] = np.where(rule.broken(values), schema.columns[hidden].size, codes[hidden]).astype(np.int32)
    return pd.DataFrame({name: schema.columns[name].csv_cells(codes[name], {}) for name in schema.columns})
