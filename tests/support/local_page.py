"""The page of `medsynth app` in tests: as a browser asks for it, without a server, and with commands that do little."""

import re
import sys
import time
from functools import cache
from pathlib import Path
from typing import Any, ClassVar

import pytest
from flask.testing import FlaskClient
from jinja2 import BytecodeCache
from jinja2.bccache import Bucket
from medsynth_cli.app import jobs, session
from medsynth_cli.app.server import made
from medsynth_cli.app.session import Session
from werkzeug.test import TestResponse

PORT = 8123
HERE = f"http://127.0.0.1:{PORT}"
CELL = "CANARY"  # what each planted cell contains
HEADER = ("patient", "age", "sex", "note")
session._texts = cache(session._texts)  # to read them takes most of a test's time


class Compiled(BytecodeCache):
    """Templates that were compiled before: to compile them takes most of a test's time."""

    texts: ClassVar[dict[str, bytes]] = {}

    def load_bytecode(self, bucket: Bucket) -> None:
        if bucket.key in self.texts:
            bucket.bytecode_from_string(self.texts[bucket.key])

    def dump_bytecode(self, bucket: Bucket) -> None:
        self.texts[bucket.key] = bucket.bytecode_to_string()


class Page:
    """A browser in which the page is open. `post` names the state of the form, unless told otherwise."""

    def __init__(self, folder: Path, table: str = "", language: str = "en", who: str = "one") -> None:
        self.session = Session(folder.resolve(), table, language)
        self.session.choices.who = who if table and not self.session.choices.who else self.session.choices.who
        self.session.door.port = PORT
        self.flask = made(self.session)
        self.flask.jinja_env.bytecode_cache = Compiled()
        self.client: FlaskClient = self.flask.test_client()

    def enter(self) -> "Page":
        """Come in by the one-time address."""
        address = self.session.door.address.removeprefix(HERE)
        assert self.client.get(address, base_url=HERE).status_code == 200
        return self

    def get(self, path: str, **options: Any) -> TestResponse:
        return self.client.get(f"{self.session.door.path}/{path}", base_url=HERE, buffered=True, **options)

    def post(self, path: str, form: dict[str, Any] | None = None, **options: Any) -> TestResponse:
        content = {"changes": self.session.state()} | (form or {})
        given = {"base_url": HERE, "headers": {"Origin": HERE}, "data": content, "buffered": True} | options
        return self.client.post(f"{self.session.door.path}/{path}", **given)

    def said(self, screen: str = "table") -> str:
        """Return the messages of a screen, as a person reads them."""
        text = self.get(screen).get_data(as_text=True)
        return "\n".join(re.findall(r'<(?:p|div) class="said[^>]*role="alert"[^>]*>(.*?)</(?:p|div)>', text, re.DOTALL))

    def wait(self, seconds: float = 60.0) -> None:
        """Wait until no command runs."""
        until = time.monotonic() + seconds
        while self.session.jobs.running:
            assert time.monotonic() < until, "the command did not end"
            time.sleep(0.01)


def table(folder: Path, name: str = "ward.csv", header: tuple[str, ...] = HEADER) -> Path:
    """Write a table whose cells all contain CELL."""
    lines = [",".join(f"{CELL}{k}x{row}" for k in range(len(header))) for row in range(30)]
    path = folder / name
    path.write_text("\n".join([",".join(header), *lines]) + "\n")
    return path


def fake(monkeypatch: pytest.MonkeyPatch, script: str = "print('{}')") -> None:
    """Let each command be a line of Python. Its words are in `sys.argv`."""
    monkeypatch.setattr(jobs, "COMMAND", (sys.executable, "-S", "-c", f"import sys\n{script}"))
