"""Rules that later rows must meet, column after column: each rule is checked when the last of its columns is drawn.

A row that breaks a rule could be drawn again. But then what the rule touches gets rarer: of patients who die at any row
with the same chance, only those who die at their last row would stay. Here a column never gets a forbidden value, in
the fit as in samples, and the fit makes the other values as likely as measured (structural zeros: Bishop, Fienberg and
Holland 1975, chapter 5).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..arrays import Codes, Mask
from ..schema import Schema
from ..schema.codec import column_values
from ..schema.columns.column import Values
from ..schema.rules import Position, Rule
from .split_rows import GAP


@dataclass(frozen=True, eq=False)
class ColumnRules:
    """`of`: the rules by the column that is drawn last, or the gap; each reads only columns of `core`.

    Other rules, such as those about running sums, are left to whoever draws whole rows.
    """

    core: Schema
    of: Mapping[str, Sequence[Rule]]

    @classmethod
    def by_column(cls, schema: Schema, drawn: Sequence[str], fixed: Iterable[str]) -> ColumnRules:
        """Return the rules of a schema whose columns are `drawn` in this order. The gap decides the order column."""
        core = schema.core
        found = dict[str, list[Rule]]()
        turn = {name: k for k, name in enumerate(drawn)} | dict.fromkeys(fixed, -1)
        turn |= {schema.order or "": turn[GAP]} if GAP in turn else {}
        for rule in schema.parsed_rules:
            now = _inputs((word.name for word in rule.words() if word.function is None), core)
            if not rule.defines and now | _inputs(rule.before, core) <= turn.keys():
                last = max((turn[name] for name in now), default=-1)
                if last >= 0:
                    found.setdefault(drawn[last], []).append(rule)
        return cls(core, found)

    def broken(self, name: str, now: Codes, before: Codes, only: Mask, last: Mask) -> Mask:
        """Return which rows break a rule that the column `name` decides: (rows,).

        now, before: the rows, as far as they are drawn, and the previous ones, (rows, core). only, last: (rows,); no
        row is before a patient's only one.
        """
        found = np.zeros(len(now), np.bool_)
        for rule in self.of[name]:
            values = {w.name: self._values(now, w.name) for w in rule.words() if w.function is None}
            previous = {one: self._values(before, one) for one in rule.before}
            for own in previous.values():
                own[only] = None if own.dtype == object else np.nan
            found |= rule.broken(values, Position(previous, only, last))
        return found

    def _values(self, codes: Codes, name: str) -> Values:
        """Return a column's values, computed if a rule of single rows defines it."""
        if name not in self.core.definitions:
            return column_values(codes, self.core, name)
        definition = self.core.definitions[name]
        own = definition.codes(codes[:, [self.core.names.index(one) for one in definition.inputs]])
        return definition.column.values(own, {})


def _inputs(names: Iterable[str], core: Schema) -> set[str]:
    """Return the columns that these are computed from or depend on, and those that are neither."""
    found = set[str]()
    for name in names:
        if name in core.definitions:
            found |= _inputs(core.definitions[name].inputs, core)
        else:
            found |= {name, *(core.columns[name].depends_on if name in core.columns else ())}
    return found
