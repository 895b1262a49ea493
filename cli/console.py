"""Print results to standard output, messages and progress to standard error. Errors become exit codes."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TextIO

import typer

from medsynth.errors import ArtifactError, MedsynthError, UsageError
from medsynth.io.formats import named

from .flags import hints, in_lines, translated

if TYPE_CHECKING:
    from medsynth.artifact import Model
    from medsynth.privacy.accounting.calibration import Plan

P = ParamSpec("P")
INTERRUPTED = 130
SHOWN_NAME = 200  # characters of a file's name in a message
MOST_LINES = 4  # of progress per second
OWN_FAULT = "This is a bug in medsynth"


def open_streams() -> None:
    """Make sure that the standard streams can be printed to.

    A closed stream becomes /dev/null. Otherwise a file that is opened later would get its number, and its messages. A
    terminal that lacks a character shows it escaped.
    """
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(handle)
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def notify(text: str, *, quiet: bool = False) -> None:
    """Print a message to standard error, with flags in place of parameter names. Ignore a broken stream."""
    if not quiet:
        with contextlib.suppress(OSError):
            print(translated(text), file=sys.stderr, flush=True)


def result(content: dict[str, Any], text: str, *, as_json: bool) -> None:
    """Print the result as one JSON object or as text. Raise MedsynthError if it cannot be printed."""
    with writing_to_standard_output():
        print(json.dumps(content) if as_json else text, flush=True)


@contextmanager
def writing_to_standard_output() -> Iterator[None]:
    """Turn a failure of standard output into one error. If the reader has left, exit without a message."""
    try:
        yield
    except BrokenPipeError:
        _drop(sys.stdout)
        raise typer.Exit(1) from None
    except OSError as error:
        _drop(sys.stdout)
        raise MedsynthError(
            f"Cannot write to standard output ({error.strerror}). Any output files are complete."
        ) from None


def _drop(stream: TextIO) -> None:
    """Redirect a broken stream to /dev/null, so that Python raises no second error when it exits."""
    with contextlib.suppress(OSError, ValueError):
        handle = os.open(os.devnull, os.O_WRONLY)
        os.dup2(handle, stream.fileno())
        os.close(handle)


def check_page(output: Path, *read: Path | None, force: bool) -> None:
    """Raise unless an HTML page and its JSON twin can be written without replacing a file in `read`."""
    from medsynth.io.atomic import check_outputs, refuse_existing

    refuse_existing(output, force=force)  # checks the name before the twin's name is derived from it
    check_outputs(output, output.with_suffix(".json"), inputs=tuple(path for path in read if path), force=force)


def guarded(command: Callable[P, None]) -> Callable[P, None]:
    """Turn the errors of `command` into messages and exit codes. Tracebacks may contain a cell, so they are hidden.

    If MEDSYNTH_TRACEBACK is set, a bug in medsynth shows its traceback.
    """

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        as_json = bool(kwargs.get("as_json"))
        try:
            command(*args, **kwargs)
        except (typer.Exit, typer.Abort):
            raise
        except MedsynthError as error:
            message = "\n".join([translated(str(error)), *hints(error, str(kwargs.get("table") or "TABLE"))])
            _fail(message, error.exit_code, as_json)
        except KeyboardInterrupt:
            _fail("Interrupted. No output was written, and existing outputs are unchanged.", INTERRUPTED, as_json)
        except MemoryError:
            _fail("Not enough memory for this table. Use a machine with more, or leave columns out.", 1, as_json)
        except OSError as error:
            name = str(error.filename or "a file")[:SHOWN_NAME]
            _fail(f"Cannot read or write {name} ({error.strerror}). Name another file.", 1, as_json)
        except Exception as error:
            if os.environ.get("MEDSYNTH_TRACEBACK"):
                raise
            _fail(own_fault(error), 1, as_json)

    return run


def own_fault(error: Exception) -> str:
    """Return a message that says where medsynth failed. It omits the error's own text, which may quote a cell."""
    own = str(Path(__file__).parent)
    found = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in found if "medsynth" in frame.filename or frame.filename.startswith(own)]
    place = f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else "an unknown place"
    return (
        f"{OWN_FAULT} ({type(error).__name__} in {place}). Existing files are unchanged. Please report this message. "
        "It contains no data."
    )


