"""Every error that medsynth raises on purpose, and the exit code that the command line gives it.

MedsynthError          1   anything that went wrong for a reason a user can mend
|-- TableError         1   a table file that cannot be read as a table
|-- ArtifactError      1   a .medsynth file that is missing, foreign, truncated or tampered with
|-- QueryError          1   a query whose content breaks the rules of its kind, or bytes that hold no query
|-- OutputExists       1   a file that would be overwritten unless `force` is given
|-- UsageError         2   an argument out of its range
|-- BudgetError        3   a privacy budget too small for what is to be measured
`-- SchemaError        4   a schema that is not valid, or a table that does not meet it
    `-- TargetError    4   a target of which a charged measurement shows fewer than two classes

A message says what is wrong, where, and the cure. It never contains a cell of a table, nor a count of rows.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable

MOST_WORDS = 30  # words that a message lists


def validators_words(message: str) -> str:
    """What a validator said, of pydantic's message, which puts words of its own before it."""
    return message.removeprefix("Value error, ")


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A sentence that names the nearest of the known words, and some of them all where none is near.

    >>> did_you_mean("diagnosys", ["age", "diagnosis"]), did_you_mean("x", ["age", "sex"])
    (" Did you mean 'diagnosis'?", ' There are: age, sex.')
    """
    words = list(dict.fromkeys(map(str, known)))
    folded = {other.lower(): other for other in reversed(words)}
    if near := difflib.get_close_matches(word.lower(), folded, 1):
        return f" Did you mean {folded[near[0]]!r}?"
    more = f" and {len(words) - MOST_WORDS} more" if len(words) > MOST_WORDS else ""
    return f" There are: {', '.join(words[:MOST_WORDS])}{more}." if words else ""


class MedsynthError(Exception):
    """The root of the tree: catch this to catch all."""

    exit_code = 1


class TableError(MedsynthError):
    """A table file that cannot be read as a table."""


class ArtifactError(MedsynthError):
    """A model file that is missing, foreign, truncated or tampered with."""


class QueryError(MedsynthError):
    """A query whose content breaks the rules of its kind, or bytes that hold no query."""


class OutputExists(MedsynthError):
    """A file that stands where an output should go."""


class UsageError(MedsynthError):
    """An argument out of its range."""

    exit_code = 2


class BudgetError(MedsynthError):
    """A privacy budget that is too small, or a charge that the plan does not hold."""

    exit_code = 3


class SchemaError(MedsynthError):
    """A schema that is not valid, or a table that does not meet it."""

    exit_code = 4


class TargetError(SchemaError):
    """A target of which a charged measurement shows fewer than two classes: no resume of the fit changes that."""


class MedsynthWarning(UserWarning):
    """What a person must know before a result is used: a person's key among the columns, classes that may be lost.

    It is given where a notice of such weight has no other taker. Like an error it contains no cell of a table.
    """


LOST = "LOST: "  # how a notice begins that names columns of which nothing was learned
URGENT = ("WARNING: ", "FEW ROWS: ", LOST)  # how notices begin that nobody should miss
