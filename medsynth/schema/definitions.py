"""Columns that a rule computes from other columns alone: their codes follow, row by row, from the codes of those."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..transforms.registry import AnyColumn
from .constraints import Expression, evaluate

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
