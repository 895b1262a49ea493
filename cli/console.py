"""Results to standard output, messages and progress to standard error, errors to an exit code; no traceback."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec

import typer

from medsynth.errors import ArtifactError, MedsynthError

from .flags import hints, translated

if TYPE_CHECKING:
    from medsynth.privacy.accounting.calibration import Plan

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
            _fail("Interrupted. No file was written, and what was there before is unchanged.", INTERRUPTED, as_json)
        except MemoryError:
            _fail("There is not enough memory for this table. Use a machine with more, or fewer columns.", 1, as_json)

    return run


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


@contextmanager
def report_progress(show: bool) -> Iterator[Callable[[str], None]]:
    """A line that names the section being computed, and the time that has passed."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    from medsynth.report.sections.registry import computed

    columns = (TextColumn("Report: {task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not show, transient=True) as bar:
        task = bar.add_task("reading", total=computed() + 2)

        def step(name: str) -> None:
            bar.update(task, description=name, advance=1)

        yield step


@contextmanager
def fit_progress(show: bool) -> Iterator[Callable[[Plan, str, int, int, int], None]]:
    """A bar with the device, rows a second, epsilon so far and the time left.

    Rows are expected rows: lot sizes as drawn are private. Epsilon is read from the plan's table.
    """
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("Fitting on {task.fields[device]}"), BarColumn(), TextColumn("{task.percentage:>3.0f} %"))
    detail = (TextColumn("{task.fields[rate]} rows/s, epsilon {task.fields[epsilon]}"), TimeRemainingColumn())
    with Progress(*columns, *detail, console=Console(stderr=True), disable=not show, transient=True) as bar:
        task = bar.add_task("fit", device="...", rate="-", epsilon="-", total=None)
        table: list[tuple[int, float]] = []

        def advance(plan: Plan, device: str, done: int, total: int, lots: int) -> None:
            if not show:
                return
            event, _ = plan.events[plan.most_frequent]
            if not table:
                table.extend(plan.epsilon_by_release())
            elapsed = bar.tasks[0].elapsed or 0.0
            rows = lots * plan.rows * getattr(event, "rate", 1.0) / elapsed if elapsed else 0
            epsilon = next((epsilon for steps, epsilon in table if lots <= steps), plan.epsilon)
            bar.update(task, completed=done, total=total, device=device, rate=f"{rows:,.0f}", epsilon=f"{epsilon:.2f}")

        yield advance


@contextmanager
def audit_progress(show: bool) -> Iterator[Callable[[str, float, float], None]]:
    """A bar that names what is audited, with the time that has passed and that is left."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (TextColumn("Audit: {task.description}"), BarColumn(), TimeElapsedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), disable=not show, transient=True) as bar:
        task = bar.add_task("starting", total=None)

        def step(what: str, done: float, total: float) -> None:
            bar.update(task, description=what, completed=done, total=total)

        yield step
