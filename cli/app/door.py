"""Who may use the page: the person who started it, in one browser of this machine."""

from __future__ import annotations

import hmac
import secrets
import time
from contextlib import suppress
from pathlib import Path

from flask import Request, Response

from medsynth.errors import MedsynthError, UsageError
from medsynth.io.atomic import atomic_write

ENTRY_SECONDS = 300.0  # for which the one-time address can be used
COOKIE = "medsynth"
START, MARK = "open-medsynth.html", "<title>medsynth</title>"  # of the page that leads to the running server
POLICY = (
    "default-src 'none'; style-src 'self'; style-src-attr 'unsafe-inline'; script-src 'self'; img-src data:; "
    "connect-src 'self'; frame-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
OF_REPORT = (  # its styles and script are in the page; it gets no origin, so it can ask this server for nothing
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
    "frame-ancestors 'self'; sandbox allow-scripts"
)


class Door:
    """A token that opens once, and the cookie that it is exchanged for.

    All pages are below a secret path, to which the cookie is confined: other programs of this machine that answer the
    same browser on another port never get it.
    """

    def __init__(self) -> None:
        self.path = f"/{secrets.token_urlsafe(16)}"
        self.port = 0
        self._cookie = secrets.token_urlsafe(32)
        self.renew()
        self._start, self._of_start = Path(), ""  # the page that leads here, and its token

    @property
    def address(self) -> str:
        """The one-time address."""
        return self._address(self._token)

    def _address(self, token: str) -> str:
        return f"http://127.0.0.1:{self.port}{self.path}/enter?token={token}"

    def keep(self, folder: Path) -> Path:
        """Write a page into a folder that leads here, for its owner alone. Its address opens once, then it is renewed.

        Raises MedsynthError if others could read it, or if another file has its name.
        """
        path, self._of_start = folder / START, secrets.token_urlsafe(32)
        if path.exists() and MARK not in path.read_text(errors="replace"):
            raise UsageError(f"{path} is another file. Rename it.")
        address = self._address(self._of_start)
        text = (f'<!doctype html>{MARK}<meta charset="utf-8"><meta name="referrer" content="no-referrer">'
                f'<meta http-equiv="refresh" content="0;url={address}"><a href="{address}">medsynth</a>')  # fmt: skip
        atomic_write(path, text.encode(), force=True, private=True)
        self._start = path
        if path.stat().st_mode & 0o077:  # a folder whose files have no owner, as on some network drives
            self.leave()
            raise UsageError(f"Others could read {path}.")
        return path

    def leave(self) -> None:
        """Remove the page that leads here, unless another server has written its own."""
        with suppress(OSError):
            if self.path in self._start.read_text():
                self._start.unlink()

    def renew(self) -> str:
        """Return a new one-time address. An older one no longer opens."""
        self._token = secrets.token_urlsafe(32)
        self._until = time.monotonic() + ENTRY_SECONDS
        return self.address

    def opens(self, token: str) -> bool:
        """Return whether a token is the one that opens, and let it open no more."""
        if self._of_start and hmac.compare_digest(token.encode(), self._of_start.encode()):
            self._of_start = ""  # nobody knows the next one before it is written
            with suppress(OSError, MedsynthError):
                self.keep(self._start.parent)
            return True
        if time.monotonic() > self._until or not hmac.compare_digest(token.encode(), self._token.encode()):
            return False
        self._token = secrets.token_urlsafe(32)  # nobody knows this one
        return True

    def refusal(self, request: Request) -> str | None:
        """Return why a request gets no answer: the name of a text, or None.

        A page of another site reaches this server under that site's name (DNS rebinding), with its own origin, or
        without the cookie, since that is sent to no other site.
        """
        own = {f"127.0.0.1:{self.port}", f"localhost:{self.port}"}
        if request.host not in own:
            return "refused_host"
        origin = request.headers.get("Origin")
        asked_here = {f"http://{host}" for host in own}
        if (origin is not None or request.method == "POST") and origin not in asked_here:
            return "refused_origin"
        if request.headers.get("Sec-Fetch-Site") == "cross-site" and request.method != "GET":
            return "refused_origin"
        given = request.cookies.get(COOKIE, "")
        return None if hmac.compare_digest(given.encode(), self._cookie.encode()) else "refused_cookie"

    def let_in(self, response: Response) -> Response:
        """Add the cookie to a response."""
        response.set_cookie(COOKIE, self._cookie, path=self.path, httponly=True, samesite="Strict")
        return response


def protected(response: Response) -> Response:
    """Add the headers that keep a page out of caches, other pages and foreign sources."""
    response.headers["Cache-Control"] = "no-store"
    response.headers.setdefault("Content-Security-Policy", POLICY)
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Referrer-Policy"] = "same-origin"  # without a referrer, forms would send the origin `null`
    response.headers["Cross-Origin-Opener-Policy"] = response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
    response.headers.remove("Server")
    return response
