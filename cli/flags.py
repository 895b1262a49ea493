"""The library's messages name parameters of its Python API; here they become the flags that a person types."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

# Parameters whose option has another name. All others are read from the commands themselves.
ALIASES = {"groups": "subgroup", "fraction": "holdout"}
# What messages of the library advise in words, and the command that does it.
COMMANDS = {
    "Draft a schema": "medsynth schema draft {table}",
    "Fit a model first": "medsynth fit {table} --epsilon 3.7",
}
QUOTED = re.compile(r"`(\w+)(?:=([^`]*))?`")


FLAGS: dict[str, str] = {}  # of each parameter, such as no_dp: --no-dp; an argument's is its name in capitals


def register(root: Any) -> None:
    """Learn the flags from the commands' own parameters. Where two differ, the one listed first in the help counts."""
    for command in _commands(root):
        for parameter in command.params:
            name = parameter.name or ""
            flag = parameter.opts[0] if parameter.param_type_name == "option" else name.upper()
            FLAGS.setdefault(name, flag)
    FLAGS.update({name: FLAGS[option] for name, option in ALIASES.items()})


def translated(text: str) -> str:
    """A message of the library in the command line's words: flags for parameters.

    `no_dp` becomes --no-dp, `device="cpu"` becomes --device cpu; other words in backquotes stay as they are.
    """

    def flag(match: re.Match[str]) -> str:
        name, value = match.groups()
        if name not in FLAGS:
            return match.group()
        return FLAGS[name] if value in (None, "True") else f"{FLAGS[name]} " + value.strip("\"'")

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
