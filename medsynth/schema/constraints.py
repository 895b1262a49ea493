"""Rules between columns, in a small language of their own: parsed, checked against the schema, never evaluated as code.

    fti = tt4 / t4u / 10               a definition: the column is computed, not sampled
    systolic > diastolic               a constraint
    pregnant = 1 implies sex = F       a constraint under a condition; conditions are joined by `and`

Names with blanks are written in backquotes, levels that are no plain word or number in quotes. What is missing
breaks no rule.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Values = Mapping[str, NDArray[np.float64] | NDArray[np.object_]]  # numbers with NaN, or levels as text with None
Truth = NDArray[np.int8]  # 1 true, 0 false, -1 unknown
TOKEN = re.compile(r"\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?)|`([^`]+)`|\"([^\"]*)\"|'([^']*)'|(\w+)|(<=|>=|!=|[-+*/()=<>]))")
COMPARE: dict[str, Callable[..., NDArray[np.bool_]]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
ARITHMETIC = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}
MAX_RULE_CHARACTERS = 500  # characters of a rule
MAX_DEPTH = 40  # brackets and signs within one another


@dataclass(frozen=True)
class Number:
    """A number that is written out."""

    value: float


@dataclass(frozen=True)
class Word:
    """A column, or a level that is written out."""

    name: str
    column: bool


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

    def truth(self, values: Values) -> Truth:
        """Of each row: (rows,)."""
        one, other = (evaluate(side, values) for side in (self.left, self.right))
        if object in (one.dtype, other.dtype):
            one, other = _texts(one), _texts(other)
            unknown = pd.isna(one) | pd.isna(other)
        else:
            unknown = np.isnan(one) | np.isnan(other)
        with np.errstate(invalid="ignore"):
            return np.where(unknown, -1, COMPARE[self.sign](one, other)).astype(np.int8)


@dataclass(frozen=True)
class Rule:
    """One rule. `defines` names the column that it computes by `formula`; else it is a constraint."""

    text: str
    premise: tuple[Comparison, ...]
    conclusion: tuple[Comparison, ...]
    defines: str | None = None
    formula: Expression | None = None

    @property
    def columns(self) -> set[str]:
        """The columns that the rule reads."""
        found: set[str] = set()
        todo: list[Expression] = [side for c in (*self.premise, *self.conclusion) for side in (c.left, c.right)]
        todo += [self.formula] if self.formula else []
        while todo:
            part = todo.pop()
            if isinstance(part, Operation):
                todo += [part.left, part.right]
            elif isinstance(part, Word) and part.column:
                found.add(part.name)
        return found

    def broken(self, values: Values) -> NDArray[np.bool_]:
        """Which rows break the constraint: (rows,). A definition is broken by none."""
        if self.defines:
            raise ValueError("a definition is computed")
        met = np.min([c.truth(values) == 1 for c in self.premise], axis=0) if self.premise else True
        failed = np.max([c.truth(values) == 0 for c in self.conclusion], axis=0)
        return np.asarray(met & failed)


def evaluate(part: Expression, values: Values) -> NDArray[np.float64] | NDArray[np.object_]:
    """The value of an expression in each row: (rows,), or one for a constant."""
    if isinstance(part, Number):
        return np.array([part.value])
    if isinstance(part, Word):
        return values[part.name] if part.column else np.array([part.name], dtype=object)
    sides = [evaluate(side, values) for side in (part.left, part.right)]
    with np.errstate(all="ignore"):
        return np.asarray(ARITHMETIC[part.sign](*sides), np.float64)


def _texts(side: NDArray[np.float64] | NDArray[np.object_]) -> NDArray[np.object_]:
    """Numbers as texts, None for NaN; texts as they are."""
    if side.dtype == object:
        return np.asarray(side, dtype=object)
    return np.array([None if np.isnan(v) else f"{v:.12g}" for v in side], dtype=object)


class _Parser:
    """Recursive descent over the tokens of one rule."""

    def __init__(self, text: str, columns: Mapping[str, bool]) -> None:
        self.columns, self.at, self.depth = columns, 0, 0
        self.tokens: list[tuple[str, str]] = []
        place = 0
        while place < len(text.rstrip()):
            if not (match := TOKEN.match(text, place)):
                raise ValueError(f"character {place + 1} is not understood")
            kinds = ("number", "name", "text", "text", "word", "sign")
            kind, value = next((k, v) for k, v in zip(kinds, match.groups(), strict=True) if v is not None)
            self.tokens.append((kind, value))
            place = match.end()

    def peek(self, *values: str) -> bool:
        """Whether one of these comes next, not in quotes."""
        return self.at < len(self.tokens) and self.tokens[self.at][1] in values and self.tokens[self.at][0] != "text"

    def take(self) -> tuple[str, str]:
        """The next token."""
        if self.at == len(self.tokens):
            raise ValueError("it ends too early")
        self.at += 1
        return self.tokens[self.at - 1]

    def atom(self) -> Expression:
        """A number, a column, a level, or an expression in brackets."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise ValueError(f"more than {MAX_DEPTH} brackets or signs are within one another")
        found = self.nested(*self.take())
        self.depth -= 1
        return found

    def nested(self, kind: str, value: str) -> Expression:
        """The expression that begins with a token."""
        if kind == "number":
            return Number(float(value))
        if value == "-" and kind == "sign":
            return Operation("-", Number(0.0), self.atom())
        if value == "(" and kind == "sign":
            inner = self.sum()
            if self.take()[1] != ")":
                raise ValueError("a bracket is not closed")
            return inner
        if kind == "name" and value not in self.columns:
            raise ValueError(f"no column {value!r}")
        if kind == "sign":
            raise ValueError(f"{value!r} is where a column or a number is expected")
        return Word(value, kind != "text" and value in self.columns)

    def chain(self, signs: tuple[str, ...], inner: Callable[[], Expression]) -> Expression:
        """Operations of one rank, from the left."""
        left = inner()
        while self.peek(*signs):
            sign = self.take()[1]
            left = Operation(sign, left, inner())
        return left

    def sum(self) -> Expression:
        """An arithmetic expression."""
        return self.chain(("+", "-"), lambda: self.chain(("*", "/"), self.atom))

    def comparisons(self) -> tuple[Comparison, ...]:
        """Comparisons joined by `and`."""
        found = []
        while True:
            left = self.sum()
            kind, sign = self.take()
            if kind != "sign" or sign not in COMPARE:
                raise ValueError("a comparison (=, !=, <, <=, >, >=) is wanted")
            found.append(Comparison(sign, left, self.sum()))
            self._check(found[-1])
            if not self.peek("and"):
                return tuple(found)
            self.take()

    def _check(self, found: Comparison) -> None:
        """Levels are compared with levels, by = and !=; sums are of numbers alone."""
        words = [side for side in (found.left, found.right) if isinstance(side, Word)]
        levels = [w for w in words if not w.column or not self.columns[w.name]]
        if levels and found.sign not in ("=", "!="):
            raise ValueError(f"{levels[0].name!r} is no number column: compare levels by = or !=")
        if levels and not any(w.column and not self.columns[w.name] for w in words):
            raise ValueError(f"{levels[0].name!r} is no column")
        for side in (found.left, found.right):
            self.numbers(side)

    def numbers(self, part: Expression) -> None:
        """Raises ValueError for a level in a sum."""
        if isinstance(part, Operation):
            for side in (part.left, part.right):
                if isinstance(side, Word) and not (side.column and self.columns[side.name]):
                    raise ValueError(f"{side.name!r} is no number column")
                self.numbers(side)


def parse(text: str, columns: Mapping[str, bool]) -> Rule:
    """The rule that `text` states. `columns`: whether each column is one of numbers.

    Raises ValueError, with a message that names no data, for text that is no rule.

    >>> rule = parse("pregnant = 1 implies sex = F", {"pregnant": False, "sex": False})
    >>> rule.broken({"pregnant": np.array(["1", "1", "0"], object), "sex": np.array(["F", "M", "M"], object)}).tolist()
    [False, True, False]
    """
    if len(text) > MAX_RULE_CHARACTERS:
        raise ValueError(f"a rule has at most {MAX_RULE_CHARACTERS} characters")
    parser = _Parser(text, columns)
    found = parser.comparisons()
    premise: tuple[Comparison, ...] = ()
    if parser.peek("implies"):
        parser.take()
        premise, found = found, parser.comparisons()
    if parser.at < len(parser.tokens):
        raise ValueError(f"{parser.tokens[parser.at][1]!r} is where the rule should end")
    first = found[0]
    if not premise and len(found) == 1 and first.sign == "=" and isinstance(first.left, Word) and first.left.column:
        name = first.left.name
        if columns[name] and not isinstance(first.right, Number):
            return Rule(text, (), (), name, first.right)
    return Rule(text, premise, found)