def _fail(message: str, code: int, as_json: bool) -> None:
    with contextlib.suppress(OSError):
        as_json = as_json or in_lines()
        print(json.dumps({"error": message, "exit_code": code}) if as_json else f"Error: {message}", file=sys.stderr)
    raise typer.Exit(code)


def find_model(model: Path | None) -> Path:
    """Return the model that was named, else the newest in this folder. Raise ArtifactError if there is none."""
    found = model or newest_model()
    if found is None:
        raise ArtifactError("There is no .medsynth file in this folder. Run `medsynth fit TABLE --epsilon E` first.")
    return found


def one_of(argument: Path | None, option: Path | None) -> Path | None:
    """Return the model that was named as an argument or by --model. Raise UsageError if both name one."""
    if argument and option:
        raise UsageError("Name the model once: as an argument or by --model.")
    return argument or option


def find_synthetic(folder: Path, name: str, model: Model) -> Path | None:
    """Return the synthetic table of the model of that name: of the file type of its fitted table, else of another."""
    usual = folder / f"{name}.synthetic{model.form.ending}"
    return usual if usual.exists() else named(folder, f"{name}.synthetic")


def newest_model(*, quiet: bool = False) -> Path | None:
    """Return the newest model in this folder that can be read and print its name; None without a model."""
    from medsynth.artifact import load

    found = sorted(Path().glob("*.medsynth"), key=lambda path: path.stat().st_mtime)
    if not found:
        return None
    for newest in found[:0:-1]:
        try:
            load(newest)
            break
        except ArtifactError as error:
            notify(f"Skipped: {error}", quiet=quiet)
            found.pop()
    notify(f"Model: {found[-1]}" + (" (the newest in this folder)" if len(found) > 1 else ""), quiet=quiet)
    return found[-1]


class ProgressLines:
    """Progress as lines of JSON on standard error, at most `MOST_LINES` per second while the phase is the same."""

    def __init__(self) -> None:
        self._phase, self._next = "", 0.0

    def __call__(self, phase: str, done: int = 0, total: int = 0, **facts: Any) -> None:
        """Print one line, unless another of the same phase was printed just before."""
        if phase == self._phase and time.monotonic() < self._next and done != total:
            return
        self._phase, self._next = phase, time.monotonic() + 1 / MOST_LINES
        with contextlib.suppress(OSError):
            print(json.dumps({"phase": phase, "done": done, "total": total, **facts}), file=sys.stderr, flush=True)


def fit_progress(show: bool) -> dict[str, Any]:
    """Return the options by which a fit tells its progress: as a bar, in lines, or not at all."""
    if not in_lines():
        return {"progress": show}
    from medsynth.fitting.settings import EpsilonSoFar

    line = ProgressLines()
    spent = EpsilonSoFar()

    def advance(plan: Plan, device: str, done: int, total: int, releases: int) -> None:
        line(f"fitting on {device}", done, total, releases=releases, epsilon=spent(plan, releases))

    return {"progress": advance, "phase": line}


@contextmanager
def report_progress(show: bool, pages: int = 1) -> Iterator[Callable[[str], None]]:
    """Show a line with the section that is being computed and the time since the start."""
    from medsynth.report.sections.registry import computed

    total = pages * computed() + 2
    if in_lines():
        done = itertools.count(1)
        line = ProgressLines()
        yield lambda name: line(name, next(done), total)
        return
    with _bar("Report", "reading", total, show) as update:
        yield lambda name: update(description=name, advance=1)


@contextmanager
def _bar(what: str, first: str, total: float | None, show: bool) -> Iterator[Callable[..., None]]:
    """Show a bar with a description and the time since the start, and the time left if `total` comes with the steps."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    left = (TimeRemainingColumn(),) if total is None else ()
    columns = (TextColumn(f"{what}: {{task.description}}"), BarColumn(), TimeElapsedColumn(), *left)
    with Progress(*columns, console=Console(stderr=True), disable=not show, transient=True) as bar:
        yield partial(bar.update, bar.add_task(first, total=total))


@contextmanager
def starting(show: bool) -> Iterator[None]:
    """Show a status line while the libraries of a fit are loaded."""
    if not show:
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status("starting"):
        yield


@contextmanager
def audit_progress(show: bool) -> Iterator[Callable[[str, float, float], None]]:
    """Show a bar with the mechanism that is audited, the time since the start and the time left."""
    with _bar("Audit", "starting", None, show) as update:
        yield lambda what, done, total: update(description=what, completed=done, total=total)
