"""Check rows against what was declared: bounds, levels, decimals, rules between columns and rows, links of tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import permutations

import numpy as np
import pandas as pd

from ...arrays import Mask
from ...sampling.rules_across_rows import Succession, in_order
from ...schema import Column, Schema
from ...schema.columns.column import level_text
from ...schema.drafts import suggested_rules
from ...schema.rules import Rule, ValuesByName, evaluate, in_rule
from ..data.columns import known_cells
from ..data.context import Context, LinkedFacts
from ..data.question import QUESTIONS
from ..data.verdict import Estimate, Record, Thresholds, Verdict
from .documentation import schema_learned
from .registry import Section

NOT_DECLARED = (
    "No schema was declared: not judged. The schema was learned from the rows, so synthetic rows obey it by design."
)
BETWEEN, ACROSS = "between columns", "across rows"
HARDLY, SOME_ROWS = 0.01, 30  # share of real rows that may break a relation; rows that show one
MOST_LEVELS = 10  # of a column whose levels may exclude another value
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
    `relations`: those by which rows are impossible: rules that the schema declares, that the headers imply, or that
    nearly all real rows obey. `impossible`: the share of synthetic rows that break one of them.
    """

    rules: list[RuleCheck]
    broken: int
    unchecked: str | None
    judged: bool = True
    relations: list[RuleCheck] = []
    impossible: float | None = None


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
            ours = None if real is None else float(_between(between, schema, real, orders[0]).mean())
            made = float(_between(between, schema, synthetic, orders[1]).mean())
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


def impossible(schema: Schema, real: pd.DataFrame | None, synthetic: pd.DataFrame) -> tuple[list[RuleCheck], float]:
    """Return the relations that rows must obey, and the share of synthetic rows that break one of them.

    Without real rows, these are rules that the schema declares and those that the headers imply. Real rows exclude a
    rule that more than a few of them break, unless it is declared. They add orders of dates, and levels that occur only
    where another column is empty.
    """
    columns = {name: schema.columns[name] for name in schema.columns if name in synthetic.columns}
    columns = {n: c for n, c in columns.items() if c.modelled and (real is None or n in real.columns)}
    known, made = None if real is None else known_cells(real, schema), known_cells(synthetic, schema)
    declared = [rule.text for rule in schema.parsed_rules if not rule.across]
    found = list[RuleCheck]()
    broken = np.zeros(len(synthetic), np.bool_)
    more = _from_rows(columns, real) if real is not None else ()
    levels = {name: {"levels": column.levels} for name, column in columns.items()}
    for text in dict.fromkeys((*declared, *suggested_rules(columns, levels), *more)):
        try:
            rule = schema.rule(text)
        except ValueError:  # a column has other levels, or is a word
            continue
        if not rule.columns | {rule.defines or min(rule.columns)} <= columns.keys():
            continue
        share = None if known is None else float(_between(rule, schema, known, None).mean())
        if text in declared or share is None or share <= HARDLY:
            own = _between(rule, schema, made, None)
            broken |= own
            found.append(RuleCheck(column=BETWEEN, rule=text, real=share, synthetic=float(own.mean())))
    return found, float(broken.mean())


def _from_rows(columns: Mapping[str, Column], real: pd.DataFrame) -> Iterator[str]:
    """Yield rules that may hold in nearly all real rows: dates in order, and levels that exclude another value."""
    known = {name: pd.notna(column.cell_values(real[name])) for name, column in columns.items()}
    names = {name: text for name in columns if (text := in_rule(name))}
    dates = [name for name in names if columns[name].dated and "%d" in getattr(columns[name], "format", "")]
    for one, other in permutations(dates, 2):
        if (known[one] & known[other]).sum() >= SOME_ROWS:
            yield f"{names[one]} <= {names[other]}"
    levels = [
        (f'{names[name]} != "{level}"', name, own)
        for name, column in columns.items() if name in names and column.categorical and 0 < column.size <= MOST_LEVELS
        for level in map(level_text, column.levels)
        if '"' not in level and (own := np.asarray(column.cell_values(real[name]) == level)).sum() >= SOME_ROWS
    ]  # fmt: skip
    for one in names:
        if columns[one].gaps and known[one].sum() >= SOME_ROWS:
            for text, other, own in levels:
                if other != one and (own & known[one]).sum() <= HARDLY * own.sum():
                    yield f"{names[one]} is present implies {text}"


