"""Rules between columns, and between the successive rows of a patient: the language, its parser, rules in codes.

    fti = tt4 / t4u / 10                   a definition: the column is computed, not sampled
    systolic > diastolic                   a constraint
    pregnant = 1 implies sex = F           a constraint under a condition; `and` joins conditions
    visit_date > previous(visit_date)      across rows: `previous(x)` is x in the patient's previous row
    total = cumulative(dose)               a definition: the running sum over the patient's rows
    died = yes implies last row            `first row` and `last row` are conditions of the row itself

Rules are parsed and never evaluated as code. A missing value breaks no rule; before a patient's first row all values
are missing. Write names with blanks in backquotes, and levels that are not plain words or numbers in quotes. `previous`
and `cumulative` are functions before a bracket and names elsewhere; so are `first` and `last` before `row`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..arrays import Codes, Mask, Texts
from .columns.column import Column, Values

ValuesByName = Mapping[str, Values]  # of columns in some rows
Truth = NDArray[np.int8]  # 1 true, 0 false, -1 unknown
COMPARE: dict[str, Callable[..., Mask]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
ARITHMETIC = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}

TOKEN = re.compile(
    r"\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?)|`([^`]+)`|\"([^\"]*)\"|'([^']*)'|(\w+(?:\.\w+)*)|(<=|>=|!=|[-+*/()=<>]))"
)
_PLAIN = re.compile(r"(?!(?:and|implies|previous|cumulative|first|last)$)[^\W\d]\w*")  # a name without quotes
MAX_RULE_CHARACTERS = 500  # characters per rule
MAX_DEPTH = 40  # of nested brackets and signs
Function = Literal["previous", "cumulative"]
FUNCTIONS: dict[str, Function] = {"previous": "previous", "cumulative": "cumulative"}


@dataclass(frozen=True)
class Position:
    """The position of rows among their patient's, (rows,) each. `before`: values of the previous row, missing without
    one. `first`, `last`: whether the row is the patient's first or last.
    """

    before: ValuesByName
    first: Mask
    last: Mask


@dataclass(frozen=True)
class Number:
    """A number in the text of a rule."""

    value: float


@dataclass(frozen=True)
class Word:
    """A column or a level in the text of a rule. `function`: applied to the column over the patient's rows."""

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
    """Two expressions compared: as numbers, or as levels if either side is one."""

    sign: str
    left: Expression
    right: Expression

    def truth(self, values: ValuesByName, position: Position | None = None) -> Truth:
        """Return 1, 0 or -1 for each row: (rows,), or one for constants."""
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
    """The condition that a row is the first, or the last, of its patient."""

    which: Literal["first", "last"]

    def truth(self, values: ValuesByName, position: Position | None = None) -> Truth:
        """Return 1 or 0 for each row: (rows,)."""
        found = _known(position)
        return (found.first if self.which == "first" else found.last).astype(np.int8)


Condition = Comparison | End
END_OF_ROWS = End("last")


@dataclass(frozen=True)
class Rule:
    """One rule. `defines` names the column that `formula` computes; without it the rule is a constraint."""

    text: str
    premise: tuple[Condition, ...]
    conclusion: tuple[Condition, ...]
    defines: str | None = None
    formula: Expression | None = None

    @property
    def columns(self) -> set[str]:
        """The columns that the rule reads, in the row itself or in the previous one."""
        return {word.name for word in self.words()}

    @property
    def before(self) -> set[str]:
        """The columns that it reads in the previous row."""
        return {word.name for word in self.words() if word.function == "previous"}

    @property
    def cumulative(self) -> bool:
        """Whether it defines a running sum of the column in its formula."""
        return isinstance(self.formula, Word) and self.formula.function == "cumulative"

    @property
    def across(self) -> bool:
        """Whether it reads more than one row: previous ones, or whether the row is the first or the last."""
        ends = any(isinstance(condition, End) for condition in (*self.premise, *self.conclusion))
        return ends or self.cumulative or bool(self.before)

    @property
    def reads_last(self) -> bool:
        """Whether it reads if the row is the patient's last."""
        return END_OF_ROWS in (*self.premise, *self.conclusion)

    def words(self) -> Iterator[Word]:
        """Yield the columns in the rule, with their functions."""
        compared = [c for c in (*self.premise, *self.conclusion) if isinstance(c, Comparison)]
        todo: list[Expression] = [side for c in compared for side in (c.left, c.right)]
        todo += [self.formula] if self.formula else []
        while todo:
            part = todo.pop()
            if isinstance(part, Operation):
                todo += [part.left, part.right]
            elif isinstance(part, Word) and part.column:
                yield part

    def broken(self, values: ValuesByName, position: Position | None = None) -> Mask:
        """Return which rows break the constraint: (rows,), or one value if it reads no row.

        Raises ValueError for a definition, and for a rule across rows without a `position`.
        """
        if self.defines:
            raise ValueError("a definition computes its column: no row can break it")
        premise, conclusion = ([c.truth(values, position) for c in some] for some in (self.premise, self.conclusion))
        met = np.all([truth == 1 for truth in np.broadcast_arrays(*premise)], axis=0)
        failed = np.any([truth == 0 for truth in np.broadcast_arrays(*conclusion)], axis=0)
        return np.asarray(met & failed)


