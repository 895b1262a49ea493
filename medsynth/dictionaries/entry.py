"""One entry of a dictionary, of whatever form: what it gives about a column, before a schema declares it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Type = Literal[
    "integer", "number", "date", "datetime", "time", "boolean", "levels", "string",  # what a model learns
    "text", "identifying", "key",  # free text; what identifies a person; the key of rows
    "",  # not stated
]  # fmt: skip
ISO_FORMATS: dict[Type, str] = {"date": "%Y-%m-%d", "datetime": "%Y-%m-%dT%H:%M:%S", "time": "%H:%M:%S"}
MOST_STEPS = 11  # of a scale, such as 0 to 10
ENDS_ALONE = "only the ends of its scale have labels, so all whole numbers between them are levels"
WHOLE = re.compile(r"-?\d{1,3}")
_TAGS = re.compile(r"</?[A-Za-z][^<>]{0,200}>")  # not CD4 <200 or >500


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What a dictionary gives about one column, as text; "" for what it does not give.

    Attributes:
        line: Its line in the dictionary, zero if there is none.
        low: The lowest allowed value, never an observed one.
        levels: The codes of the levels.
        missing: The codes of missing values, without the empty cell.
        labels: What codes of either mean.
        may_be_empty: Whether a cell may be empty.
        format: Of dates, in the codes of strptime.
        rule: The definition that computes it, in the language of rules.
        guesses: What the reader assumed, in words.
        open: What the reader could not take, and why.
        only_if_in_table: The program that wrote the dictionary adds this column to some exports.
    """

    name: str
    line: int
    type: Type
    label: str = ""
    unit: str = ""
    low: str = ""
    high: str = ""
    decimals: int | None = None
    levels: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    ordered: bool = False
    missing: tuple[str, ...] = ()
    may_be_empty: bool = True
    format: str = ""
    rule: str = ""
    guesses: tuple[str, ...] = ()
    open: tuple[str, ...] = ()
    only_if_in_table: bool = False


@dataclass(frozen=True, kw_only=True)
class DescribedTable:
    """One table of a dictionary. `head`: further keys of its schema; `remarks`: about the dictionary as a whole."""

    name: str
    entries: tuple[Entry, ...]
    rules: tuple[str, ...] = ()
    head: Mapping[str, object] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


def whole_scale(levels: tuple[str, ...]) -> tuple[str, ...]:
    """Return all levels of a scale of whole numbers of which only both ends have a label; other levels as they are.

    >>> whole_scale(("1", "5")), whole_scale(("0", "1")), whole_scale(("1", "99"))
    (('1', '2', '3', '4', '5'), ('0', '1'), ('1', '99'))
    """
    if len(levels) != 2 or not all(map(WHOLE.fullmatch, levels)):
        return levels
    low, high = sorted(map(int, levels))
    return tuple(map(str, range(low, high + 1))) if 2 < high - low + 1 <= MOST_STEPS else levels


def plain(text: str, most: int) -> str:
    r"""Return a text of somebody's file on one line, without tags and control characters, and not too long.

    >>> plain("<b>Weight</b>\n at  visit", 80), plain("\x1b[31mred", 80), plain("CD4 <200 or >500", 80)
    ('Weight at visit', '[31mred', 'CD4 <200 or >500')
    """
    one_line = " ".join(_TAGS.sub(" ", text[: 4 * most]).split())
    shown = "".join(sign for sign in one_line if sign.isprintable())
    return shown if len(shown) <= most else f"{shown[: most - 3].rstrip()}..."
