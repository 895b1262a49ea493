"""The screens of the page: each shows one question, keeps its answers, and starts one command."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from flask import Blueprint, Flask, Response, abort, redirect, render_template, request, url_for
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Response as Answer

from medsynth.errors import MedsynthError, UsageError
from medsynth.io.atomic import atomic_write

from ..console import notify, own_fault
from . import screens
from .choices import Choices, is_inside, load, shown
from .door import OF_REPORT, Door, protected
from .jobs import Jobs

HERE = Path(__file__).parent
STYLE = resources.files("medsynth.report.page") / "templates" / "report.css"  # the page looks like the report
STEPS = ("table", "public", "budget", "fit", "rows", "report")
LARGEST_FORM = 4_000_000  # bytes; a schema of 2,000 columns has about half of it


def languages() -> list[str]:
    """Return the languages that the page's texts exist in."""
    return sorted(path.stem for path in (HERE / "texts").glob("*.yaml"))


class Session:
    """One person's work in one folder: the door, the choices and the commands."""

    def __init__(self, folder: Path, table: str = "", language: str = "en") -> None:
        self.folder, self.language, self.door, self.jobs = folder, language, Door(), Jobs(folder)
        self.choices, self.used, self.lock = Choices(), time.monotonic(), threading.RLock()
        self.texts: dict[str, str] = _texts("en") | _texts(language)
        self.changes = 0  # answers so far, of all tables
        self._told = deque[str]()  # threads append and pop without a lock
        if table:
            self.choose(table)

    def choose(self, table: str) -> None:
        """Go to a table, with what was chosen for it before."""
        self.choices = load(self.folder, table)
        self.jobs.forget()

    def has(self, name: str) -> bool:
        """Return whether a file or folder of that name is in the folder."""
        return is_inside(self.folder, name)

    def read(self, name: str) -> str:
        """Return the text of a file of the folder, or an empty one if there is none."""
        if not self.has(name):
            return ""
        try:
            return (self.folder / name).read_text(encoding="utf-8-sig")
        except (OSError, ValueError):
            raise UsageError(f"{name} cannot be read as UTF-8 text. Save it as UTF-8.") from None

    def state(self) -> str:
        """Return what an answer must name. It is new after each answer, and if a file that a form shows is new."""
        shown = [self.folder / name for name in (self.choices.schema, screens.REVIEW) if self.has(name)]
        return "-".join(map(str, [self.changes, *(path.stat().st_mtime_ns for path in shown)]))

    def change(self, **answers: Any) -> None:
        """Keep answers, and save them next to the table."""
        for name, value in answers.items():
            setattr(self.choices, name, value)
        self.changes += 1
        self.choices.save(self.folder)

    def write(self, name: str, text: str) -> None:
        """Write a file of the folder as a whole. What it replaces was shown to the person first."""
        self.changes += 1
        atomic_write(self.folder / name, lambda file: file.write(text.encode()), force=True)

    def say(self, text: str) -> str:
        """Return one of the page's texts."""
        return self.texts[text]

    def tell(self, message: str) -> None:
        """Show a message on the next screen."""
        self._told.append(self.short(message))

    def short(self, message: str) -> str:
        """Return a message with the names of this folder's files alone, in characters that a page can show."""
        return message.replace(f"{self.folder}{os.sep}", "").encode(errors="replace").decode()

    def told(self) -> list[str]:
        """Return the messages for the screen that is shown now."""
        return [self._told.popleft() for _ in range(len(self._told))]


def _texts(language: str) -> dict[str, str]:
    return dict(yaml.safe_load((HERE / "texts" / f"{language}.yaml").read_text("utf-8")))


def made(session: Session) -> Flask:
    """Return the application. It answers nobody but the person who came in by the door."""
    flask = Flask("medsynth_cli.app", root_path=str(HERE), static_url_path=f"{session.door.path}/static")
    flask.config |= {"MAX_CONTENT_LENGTH": LARGEST_FORM, "MAX_FORM_MEMORY_SIZE": LARGEST_FORM}
    flask.jinja_env.trim_blocks = flask.jinja_env.lstrip_blocks = True
    flask.before_request(lambda: _guard(session))
    flask.after_request(protected)
    flask.register_error_handler(MedsynthError, lambda error: _back(session, str(error)))
    flask.register_error_handler(OSError, lambda error: _back(session, _unreadable(error)))
    flask.register_error_handler(HTTPException, lambda error: _failure(session, error))
    flask.register_error_handler(Exception, lambda error: _fault(session, error))
    flask.context_processor(lambda: _known(session))
    flask.register_blueprint(_routes(session), url_prefix=session.door.path)
    return flask


