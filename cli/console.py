"""Results to standard output, messages to standard error, errors to an exit code; a user's mistake has no traceback."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

import typer

from medsynth.errors import ArtifactError, MedsynthError, UsageError

if TYPE_CHECKING:
    from medsynth.privacy.accounting.calibration import Plan

P = ParamSpec("P")
INTERRUPTED = 130


def say(text: str, *, quiet: bool = False) -> None:
    """A message for a person."""
    if not quiet:
        print(text, file=sys.stderr)


def result(content: dict[str, Any], text: str, *, as_json: bool) -> None:
    """The result: one JSON object alone, or text."""
    print(json.dumps(content) if as_json else text)


def guarded(command: Callable[P, None]) -> Callable[P, None]:
    """`command` with medsynth's errors turned into messages and exit codes."""

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        as_json = bool(kwargs.get("as_json"))
        try:
            command(*args, **kwargs)
        except MedsynthError as error:
            _fail(str(error), error.exit_code, as_json)
        except KeyboardInterrupt:
            _fail("Interrupted. Nothing was released, and what was there before is unchanged.", INTERRUPTED, as_json)
        except MemoryError:
            _fail("There is not enough memory for this table. Use a machine with more, or fewer columns.", 1, as_json)

    return run


@contextmanager
def given_up(checkpoint: Path | None) -> Iterator[None]:
    """Remove the checkpoint of a fit that a person ends; one that is killed, or ends in an error, leaves it."""
    try:
        yield
    except KeyboardInterrupt:
        if checkpoint:
            checkpoint.unlink(missing_ok=True)
        raise


def _fail(message: str, code: int, as_json: bool) -> None:
    print(json.dumps({"error": message, "exit_code": code}) if as_json else f"Error: {message}", file=sys.stderr)
    raise typer.Exit(code)


def settings(words: list[str] | None) -> dict[str, str]:
    """What --set says, by name. Raises UsageError for a word that is no NAME=VALUE."""
    for word in words or ():
        if "=" not in word:
            raise UsageError(f"--set takes NAME=VALUE, such as --set lots=800; {word!r} is none.")
    return dict(word.split("=", 1) for word in words or ())


def find_model(model: Path | None) -> Path:
    """The model named, else the only or newest one in this folder. Raises ArtifactError where there is none."""
    found = model or newest_model()
    if found is None:
        raise ArtifactError("There is no .medsynth file in this folder. Run `medsynth fit TABLE --epsilon E` first.")
    return found


def newest_model(*, quiet: bool = False) -> Path | None:
    """The only or newest model in this folder, which is said, or None."""
    found = sorted(Path().glob("*.medsynth"), key=lambda path: path.stat().st_mtime)
    if not found:
        return None
    say(f"Model: {found[-1]}" + (" (the newest here)" if len(found) > 1 else ""), quiet=quiet)
    return found[-1]


@contextmanager
def steps(show: bool) -> Iterator[Callable[[str], None]]:
    """A line on standard error that says which section is being computed, and how long it has taken."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("Report: {task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not show, transient=True) as bar:
        task = bar.add_task("reading", total=10)

        def step(name: str) -> None:
            bar.update(task, description=name, advance=1)

        yield step


@contextmanager
def progress_bar(show: bool) -> Iterator[Callable[[Plan, str, int, int, int], None]]:
    """A bar on standard error with device, rows a second, epsilon spent and time left.

    Rows are expected rows: lot sizes as drawn are private. Epsilon is read from the plan's table.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("Fitting on {task.fields[device]}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    detail = (TextColumn("{task.fields[rate]} rows/s, epsilon {task.fields[spent]}"), TimeRemainingColumn())
    with Progress(*columns, *detail, console=Console(stderr=True), disable=not show, transient=True) as bar:
        task = bar.add_task("fit", device="...", rate="-", spent="-", total=None)
        table: list[tuple[int, float]] = []

        def advance(plan: Plan, device: str, done: int, total: int, lots: int) -> None:
            if not show:
                return
            event, _ = plan.events[plan.most_frequent]
            if not table:
                table.extend(plan.epsilon_by_release())
            elapsed = bar.tasks[0].elapsed or 0.0
            rows = lots * plan.rows * getattr(event, "rate", 1.0) / elapsed if elapsed else 0
            spent = next((epsilon for steps, epsilon in table if lots <= steps), plan.epsilon)
            bar.update(task, completed=done, total=total, device=device, rate=f"{rows:,.0f}", spent=f"{spent:.2f}")

        yield advance