def evaluate(part: Expression, values: ValuesByName, position: Position | None = None) -> Values:
    """Return an expression's value in each row: (rows,), or one for a constant; for a running sum, each row's part."""
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
        raise ValueError("a rule across rows needs the position of each row")
    return position


def _texts(side: Values) -> Texts:
    """Return numbers as texts, None for NaN; keep texts."""
    if side.dtype == object:
        return np.asarray(side, dtype=object)
    return np.array([None if np.isnan(v) else f"{v:.12g}" for v in side], dtype=object)


ENDS = {"first": End("first"), "last": END_OF_ROWS}


class _Parser:
    """Recursive descent over the tokens of one rule."""

    def __init__(self, text: str, columns: Mapping[str, bool]) -> None:
        self.columns, self.at, self.depth = columns, 0, 0
        self.tokens: list[tuple[str, str]] = []
        place = 0
        while place < len(text.rstrip()):
            if not (match := TOKEN.match(text, place)):
                raise ValueError(f"character {place + 1} is not part of the rule language")
            kinds = ("number", "name", "text", "text", "word", "sign")
            kind, value = next((k, v) for k, v in zip(kinds, match.groups(), strict=True) if v is not None)
            self.tokens.append((kind, value))
            place = match.end()

    def peek(self, *values: str) -> bool:
        """Return whether one of these comes next, not in quotes."""
        return self.at < len(self.tokens) and self.tokens[self.at][1] in values and self.tokens[self.at][0] != "text"

    def take(self) -> tuple[str, str]:
        if self.at == len(self.tokens):
            raise ValueError("it ends too early")
        self.at += 1
        return self.tokens[self.at - 1]

    def atom(self) -> Expression:
        """Parse a number, a column, a level, or an expression in brackets."""
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise ValueError(f"it has more than {MAX_DEPTH} nested brackets or signs")
        found = self.nested(*self.take())
        self.depth -= 1
        return found

    def nested(self, kind: str, value: str) -> Expression:
        """Parse the expression that starts with a token."""
        if kind == "word" and value in FUNCTIONS and self.peek("("):
            return self.over_rows(FUNCTIONS[value])
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
            raise ValueError(f"a column or a number is expected in place of {value!r}")
        return Word(value, kind != "text" and value in self.columns)

    def over_rows(self, function: Function) -> Word:
        """Parse a function of a column over the patient's rows, from the bracket on."""
        self.take()
        kind, name = self.take()
        if kind not in ("word", "name") or name not in self.columns:
            raise ValueError(f"{function}( ) takes a column, but {name!r} is not one")
        if self.take() != ("sign", ")"):
            raise ValueError(f"{function}( ) takes one column, followed by a closing bracket")
        if function == "cumulative" and not self.columns[name]:
            raise ValueError(f"{name!r} is not a column of numbers")
        return Word(name, True, function)

    def chain(self, signs: tuple[str, ...], inner: Callable[[], Expression]) -> Expression:
        """Parse operations of the same rank, from the left."""
        left = inner()
        while self.peek(*signs):
            sign = self.take()[1]
            left = Operation(sign, left, inner())
        return left

    def sum(self) -> Expression:
        return self.chain(("+", "-"), lambda: self.chain(("*", "/"), self.atom))

    def conditions(self) -> tuple[Condition, ...]:
        found = [self.condition()]
        while self.peek("and"):
            self.take()
            found.append(self.condition())
        return tuple(found)

    def condition(self) -> Condition:
        """Parse a comparison, or `first row`, or `last row`."""
        (kind, word), *rest = [*self.tokens[self.at : self.at + 2], ("end", "")]
        if kind == "word" and word in ENDS and rest[0] == ("word", "row"):
            self.at += 2
            return ENDS[word]
        left = self.sum()
        kind, sign = self.take()
        if kind != "sign" or sign not in COMPARE:
            raise ValueError("a comparison (=, !=, <, <=, >, >=) is missing")
        found = Comparison(sign, left, self.sum())
        self._check(found)
        return found

    def _check(self, found: Comparison) -> None:
        """Check that levels are compared with levels, by = and !=, and that sums contain numbers alone."""
        words = [side for side in (found.left, found.right) if isinstance(side, Word)]
        levels = [w for w in words if not w.column or not self.columns[w.name]]
        if levels and found.sign not in ("=", "!="):
            raise ValueError(f"{levels[0].name!r} is not a column of numbers: compare levels by = or !=")
        if levels and not any(w.column and not self.columns[w.name] for w in words):
            raise ValueError(f"{levels[0].name!r} is not a column")
        for side in (found.left, found.right):
            self.numbers(side)

    def numbers(self, part: Expression) -> None:
        """Raise ValueError for a level in a sum."""
        if isinstance(part, Operation):
            for side in (part.left, part.right):
                if isinstance(side, Word) and not (side.column and self.columns[side.name]):
                    raise ValueError(f"{side.name!r} is not a column of numbers")
                self.numbers(side)


