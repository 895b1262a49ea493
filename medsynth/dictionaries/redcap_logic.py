"""REDCap's calculations and branching logic, translated into the language of a schema's rules. Nothing is evaluated.

A calculation such as `round([weight]/([height]^2),1)` becomes the definition of a column, with its decimals and bounds.
Branching logic shows a field only if a condition holds. It becomes a rule: `days is present implies smoker = '1'`. As
in REDCap, an empty field equals nothing: it is not '1', so `days` is empty as well. A hidden checkbox is exported as 0,
so its rule is about the value '1'.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Mapping
from dataclasses import dataclass

from ..schema.rules import MAX_DEPTH, MAX_RULE_CHARACTERS, Expression, Label, Number, Operation, Word, Years, parse

Levels = Mapping[str, tuple[str, ...] | None]  # of each column; None for a column of numbers
Ranges = Mapping[str, tuple[float, float]]  # the lowest and highest value of each column that has both

TOKEN = re.compile(
    r"\s*(?:\[(?P<field>\w+)(?:\((?P<code>[^()\[\]]{1,100})\))?\]|(?P<number>\d+\.?\d*|\.\d+)|'(?P<text>[^']*)'"
    r"|\"(?P<quoted>[^\"]*)\"|(?P<word>[A-Za-z_]\w*)|(?P<sign><=|>=|<>|!=|[-+*/^(),=<>]))"
)
TURNED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
COMPARE = {"<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge}
ARITHMETIC = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}
MOST_TOKENS = 300
CHECKBOX = "___"  # between the field and the code, in the names of columns
POWERS = ("1", "2", "3", "4")
MOST_CONDITIONS = 30  # of a rule


class NotExpressible(Exception):
    """REDCap's logic is outside the language of rules. The message gives the reason."""


@dataclass(frozen=True)
class Calculation:
    """A calculation as text and as a formula. `decimals`: those it rounds to. If not `exact`, it is only for bounds."""

    text: str
    formula: Expression
    decimals: int | None
    exact: bool


@dataclass(frozen=True)
class Allowed:
    """The condition that a column has one of some levels, or none at all if it may be `empty`."""

    column: str
    levels: frozenset[str]
    empty: bool


Token = tuple[str, str]  # its kind and its text
Condition = Allowed | str  # or a comparison of numbers, in the language of rules


def checkbox_column(field: str, code: str) -> str:
    """Return the column of one choice of a checkbox field, as REDCap exports it.

    >>> checkbox_column("race", "-9"), checkbox_column("race", "N.A")
    ('race____9', 'race___n_a')
    """
    return f"{field}{CHECKBOX}{re.sub('[^a-z_0-9]', '', re.sub('[-.]', '_', code.strip()).lower())}"


def _tokens(text: str, columns: Levels) -> list[Token]:
    """Return the tokens of a calculation or condition, with the columns of its fields."""
    found = list[Token]()
    place = 0
    while place < len(text.rstrip()):
        match = TOKEN.match(text, place)
        if not match or len(found) == MOST_TOKENS:
            raise NotExpressible("it is too long" if match else f"character {place + 1} is unknown")
        kind = match.lastgroup or ""
        place = match.end()
        value = match[kind].lower() if kind == "word" else match[kind]
        if match["field"]:
            kind, value = "field", match["field"] if kind == "field" else checkbox_column(match["field"], value)
            if value not in columns:
                raise NotExpressible(f"{value[:40]!r} is not a number or a choice here")
            if found and found[-1][0] == "field":
                raise NotExpressible("it reads another event")
        found.append(("text" if kind == "quoted" else kind, value))
    return found


