"""Rules read from their text, in a small language of their own, and checked against the columns.

Names with blanks are written in backquotes, levels that are no plain word or number in quotes. `previous` and
`cumulative` are functions before a bracket and names elsewhere; so are `first` and `last` before `row` alone.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Literal

from .language import COMPARE, Comparison, Condition, End, Expression, Number, Operation, Rule, Word

TOKEN = re.compile(r"\s*(?:(\d+\.?\d*(?:[eE][+-]?\d+)?)|`([^`]+)`|\"([^\"]*)\"|'([^']*)'|(\w+)|(<=|>=|!=|[-+*/()=<>]))")
MAX_RULE_CHARACTERS = 500  # characters of a rule
MAX_DEPTH = 40  # brackets and signs within one another
Function = Literal["previous", "cumulative"]
FUNCTIONS: dict[str, Function] = {"previous": "previous", "cumulative": "cumulative"}
ENDS = {"first": End("first"), "last": End("last")}


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
            raise ValueError(f"{value!r} is where a column or a number is expected")
        return Word(value, kind != "text" and value in self.columns)

    def over_rows(self, function: Function) -> Word:
        """What is taken of a column over the patient's rows, from the bracket on."""
        self.take()
        kind, name = self.take()
        if kind not in ("word", "name") or name not in self.columns:
            raise ValueError(f"{function}( ) takes a column, and {name!r} is none")
        if self.take() != ("sign", ")"):
            raise ValueError(f"{function}( ) takes one column alone, and then a closing bracket")
        if function == "cumulative" and not self.columns[name]:
            raise ValueError(f"{name!r} is no number column")
        return Word(name, True, function)

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

    def conditions(self) -> tuple[Condition, ...]:
        """Conditions joined by `and`."""
        found = [self.condition()]
        while self.peek("and"):
            self.take()
            found.append(self.condition())
        return tuple(found)

    def condition(self) -> Condition:
        """A comparison, or `first row`, or `last row`."""
        (kind, word), *rest = [*self.tokens[self.at : self.at + 2], ("end", "")]
        if kind == "word" and word in ENDS and rest[0] == ("word", "row"):
            self.at += 2
            return ENDS[word]
        left = self.sum()
        kind, sign = self.take()
        if kind != "sign" or sign not in COMPARE:
            raise ValueError("a comparison (=, !=, <, <=, >, >=) is wanted")
        found = Comparison(sign, left, self.sum())
        self._check(found)
        return found

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

    >>> import numpy as np
    >>> rule = parse("pregnant = 1 implies sex = F", {"pregnant": False, "sex": False})
    >>> rule.broken({"pregnant": np.array(["1", "1", "0"], object), "sex": np.array(["F", "M", "M"], object)}).tolist()
    [False, True, False]
    """
    if len(text) > MAX_RULE_CHARACTERS:
        raise ValueError(f"a rule has at most {MAX_RULE_CHARACTERS} characters")
    parser = _Parser(text, columns)
    found = parser.conditions()
    premise: tuple[Condition, ...] = ()
    if parser.peek("implies"):
        parser.take()
        premise, found = found, parser.conditions()
    if parser.at < len(parser.tokens):
        raise ValueError(f"{parser.tokens[parser.at][1]!r} is where the rule should end")
    rule = _definition(text, found[0], columns) if not premise and len(found) == 1 else None
    rule = rule or Rule(text, premise, found)
    if not rule.cumulative and any(word.function == "cumulative" for word in rule.words()):
        raise ValueError("cumulative( ) stands alone, as in total = cumulative(dose); other rules read that column")
    return rule


def _definition(text: str, only: Condition, columns: Mapping[str, bool]) -> Rule | None:
    """The definition that a rule of one condition is: a number column, an equals sign, and what it is computed from."""
    if not isinstance(only, Comparison) or only.sign != "=" or isinstance(only.right, Number):
        return None
    left = only.left
    if not isinstance(left, Word) or left.function or not left.column or not columns[left.name]:
        return None
    rule = Rule(text, (), (), left.name, only.right)
    if left.name in rule.columns:
        raise ValueError(
            f"a column before = is computed from what follows, and {left.name!r} would be from itself. Write it after "
            "the =, compare by <= and >=, or take cumulative( ) for a running sum"
        )
    return rule
