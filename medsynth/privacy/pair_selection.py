"""Learn which label each code has, for rules `code determines label`: from a noisy table of pairs for each rule.

All tables are one release. Every pair of released levels is counted, whether a row has it or not: a Gaussian
measurement, which needs no part of delta. A pair is kept if its count passes the threshold of partition selection: a
pair that only one patient has is kept with at most the chance `delta` of `threshold`. Of several, the pair with the
largest noisy count stays. Codes without a pair become one level, `other`, and their label is `other`, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np

from ..arrays import Floats
from ..schema import Schema
from ..schema.columns.categorical import Categorical
from ..schema.columns.column import Column, Level, level_text
from ..schema.rules import Rule
from .accounting.calibration import PARTITION_SELECTION_DELTA, Charge, Plan
from .noise import rarely_exceeded
from .queries.cells import EveryCode
from .queries.rows import Axes

OTHER = "other"  # The level of codes without a pair, unless `unknown` names such a level; it never has a pair.
LABEL, LOSS_SHARE = "schema: pairs of codes and labels", 0.06  # Share of the privacy loss, over all rules.
Measure = Callable[[str, Mapping[str, Axes]], Mapping[str, Floats]]  # Vault.measure_marginals.


def queries(schema: Schema) -> list[Charge]:
    """Return the query that learns pairs: one for all rules whose pairs are open."""
    return [Charge(label=LABEL, weight=LOSS_SHARE**-0.5)] if schema.open_pairs else []


def columns_of(rules: Sequence[Rule]) -> tuple[str, ...]:
    """Return the columns of rules, each once: codes and labels."""
    return tuple(dict.fromkeys(name for rule in rules for name in (rule.code or "", rule.defines or "")))


def threshold(plan: Plan, rules: int) -> tuple[float, float]:
    """Return the noise of a pair's count, and the count that it must exceed.

    A patient has at most R rows, and so at most R pairs per rule with counts of at most R.
    """
    most = plan.max_rows or 1
    std = plan.noise(LABEL) * math.sqrt(rules)
    return std, most + rarely_exceeded(std, PARTITION_SELECTION_DELTA * plan.delta / (rules * most))


def select_pairs(schema: Schema, measure: Measure, plan: Plan) -> Schema:
    """Return a settled schema with the pairs that noisy counts show, and `other` for codes without one.

    `measure` releases noisy tables of the columns' codes: `measure_marginals` of the vault with the rows.
    """
    rules = schema.open_pairs
    cells = {name: EveryCode(schema.columns[name].size + schema.columns[name].gaps) for name in columns_of(rules)}
    counts = measure(LABEL, {rule.text: [(name, cells[name]) for name in columns_of([rule])] for rule in rules})
    _, least = threshold(plan, len(rules))
    found = {rule.text: _pairs(schema, rule, counts[rule.text], least) for rule in rules}
    columns, pairs = dict[str, Column](), dict(schema.pairs)
    for code in dict.fromkeys(rule.code or "" for rule in rules):
        kept = {one for rule in rules if rule.code == code for one in found[rule.text]}
        column = schema.columns[code]
        levels = tuple(level for level in column.levels if level_text(level) in kept)
        if len(levels) < column.size:
            other = _other(column, levels)
            columns[code] = _with_levels(column, (*levels, other), unknown=other)
    for rule in rules:
        code, label = (columns.get(name, schema.columns[name]) for name in columns_of([rule]))
        other = _other(label, found[rule.text].values())
        own = {text: found[rule.text].get(text, other) for text in map(level_text, code.levels)}
        pairs[rule.defines or ""] = own
        if {*own.values()} - {*label.levels} or (code.gaps and not label.gaps):
            levels = tuple(dict.fromkeys((*label.levels, *own.values())))
            columns[rule.defines or ""] = _with_levels(label, levels, missing=label.missing or bool(code.gaps))
    return schema.with_columns(schema.columns | columns, pairs=pairs)


def _pairs(schema: Schema, rule: Rule, counts: Floats, least: float) -> dict[str, Level]:
    """Return the label of each code that has one, by noisy counts of pairs, (codes, labels)."""
    code, label = (schema.columns[name] for name in columns_of([rule]))
    counts = counts[: code.size, : label.size]
    best = counts.argmax(axis=1)
    found = {level_text(code.levels[k]): label.levels[best[k]] for k in np.flatnonzero(counts.max(axis=1) > least)}
    return {text: level for text, level in found.items() if text != OTHER}


def _other(column: Column, kept: Collection[Level]) -> Level:
    """Return the level for what has no pair: that of unknown cells, unless it is in a pair itself."""
    unknown = getattr(column, "unknown", None)
    word = OTHER + "s" * (OTHER in column.gap_words)
    return next((level for level in column.levels if level == unknown and level not in kept), word)


def _with_levels(column: Column, levels: tuple[Level, ...], **changes: object) -> Column:
    """Return a column with other levels, of any number."""
    content = {**column.to_dict(), "levels": levels, **changes}
    known = {*map(level_text, levels), *column.gap_words}
    content["value_labels"] = {code: text for code, text in column.value_labels.items() if code in known}
    return Categorical.model_validate(content | ({"kind": "categorical"} if column.kind == "binary" else {}))
