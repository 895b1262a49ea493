"""The library's messages name parameters of its Python API; here they become the flags that a person types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import Any

import typer

# Parameters whose option has another name. All others are read from the commands themselves.
ALIASES = {"settings": "set_", "groups": "subgroup", "fraction": "holdout"}
# What messages of the library advise in words, and the command that does it.
COMMANDS = {
    "Draft a schema": "medsynth schema draft {table}",
    "Fit a model first": "medsynth fit {table} --epsilon 3.7",
}
QUOTED = re.compile(r"`(\w+)(?:=([^`]*))?`")


@cache
def flags() -> dict[str, str]:
    """The flag of each parameter, such as no_dp: --no-dp; an argument's is its name in capitals.

    Read from the commands' own parameters. Where two commands differ, the one listed first in the help counts.
    """
    from .app import app

    found: dict[str, str] = {}
    for command in _commands(typer.main.get_command(app)):
        for parameter in command.params:
            name = parameter.name or ""
            flag = parameter.opts[0] if parameter.param_type_name == "option" else name.upper()
            found.setdefault(name, flag)
    return found | {name: found[option] for name, option in ALIASES.items()}


def translated(text: str) -> str:
    """A message of the library in the command line's words: flags for parameters.

    `no_dp` becomes --no-dp, `device="cpu"` becomes --device cpu; other words in backquotes stay as they are.
    """
    known = flags()

    def flag(match: re.Match[str]) -> str:
        name, value = match.groups()
        if name not in known:
            return match.group()
        return known[name] if value in (None, "True") else f"{known[name]} " + value.strip("\"'")

    return QUOTED.sub(flag, text)


def hints(text: str, table: str) -> list[str]:
    """The commands that do what a message of the library advises."""
    return [f"{what}: {how.format(table=table)}" for what, how in COMMANDS.items() if what.lower() in text.lower()]


def _commands(group: Any) -> Iterator[Any]:
    for command in group.commands.values():
        if hasattr(command, "commands"):
            yield from _commands(command)
        else:
            yield command