def in_rule(name: str) -> str:
    """Return a column as a rule names it, "" if that is impossible.

    >>> in_rule("admitted"), in_rule("left on"), in_rule("last")
    ('admitted', '`left on`', '`last`')
    """
    return name if _PLAIN.fullmatch(name) else f"`{name}`" if "`" not in name else ""


def parse(text: str, columns: Mapping[str, bool]) -> Rule:
    """Return the rule in `text`. `columns`: whether each column contains numbers.

    Raises ValueError, with a message that contains no data, for text that is not a rule.

    >>> import numpy as np
    >>> rule = parse("pregnant = 1 implies sex = F", {"pregnant": False, "sex": False})
    >>> rule.broken({"pregnant": np.array(["1", "1", "0"], object), "sex": np.array(["F", "M", "M"], object)}).tolist()
    [False, True, False]
    """
    if len(text) > MAX_RULE_CHARACTERS:
        raise ValueError(f"a rule can have at most {MAX_RULE_CHARACTERS} characters")
    parser = _Parser(text, columns)
    found = parser.conditions()
    premise: tuple[Condition, ...] = ()
    if parser.peek("implies"):
        parser.take()
        premise = found
        found = parser.conditions()
    if parser.at < len(parser.tokens):
        raise ValueError(f"the rule should end before {parser.tokens[parser.at][1]!r}")
    rule = _definition(text, found[0], columns) if not premise and len(found) == 1 else None
    rule = rule or Rule(text, premise, found)
    if not rule.cumulative and any(word.function == "cumulative" for word in rule.words()):
        raise ValueError("write cumulative( ) alone, as in total = cumulative(dose). Other rules may read that column")
    return rule


def _definition(text: str, only: Condition, columns: Mapping[str, bool]) -> Rule | None:
    """Return the definition that a rule of one condition is: a number column, an equals sign, and its formula."""
    if not isinstance(only, Comparison) or only.sign != "=" or isinstance(only.right, Number):
        return None
    left = only.left
    if not isinstance(left, Word) or left.function or not left.column or not columns[left.name]:
        return None
    rule = Rule(text, (), (), left.name, only.right)
    if left.name in rule.columns:
        raise ValueError(
            f"the column before = is computed from what follows, so {left.name!r} cannot be on both sides. Write it "
            "after the =, compare by <= and >=, or use cumulative( ) for a running sum"
        )
    return rule


@dataclass(frozen=True)
class Definition:
    """A `column` that a `formula` computes from the columns `inputs`, by name."""

    column: Column
    formula: Expression
    inputs: Mapping[str, Column]

    def codes(self, codes: Codes) -> Codes:
        """Return the column's codes, (rows,), from those of its inputs in order, (rows, inputs)."""
        read = {name: column.values(codes[:, k], {}) for k, (name, column) in enumerate(self.inputs.items())}
        result = np.broadcast_to(evaluate(self.formula, read), len(codes))
        return self.column.code_computed(result.astype(np.float64), {})


@dataclass(frozen=True)
class Constraint:
    """A `rule` about the columns `inputs`, by name, and about columns that `definitions` compute from these."""

    rule: Rule
    inputs: Mapping[str, Column]
    definitions: Mapping[str, Definition]

    def broken(self, codes: Codes) -> Mask:
        """Return which rows break it, (rows,), from the codes of its inputs in order, (rows, inputs)."""
        at = {name: codes[:, k] for k, name in enumerate(self.inputs)}
        read: ValuesByName = {name: column.values(at[name], {}) for name, column in self.inputs.items()}
        for name, definition in self.definitions.items():
            own = definition.codes(np.stack([at[one] for one in definition.inputs], 1))
            read = {**read, name: definition.column.values(own, {})}
        return np.broadcast_to(self.rule.broken(read), len(codes))
