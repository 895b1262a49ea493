"""Check rows against what was declared: bounds, levels, decimals, rules between columns and rows, links of tables."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from ...sampling.rules_across_rows import Succession, in_order
from ...schema import Column, Schema
from ...schema.rules import Rule, ValuesByName, evaluate
from ..data.columns import known_cells
from ..data.context import Context, LinkedFacts
from ..data.proposal import EXPLORING, TEACHING, TESTING
from ..data.question import Question, Wording
from ..data.verdict import Estimate, Record, Thresholds, Verdict
from .documentation import schema_learned
from .registry import Section

NOT_DECLARED = (
    "No schema was declared: not judged. The schema was learned from the rows, so synthetic rows obey it by design."
)
BETWEEN, ACROSS = "between columns", "across rows"
CLOSE = 0.02  # Relative error of a computed value. Real rows are measured, so a definition is only nearly true in them.


class RuleCheck(Record):
    """One declared rule, and the shares of real held-out rows and of synthetic rows that break it."""

    column: str
    rule: str
    real: float | None
    synthetic: float


class Plausibility(Record):
    """Every checked rule. `broken`: the number of rules that synthetic rows break. `unchecked`: why not all were.

    `judged` is false for a schema that was learned from the rows: it cannot judge the rows that were drawn by it.
    """

    rules: list[RuleCheck]
    broken: int
    unchecked: str | None
    judged: bool = True


def plausibility(schema: Schema, real: pd.DataFrame | None, synthetic: pd.DataFrame) -> Plausibility:
    """Check every rule of every column on tables of text cells. `real` is None in a shareable report.

    Rules across rows apply to each patient's rows in order. Both tables need the columns of patients and order.
    """
    across = schema.has_rules_across_rows
    unchecked = _without_order(schema, real, synthetic)
    orders = [in_order(t, schema) if across and not unchecked and t is not None else None for t in (real, synthetic)]
    real = None if real is None else known_cells(real, schema)
    synthetic = known_cells(synthetic, schema)
    rules = []
    for name, column in schema.columns.items():
        if name in synthetic.columns and (real is None or name in real.columns):
            sides = [None if t is None else _broken(column, t[name]) for t in (real, synthetic)]
            for rule, made in (sides[1] or {}).items():
                real_share = sides[0][rule] if sides[0] else None
                rules.append(RuleCheck(column=name, rule=rule, real=real_share, synthetic=made))
    for between in schema.parsed_rules:
        read = between.columns | ({between.defines} if between.defines else set())
        there = all(read <= set(t.columns) for t in (real, synthetic) if t is not None)
        if there and not (between.across and unchecked):
            ours = None if real is None else _between(between, schema, real, orders[0])
            made = _between(between, schema, synthetic, orders[1])
            kind = ACROSS if between.across else BETWEEN
            rules.append(RuleCheck(column=kind, rule=between.text, real=ours, synthetic=made))
    return Plausibility(rules=rules, broken=sum(rule.synthetic > 0 for rule in rules), unchecked=unchecked)


def _without_order(schema: Schema, real: pd.DataFrame | None, synthetic: pd.DataFrame) -> str | None:
    """Return why the schema's rules across rows cannot be checked: a table lacks the patients or the order."""
    for which, table in {"real": real, "synthetic": synthetic}.items():
        lacking = [name for name in (schema.unit, schema.order) if table is not None and name not in table]
        if lacking and schema.has_rules_across_rows:
            return (
                f"Rules across rows were not checked: the {which} table has no column {lacking[0]!r}, which orders a "
                "patient's rows."
            )
    return None


