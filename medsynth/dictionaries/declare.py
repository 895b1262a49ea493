"""What a schema declares for an entry of a dictionary, and what became of the entry: taken, guessed, or still to do."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal, InvalidOperation

from pydantic import ValidationError

from ..errors import validators_faults
from ..io.table import is_number, whole_text
from ..schema.columns.categorical import MAX_LEVELS
from ..schema.columns.column import LONGEST_LABEL
from ..schema.columns.date import CLOCK_DAY
from ..schema.columns.registry import parse_column
from .entry import Entry, plain

LARGEST = 10**15  # of a bound


class Unfinished:
    """The mark of a value that a person must still declare."""


TODO = Unfinished()
Content = dict[str, object]


@dataclass(frozen=True)
class Outcome:
    """What a schema declares for an entry. `guesses`: what was assumed; `open`: what is still to do, and why."""

    column: Content
    guesses: tuple[str, ...]
    open: tuple[str, ...]

    @property
    def fate(self) -> str:
        """Return what became of the entry, in a word."""
        return "TODO" if self.open else "guessed" if self.guesses else "taken"


def declared(entry: Entry) -> Outcome:
    """Return what a schema declares for an entry. Raise ValueError, in words for a person, if it contradicts itself."""
    column, guesses, unknown = _KINDS[entry.type](entry)
    if column.get("kind") not in ("identifier", TODO):
        missing = _missing(entry)
        column |= {} if missing is False else {"missing": missing}
    column |= _labels(entry, column)
    opened = (*entry.open, *unknown) if unknown else ()
    if not opened:
        guesses = (*guesses, *entry.guesses, *entry.open)
        try:
            parse_column(dict(column))
        except ValidationError as error:
            found = validators_faults(error)[0]
            key = "".join(f"{part}: " for part in found["loc"][:1] if str(part) in column)
            raise ValueError(f"{key}{found['msg']}") from None
    return Outcome(column, tuple(dict.fromkeys(guesses)), tuple(dict.fromkeys(opened)))


def _missing(entry: Entry) -> bool | list[int | str]:
    codes = [_level(code) for code in dict.fromkeys(entry.missing) if code]
    return [*codes, *([""] if entry.may_be_empty else [])] if codes else entry.may_be_empty


def _labels(entry: Entry, column: Content) -> Content:
    """Return the labels of a column and of those of its codes that have one, in the form that a schema accepts."""
    levels, missing = column.get("levels", []), column.get("missing", [])
    known = [*(levels if isinstance(levels, list) else []), *(missing if isinstance(missing, list) else [])]
    label = plain(entry.label, LONGEST_LABEL)
    found: Content = {"label": label} if label not in ("", entry.name) else {}
    meaning = {code: plain(entry.labels.get(str(code), ""), LONGEST_LABEL) for code in known if code is not TODO}
    named = {code: label for code, label in meaning.items() if label and label != str(code)}
    return found | ({"value_labels": named} if named else {})


def _level(text: str) -> int | str:
    """Return a code as a schema writes it: whole numbers as such."""
    return int(text) if whole_text(text) == text else text


Made = tuple[Content, tuple[str, ...], tuple[str, ...]]  # the column, guesses, and what is unknown


def _levels(entry: Entry) -> Made:
    if len(set(entry.levels)) < len(entry.levels):
        raise ValueError("a level is given twice")
    listed = [text for text in entry.levels if text not in entry.missing]  # some list codes of missing values, too
    levels: list[int | str] = [_level(text) for text in listed]
    if len(levels) > MAX_LEVELS:
        raise ValueError(f"a column can have at most {MAX_LEVELS} levels")
    if any(isinstance(level, str) for level in levels):
        levels = list(listed)
    kind = "ordinal" if entry.ordered else "binary" if len(levels) == 2 else "categorical"
    unknown = () if levels else ("levels: none are given. What does the form offer?",)
    return {"kind": kind, "levels": levels or [TODO]}, (), unknown


def _boolean(entry: Entry) -> Made:
    if entry.levels:
        return _levels(entry)
    return {"kind": "binary", "levels": [False, True]}, ("cells are written as false and true",), ()


def _numbers(entry: Entry) -> Made:
    if entry.levels:
        return _levels(entry)
    whole = entry.type == "integer"
    low, high = (_number(text, whole) if text else None for text in (entry.low, entry.high))
    if low is not None and high is not None and low >= high:
        raise ValueError(f"the minimum {entry.low} must be below the maximum {entry.high}")
    content: Content = {"kind": "count" if whole else "continuous", "bounds": _bounds(low, high)}
    content |= {} if whole or entry.decimals is None else {"decimals": entry.decimals}
    content |= {"unit": entry.unit} if entry.unit else {}
    guesses = () if whole or entry.decimals is not None else ("decimals follow from the width of the bounds",)
    return content, guesses, _open_ends(low, high, "What can be measured, or does the form accept?")


def _number(text: str, whole: bool) -> int | float:
    try:
        number = Decimal(text)
        if not number.is_finite():
            raise InvalidOperation
    except InvalidOperation:
        raise ValueError(f"the limit {text[:40]!r} is not a number") from None
    if abs(number) > LARGEST:
        raise ValueError(f"the limit {text[:40]!r} is too large")
    if whole and number % 1:
        raise ValueError(f"the limit {text[:40]!r} is not a whole number")
    return float(number) if number % 1 else int(number)


def _bounds(low: object, high: object) -> list[object]:
    return [TODO if end is None else end for end in (low, high)]


def _open_ends(low: object, high: object, ask: str) -> tuple[str, ...]:
    lacking = [word for word, end in (("minimum", low), ("maximum", high)) if end is None]
    return (f"bounds: no {' and no '.join(lacking)} is given. {ask}",) if lacking else ()


def _dates(entry: Entry) -> Made:
    low, high = (_day(text, entry.format) if text else None for text in (entry.low, entry.high))
    if low and high and low > high:
        raise ValueError(f"the minimum {entry.low} must be before the maximum {entry.high}")
    form = entry.format or {"date": "%Y-%m-%d", "datetime": "%Y-%m-%dT%H:%M:%S", "time": "%H:%M"}[entry.type]
    content: Content = {"kind": "date", "bounds": _bounds(low, high)}
    content |= {"format": form} if form != "%Y-%m-%d" else {}
    content |= {"resolution": "second" if "%S" in form else "minute"} if entry.type != "date" else {}
    guesses = () if entry.format else (f"cells are written as {form}",)
    if entry.type == "time":  # a day has no other times
        return content | {"bounds": [CLOCK_DAY, CLOCK_DAY]}, guesses, ()
    return content, guesses, _open_ends(low, high, "When did the study run?")


def _day(text: str, form: str) -> date:
    """Return the day in a text, in ISO form or in the form of the cells."""
    for parse in (date.fromisoformat, lambda word: datetime.strptime(word, form).date()):
        for word in (text, text[:10]):
            with suppress(ValueError, re.error):
                return parse(word)
    raise ValueError(f"the limit {text[:40]!r} is not a day. Write it as 2024-12-31")


def _left_out(entry: Entry) -> Made:
    why = "free text" if entry.type == "text" else "identifies a person"
    return {"kind": "identifier", "drop": True}, (f"{why}, so left out of sampled rows",), ()


def _key(entry: Entry) -> Made:
    return {"kind": "identifier", "shape": "########"}, (), ()


def _unknown(entry: Entry) -> Made:
    if entry.levels:
        return _levels(entry)
    if is_number(entry.low) and is_number(entry.high):
        content, guesses, unknown = _numbers(entry)
        return content, ("a number, since it has limits", *guesses), unknown
    return {"kind": TODO}, (), ("kind: no type is given. Copy a line of a similar column.",)


_KINDS: dict[str, Callable[[Entry], Made]] = {
    "integer": _numbers, "number": _numbers, "date": _dates, "datetime": _dates, "time": _dates, "boolean": _boolean,
    "levels": _levels, "string": _levels, "text": _left_out, "identifying": _left_out, "key": _key, "": _unknown,
}  # fmt: skip