def calculation(text: str, columns: Levels) -> Calculation:
    """Translate a calculation. Raise NotExpressible if the language of rules has no words for it."""
    tokens = _tokens(text, columns)
    decimals = None
    if [value for _, value in tokens[:2]] == ["round", "("] and tokens[-1] == ("sign", ")"):
        tokens, decimals = tokens[2:-1], 0
        if len(tokens) > 2 and tokens[-2] == ("sign", ",") and tokens[-1][1] in "0123456789":
            tokens, decimals = tokens[:-2], int(tokens[-1][1])
    parts = list[str]()
    sums = 0
    while tokens:
        (kind, value), *tokens = tokens
        if value == "^":
            exponent, tokens = _exponent(tokens)
            base = _last_operand(parts)
            parts[-len(base) :] = ["(", *base, *["*", *base] * (exponent - 1), ")"]
            if len(parts) > MOST_TOKENS:  # powers of powers grow fast
                raise NotExpressible("it is too long")
        elif (kind, value) == ("word", "sum") and tokens[:1] == [("sign", "(")]:
            sums += 1  # REDCap's sum leaves out empty fields. That of a rule is missing if one of them is.
        elif kind in ("text", "word") or value in COMPARE or (value == "," and not sums):
            raise NotExpressible(f"{value[:20]!r} has no equivalent")
        else:
            parts.append("+" if value == "," else f"0{value}" if value.startswith(".") else value)
    translated = " ".join(parts)
    try:
        formula = parse(f"Result = {translated}", {**dict.fromkeys(columns, True), "Result": True}).formula
    except ValueError as error:
        raise NotExpressible(str(error)) from None
    if formula is None:
        raise NotExpressible("it is not a formula")
    return Calculation(translated, formula, decimals, not sums)


