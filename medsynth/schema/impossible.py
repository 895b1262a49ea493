"""Rules of single rows that no row can meet, found by trying all values of their columns: before anything is spent."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from ..errors import SchemaError
from .rules import Constraint
from .schema import Schema

MOST_ROWS = 1_000_000  # rows that are tried; rules about more values are left to sampling


def refuse_impossible_rules(schema: Schema) -> None:
    """Raise SchemaError if no row can meet a rule, or several rules together."""
    single = [[rule] for rule in schema.core.constraints]
    for rules in [*single, *about_the_same(schema.core.constraints)]:
        if _impossible(rules):
            named = " and ".join(repr(rule.rule.text) for rule in rules)
            raise SchemaError(
                f"schema {schema.name!r}: no row can meet {named}. Correct the rules, or the columns' levels or bounds."
            )


def about_the_same(rules: Sequence[Constraint]) -> list[list[Constraint]]:
    """Return the rules in groups, so that rules of two groups share no column."""
    groups = list[list[Constraint]]()
    for rule in rules:
        touched = [group for group in groups if any(one.inputs.keys() & rule.inputs.keys() for one in group)]
        joined = [*(one for group in touched for one in group), rule]
        groups = [*(group for group in groups if group not in touched), joined]
    return groups


def _impossible(rules: Sequence[Constraint]) -> bool:
    """Return whether each row, of all that there can be, breaks one of the rules; False if there are too many.

    Levels that are not declared cannot be tried.
    """
    columns = {name: column for rule in rules for name, column in rule.inputs.items()}
    sizes = [column.size + column.gaps for column in columns.values()]
    rows = math.prod(sizes)
    if not 0 < rows <= MOST_ROWS:
        return False
    places = np.unravel_index(np.arange(rows), sizes)
    codes = dict(zip(columns, (place.astype(np.int32) for place in places), strict=True))
    met = np.ones(rows, np.bool_)
    for rule in rules:
        met &= ~rule.broken(np.column_stack([codes[name] for name in rule.inputs]))
    return not met.any()