def _between(rule: Rule, schema: Schema, table: pd.DataFrame, order: Succession | None) -> float:
    """Return the share of rows that break a constraint, or differ from a definition by over 2 % and a last decimal.

    A row in which a definition has no result, such as a division by zero, cannot break it.
    """
    names = rule.columns | ({rule.defines} if rule.defines else set())
    values: ValuesByName = {name: schema.columns[name].cell_values(table[name]) for name in names}
    position = order.position({name: values[name] for name in rule.before}) if order else None
    if not (rule.defines and rule.formula):
        return float(np.broadcast_to(rule.broken(values, position), len(table)).mean())
    column = schema.columns[rule.defines]
    stated = values[rule.defines].astype(np.float64)
    low, high = (end / 10**column.places for end in column.number_units)
    computed = np.asarray(evaluate(rule.formula, values, position), np.float64)
    if rule.cumulative and order:
        computed = order.running_sum(computed, (low, high))
    computed = np.clip(np.where(np.isfinite(computed), computed, np.nan), low, high)
    with np.errstate(invalid="ignore"):
        return float((np.abs(stated - computed) > CLOSE * np.abs(computed) + 10.0**-column.places).mean())


def _broken(column: Column, values: pd.Series) -> dict[str, float]:
    return {rule: float(hit.sum() / max(len(values), 1)) for rule, hit in column.validate_cells(values).items()}


RULES = Question(
    key="rules_broken",
    words="Do synthetic rows obey the schema?",
    measure="rules broken",
    limit=0.0,
    source="the schema",
    cure="See under Plausibility which rules are broken. Sample again with these rules, or report a fault.",
    uses=(TESTING,),
    further_uses=(TEACHING,),
    plain=Wording("Rules that synthetic rows break: {value}. The limit is {limit}."),
    decimals=0,
)
LINKS = Question(
    key="rows_apart",
    words="Do the tables belong together?",
    measure="rows that belong to no row, come too early or are too many",
    limit=0.0,
    source="the file that names the tables",
    cure="Draw all tables again together. Do not join these files.",
    further_uses=(TESTING, TEACHING),
    plain=Wording("Rows without a patient or partner, too early or too many: {value}. The limit is {limit}."),
    decimals=0,
)
CODES = Question(
    key="codes_apart",
    words="Do a patient's codes go together?",
    measure="part of the relations between a patient's codes that is lost",
    limit=0.5,
    source="half of a relation lost: a convention of this report",
    cure="Do not study which codes one patient has together. For that, make and fit one row per patient with a column "
    "for each code.",
    further_uses=(EXPLORING,),
    plain=Wording("Of how a patient's codes go together, {value} in 100 is lost{between}. The limit is {limit}.",
                  scale=100, decimals=0),
)  # fmt: skip


def _verdicts(found: Plausibility, thresholds: Thresholds) -> Sequence[Verdict]:
    if not found.judged:
        return [RULES.judge(Estimate(value=None), thresholds, found.unchecked or "", instead="not judged")]
    detail = f"{len(found.rules)} rules were checked on every row."
    return [RULES.judge(Estimate(value=float(found.broken)), thresholds, detail)]


def _plausibility(context: Context) -> Plausibility:
    if context.model is not None and schema_learned(context.model.ledger):
        return Plausibility(rules=[], broken=0, unchecked=NOT_DECLARED, judged=False)
    return plausibility(context.declared, context.real, context.synthetic)


def _links(found: LinkedFacts, thresholds: Thresholds) -> Sequence[Verdict]:
    detail = f"Keys and dates of {len(found.tables)} tables were compared row by row."
    lines = [LINKS.judge(Estimate(value=float(found.broken)), thresholds, detail)]
    if found.codes_lost.value is not None:
        detail = "It is compared which of the most frequent codes each patient has, in all tables."
        lines.append(CODES.judge(found.codes_lost, thresholds, detail))
    return lines


PLAUSIBILITY = Section(
    "plausibility", "Plausibility", _plausibility, Plausibility, needs=("schema",), questions=(RULES,),
    verdicts=_verdicts, compares=False,
)  # fmt: skip
TABLES = Section(
    "tables",
    "Several tables",
    lambda c: c.linked,
    LinkedFacts,
    questions=(LINKS, CODES),
    verdicts=_links,
    compares=False,
)  # fmt: skip