def _exponent(tokens: list[Token]) -> tuple[int, list[Token]]:
    """Return the exponent at the start of some tokens, in brackets or not, and the other tokens."""
    words = [value for _, value in tokens[:3]]
    size = 3 if words[:1] == ["("] and words[-1] == ")" else 1
    if not words or words[size // 2] not in POWERS:
        raise NotExpressible("a power other than 1 to 4")
    return int(words[size // 2]), tokens[size:]


def _last_operand(parts: list[str]) -> list[str]:
    """Return the last number, column or bracket of a text in parts."""
    depth = 0
    for k in range(len(parts) - 1, -1, -1):
        depth += (parts[k] == ")") - (parts[k] == "(")
        if depth == 0:
            return parts[k:]
    raise NotExpressible("a bracket is missing")


def interval(formula: Expression, ranges: Ranges) -> tuple[float, float]:
    """Return bounds of a formula that follow from the bounds of its columns. Raise NotExpressible if there are none."""
    if isinstance(formula, Number):
        return formula.value, formula.value
    if isinstance(formula, Years | Label):
        raise NotExpressible("a function of dates or codes")
    if isinstance(formula, Word):
        if formula.name not in ranges:
            raise NotExpressible(f"{formula.name} has no bounds yet")
        return ranges[formula.name]
    one, other = interval(formula.left, ranges), interval(formula.right, ranges)
    if formula.sign == "/" and other[0] <= 0 <= other[1]:
        raise NotExpressible("it may divide by zero")
    ends = [ARITHMETIC[formula.sign](a, b) for a in one for b in other]
    if not all(map(math.isfinite, ends)):
        raise NotExpressible("its bounds are too large")
    return min(ends), max(ends)


def columns_of(formula: Expression) -> set[str]:
    """Return the columns that a formula reads."""
    if isinstance(formula, Operation):
        return columns_of(formula.left) | columns_of(formula.right)
    return {formula.name} if isinstance(formula, Word) else set()


def branching(column: str, text: str, columns: Levels) -> str:
    """Return the rule that a column has a value only if the condition in `text` holds.

    Raises NotExpressible if the language of rules has no words for it.
    """
    conditions, rest = _alternatives(_tokens(text, columns), columns)
    if rest:
        raise NotExpressible(f"{rest[0][1][:20]!r} has no equivalent")
    parts = [part for condition in conditions for part in _parts(condition, columns)]
    ticked = f" and {column} = '1'" if CHECKBOX in column else ""
    rule = f"{column} is present{ticked} implies {' and '.join(parts)}"
    if not parts or len(parts) > MOST_CONDITIONS or len(rule) > MAX_RULE_CHARACTERS:
        raise NotExpressible("it is too long for a rule" if parts else "it always holds")
    return rule


Parsed = tuple[list[Condition], list[Token]]  # conditions that all hold, and the tokens that follow


def _alternatives(tokens: list[Token], columns: Levels, depth: int = 0) -> Parsed:
    """Parse conditions joined by `and` and `or`. Those joined by `or` must all be about the levels of one column."""
    either, tokens = _all(tokens, columns, depth)
    while tokens[:1] == [("word", "or")]:
        other, tokens = _all(tokens[1:], columns, depth)
        match either, other:
            case [Allowed() as one], [Allowed() as two] if one.column == two.column:
                either = [Allowed(one.column, one.levels | two.levels, one.empty or two.empty)]
            case _:
                raise NotExpressible("alternatives in different fields")
    return either, tokens


def _all(tokens: list[Token], columns: Levels, depth: int) -> Parsed:
    """Parse conditions joined by `and`."""
    found, tokens = _condition(tokens, columns, depth)
    while tokens[:1] == [("word", "and")]:
        more, tokens = _condition(tokens[1:], columns, depth)
        found = [*found, *more]
    return found, tokens


def _condition(tokens: list[Token], columns: Levels, depth: int) -> Parsed:
    """Parse a comparison of a field with a constant, or conditions in brackets."""
    if tokens[:1] == [("sign", "(")] and depth < MAX_DEPTH:
        found, rest = _alternatives(tokens[1:], columns, depth + 1)
        if rest[:1] != [("sign", ")")]:
            raise NotExpressible("a bracket is not closed")
        return found, rest[1:]
    (kind, left), tokens = _operand(tokens)
    sign = tokens[0][1].replace("<>", "!=") if tokens else ""
    (other, right), tokens = _operand(tokens[1:])
    if sign not in TURNED or "field" not in (kind, other) or kind == other:
        raise NotExpressible("a condition that does not compare a field with a constant")
    if other == "field":
        left, right, sign = right, left, TURNED[sign]
    return [_compared(left, sign, right.strip(), columns[left])], tokens


def _operand(tokens: list[Token]) -> tuple[Token, list[Token]]:
    """Return a field, a text, or a number with its sign, and the other tokens."""
    if tokens[:1] == [("sign", "-")] and len(tokens) > 1:
        return ("number", f"-{tokens[1][1]}"), tokens[2:]
    if not tokens or tokens[0][0] not in ("field", "text", "number"):
        raise NotExpressible(f"{tokens[0][1][:20]!r} has no equivalent" if tokens else "it ends too early")
    return tokens[0], tokens[1:]


def _compared(column: str, sign: str, value: str, levels: tuple[str, ...] | None) -> Condition:
    """Return the comparison of a column with a constant: for levels, those that it allows."""
    if levels is not None and sign not in COMPARE:
        equal = frozenset(one for one in levels if value and (one == value) == (sign == "="))
        return Allowed(column, equal if value or sign == "=" else frozenset(levels), (sign == "!=") == bool(value))
    if not value and sign not in COMPARE:
        return f"{column} is {'missing' if sign == '=' else 'present'}"
    number = _number(value)
    if number is None:
        raise NotExpressible("a comparison with a date or a text" if value else "an order of an empty field")
    if levels is None:
        return f"{column} {sign} {number:.12g}"
    numbers = {one: found for one in levels if (found := _number(one)) is not None}
    if len(numbers) < len(levels):
        raise NotExpressible("an order of choices that are not numbers")
    return Allowed(column, frozenset(one for one, of in numbers.items() if COMPARE[sign](of, number)), empty=False)


def _number(text: str) -> float | None:
    return float(text) if re.fullmatch(r"-?(\d{1,15}\.?\d{0,15}|\.\d{1,15})", text) else None


def _parts(condition: Condition, columns: Levels) -> list[str]:
    """Return a condition as comparisons in the language of rules, to be joined by `and`."""
    if isinstance(condition, str):
        return [condition]
    levels = columns[condition.column] or ()
    if not (condition.levels or condition.empty):
        raise NotExpressible("it never holds")
    if not condition.levels:
        return [f"{condition.column} is missing"]
    alone = len(condition.levels) == 1 and not condition.empty
    if any("'" in level for level in levels if alone == (level in condition.levels)):
        raise NotExpressible("a choice contains a quote")
    if alone:
        return [f"{condition.column} = '{min(condition.levels)}'"]
    found = [f"{condition.column} != '{level}'" for level in levels if level not in condition.levels]
    return found if condition.empty else [*found, f"{condition.column} is present"]
