"""Define every error that medsynth raises on purpose, and the exit code that the command line gives it.

MedsynthError          1
|-- TableError         1
|-- ArtifactError      1
|-- QueryError         1
|-- OutputExists       1
|-- UsageError         2
|-- BudgetError        3
`-- SchemaError        4
    `-- TargetError    4

A message states what is wrong, where, and what to do. It never contains a cell of a table, nor a count of rows.
"""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from types import MappingProxyType
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

MOST_WORDS = 30  # words that a message lists at most
NO_CURES: Mapping[str, str] = MappingProxyType({})


def validators_words(message: str) -> str:
    """Return a validator's message without the words that pydantic puts before it."""
    return message.removeprefix("Value error, ")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a sentence that suggests the nearest known word. If none is near, list the known words.

    >>> did_you_mean("diagnosys", ["age", "diagnosis"]), did_you_mean("x", ["age", "sex"])
    (" Did you mean 'diagnosis'?", ' There are: age, sex.')
    """
    words = list(dict.fromkeys(map(str, known)))
    folded = {other.lower(): other for other in reversed(words)}
    if near := difflib.get_close_matches(word.lower(), folded, 1):
        return f" Did you mean {folded[near[0]]!r}?"
    more = f" and {len(words) - MOST_WORDS} more" if len(words) > MOST_WORDS else ""
    return f" There are: {', '.join(words[:MOST_WORDS])}{more}." if words else ""


def check_keywords(keywords: Iterable[str], known: Iterable[str], of: str, cures: Mapping[str, str] = NO_CURES) -> None:
    """Raise UsageError for a keyword that is not `known`, with its cure, or else the nearest known one.

    `of`: who takes the keywords.
    """
    for name in sorted(set(keywords) - set(known)):
        cure = f" {cures[name]}" if name in cures else did_you_mean(name, known)
        raise UsageError(f"`{name}` is not a parameter of {of}.{cure}")


def checked_keywords(call: Callable[P, T], cures: Mapping[str, str] = NO_CURES) -> Callable[P, T]:
    """Let a function refuse a keyword that it does not have with a UsageError that says what to do.

    `cures`: for keywords of related functions, by name. Other keywords get the nearest one as a suggestion.
    """

    @wraps(call)
    def run(*args: P.args, **keywords: P.kwargs) -> T:
        known = [name for name in inspect.signature(call).parameters if name != "self"]
        check_keywords(keywords, known, call.__qualname__.removesuffix(".__init__"), cures)
        return call(*args, **keywords)

    return run


class MedsynthError(Exception):
    """The base of all errors of medsynth. A user can mend the cause of each."""

    exit_code = 1


class TableError(MedsynthError):
    """A file that cannot be read as a table."""


class ArtifactError(MedsynthError):
    """A model file that is missing, foreign, truncated or tampered with."""


class QueryError(MedsynthError):
    """A query whose content breaks the rules of its kind, or bytes that are not a query."""


class OutputExists(MedsynthError):
    """An output file that exists already and would be replaced without `force`."""


class UsageError(MedsynthError):
    """An argument out of its range."""

    exit_code = 2


class BudgetError(MedsynthError):
    """A privacy budget that is too small, or a charge that is not in the plan."""

    exit_code = 3


class SchemaError(MedsynthError):
    """A schema that is not valid, or a table that does not meet it."""

    exit_code = 4


class TargetError(SchemaError):
    """A target with fewer than two classes in a charged measurement. Resuming the fit does not help."""


class MedsynthWarning(UserWarning):
    """What a user must know before using a result, such as a patient's key among the columns.

    It is issued if no `notice` function takes such a message. Like an error, it contains no cell of a table.
    """


class Message(str):
    """A message to the user in full. A short output shows `brief` in its place, or nothing if that is empty."""

    brief: str

    def __new__(cls, text: str, brief: str = "") -> Message:
        """Return the text with its short form."""
        made = super().__new__(cls, text)
        made.brief = brief
        return made


def brief(text: str) -> str:
    """Return the short form of a message: a plain text is its own."""
    return text.brief if isinstance(text, Message) else text


def some(words: Iterable[str], most: int = 4, cure: str = " (`verbose`)") -> str:
    """Return the first words of a list, and how many more a long output would name. `cure`: how to get that.

    >>> some("abc"), some("abcdefg", 3)
    ('a, b, c', 'a, b, c and 4 more (`verbose`)')
    """
    found = list(words)
    return ", ".join(found[:most]) + (f" and {len(found) - most} more{cure}" if len(found) > most else "")


LOST = "LOST: "  # start of a notice that names columns whose values are all noise
URGENT = ("WARNING: ", "FEW ROWS: ", LOST)  # starts of notices that nobody should miss
