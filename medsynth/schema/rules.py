"""Rules between columns, and between the successive rows of a patient: the language, its parser, rules in codes.

    fti = tt4 / t4u / 10                   a definition: the column is computed, not sampled
    systolic > diastolic                   a constraint
    pregnant = 1 implies sex = F           a constraint under a condition; `and` joins conditions
    visit_date > previous(visit_date)      across rows: `previous(x)` is x in the patient's previous row
    total = cumulative(dose)               a definition: the running sum over the patient's rows
    died = yes implies last row            `first row` and `last row` are conditions of the row itself.
    weeks is present implies pregnant = 1  `is present` and `is missing` ask whether the cell has a value.
    a is present if and only if b is present
    age = years(birth, admission)          completed years between two dates.
    type_a + type_b + type_ab + type_o = 1 in sums, no and yes count as 0 and 1.
    ward determines department             a definition: each code of one column has one label in the other.

Rules are parsed and never evaluated as code. A missing value breaks no rule, unless the rule asks whether a value is
present: there a missing value equals nothing, so `=` and `<` do not hold, and `!=` holds. Before a patient's first row
all values are missing. Write names with blanks in backquotes, and levels that are not plain words or numbers in quotes.
`previous`, `cumulative` and `years` are functions before a bracket and names elsewhere; so are `first` and `last`
before `row`.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any, Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..arrays import Codes, Floats, Mask, Texts, Whole
from .columns.column import Column, Level, Values, level_text

ValuesByName = Mapping[str, Values]  # of columns in some rows
Truth = NDArray[np.int8]  # 1 true, 0 false, -1 unknown
COMPARE: dict[str, Callable[..., Mask]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
ARITHMETIC = {"+": np.add, "-": np.subtract, "*": np.multiply, "/": np.divide}

TOKEN = re.compile(
    r"\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?)|`([^`]+)`|\"([^\"]*)\"|'([^']*)'|(\w+(?:\.\w+)*)|(<=|>=|!=|[-+*/()=<>,]))"
)
_PLAIN = re.compile(r"(?!(?:and|implies|previous|cumulative|first|last)$)[^\W\d]\w*")  # a name without quotes
MAX_RULE_CHARACTERS = 500  # characters per rule
MAX_DEPTH = 40  # of nested brackets and signs
Function = Literal["previous", "cumulative"]
FUNCTIONS: dict[str, Function] = {"previous": "previous", "cumulative": "cumulative"}
EXACT = 1e-9  # relative error of computed values that compare as equal: 0.1 + 0.2 is 0.3
EPOCH = 719_163  # the day number of 1970-01-01, counted from the day before 0001-01-01
YES = frozenset(("1", "yes", "y", "true", "ja", "j", "oui", "o"))
BOTH = ("if", "and", "only", "if")
DETERMINES = ("word", "determines")


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
    """A column or a level in the text of a rule. `function`: applied to the column over the patient's rows. `yes`: the
    level that counts as 1 in a sum, while the other one counts as 0.
    """

    name: str
    column: bool
    function: Literal["previous", "cumulative"] | None = None
    yes: str | None = None


@dataclass(frozen=True)
class Operation:
    """Two expressions joined by + - * or /."""

    sign: str
    left: Expression
    right: Expression


@dataclass(frozen=True)
class Years:
    """The completed years from the date `left` to the date `right`."""

    left: Word
    right: Word


@dataclass(frozen=True)
class Label:
    """The label of the column `code`: that of `labels` for each of its levels; None until a fit has learned them."""

    code: Word
    labels: Mapping[str, str] | None


Expression = Number | Word | Operation | Years | Label


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
            if isinstance(self.left, Operation) or isinstance(self.right, Operation):
                one = np.where(np.isclose(one, other, EXACT, EXACT), other, one)
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


@dataclass(frozen=True)
class Presence:
    """The condition that a column has a value, or that it has none."""

    word: Word
    present: bool

    def truth(self, values: ValuesByName, position: Position | None = None) -> Truth:
        """Return 1 or 0 for each row: (rows,)."""
        return np.asarray(pd.notna(evaluate(self.word, values, position)) == self.present, np.int8)


Condition = Comparison | End | Presence
END_OF_ROWS = End("last")


@dataclass(frozen=True)
class Rule:
    """One rule. `defines` names the column that `formula` computes; without it the rule is a constraint. `both`: the
    conclusion implies the premise as well.
    """

    text: str
    premise: tuple[Condition, ...]
    conclusion: tuple[Condition, ...]
    defines: str | None = None
    formula: Expression | None = None
    both: bool = False

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
    def code(self) -> str | None:
        """The column that determines the one that the rule defines; None for another rule."""
        return self.formula.code.name if isinstance(self.formula, Label) else None

    @property
    def open(self) -> bool:
        """Whether only a fit can learn its pairs of codes and labels."""
        return isinstance(self.formula, Label) and self.formula.labels is None

    @property
    def across(self) -> bool:
        """Whether it reads more than one row: previous ones, or whether the row is the first or the last."""
        ends = any(isinstance(condition, End) for condition in (*self.premise, *self.conclusion))
        return ends or self.cumulative or bool(self.before)

    @property
    def dates(self) -> set[str]:
        """The columns that must be dates."""
        return {one.name for part in self.parts() if isinstance(part, Years) for one in (part.left, part.right)}

    @property
    def present(self) -> set[str]:
        """The columns that it asks to be present."""
        conditions = (*self.premise, *self.conclusion)
        return {one.word.name for one in conditions if isinstance(one, Presence) and one.present}

    def words(self) -> Iterator[Word]:
        """Yield the columns in the rule, with their functions."""
        return (part for part in self.parts() if isinstance(part, Word) and part.column)

    def parts(self) -> Iterator[Expression]:
        """Yield all expressions in the rule."""
        todo: list[Expression] = [self.formula] if self.formula else []
        for one in (*self.premise, *self.conclusion):
            todo += [one.left, one.right] if isinstance(one, Comparison) else []
            todo += [one.word] if isinstance(one, Presence) else []
        while todo:
            part = todo.pop()
            todo += [part.left, part.right] if isinstance(part, Operation | Years) else []
            todo += [part.code] if isinstance(part, Label) else []
            yield part

    def broken(self, values: ValuesByName, position: Position | None = None) -> Mask:
        """Return which rows break the constraint, or have another label than that of their code: (rows,), or one value
        if it reads no row.

        Raises ValueError for another definition, and for a rule across rows without a `position`.
        """
        if self.defines and isinstance(self.formula, Label):
            own, due = values[self.defines], evaluate(self.formula, values)
            return np.asarray(pd.notna(own) & pd.notna(due) & (own != due), np.bool_)
        if self.defines:
            raise ValueError("a definition computes its column: no row can break it")
        sides = [self._truths(some, values, position) for some in (self.premise, self.conclusion)]
        met = [np.all([truth == 1 for truth in own], axis=0) for own in sides]
        failed = [np.any([truth == 0 for truth in own], axis=0) for own in sides]
        return np.asarray(met[0] & failed[1] | (met[1] & failed[0] & self.both))

    def _truths(
        self, conditions: tuple[Condition, ...], values: ValuesByName, position: Position | None
    ) -> Sequence[Truth]:
        """Return the truth of conditions in each row. A rule about presence has no unknown ones."""
        asks = any(isinstance(one, Presence) for one in (*self.premise, *self.conclusion))
        found = [one.truth(values, position) for one in conditions]
        if asks:
            unequal = [isinstance(one, Comparison) and one.sign == "!=" for one in conditions]
            found = [np.where(own < 0, other, own) for own, other in zip(found, unequal, strict=True)]
        return np.broadcast_arrays(*found)


def evaluate(part: Expression, values: ValuesByName, position: Position | None = None) -> Values:
    """Return an expression's value in each row: (rows,), or one for a constant; for a running sum, each row's part."""
    if isinstance(part, Number):
        return np.array([part.value])
    if isinstance(part, Word):
        if not part.column:
            return np.array([part.name], dtype=object)
        own = (_known(position).before if part.function == "previous" else values)[part.name]
        return own if part.yes is None else np.where(pd.isna(own), np.nan, own == part.yes)
    if isinstance(part, Years):
        return _completed_years(*(evaluate(side, values, position) for side in (part.left, part.right)))
    if isinstance(part, Label):
        place, codes = pd.factorize(evaluate(part.code, values))
        labels = [(part.labels or {}).get(str(code)) for code in codes]
        return np.asarray(np.array([*labels, None], dtype=object)[place], dtype=object)
    sides = [evaluate(side, values, position) for side in (part.left, part.right)]
    with np.errstate(all="ignore"):
        return np.asarray(ARITHMETIC[part.sign](*sides), np.float64)


def terms(part: Expression) -> dict[str, float]:
    """Return the sign, 1 or -1, of each column that an expression adds or subtracts once, whatever else it has.

    >>> terms(parse("a - (b + 2 * c) = d", dict.fromkeys("abcd", True)).conclusion[0].left)
    {'a': 1.0, 'b': -1.0}
    """
    if isinstance(part, Word):
        return {part.name: 1.0} if part.column else {}
    if not isinstance(part, Operation) or part.sign not in ("+", "-"):
        return {}
    sign = 1.0 if part.sign == "+" else -1.0
    left, right = terms(part.left), {name: sign * own for name, own in terms(part.right).items()}
    return {name: own for name, own in (left | right).items() if not (name in left and name in right)}


def _completed_years(first: Values, last: Values) -> Floats:
    """Return the completed calendar years from one day number to another, NaN if either is unknown: (rows,)."""
    found = list[tuple[Whole, Whole]]()
    for days in (first, last):
        dates = np.floor(np.nan_to_num(days.astype(np.float64)) - EPOCH).astype("datetime64[D]")
        months = dates.astype("datetime64[M]")
        day = (dates - months.astype("datetime64[D]")).astype(np.int64)
        found.append((months.astype(np.int64), day))
    (start, day_of_start), (end, day_of_end) = found
    whole = (end - start - (day_of_end < day_of_start)) // 12
    return np.where(pd.isna(first) | pd.isna(last), np.nan, whole)


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
PRESENCE = [[("word", "is"), ("word", "present")], [("word", "is"), ("word", "missing")]]


class _Parser:
    """Recursive descent over the tokens of one rule."""

    def __init__(self, text: str, columns: Mapping[str, bool], yes: Mapping[str, str]) -> None:
        self.columns, self.yes, self.at, self.depth = columns, yes, 0, 0
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
        if kind == "word" and value == "years" and self.peek("("):
            return self.years()
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

    def years(self) -> Years:
        """Parse the two dates of `years`, from the bracket on."""
        tokens = [self.take() for _ in range(5)]
        names = [name for _, name in tokens[1::2]]
        if [sign for _, sign in tokens[::2]] != ["(", ",", ")"] or not all(self.columns.get(name) for name in names):
            raise ValueError("years( ) takes two columns of dates, as in age = years(birth, admission)")
        return Years(Word(names[0], True), Word(names[1], True))

    def chain(self, signs: tuple[str, ...], inner: Callable[[], Expression]) -> Expression:
        """Parse operations of the same rank, from the left."""
        left = inner()
        while self.peek(*signs):
            sign = self.take()[1]
            left = Operation(sign, self.counted(left), self.counted(inner()))
        return left

    def counted(self, part: Expression) -> Expression:
        """Return a part of a sum: a column with the levels no and yes counts as 0 or 1."""
        if isinstance(part, Word) and part.column and part.name in self.yes:
            return replace(part, yes=self.yes[part.name])
        return part

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
        asked = self.tokens[self.at : self.at + 2]
        if isinstance(left, Word) and left.column and asked in PRESENCE:
            self.at += 2
            return Presence(left, asked == PRESENCE[0])
        kind, sign = self.take()
        if kind != "sign" or sign not in COMPARE:
            raise ValueError("a comparison (=, !=, <, <=, >, >=) or `is present` or `is missing` is expected")
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
                if isinstance(side, Word) and not side.yes and not (side.column and self.columns[side.name]):
                    raise ValueError(f"{side.name!r} is not a column of numbers")
                self.numbers(side)


def in_rule(name: str) -> str:
    """Return a column as a rule names it, "" if that is impossible.

    >>> in_rule("admitted"), in_rule("left on"), in_rule("last")
    ('admitted', '`left on`', '`last`')
    """
    return name if _PLAIN.fullmatch(name) else f"`{name}`" if "`" not in name else ""


def yes_level(levels: Sequence[Level]) -> str | None:
    """Return the level that means yes, if a column has two and one of them means yes.

    >>> yes_level(("no", "yes")), yes_level((1, 0)), yes_level((True, False)), yes_level(("F", "M"))
    ('yes', '1', 'true', None)
    """
    texts = [level_text(level) for level in levels]
    found = [text for text in texts if text.lower() in YES]
    return found[0] if len(texts) == 2 and len(found) == 1 else None


def parse(
    text: str, columns: Mapping[str, bool], yes: Mapping[str, str] = MappingProxyType({}),
    pairs: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> Rule:  # fmt: skip
    """Return the rule in `text`. `columns`: whether each column contains numbers. `yes`: the level of a column that
    counts as 1 in a sum. `pairs`: the labels of codes, by the column of labels.

    Raises ValueError, with a message that contains no data, for text that is not a rule.

    >>> import numpy as np
    >>> rule = parse("pregnant = 1 implies sex = F", {"pregnant": False, "sex": False})
    >>> rule.broken({"pregnant": np.array(["1", "1", "0"], object), "sex": np.array(["F", "M", "M"], object)}).tolist()
    [False, True, False]
    """
    if len(text) > MAX_RULE_CHARACTERS:
        raise ValueError(f"a rule can have at most {MAX_RULE_CHARACTERS} characters")
    parser = _Parser(text, columns, yes)
    if parser.tokens[1:-1] == [DETERMINES]:
        (_, code), _, (_, label) = parser.tokens
        if code == label or any(columns.get(name, True) for name in (code, label)):
            raise ValueError("`determines` takes two columns with levels, as in ward determines department")
        return Rule(text, (), (), label, Label(Word(code, True), pairs.get(label)))
    found = parser.conditions()
    premise: tuple[Condition, ...] = ()
    both = [word for _, word in parser.tokens[parser.at : parser.at + len(BOTH)]] == [*BOTH]
    if both or parser.peek("implies"):
        parser.at += len(BOTH) if both else 1
        premise = found
        found = parser.conditions()
    if parser.at < len(parser.tokens):
        raise ValueError(f"the rule should end before {parser.tokens[parser.at][1]!r}")
    rule = _definition(text, found[0], columns) if not premise and len(found) == 1 else None
    rule = rule or Rule(text, premise, found, both=both)
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
        result: Any = np.broadcast_to(evaluate(self.formula, read), len(codes))
        return self.column.code_computed(result, {})


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
