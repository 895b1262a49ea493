"""Words for people: messages of the library without names of parameters, and each problem of a schema at its column."""

from __future__ import annotations

import re
from collections.abc import Collection

from medsynth.errors import MISSING, MedsynthError, Problem, UsageError

from ..spoken import Texts, spoken
from .choices import LEAST_LINES

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
LABELS = {name: f"count_of_{name}" for name in LEAST_LINES} | {  # texts of fields, by the parameter that they set
    "citation": "citation", "decimals": "decimals", "encoding": "encoding", "levels": "levels", "max_rows": "max_rows",
    "missing": "missing", "n": "how_many", "na_values": "codes", "order": "order", "patients": "patients",
    "public": "public_table", "public_patients": "public_patients", "replicates": "replicates", "resume": "resume",
    "target": "target", "unit": "unit", "where": "where",
}  # fmt: skip

ENGLISH = "english"  # kind of a problem in the library's own words


class Refusal(UsageError):
    """What the page itself refuses, in the page's language."""


def plain(message: str, texts: Texts) -> str:
    """Return a message with the page's words for parameters, and without commands to type."""

    def named(match: re.Match[str]) -> str:
        name = (match[1] or match[2]).replace("-", "_")
        if name in LABELS:
            return str(texts["quoted"]).format(texts[LABELS[name]])
        return str(texts.get(f"name_{name}", f"“{name}”"))

    return OTHER_CODE.sub(r"“\1”", PARAMETER.sub(named, spoken(COMMANDS.sub("", message), texts))).strip()


def placed(error: MedsynthError, names: Collection[str], texts: Texts) -> list[Problem]:
    """Return the problems of a schema in the page's words, each with its column and field of the form."""
    found = dict[tuple[str, str], Problem]()
    for one in error.problems:
        column = max((name for name in names if f"{one.column}.".startswith(f"{name}.")), key=len, default="")
        entry = FIELDS.get(one.entry, "more") if column and one.entry else ""
        own = texts["required"] if one.kind == MISSING else texts.get(f"fault_{entry}")
        text = own or plain(one.text + one.cure, texts)
        found.setdefault(
            (column, entry or text), Problem(kind="" if own else ENGLISH, text=text, column=column, entry=entry)
        )
    return list(found.values())
