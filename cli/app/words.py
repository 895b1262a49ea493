"""Words for people: messages of the library without names of parameters, and each problem of a schema at its column."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping

from medsynth.errors import MISSING, MedsynthError, Problem, UsageError

PARAMETER = re.compile(r"`(\w+)(?:=[^`]*)?`|(?<![\w-])--([a-z][a-z-]+)")  # as the library and the commands write it
OTHER_CODE = re.compile(r"`([^`]*)`")
COMMANDS = re.compile(  # lines and ends of lines for people who type commands
    r"^(Next|Wrote|Model): .*\n?|^Wrote .*\n?|^(Usage: |Try ').*\n?|[╭╮╰╯│─]+( Error )?|,? then: medsynth .*$|"
    r" \(docs/[^)]*\)",
    re.MULTILINE,
)
FIELDS = {  # of the form, by a schema's keys; a key without a field is one of the further entries
    "after": "after", "missing": "codes", "unknown": "unknown", "levels": "levels", "below": "below", "above": "above",
    "limits": "below", "bounds": "low", "decimals": "decimals", "scale": "scale", "format": "format", "kind": "kind",
    "hierarchy": "hierarchy", "text": "text", "shape": "shape", "resolution": "format", "parts": "low",
}  # fmt: skip

ENGLISH = "english"  # kind of a problem in the library's own words


class Refusal(UsageError):
    """What the page itself refuses, in the page's language."""


def plain(message: str, texts: Mapping[str, str]) -> str:
    """Return a message with the page's words for parameters, and without commands to type."""

    def named(match: re.Match[str]) -> str:
        name = (match[1] or match[2]).replace("-", "_")
        return texts.get(f"name_{name}", f"“{name}”")

    return OTHER_CODE.sub(r"“\1”", PARAMETER.sub(named, COMMANDS.sub("", message))).strip()


def placed(error: MedsynthError, names: Collection[str], texts: Mapping[str, str]) -> list[Problem]:
    """Return the problems of a schema in the page's words, each with its column and field of the form, the first."""
    found = dict[tuple[str, str], Problem]()
    for one in error.problems:
        # a part of cells, such as pressure.1, belongs to its column
        column = max((name for name in names if f"{one.column}.".startswith(f"{name}.")), key=len, default="")
        entry = FIELDS.get(one.entry, "more") if column and one.entry else ""
        own = texts["required"] if one.kind == MISSING else texts.get(f"fault_{entry}")
        text = own or plain(one.text + one.cure, texts)
        found.setdefault(
            (column, entry or text), Problem(kind="" if own else ENGLISH, text=text, column=column, entry=entry)
        )
    return list(found.values())
