"""Words for people: messages of the library without names of parameters, and each problem of a schema at its column."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from medsynth.errors import UsageError

PARAMETER = re.compile(r"`(\w+)(?:=[^`]*)?`|(?<![\w-])--([a-z][a-z-]+)")  # as the library and the commands write it
OTHER_CODE = re.compile(r"`([^`]*)`")
COMMANDS = re.compile(  # lines and ends of lines for people who type commands
    r"^(Next|Wrote|Model): .*\n?|^Wrote .*\n?|^(Usage: |Try ').*\n?|[╭╮╰╯│─]+( Error )?|,? then: medsynth .*$|"
    r" \(docs/[^)]*\)",
    re.MULTILINE,
)
PLACE = re.compile(r"at (?P<path>.*?): (?P<fault>[^:].*)", re.DOTALL)
ENTRIES = {"levels": "levels", "bounds": "low", "decimals": "decimals", "missing": "codes", "scale": "scale",
           "unit": "unit", "format": "format", "kind": "kind"}  # fmt: skip  # fields of the form, by a schema's keys


class Refusal(UsageError):
    """What the page itself refuses, in the page's language."""


class Problem(NamedTuple):
    """What a schema lacks. `column` and `entry` name the field that can cure it; empty for the schema as a whole."""

    text: str
    column: str = ""
    entry: str = ""


def plain(message: str, texts: Mapping[str, str]) -> str:
    """Return a message with the page's words for parameters, and without commands to type."""

    def named(match: re.Match[str]) -> str:
        name = (match[1] or match[2]).replace("-", "_")
        return texts.get(f"name_{name}", f"“{name}”")

    return OTHER_CODE.sub(r"“\1”", PARAMETER.sub(named, COMMANDS.sub("", message))).strip()


def placed(message: str, names: Sequence[str], texts: Mapping[str, str]) -> list[Problem]:
    """Return the problems that the library's message about a schema lists, each with its column."""
    longest = sorted(names, key=len, reverse=True)
    found = [_placed(line.strip(" -"), longest, texts) for line in message.splitlines() if line.strip(" -")]
    kept = {(one.column, one.entry or one.text): one for one in reversed(found)}  # the first of each field
    told = re.compile(r".*: \d+ faults\.|For an example see .*")  # lines that name no problem
    return [one for one in reversed(kept.values()) if not told.fullmatch(one.text)]


def _placed(line: str, names: Sequence[str], texts: Mapping[str, str]) -> Problem:
    line = re.sub(r" For an example see a bundled schema.*", "", line)
    path, fault = (match["path"], match["fault"]) if (match := PLACE.search(line)) else ("", line)
    fault = texts["required"] if fault.startswith("Field required") else plain(fault, texts)
    for name in names:
        if path == f"columns.{name}" or path.startswith(f"columns.{name}."):
            key = path.removeprefix(f"columns.{name}").strip(".").split(".")[0]
            return Problem(fault, name, ENTRIES.get(key, ""))
        if fault.startswith((f"column {name!r}: ", f"the target {name!r} ")):
            return Problem(fault, name)
    return Problem(fault if match else plain(line, texts))
