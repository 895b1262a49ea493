"""Results to standard output, messages and progress to standard error, errors to an exit code; no traceback."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, TextIO

import typer

from medsynth.errors import ArtifactError, MedsynthError

from .flags import hints, translated

P = ParamSpec("P")
INTERRUPTED = 130
SHOWN_NAME = 200  # characters of a file's name in a message
OWN_FAULT = "This is a fault of medsynth"


def open_streams() -> None:
    """Make the standard streams fit to print on, whatever the process was started with.

    A stream that was closed becomes /dev/null, so that no file that is opened later gets its number and its messages;
    a terminal that lacks a character shows it escaped.
    """
    while (handle := os.open(os.devnull, os.O_RDWR)) <= 2:
        pass
    os.close(handle)
    sys.stderr = sys.stderr or open(os.devnull, "w")  # noqa: SIM115
    for stream in (sys.stdout, sys.stderr):
        if stream is not None and hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def notify(text: str, *, quiet: bool = False) -> None:
    """Print a message for a person, with flags for the parameters that it names. Where nobody can read it, go on."""
    if not quiet:
        with contextlib.suppress(OSError):
            print(translated(text), file=sys.stderr, flush=True)


def result(content: dict[str, Any], text: str, *, as_json: bool) -> None:
    """Print the result: one JSON object alone, or text. Raises MedsynthError where it cannot be printed."""
    with writing_to_standard_output():
        print(json.dumps(content) if as_json else text, flush=True)


@contextmanager
def writing_to_standard_output() -> Iterator[None]:
    """A full disk, or whatever else stands behind standard output, is one error; a reader who left is none."""
    try:
        yield
    except BrokenPipeError:
        _drop(sys.stdout)
        raise typer.Exit(1) from None
    except OSError as error:
        _drop(sys.stdout)
        raise MedsynthError(
            f"Standard output could not be written ({error.strerror}). Files that were to be written stand."
        ) from None


def _drop(stream: TextIO) -> None:
    """Let nothing that is still to be printed to a broken stream become a second error when Python ends."""
    with contextlib.suppress(OSError, ValueError):
        handle = os.open(os.devnull, os.O_WRONLY)
        os.dup2(handle, stream.fileno())
        os.close(handle)


def check_page(output: Path, *read: Path | None, force: bool) -> None:
    """Raises unless an HTML page and its JSON twin can be written, over none of the files that are `read`."""
    from medsynth.io.atomic import check_outputs, refuse_existing

    refuse_existing(output, force=force)  # its name, before the twin's is made of it
    check_outputs(output, output.with_suffix(".json"), inputs=tuple(path for path in read if path), force=force)


def guarded(command: Callable[P, None]) -> Callable[P, None]:
    """`command` with errors turned into messages and exit codes. None holds a cell: tracebacks can, and are not shown.

    With MEDSYNTH_TRACEBACK set, a fault of medsynth itself ends in its traceback.
    """

    @wraps(command)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        as_json = bool(kwargs.get("as_json"))
        try:
            command(*args, **kwargs)
        except (typer.Exit, typer.Abort):
            raise
        except MedsynthError as error:
            message = "\n".join([translated(str(error)), *hints(str(error), str(kwargs.get("table") or "TABLE"))])
            _fail(message, error.exit_code, as_json)
        except KeyboardInterrupt:
            _fail("Interrupted. No file was written, and what was there before is unchanged.", INTERRUPTED, as_json)
        except MemoryError:
            _fail("There is not enough memory for this table. Use a machine with more, or fewer columns.", 1, as_json)
        except OSError as error:
            name = str(error.filename or "A file")[:SHOWN_NAME]
            _fail(f"{name} cannot be read or written ({error.strerror}). Name another.", 1, as_json)
        except Exception as error:
            if os.environ.get("MEDSYNTH_TRACEBACK"):
                raise
            _fail(_own_fault(error), 1, as_json)

    return run


def _own_fault(error: Exception) -> str:
    """Where medsynth went wrong, without the error's own words: they may quote a cell."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "medsynth" in frame.filename]
    place = f"{Path(frames[-1].filename).name}, line {frames[-1].lineno}" if frames else "an unknown place"
    return (
        f"{OWN_FAULT} ({type(error).__name__} in {place}). What was there before is unchanged. Please report it; no "
        "data is in this message."
    )


def _fail(message: str, code: int, as_json: bool) -> None:
    with contextlib.suppress(OSError):
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
def starting(show: bool) -> Iterator[None]:
    """A line from the first second on, while what a fit needs is being loaded."""
    if not show:
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status("starting"):
        yield


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
