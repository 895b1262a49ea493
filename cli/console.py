"""Results to standard output, messages to standard error, errors to an exit code; a mistake has no traceback."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec

import typer

from medsynth.errors import ArtifactError, MedsynthError

from .flags import hints, translated

P = ParamSpec("P")
INTERRUPTED = 130


def notify(text: str, *, quiet: bool = False) -> None:
    """Print a message for a person, with flags for the parameters that it names."""
    if not quiet:
        print(translated(text), file=sys.stderr)


def result(content: dict[str, Any], text: str, *, as_json: bool) -> None:
    """Print the result: one JSON object alone, or text."""
    print(json.dumps(content) if as_json else text)


def guarded(command: Callable[P, None]) -> Callable[P, None]:
    """`command` with medsynth's errors turned into messages and exit codes."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        as_json = bool(kwargs.get("as_json"))
        try:
            command(*args, **kwargs)
        except MedsynthError as error:
            message = "\n".join([translated(str(error)), *hints(str(error), str(kwargs.get("table") or "TABLE"))])
            _fail(message, error.exit_code, as_json)
        except KeyboardInterrupt:
            _fail("Interrupted. Nothing was released, and what was there before is unchanged.", INTERRUPTED, as_json)
        except MemoryError:
            _fail("There is not enough memory for this table. Use a machine with more, or fewer columns.", 1, as_json)

    return run


@contextmanager
def removed_on_interrupt(checkpoint: Path | None) -> Iterator[None]:
    """Remove the checkpoint of a fit that a person interrupts; a fit that is killed, or fails, leaves it."""
    try:
        yield
    except KeyboardInterrupt:
        if checkpoint:
            checkpoint.unlink(missing_ok=True)
        raise


def _fail(message: str, code: int, as_json: bool) -> None:
    print(json.dumps({"error": message, "exit_code": code}) if as_json else f"Error: {message}", file=sys.stderr)
    raise typer.Exit(code)


def find_model(model: Path | None) -> Path:
    """The model named, else the only or newest one in this folder. Raises ArtifactError where there is none."""
    found = model or newest_model()
    if found is None:
        raise ArtifactError("There is no .medsynth file in this folder. Run `medsynth fit TABLE --epsilon E` first.")
    return found


def newest_model(*, quiet: bool = False) -> Path | None:
    """The only or newest model in this folder, which a message names, or None."""
    found = sorted(Path().glob("*.medsynth"), key=lambda path: path.stat().st_mtime)
    if not found:
        return None
    notify(f"Model: {found[-1]}" + (" (the newest here)" if len(found) > 1 else ""), quiet=quiet)
    return found[-1]