def _between(rule: Rule, schema: Schema, table: pd.DataFrame, order: Succession | None) -> Mask:
    """Return which rows break a constraint, or differ from a definition by over 2 % and a last decimal: (rows,).

    A row in which a definition has no result, such as a division by zero, cannot break it.
    """
    names = rule.columns | ({rule.defines} if rule.defines else set())
    values: ValuesByName = {name: schema.columns[name].cell_values(table[name]) for name in names}
    position = order.position({name: values[name] for name in rule.before}) if order else None
    if not (rule.defines and rule.formula) or rule.code:
        return np.broadcast_to(rule.broken(values, position), len(table))
    column = schema.columns[rule.defines]
    stated = values[rule.defines].astype(np.float64)
    low, high = (end / 10**column.places for end in column.number_units)
    computed = np.asarray(evaluate(rule.formula, values, position), np.float64)
    if rule.cumulative and order:
        computed = order.running_sum(computed, (low, high))
    computed = np.clip(np.where(np.isfinite(computed), computed, np.nan), low, high)
    with np.errstate(invalid="ignore"):
        return np.asarray(np.abs(stated - computed) > CLOSE * np.abs(computed) + 10.0**-column.places)


def _broken(column: Column, values: pd.Series) -> dict[str, float]:
    return {rule: float(hit.sum() / max(len(values), 1)) for rule, hit in column.validate_cells(values).items()}


RULES = QUESTIONS["rules_broken"]
IMPOSSIBLE = QUESTIONS["impossible_rows"]
LINKS = QUESTIONS["rows_apart"]
CODES = QUESTIONS["codes_apart"]
CDM = QUESTIONS["cdm_checks"]


def _verdicts(found: Plausibility, thresholds: Thresholds) -> Sequence[Verdict]:
    detail = f"{len(found.rules)} rules were checked on every row."
    lines = [RULES.judge(Estimate(value=float(found.broken)), thresholds, detail)] if found.judged else [
        RULES.judge(Estimate(value=None), thresholds, found.unchecked or "", instead="not judged")
    ]  # fmt: skip
    if found.relations:
        detail = f"Rows that break one of {len(found.relations)} relations between columns were counted."
        lines.append(IMPOSSIBLE.judge(Estimate(value=found.impossible), thresholds, detail))
    return lines


def _plausibility(context: Context) -> Plausibility:
    if context.model is not None and schema_learned(context.model.ledger):
        found = Plausibility(rules=[], broken=0, unchecked=NOT_DECLARED, judged=False)
    else:
        found = plausibility(context.declared, context.real, context.synthetic)
    relations, share = impossible(context.declared, context.real, context.synthetic)
    return found.model_copy(update={"relations": relations, "impossible": share if relations else None})


def _links(found: LinkedFacts, thresholds: Thresholds) -> Sequence[Verdict]:
    detail = f"Keys and dates of {len(found.tables)} tables were compared row by row."
    lines = [LINKS.judge(Estimate(value=float(found.broken)), thresholds, detail)]
    if found.codes_lost.value is not None:
        detail = "It is compared which of the most frequent codes each patient has, in all tables."
        lines.append(CODES.judge(found.codes_lost, thresholds, detail))
    if found.checks:
        failed = [check for check in found.checks if (check.synthetic or 0.0) > check.limit]
        detail = f"{len(found.checks)} checks were made, each on all rows of a table."
        lines.append(CDM.judge(Estimate(value=float(len(failed))), thresholds, detail))
    return lines


PLAUSIBILITY = Section(
    "plausibility", "Plausibility", _plausibility, Plausibility, needs=("schema",), questions=(RULES, IMPOSSIBLE),
    verdicts=_verdicts, compares=False,
)  # fmt: skip
TABLES = Section(
    "tables", "Several tables", lambda c: c.linked, LinkedFacts, questions=(LINKS, CODES, CDM), verdicts=_links,
    compares=False,
)  # fmt: skip
