"""A command for one table runs the one for several tables instead, where its arguments name these."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any

from medsynth.errors import UsageError

from ..console import find_model, newest_model

Command = Callable[..., None]


def named_by_table(of_several: Command) -> Callable[[Command], Command]:
    """Run `of_several` where the argument `table` is a folder, or a file that names several tables.

    With a `scheduler` a folder is one table.
    """

    def decorate(command: Command) -> Command:
        @wraps(command)
        def run(**options: Any) -> None:
            from medsynth.linked.source import is_linked

            several = is_linked(Path(options["table"])) and not options.get("scheduler")
            (of_several if several else command)(**options)

        return run

    return decorate


def named_by_model(of_several: Command) -> Callable[[Command], Command]:
    """Run `of_several` where the model, named or newest, is of several tables. It gets the model as `fitted`."""

    def decorate(command: Command) -> Command:
        @wraps(command)
        def run(**options: Any) -> None:
            from medsynth.artifact import load

            path = options["model"] or _newest(options.get("synthetic"))
            fitted = load(path) if path is not None and path.exists() else None
            if fitted is None or fitted.tables is None:
                command(**options)
            else:
                of_several(**{**options, "model": find_model(options["model"])}, fitted=fitted)

        return run

    return decorate


def _newest(synthetic: Path | None) -> Path | None:
    """The newest model here, unless a table is named: that need not be this model's."""
    return None if synthetic is not None and not synthetic.is_dir() else newest_model(quiet=True)


def refuse(options: dict[str, Any]) -> None:
    """Raises UsageError for an option that is for one table alone."""
    for name, value in options.items():
        if value:
            raise UsageError(f"`{name.rstrip('_')}` is for one table. The file that names several says it of each.")
