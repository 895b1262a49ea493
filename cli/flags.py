"""Translate the library's messages: names of Python parameters become the flags that a user types."""

from __future__ import annotations

import os
import re
from typing import Any

from medsynth.errors import NEEDS_MODEL, NEEDS_SCHEMA, MedsynthError

IN_LINES = "MEDSYNTH_PROGRESS"  # `lines`: a program shows the messages, and progress as JSON on standard error

# Parameters whose option has another name. All others are read from the commands themselves.
ALIASES = {"groups": "subgroup", "fraction": "holdout"}
COMMANDS = {  # that cure a problem
    NEEDS_SCHEMA: "Draft a schema: medsynth schema draft {table}",
    NEEDS_MODEL: "Fit a model first: medsynth fit {table} --epsilon 3.7",
}
QUOTED = re.compile(r"`(\w+)(?:=([^`]*))?`")


FLAGS: dict[str, str] = {}  # by parameter, such as no_dp: --no-dp; for an argument its name in capitals


def register(group: Any) -> None:
    """Collect the flags of all commands. If two commands differ, the first in the help counts."""
    for command in group.commands.values():
        if hasattr(command, "commands"):
            register(command)
            continue
        for parameter in command.params:
            name = parameter.name or ""
            flag = parameter.opts[0] if parameter.param_type_name == "option" else name.upper()
            FLAGS.setdefault(name, flag)
    FLAGS.update({name: FLAGS[option] for name, option in ALIASES.items() if option in FLAGS})


def in_lines() -> bool:
    """Return whether a program that shows messages and progress itself runs this command."""
    return os.environ.get(IN_LINES) == "lines"


def translated(text: str) -> str:
    """Return a message of the library with flags in place of parameter names.

    `no_dp` becomes --no-dp, `device="cpu"` becomes --device cpu; other words in backquotes stay as they are. A program
    that shows the message has its own words for parameters.
    """
    if in_lines():
        return text

    def flag(match: re.Match[str]) -> str:
        name, value = match.groups()
        if name not in FLAGS:
            return match.group()
        return FLAGS[name] if value in (None, "True") else f"{FLAGS[name]} " + value.strip("\"'")

    return QUOTED.sub(flag, text)


def hints(error: MedsynthError, table: str) -> list[str]:
    """Return the commands that cure the problems of an error."""
    return [] if in_lines() else [COMMANDS[one].format(table=table) for one in error.problems if one in COMMANDS]
