"""Messages of the program in the language of its page, by a table: English text with a place {} for each value."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache, partial
from typing import Any

Texts = Mapping[str, Any]  # of a page, and its table of `messages`


def spoken(message: str, texts: Texts) -> str:
    """Return a message with all that the table has in its language.

    >>> table = {", row {}: ": ", Zeile {0}: ", "not a number": "keine Zahl"}
    >>> spoken("a.csv, row 7: not a number.", {"messages": table})
    'a.csv, Zeile 7: keine Zahl.'
    """
    for english, own in texts["messages"].items():
        message = _pattern(english).sub(partial(_filled, own), message)
    return message


def _filled(own: str, found: re.Match[str]) -> str:
    return own.format(*found.groups())


def foreign(message: str, texts: Texts) -> str:
    """Return the page's note that a message is in English; an empty text if the table has all words of it."""
    for english in texts["messages"]:
        message = _pattern(english).sub("", message)
    return str(texts["english"]) if re.search("[A-Za-z]{2,} [a-z]{2,}", message) else ""


@cache
def _pattern(english: str) -> re.Pattern[str]:
    """Return the pattern of an entry: a part of a message, which begins within no other part."""
    text = re.escape(english).replace(r"\{\}", "(.*?)")
    text = re.sub(r"^\(\.\*\?\)", r"(\\S+)", re.sub(r"\(\.\*\?\)$", r"([^\\s<]*)", text))
    return re.compile(r"(?<!\w )" * english[:1].islower() + text)
