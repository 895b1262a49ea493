"""Does every row obey what the schema declares? Bounds, levels, decimals, and rules between columns."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ...schema import Column, Schema
from ...schema.constraints import Rule as Between
from ...schema.constraints import evaluate
from ..data.columns import known_cells
from ..data.context import Context
from ..data.records import Estimate, Record
from ..data.review import Thresholds
from ..data.verdict import Verdict, decide
from .registry import Section

BETWEEN = "between columns"
CLOSE = 0.02  # of a computed value: real rows are measured, so a definition holds in them nearly


class Rule(Record):
    """One declared rule, and the share of real held-out and of synthetic rows that break it."""

    column: str
    rule: str
    real: float | None
    synthetic: float


class Plausibility(Record):
    """Every rule checked. `broken`: how many rules any synthetic row breaks."""

    rules: list[Rule]
    broken: int


def plausibility(schema: Schema, real: pd.DataFrame | None, synthetic: pd.DataFrame) -> Plausibility:
    """Every rule of every column of the tables, given as cells of text. `real` is None in a shareable report."""
    real, synthetic = None if real is None else known_cells(real, schema), known_cells(synthetic, schema)
    rules = []
    for name, column in schema.columns.items():
        if name in synthetic.columns and (real is None or name in real.columns):
            sides = [None if t is None else _broken(column, t[name]) for t in (real, synthetic)]
            for rule, made in (sides[1] or {}).items():
                rules.append(Rule(column=name, rule=rule, real=sides[0][rule] if sides[0] else None, synthetic=made))
    for between in schema.parsed_rules:
        read = between.columns | ({between.defines} if between.defines else set())
        if all(read <= set(t.columns) for t in (real, synthetic) if t is not None):
            found = [None if t is None else _between(between, schema, t) for t in (real, synthetic)]
            rules.append(Rule(column=BETWEEN, rule=between.text, real=found[0], synthetic=found[1] or 0.0))
    return Plausibility(rules=rules, broken=sum(rule.synthetic > 0 for rule in rules))


def _between(rule: Between, schema: Schema, table: pd.DataFrame) -> float:
    """The share of rows that break a constraint, or are further than 2 % and a last decimal from a definition."""
    names = rule.columns | ({rule.defines} if rule.defines else set())
    values = {name: schema.columns[name].cell_values(table[name]) for name in names}
    if not (rule.defines and rule.formula):
        return float(rule.broken(values).mean())
    column, stated = schema.columns[rule.defines], values[rule.defines].astype(np.float64)
    low, high = (end / 10**column.places for end in column.units)
    computed = np.clip(np.asarray(evaluate(rule.formula, values), np.float64), low, high)
    with np.errstate(invalid="ignore"):
        return float((np.abs(stated - computed) > CLOSE * np.abs(computed) + 10.0**-column.places).mean())


def _broken(column: Column, values: pd.Series) -> dict[str, float]:
    """The share of rows that breaks each rule of a column."""
    return {rule: float(hit.sum() / max(len(values), 1)) for rule, hit in column.validate_cells(values).items()}


def _verdicts(found: Plausibility | None, thresholds: Thresholds) -> Sequence[Verdict]:
    if found is None:
        return []
    question, detail = "Do synthetic rows obey the schema?", f"{len(found.rules)} rules were checked on every row."
    broken = Estimate(value=float(found.broken))
    return [decide("rules_broken", question, "rules broken", broken, thresholds.rules_broken, detail, decimals=0)]


def _compute(context: Context) -> Plausibility | None:
    return plausibility(context.schema, context.real, context.synthetic) if context.schema else None


SECTION = Section(id="plausibility", title="Plausibility", compute=_compute, record=Plausibility, verdicts=_verdicts)
