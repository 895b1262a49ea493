"""Rules across a patient's rows, evaluated on whole tables and, while patients are drawn, row after row.

A table's rows are sorted by patient and by the schema's `order`; rows of equal order keep the order of the file. While
patients are drawn, the previous row is known, with the sums so far. `completed` computes what rules define in the next
row, and `broken_next` finds next rows that break a rule.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ..arrays import Codes, Floats, Mask, Texts, Whole
from ..io.table import MISSING_TOKENS
from ..schema import Schema
from ..schema.codec import column_values, related_values
from ..schema.columns.parts import missing_alone
from ..schema.rules import Position, Rule, ValuesByName, evaluate


def values(codes: Codes, schema: Schema, names: set[str]) -> ValuesByName:
    """Return columns as constraints compare them: numbers with NaN for missing, levels as text with None."""
    return {name: column_values(codes, schema, name) for name in names}


# Row after row.


def completed(rows: Codes, before: Codes | None, schema: Schema) -> Codes:
    """Return the rows, (rows, columns of the schema), with the columns that rules define computed in rule order.

    rows: codes of the patients' next rows, with any value in defined columns. before: the completed rows before them,
    patient by patient; None for first rows. A running sum adds this row's value to the previous sum; a missing value
    adds nothing. A result beyond the bounds is clipped. NaN, as from `previous` in a first row, is missing, or the
    lower bound if the column has no missing values.
    """
    rows = rows.copy()
    for rule in schema.parsed_rules:
        if rule.defines and rule.formula:
            result = evaluate(rule.formula, values(rows, schema, rule.columns), _next(before, None, schema, rule, rows))
            if rule.cumulative:
                sums = 0.0 if before is None else column_values(before, schema, rule.defines).astype(np.float64)
                result = np.nan_to_num(result.astype(np.float64)) + np.nan_to_num(sums)
            related = related_values(rows, schema, rule.defines)
            own: Any = np.broadcast_to(result, len(rows))
            rows[:, schema.names.index(rule.defines)] = schema.columns[rule.defines].code_computed(own, related)
    return rows


def broken_next(rows: Codes, before: Codes | None, last: Mask, schema: Schema) -> Mask:
    """Return which of the patients' next rows break a constraint, of single rows or across rows: (rows,).

    rows, before: completed codes, (rows, columns of the schema) each; before is None for first rows. last: (rows,),
    whether the patient ends with this row. If a patient ends with the previous row instead, check that row again: rules
    may read `last row`.
    """
    found = missing_alone(rows, schema.columns)
    for rule in schema.parsed_rules:
        if not rule.defines:
            found |= rule.broken(values(rows, schema, rule.columns), _next(before, last, schema, rule, rows))
    return found


def _next(before: Codes | None, last: Mask | None, schema: Schema, rule: Rule, rows: Codes) -> Position:
    """Return the position of next rows, as far as a rule reads it."""
    first = np.full(len(rows), before is None)
    own = values(rows if before is None else before, schema, rule.before)
    known = own if before is not None else {name: _empty(some) for name, some in own.items()}
    return Position(known, first, first if last is None else last)


def _empty(some: Floats | Texts) -> Floats | Texts:
    return np.full_like(some, None if some.dtype == object else np.nan)


# Whole tables.


@dataclass(frozen=True, eq=False)
class Succession:
    """A table's rows in order: the index of the previous row in `before`, -1 for first rows, and `last` rows: (rows,).

    `turns`: the indices of all first rows, then of all second ones, and so on.
    """

    before: Whole
    last: Mask
    turns: tuple[Whole, ...]

    @classmethod
    def of(cls, patients: Whole, order: Whole | Floats) -> Succession:
        """Sort rows by patient and order, (rows,) each. NaN in the order comes last; equal rows stay as they are.

        >>> Succession.of(np.array([7, 8, 7, 7]), np.array([2, 1, 3, 1])).before.tolist()
        [3, -1, 0, -1]
        """
        rows = np.lexsort((order, patients))
        before = np.full(len(rows), -1, np.int64)
        last = np.ones(len(rows), np.bool_)
        same = patients[rows][1:] == patients[rows][:-1]
        before[rows[1:][same]] = rows[:-1][same]
        last[rows[:-1][same]] = False
        starts = np.concatenate([[True], ~same])[: len(rows)]
        number = np.arange(len(rows)) - np.maximum.accumulate(np.where(starts, np.arange(len(rows)), 0))
        turns = np.split(rows[np.argsort(number, kind="stable")], np.cumsum(np.bincount(number))[:-1])
        return cls(before, last, tuple(turns))

    def position(self, own: ValuesByName) -> Position:
        """Return the position of rows with these values of some columns."""
        first = self.before < 0
        before = {name: np.where(first, _empty(some), some[self.before]) for name, some in own.items()}
        return Position(before, first, self.last)

    def running_sum(self, added: Floats, bounds: tuple[float, float]) -> Floats:
        """Return the sum over each patient's rows up to each, clipped row by row: (rows,). NaN adds nothing."""
        found = np.clip(np.nan_to_num(added), *bounds)
        for turn in self.turns[1:]:
            found[turn] = np.clip(found[self.before[turn]] + np.nan_to_num(added[turn]), *bounds)
        return found


def in_order(cells: pd.DataFrame, schema: Schema) -> Succession:
    """Return a table's rows, as cells of text, in order of the schema's `unit` and `order`, both among its columns.

    A row without a patient is alone. Rows ascend by the values of their order, keys by their `sort_key`.
    """
    assert schema.unit is not None and schema.order is not None
    place = pd.factorize(cells[schema.unit])[0].astype(np.int64)
    alone = cells[schema.unit].isin(MISSING_TOKENS).to_numpy(np.bool_)
    patients = np.where(alone, len(cells) + np.arange(len(cells)), place)
    return Succession.of(patients, schema.columns[schema.order].ranks(cells[schema.order]))
