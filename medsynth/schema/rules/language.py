"""Rules between columns, and between the successive rows of a patient: what they say, and which rows break them.

    fti = tt4 / t4u / 10                   a definition: the column is computed, not sampled
    systolic > diastolic                   a constraint
    pregnant = 1 implies sex = F           a constraint under a condition; conditions are joined by `and`
    visit_date > previous(visit_date)      across rows: `previous(x)` is x in the patient's row before
    total = cumulative(dose)               a definition: the running sum over the patient's rows
    died = yes implies last row            `first row` and `last row` are conditions of the row itself

They are parsed (`parser`) and never evaluated as code. What is missing breaks no rule; before a patient's first
row everything is.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Values = Mapping[str, NDArray[np.float64] | NDArray[np.object_]]  # numbers with NaN, or levels as text with None
Truth = NDArray[np.int8]  # 1 true, 0 false, -1 unknown
COMPARE: dict[str, Callable[..., NDArray[np.bool_]]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
ARITHMETIC = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}


@dataclass(frozen=True)
class Position:
    """Where rows stand among their patient's: the values of the row `before` each, missing where there is none, and
    whether it is the `first` and the `last` of the patient: (rows,) each.
    """

    before: Values
    first: NDArray[np.bool_]
    last: NDArray[np.bool_]


@dataclass(frozen=True)
class Number:
    """A number that is written out."""

    value: float


@dataclass(frozen=True)
class Word:
    """A column, or a level that is written out. `function`: what is taken of a column over the patient's rows."""

    name: str
    column: bool
    function: Literal["previous", "cumulative"] | None = None


@dataclass(frozen=True)
class Operation:
    """Two expressions joined by + - * or /."""

    sign: str
    left: Expression
    right: Expression


Expression = Number | Word | Operation


@dataclass(frozen=True)
class Comparison:
    """Two expressions compared: as numbers, or as levels where either side is one."""

    sign: str
    left: Expression
    right: Expression

    def truth(self, values: Values, position: Position | None = None) -> Truth:
        """Of each row: (rows,), or one for constants."""
        one, other = (evaluate(side, values, position) for side in (self.left, self.right))
        if object in (one.dtype, other.dtype):
            one, other = _texts(one), _texts(other)
            unknown = pd.isna(one) | pd.isna(other)
        else:
            unknown = np.isnan(one) | np.isnan(other)
        with np.errstate(invalid="ignore"):
            return np.where(unknown, -1, COMPARE[self.sign](one, other)).astype(np.int8)


@dataclass(frozen=True)
class End:
    """Whether a row is the first, or the last, of its patient."""

    which: Literal["first", "last"]

    def truth(self, values: Values, position: Position | None = None) -> Truth:
        """Of each row: (rows,)."""
        found = _known(position)
        return (found.first if self.which == "first" else found.last).astype(np.int8)


Condition = Comparison | End


@dataclass(frozen=True)
class Rule:
    """One rule. `defines` names the column that it computes by `formula`; else it is a constraint."""

    text: str
    premise: tuple[Condition, ...]
    conclusion: tuple[Condition, ...]
    defines: str | None = None
    formula: Expression | None = None

    @property
    def columns(self) -> set[str]:
        """The columns that the rule reads, in the row itself or in the one before."""
        return {word.name for word in self.words()}

    @property
    def before(self) -> set[str]:
        """Those that it reads in the row before."""
        return {word.name for word in self.words() if word.function == "previous"}

    @property
    def cumulative(self) -> bool:
        """Whether it defines a running sum, of the column that is its formula."""
        return isinstance(self.formula, Word) and self.formula.function == "cumulative"

    @property
    def across(self) -> bool:
        """Whether it reads more than a row by itself: rows before, or whether the row is the first or the last."""
        ends = any(isinstance(condition, End) for condition in (*self.premise, *self.conclusion))
        return ends or self.cumulative or bool(self.before)

    def words(self) -> Iterator[Word]:
        """The columns as they are read."""
        compared = [c for c in (*self.premise, *self.conclusion) if isinstance(c, Comparison)]
        todo: list[Expression] = [side for c in compared for side in (c.left, c.right)]
        todo += [self.formula] if self.formula else []
        while todo:
            part = todo.pop()
            if isinstance(part, Operation):
                todo += [part.left, part.right]
            elif isinstance(part, Word) and part.column:
                yield part

    def broken(self, values: Values, position: Position | None = None) -> NDArray[np.bool_]:
        """Which rows break the constraint: (rows,), or one where it reads no row. A definition is broken by none.

        Raises ValueError for a definition, and for a rule across rows without a `position`.
        """
        if self.defines:
            raise ValueError("a definition is computed")
        premise, conclusion = ([c.truth(values, position) for c in some] for some in (self.premise, self.conclusion))
        met = np.all([truth == 1 for truth in np.broadcast_arrays(*premise)], axis=0)
        failed = np.any([truth == 0 for truth in np.broadcast_arrays(*conclusion)], axis=0)
        return np.asarray(met & failed)


def evaluate(
    part: Expression, values: Values, position: Position | None = None
) -> NDArray[np.float64] | NDArray[np.object_]:
    """The value of an expression in each row: (rows,), or one for a constant; of a running sum, what each row adds."""
    if isinstance(part, Number):
        return np.array([part.value])
    if isinstance(part, Word):
        if not part.column:
            return np.array([part.name], dtype=object)
        return (_known(position).before if part.function == "previous" else values)[part.name]
    sides = [evaluate(side, values, position) for side in (part.left, part.right)]
    with np.errstate(all="ignore"):
        return np.asarray(ARITHMETIC[part.sign](*sides), np.float64)


def _known(position: Position | None) -> Position:
    if position is None:
        raise ValueError("a rule across rows is evaluated with the position of each row")
    return position


def _texts(side: NDArray[np.float64] | NDArray[np.object_]) -> NDArray[np.object_]:
    """Numbers as texts, None for NaN; texts as they are."""
    if side.dtype == object:
        return np.asarray(side, dtype=object)
    return np.array([None if np.isnan(v) else f"{v:.12g}" for v in side], dtype=object)
