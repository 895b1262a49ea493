"""Does every row keep to what the schema declares? Values outside bounds, undeclared levels, too many decimals."""

from __future__ import annotations

import numpy as np
import pandas as pd

from ..schema import Binary, Categorical, Schema
from ..schema.columns import Column
from .inputs import words
from .parts import Part


class Rule(Part):
    """One declared rule, and the share of real held-out and of synthetic rows that break it."""

    column: str
    rule: str
    real: float | None
    synthetic: float


class Plausibility(Part):
    """Section 13. `broken`: how many rules any synthetic row breaks."""

    rules: list[Rule]
    broken: int


def plausibility(schema: Schema, real: pd.DataFrame | None, synthetic: pd.DataFrame) -> Plausibility:
    """Every rule of every column that the tables have. `real` may be None, in a shareable report."""
    rules = []
    for name, column in schema.columns.items():
        if name in synthetic.columns and (real is None or name in real.columns):
            sides = [None if t is None else _broken(column, t[name]) for t in (real, synthetic)]
            for rule, made in (sides[1] or {}).items():
                rules.append(Rule(column=name, rule=rule, real=sides[0][rule] if sides[0] else None, synthetic=made))
    return Plausibility(rules=rules, broken=sum(rule.synthetic > 0 for rule in rules))


def _broken(column: Column, values: pd.Series) -> dict[str, float]:
    """The share of rows that breaks each rule of a column."""
    found = {} if column.missing else {"not missing": float(values.isna().mean())}
    known = values.dropna()
    if isinstance(column, Binary | Categorical):
        declared = {str(level) for level in column.levels} | {str(level).lower() for level in column.levels}
        return {"a declared level": float((~words(known).isin(declared)).sum() / max(len(values), 1)), **found}
    number = pd.to_numeric(known, errors="coerce").to_numpy(np.float64)
    low, high = column.bounds
    outside = (number < low) | (number > high) | np.isnan(number)
    units = number * 10.0**column.places
    finer = np.abs(units - np.round(units)) > 1e-6 * (1 + np.abs(units))
    places = f"at most {column.places} decimals" if column.places else "a whole number"
    share = {f"within {low:g} to {high:g}": outside, places: finer}
    return {rule: float(hit.sum() / max(len(values), 1)) for rule, hit in share.items()} | found
