"""Rules of other columns alone, in their codes: columns that a rule computes, row by row, and rows that break one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from .columns.registry import AnyColumn
from .rules.language import Expression, Rule, Values, evaluate

Codes = NDArray[np.int32]


@dataclass(frozen=True)
class Definition:
    """A `column` that is computed by a `formula` of the columns `inputs`, by name."""

    column: AnyColumn
    formula: Expression
    inputs: Mapping[str, AnyColumn]

    def codes(self, codes: Codes) -> Codes:
        """The column's codes, (rows,), from those of its inputs in order, (rows, inputs)."""
        read = {name: column.values(codes[:, k], {}) for k, (name, column) in enumerate(self.inputs.items())}
        result = np.broadcast_to(evaluate(self.formula, read), len(codes))
        return self.column.code_computed(result.astype(np.float64), {})


@dataclass(frozen=True)
class Constraint:
    """A `rule` about the columns `inputs`, by name, and about columns that follow from these by `definitions`."""

    rule: Rule
    inputs: Mapping[str, AnyColumn]
    definitions: Mapping[str, Definition]

    def broken(self, codes: Codes) -> NDArray[np.bool_]:
        """Which rows break it, (rows,), from the codes of its inputs in order, (rows, inputs)."""
        at = {name: codes[:, k] for k, name in enumerate(self.inputs)}
        read: Values = {name: column.values(at[name], {}) for name, column in self.inputs.items()}
        for name, definition in self.definitions.items():
            own = definition.codes(np.stack([at[one] for one in definition.inputs], 1))
            read = {**read, name: definition.column.values(own, {})}
        return np.broadcast_to(self.rule.broken(read), len(codes))
