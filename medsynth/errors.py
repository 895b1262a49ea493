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
from dataclasses import dataclass
from functools import wraps
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")

MOST_WORDS = 30  # words that a message lists at most
NO_CURES: Mapping[str, str] = MappingProxyType({})


def said(text: str) -> str:
    """Return the words of a message. All errors, notices and notes pass here, and no code reads them afterwards."""
    return text


def validators_faults(error: Any) -> list[dict[str, Any]]:
    """Return what pydantic found, in a validator's own words and without the values that were given."""
    found = error.errors(include_input=False, include_url=False)
    return [{**one, "msg": str(one.get("ctx", {}).get("error", one["msg"]))} for one in found]


def nearest(word: str, known: Iterable[str]) -> str | None:
    """Return the known word that is most like a word, or None if none is near."""
    folded = {other.lower(): other for other in reversed([*known])}
    return next((folded[near] for near in difflib.get_close_matches(word.lower(), folded, 1)), None)


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """Return a sentence that suggests the nearest known word. If none is near, list the known words.

    >>> did_you_mean("diagnosys", ["age", "diagnosis"]), did_you_mean("x", ["age", "sex"])
    (" Did you mean 'diagnosis'?", ' There are: age, sex.')
    """
    words = list(dict.fromkeys(map(str, known)))
    if (near := nearest(word, words)) is not None:
        return f" Did you mean {near!r}?"
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


@dataclass(frozen=True, kw_only=True)
class Problem:
    """What a message is about, as values. Code decides by these, never by the words of a message.

    `kind`: such as the constants below. `column`, `entry`: the key of a declaration that can cure it. `row`: its place,
    counted from one, for the owner of the rows alone. `text`, `cure`: words for people. No field contains a cell of a
    table, or a count of its rows.
    """

    kind: str = ""
    column: str = ""
    entry: str = ""
    row: int | None = None
    text: str = ""
    cure: str = ""

    def __post_init__(self) -> None:
        for name in ("text", "cure"):
            object.__setattr__(self, name, said(getattr(self, name)))


MISSING = "missing"  # kind of a declaration without a required entry
OUTSIDE = "outside"  # kind of a value beyond the bounds
OTHER_ENCODING = Problem(kind="encoding")
NEEDS_MODEL, NEEDS_SCHEMA = Problem(kind="model"), Problem(kind="schema")  # a command can make one


class MedsynthError(Exception):
    """The base of all errors of medsynth. A user can mend the cause of each, or of each of its `problems`."""

    exit_code = 1

    def __init__(self, text: str = "", *problems: Problem) -> None:
        super().__init__(said(text))
        self.problems = problems


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


class EntryError(ValueError):
    """What a validator of a column refuses because of one `entry`."""

    column = ""

    def __init__(self, entry: str, text: str) -> None:
        super().__init__(text)
        self.entry = entry


class DeclarationError(EntryError):
    """What a validator of a declaration refuses because of one `column`, and perhaps of one `entry` there."""

    def __init__(self, text: str, column: str, entry: str = "") -> None:
        super().__init__(entry, text)
        self.column = column


class TargetError(SchemaError):
    """A target with fewer than two classes in a charged measurement. Resuming the fit does not help."""


class MedsynthWarning(UserWarning):
    """What a user must know before using a result, such as a patient's key among the columns.

    It is issued if no `notice` function takes such a message. Like an error, it contains no cell of a table.
    """


ABOUT = ("kind", "column", "entry")  # what a public file states about a note
LEARNED, PUBLIC, SPLIT, TIMES = "learned", "public", "split", "times"  # kinds of notes and notices
LEANS, TRUSTED = "leans on", "trusted"  # kinds of notes about rows that were declared public
EARLIER = "earlier fit"  # whose rows such rows are, if a model drew them
STUDY_TRUST = "trust"  # kind of the note on whom the sites of a federated study trust
LOST, DROPPED_TARGET, WARNING, FEW_ROWS = "lost", "no target", "warning", "few rows"  # kinds that nobody should miss
URGENT = (LOST, DROPPED_TARGET, WARNING, FEW_ROWS)
STARTS = {  # words that a message of a kind begins with
    LEARNED: "Learned: ", SPLIT: "Rows were held out of this fit, by independent draws: split ", LOST: "LOST: ",
    DROPPED_TARGET: "NO TARGET: ", WARNING: "WARNING: ", FEW_ROWS: "FEW ROWS: ",
}  # fmt: skip


class Message(str):
    """A message to the user in full, with what it is `about`. A short output shows `brief`, or nothing if it is empty.

    If `brief` is None, the message is short itself. Its kind decides the words that it begins with. `note`: what the
    ledger notes with it.
    """

    about: Problem
    brief: str
    note: str

    def __new__(
        cls, text: str = "", brief: str | None = "", kind: str = "", column: str = "", entry: str = "", note: str = ""
    ) -> Message:
        """Return the text with its short form."""
        start = STARTS.get(kind, "")
        made = super().__new__(cls, said(start + text))
        made.brief = made[:] if brief is None else said(start + brief) if brief else ""
        made.about = Problem(kind=kind, column=column, entry=entry)
        made.note = note
        return made

    @classmethod
    def of(cls, text: str) -> Message:
        """Return a text as a message. A plain text is its own short form."""
        return text if isinstance(text, Message) else Message(text, None)

    @classmethod
    def stored(cls, text: str, about: Mapping[str, str] | None) -> Message:
        """Return a note of a file. A file of an earlier version does not say what it is `about`: its first words do."""
        if about is None:
            kind = next((kind for kind, start in STARTS.items() if text.startswith(start)), "")
            about = {"kind": kind, "column": "", "entry": text[len(STARTS[SPLIT]) : -1] if kind == SPLIT else ""}
        made = Message(text, None)
        kind, column, entry = (str(about[name]) for name in ABOUT)
        made.about = Problem(kind=kind, column=column, entry=entry)
        return made

    @property
    def sentence(self) -> str:
        """The message without the words that its kind begins with."""
        return self[len(STARTS.get(self.about.kind, "")) :]


def brief(text: str) -> str:
    """Return the short form of a message: a plain text is its own."""
    return Message.of(text).brief


def some(words: Iterable[str], most: int = 4, cure: str = " (`verbose`)") -> str:
    """Return the first words of a list, and how many more a long output would name. `cure`: how to get that.

    >>> some("abc"), some("abcdefg", 3)
    ('a, b, c', 'a, b, c and 4 more (`verbose`)')
    """
    found = list(words)
    return ", ".join(found[:most]) + (f" and {len(found) - most} more{cure}" if len(found) > most else "")