def _guard(session: Session) -> Any:
    if request.path == f"{session.door.path}/enter" and session.door.refusal(request) in (None, "refused_cookie"):
        return None
    if (reason := session.door.refusal(request)) is not None:
        return Response(session.say(reason), 403, mimetype="text/plain")
    session.used = time.monotonic()
    return None


def _failure(session: Session, error: HTTPException) -> Any:
    """Answer an error in one sentence, without what the request contained."""
    if (code := error.code or 500) < 400:
        return error  # a redirection
    text = session.say(f"error_{code}" if f"error_{code}" in session.texts else "error_400")
    return Response(text, code, mimetype="text/plain")


def _fault(session: Session, error: Exception) -> Response:
    """Answer a fault of the program, and print where it is. Its own text may quote a cell, so it is shown nowhere."""
    notify(own_fault(error))
    return Response(session.say("error_500"), 500, mimetype="text/plain")


def _unreadable(error: OSError) -> str:
    name = Path(str(error.filename or "a file")).name
    return f"Cannot read or write {name} ({error.strerror or 'no reason is known'})."


def _back(session: Session, message: str) -> Answer:
    """Return to the screen that was answered, with a message. A page that cannot be shown becomes the message."""
    if request.method != "POST":
        return Response(session.short(message), 409, mimetype="text/plain")
    session.tell(message)
    step = request.path.rsplit("/", 1)[-1]
    return redirect(url_for(f"page.{step if step in STEPS else SCREEN_OF.get(step, 'table')}"), 303)


SCREEN_OF = {  # of forms that are not named as their screen
    "columns": "columns", "text": "columns", "import": "public", "bundled": "public", "draft": "public",
    "aside": "public", "check": "public", "review": "report", "package": "report", "cancel": "fit",
}  # fmt: skip


def _known(session: Session) -> dict[str, Any]:
    """Return what each template may use."""
    return {"t": session.texts, "choices": session.choices, "steps": STEPS, "jobs": session.jobs, "shown": shown,
            "language": session.language, "has": session.has, "folder": session.short(session.folder.name),
            "told": session.told, "running": session.jobs.running, "state": session.state()}  # fmt: skip


Handler = Callable[[], Any]


def _routes(session: Session) -> Blueprint:
    """Return the screens and what their forms do."""
    page = Blueprint("page", __name__)

    def screen(name: str, content: Callable[[Session], Mapping[str, Any]]) -> None:
        def show() -> Any:
            if name != "table" and not session.choices.table:
                return redirect(url_for("page.table"), 303)
            return render_template(f"{name}.html", step="public" if name == "columns" else name, **content(session))

        page.add_url_rule(f"/{name}", name, show)

    def form(name: str, handle: Callable[[Session, Mapping[str, str]], str]) -> None:
        def answer() -> Any:
            if name != "table" and not session.choices.table:
                abort(409)
            with session.lock:
                if request.form.get("changes") != session.state():
                    return _back(session, session.say("other_tab"))
                return redirect(url_for(f"page.{handle(session, request.form)}"), 303)

        page.add_url_rule(f"/{name}", f"do_{name}", answer, methods=["POST"])

    for step in (*STEPS, "columns"):
        screen(step, getattr(screens, f"show_{step}"))
    for name in (*STEPS, *SCREEN_OF):
        form(name, getattr(screens, f"do_{name}"))
    page.add_url_rule("/", "start", lambda: redirect(url_for("page.table"), 303))
    page.add_url_rule("/enter", "enter", lambda: _enter(session))
    page.add_url_rule("/job", "job", lambda: _job(session))
    page.add_url_rule("/report.css", "style", lambda: Response(STYLE.read_bytes(), mimetype="text/css"))
    page.add_url_rule("/plots", "plots", lambda: render_template("plots.html", plots=screens.plots(session)))
    page.add_url_rule("/page", "report_page", lambda: _report(session))
    return page


def _enter(session: Session) -> Response:
    """Exchange the one-time token for the cookie. This page asks for the next one, so the cookie goes with it."""
    if not session.door.opens(request.args.get("token", "")):
        return Response(session.say("refused_token"), 403, mimetype="text/plain")
    start = url_for("page.start")
    return session.door.let_in(Response(f'<!doctype html><title>medsynth</title><link rel="icon" href="data:,">'
                                        f'<meta http-equiv="refresh" '
                                        f'content="0;url={start}"><a href="{start}">medsynth</a>'))  # fmt: skip


def _job(session: Session) -> dict[str, Any]:
    job = session.jobs[request.args.get("step", "")]
    return job.facts() if job else {"running": False}


def _report(session: Session) -> Response:
    """Return the report as it was written, with no right to ask this server for anything."""
    if not session.choices.table or not session.has(session.choices.page):
        abort(404)
    content = (session.folder / session.choices.page).read_bytes()
    return Response(content, mimetype="text/html", headers={"Content-Security-Policy": OF_REPORT})
