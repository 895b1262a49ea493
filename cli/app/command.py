"""The command `medsynth app`: a local page for people who do not live in a terminal."""

from __future__ import annotations

import contextlib
import logging
import shutil
import signal
import socket
import sys
import tempfile
import threading
import time
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from medsynth.errors import MedsynthError, UsageError

from ..console import guarded, notify

if TYPE_CHECKING:
    from .session import Session

IDLE_MINUTES = 60
Start = Annotated[Path | None, typer.Argument(help="Table, or the folder to work in [default: this folder].")]


@guarded
def app(
    start: Start = None,
    no_browser: Annotated[
        bool, typer.Option("--no-browser", help="Open no browser. Print the page's one-time address.")
    ] = False,
    language: Annotated[str, typer.Option(help="Language of the page: en or de.", metavar="LANGUAGE")] = "en",
    idle: Annotated[
        int, typer.Option(help="Stop after this number of minutes without use.", metavar="MINUTES", min=1)
    ] = IDLE_MINUTES,
) -> None:
    """Open a page in your browser that leads from a table to a report.

    The page runs on this machine, for you alone, and reads only tables in one folder. It runs the other commands and
    shows each, to copy. It stops with Ctrl-C, or when it is not used; a fit that is stopped can be resumed.

    Needs the extra `medsynth[app]`.

    Examples:

        medsynth app

        medsynth app patients.csv

        medsynth app --no-browser --language de
    """
    folder, table = _start(start)
    try:
        import flask  # noqa: F401
        from waitress.server import create_server
    except ImportError:
        raise UsageError("The page needs two packages more. Install them: pip install 'medsynth[app]'") from None
    from .server import LARGEST_FORM, made
    from .session import Session, languages

    if language not in languages():
        raise UsageError(f"`language` must be one of {', '.join(languages())}.")
    session = Session(folder, table, language)
    own = socket.create_server(("127.0.0.1", 0))
    session.door.port = own.getsockname()[1]
    logging.getLogger("waitress").setLevel(logging.CRITICAL)  # it counts waiting requests, and quotes errors
    server = create_server(made(session), sockets=[own], threads=8, ident=None, max_request_body_size=LARGEST_FORM)
    threading.Thread(target=server.run, daemon=True).start()
    for one in (signal.SIGTERM, signal.SIGHUP):  # a closed terminal stops the page as Ctrl-C does
        signal.signal(one, signal.default_int_handler)
    private = Path(tempfile.mkdtemp(prefix="medsynth-"))
    try:
        _open(session, private, no_browser)
        _wait(session, 60.0 * idle)
    except KeyboardInterrupt:
        notify("Stopped.")
    finally:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command that runs is stopped below, in a known time
        session.door.leave()
        shutil.rmtree(private, ignore_errors=True)
        session.jobs.stop()
        server.close()


def _start(start: Path | None) -> tuple[Path, str]:
    """Return the folder to work in, and the name of the table in it, or an empty one."""
    path = (start or Path()).resolve()
    if path.is_dir():
        return path, ""
    from .choices import tables

    if not path.is_file():
        raise UsageError(f"{start} was not found. Name a table, or a folder of tables.")
    if path.name not in tables(path.parent):
        raise UsageError(f"{start} is not a table that can be fitted. Name a CSV, Parquet, SPSS, Stata or SAS file.")
    return path.parent, path.name


def _open(session: Session, private: Path, no_browser: bool) -> None:
    """Lead the browser to the page, or print its address."""
    if no_browser:
        print(session.door.address, flush=True)
        notify("This address works once, for five minutes, on this machine. Press Ctrl-C to stop.")
    elif webbrowser.open(_start_file(session, private).as_uri()):
        notify("The page is open in your browser. Press Enter for a new address of it, and Ctrl-C to stop.")
    else:
        raise UsageError("No browser could be opened. Use --no-browser, and open the address that it prints.")
    threading.Thread(target=_renew, args=(session,), daemon=True).start()


def _start_file(session: Session, private: Path) -> Path:
    """Write the file that opens the page, also again: next to the tables, or if that cannot be in a private folder."""
    try:
        return session.door.keep(session.folder)
    except (MedsynthError, OSError):
        return session.door.keep(private)


def _renew(session: Session) -> None:
    """Print a new one-time address for each line that is typed."""
    with contextlib.suppress(OSError, ValueError):  # a stream that was closed
        for _ in sys.stdin or ():
            print(session.door.renew(), flush=True)


def _wait(session: Session, idle: float) -> None:
    """Wait until the page was not used for `idle` seconds, and no command runs."""
    while session.jobs.running or time.monotonic() - session.used < idle:
        time.sleep(0.5)
    notify("Stopped, because the page was not used.")
