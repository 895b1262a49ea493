"""A folder with a table, and the page of it."""

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("flask", reason="the page needs the extra `app`")
pytest.importorskip("waitress", reason="the page needs the extra `app`")

from local_page import Page, fake, table  # noqa: E402


@pytest.fixture(autouse=True, scope="session")
def interrupted() -> Iterator[None]:
    """Let commands be interrupted, even if this session ignores SIGINT, as under nohup: they inherit that."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with one table, below another folder that nobody may write into."""
    made = tmp_path / "work"
    made.mkdir()
    table(made)
    return made


@pytest.fixture
def page(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Page]:
    """The page of the table, in a browser that has come in. Its commands print an empty result."""
    fake(monkeypatch)
    opened = Page(folder, "ward.csv").enter()
    yield opened
    opened.session.jobs.stop()
