"""The screens of the page: each shows one question, keeps its answers, and starts one command."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, get_args

from flask import Blueprint, Flask, Response, abort, redirect, render_template, request, url_for
from werkzeug.exceptions import HTTPException
from werkzeug.wrappers import Response as Answer

from medsynth.errors import MedsynthError
from medsynth.report.data.verdict import Use

from ..console import notify, own_fault
from ..spoken import foreign
from . import screens
from .choices import shown
from .door import OF_REPORT, protected
from .screens import SCREEN_OF
from .session import HERE, Session, printable
from .words import Refusal

STYLE = resources.files("medsynth.report.page") / "templates" / "report.css"  # the page looks like the report
STEPS = ("table", "public", "budget", "fit", "rows", "report")
LARGEST_FORM = 4_000_000  # bytes; a schema of 2,000 columns has about half of it


def made(session: Session) -> Flask:
    """Return the application. It answers nobody but the person who came in by the door."""
    flask = Flask("medsynth_cli.app", root_path=str(HERE), static_url_path=f"{session.door.path}/static")
    flask.config |= {"MAX_CONTENT_LENGTH": LARGEST_FORM, "MAX_FORM_MEMORY_SIZE": LARGEST_FORM}
    flask.jinja_env.filters |= {"n": session.number, "plain": session.short}
    flask.jinja_env.tests["labelled"] = screens.has_labels
    flask.jinja_env.trim_blocks = flask.jinja_env.lstrip_blocks = True
    flask.before_request(lambda: _guard(session))
    flask.after_request(protected)
    flask.register_error_handler(MedsynthError, lambda error: _back(session, error))
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


def _unreadable(error: OSError) -> MedsynthError:
    name = Path(str(error.filename or "a file")).name
    return MedsynthError(f"Cannot read or write {name} ({error.strerror or 'no reason is known'}).")


def _back(session: Session, error: MedsynthError) -> Answer:
    """Return to the screen that was answered, with a message. A page that cannot be shown becomes the message."""
    if request.method != "POST":
        return Response(session.short(str(error)), 409, mimetype="text/plain")
    session.tell(str(error), english=not isinstance(error, Refusal))
    step = request.path.rsplit("/", 1)[-1]
    if request.form.get("changes") == session.state():  # what an old form says is not shown again
        session.refused = (step, request.form.to_dict())
    return redirect(url_for(f"page.{step if step in STEPS else SCREEN_OF.get(step, 'table')}"), 303)


def _known(session: Session) -> dict[str, Any]:
    """Return what each template may use."""
    return {"t": session.texts, "choices": session.choices, "steps": STEPS, "jobs": session.jobs, "shown": shown,
            "language": session.language, "has": session.has, "folder": printable(session.folder.name),
            "told": session.told, "foreign": foreign, "running": session.jobs.running,
            "kinds_of_use": get_args(Use)}  # fmt: skip


def _routes(session: Session) -> Blueprint:
    """Return the screens and what their forms do."""
    page = Blueprint("page", __name__)

    def screen(name: str, content: Callable[[Session], Mapping[str, Any]]) -> None:
        def show() -> Any:
            if name != "table" and not session.choices.table:
                return redirect(url_for("page.table"), 303)
            state = session.state()  # before the content: a form never names a newer state than it shows
            step = "public" if name == "columns" else name
            (form, typed), session.refused = session.refused, ("", {})
            shown = {"step": step, "state": state, "typed": typed if form == name else {}}  # after an error
            return render_template(f"{name}.html", **shown, **content(session))

        page.add_url_rule(f"/{name}", name, show)

    def form(name: str, handle: Callable[[Session, Mapping[str, str]], str]) -> None:
        def answer() -> Any:
            if name not in ("table", "language") and not session.choices.table:
                abort(409)
            with session.lock:
                if request.form.get("changes") != session.state():
                    return _back(session, Refusal(session.say("other_tab")))
                target = handle(session, request.form)
            stays = target == name or target == SCREEN_OF.get(name)
            return redirect(url_for(f"page.{target}", _anchor="now" if stays else None), 303)

        page.add_url_rule(f"/{name}", f"do_{name}", answer, methods=["POST"])

    for step in (*STEPS, "columns"):
        screen(step, getattr(screens, f"show_{step}"))
    for name in (*STEPS, *SCREEN_OF):
        form(name, getattr(screens, f"do_{name}"))
    page.add_url_rule("/", "start", lambda: redirect(url_for("page.table"), 303))
    page.add_url_rule("/enter", "enter", lambda: _enter(session))
    page.add_url_rule("/faults", "faults", lambda: screens.faults(session, request.form), methods=["POST"])
    page.add_url_rule("/job", "job", lambda: _job(session))
    page.add_url_rule("/report.css", "style", lambda: Response(STYLE.read_bytes(), mimetype="text/css"))
    page.add_url_rule("/plots", "plots", lambda: render_template("plots.html", plots=screens.plots(session)))
    page.add_url_rule("/page", "report_page", lambda: _page(session, session.choices.page))
    page.add_url_rule("/approval", "approval_page", lambda: _page(session, session.choices.approval))
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


def _page(session: Session, name: str) -> Response:
    """Return a page as it was written, with no right to ask this server for anything."""
    if not session.choices.table or not session.has(name):
        abort(404)
    content = (session.folder / name).read_bytes()
    return Response(content, mimetype="text/html", headers={"Content-Security-Policy": OF_REPORT})
