"""Requests that no browser sends, and files that no program writes: one sentence each, and no cell in any answer."""

import contextlib
import logging
import os
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from local_page import CELL, HERE, Page
from medsynth_cli.app import screens, server
from medsynth_cli.app.server import LARGEST_FORM, STEPS, made
from waitress.server import create_server

SCREENS = (*STEPS, "columns", "job", "plots", "page", "static/app.css")


def one_sentence(answer: Any) -> str:
    text: str = answer.get_data(as_text=True)
    assert answer.mimetype == "text/plain" and len(text) < 300 and "Traceback" not in text and "/" not in text, text
    return text


@pytest.mark.matrix
@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "TRACE", "CONNECT", "PROPFIND", "BREW"])
def test_other_methods_are_refused(page: Page, method: str) -> None:
    for path in ("table", "fit", "page", "static/app.js"):
        answer = page.client.open(
            f"{page.session.door.path}/{path}", method=method, base_url=HERE, headers={"Origin": HERE}
        )
        assert answer.status_code == 405
        one_sentence(answer)


@pytest.mark.matrix
@pytest.mark.parametrize(
    "path",
    [
        "static/../server.py",
        "static/%2e%2e/server.py",
        "static/..%2f..%2fconsole.py",
        "static//etc/passwd",
        "static/",
        "nothing",
        "%00",
        "%ff",
        "..",
        "page/../../x",
        "enter/x",
        "static/app.js/x",
    ],
)
def test_paths_lead_to_nothing_else(page: Page, path: str) -> None:
    answer = page.get(path)
    if answer.status_code == 308:  # two slashes become one
        assert answer.headers["Location"].startswith(f"{HERE}{page.session.door.path}/static/")
    else:
        assert answer.status_code in (403, 404) and CELL not in one_sentence(answer)


HEADERS = {
    "a range": {"Range": "bytes=0-3"}, "a range beyond": {"Range": "bytes=9999999-"}, "a match": {"If-None-Match": "*"},
    "a websocket": {"Upgrade": "websocket", "Connection": "Upgrade"}, "a host": {"X-Forwarded-Host": "evil.example"},
    "an address": {"X-Forwarded-For": "1.2.3.4"}, "a method": {"X-HTTP-Method-Override": "DELETE"},
    "an encoding": {"Accept-Encoding": "\x80"}, "a length": {"Content-Length": "0"},
}  # fmt: skip


@pytest.mark.matrix
@pytest.mark.parametrize("headers", HEADERS.values(), ids=HEADERS)
def test_headers_change_no_answer(page: Page, headers: dict[str, str]) -> None:
    for path in SCREENS:
        answer, usual = page.get(path, headers=headers), page.get(path)
        assert answer.status_code in (usual.status_code, 206, 304, 400, 405, 416) and "evil" not in str(answer.headers)
        if answer.status_code in (400, 405, 416):
            one_sentence(answer)


PART = b"--x\r\nContent-Disposition: form-data; name=a\r\n\r\n1\r\n"
BODIES: dict[str, tuple[bytes, str]] = {
    "many fields": (b"&".join(b"f%d=1" % k for k in range(100_000)), "application/x-www-form-urlencoded"),
    "too large": (b"text=" + b"x" * LARGEST_FORM, "application/x-www-form-urlencoded"),
    "no form": (b"{}", "application/json"),
    "bytes": (b"\xff\xfe\x00" * 100, "application/x-www-form-urlencoded"),
    "a broken multipart": (b"--x\r\nContent-Disposition: form-data; name=changes", "multipart/form-data; boundary=x"),
    "no boundary": (b"abc", "multipart/form-data"),
    "many parts": (PART * 3000 + b"--x--", "multipart/form-data; boundary=x"),
    "a charset": (b"changes=9", "application/x-www-form-urlencoded; charset=utf-7"),
}  # fmt: skip


@pytest.mark.matrix
@pytest.mark.nightly_for("many fields")
@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES)
def test_bodies_that_are_no_form_change_nothing(page: Page, body: tuple[bytes, str]) -> None:
    for path in ("table", "text", "fit", "columns"):
        answer = page.post(path, data=body[0], content_type=body[1])
        assert answer.status_code in (303, 400, 413)
        if answer.status_code != 303:
            one_sentence(answer)
    assert page.session.changes == 0 and not page.session.jobs._jobs
    assert not (page.session.folder / "ward.schema.yaml").exists()


def test_header_injection(page: Page) -> None:
    answer = page.get("job?step=x%0d%0aSet-Cookie:%20a=b")
    assert "Set-Cookie" not in answer.headers and answer.json == {"running": False}


# Files


FILES: dict[str, bytes] = {
    "empty": b"", "null": b"\0" * 100, "no text": b"\xff\xfe\xfd,\x80\n", "open quote": b'a,"b\n' + CELL.encode(),
    "one line": b"a" * 200_000, "parquet": b"PAR1" + CELL.encode(), "gzip": b"\x1f\x8b" + CELL.encode(),
    "zip": b"PK\x03\x04" + CELL.encode(), "twice": f"a,a\n{CELL},1\n".encode(),
    "no names": f",,\n{CELL},1,2\n".encode(),
}  # fmt: skip


@pytest.mark.matrix
@pytest.mark.parametrize("content", FILES.values(), ids=FILES)
def test_a_file_that_is_no_table(page: Page, folder: Path, content: bytes, capfd: pytest.CaptureFixture[str]) -> None:
    for ending in (".csv", ".parquet", ".sav", ".xpt", ".xlsx", ".csv.gz", ".zip"):
        (folder / f"bad{ending}").write_bytes(content)
        page.post("table", {"table": f"bad{ending}"})
        for screen in ("table", "columns", "budget"):
            answer = page.get(screen)
            assert answer.status_code == 200 and CELL not in answer.get_data(as_text=True), (screen, ending)
    assert capfd.readouterr().err == ""


def test_a_schema_of_any_content_is_shown(page: Page, folder: Path) -> None:
    for content in (
        b"\xff",
        b"- a",
        b"a: &a [*a]",
        b'a: "\\ud800"',
        b"columns: {a: 1, b: {kind: [1]}}",
        b"columns: 7",
        b"{" * 5000,
        b"x: \xef\xbb\xbf",
    ):
        (folder / "ward.schema.yaml").write_bytes(content)
        for screen in ("public", "columns", "budget"):
            assert page.get(screen).status_code == 200, (content, screen)
        page.post("public")
        page.post("columns", {"0.name": "age", "0.kind": "count"})
        page.post("text", {"text": content.decode(errors="replace")})
        assert page.get("columns").status_code == 200
    (folder / "ward.schema.yaml").unlink()
    os.mkfifo(folder / "ward.schema.yaml")
    assert page.get("columns").status_code == page.get("public").status_code == 200
    page.post("text", {"text": "name: a"})
    assert "device or a pipe" in page.said("columns")


@pytest.mark.parametrize("name", ["ward.schema.yaml", "review.yaml", "ward.synthetic.csv", "ward.report.html"])
def test_links_out_of_the_folder_are_not_followed(page: Page, folder: Path, name: str) -> None:
    """Neither to be read, nor to be written."""
    secret = folder.parent / "secret"
    secret.write_text(f"purpose: {CELL}\n")
    (folder / name).symlink_to(secret)
    if name != "ward.synthetic.csv":
        (folder / "ward.synthetic.csv").write_text("a\n1\n")
    for screen in SCREENS:
        assert CELL not in page.get(screen).get_data(as_text=True), screen
    for path, form in {
        "text": {"text": "a"},
        "report": {"save": "1", "purpose": "a"},
        "columns": {},
    }.items():
        page.post(path, form)
    assert secret.read_text() == f"purpose: {CELL}\n"


def test_a_table_that_is_gone(page: Page, folder: Path) -> None:
    (folder / "ward.csv").unlink()
    for screen in STEPS:
        assert page.get(screen).status_code == 200
    page.post("table", {"table": "ward.csv"})
    assert "not in the folder" in page.said()


def test_a_folder_that_is_gone(page: Page, folder: Path) -> None:
    shutil.rmtree(folder)
    for screen in (*STEPS, "columns"):
        answer = page.get(screen)
        assert answer.status_code == 200 or answer.status_code == 409 and one_sentence(answer)
    page.post("budget", {"epsilon": "1"})
    assert "could not be" in page.said("budget")


def test_a_disk_that_is_full(page: Page, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*words: Any, **options: Any) -> None:
        raise OSError(28, "No space left on device", str(page.session.folder / "ward.medsynth-app"))

    monkeypatch.setattr("medsynth.io.atomic.os.fsync", full)
    page.post("budget", {"epsilon": "1"})
    page.post("text", {"text": "a"})
    assert page.said("budget").count("No space left on device") == 2 and not page.session.jobs["budget"]
    assert not (page.session.folder / "ward.schema.yaml").exists()


def test_a_fault_is_one_sentence(
    page: Page, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """A fault may quote a cell. The terminal gets its place alone."""

    def broken(*words: Any) -> None:
        raise KeyError(f"{CELL} of a patient")

    monkeypatch.setattr(screens, "_header", broken)
    for answer in (page.get("budget"), page.post("columns")):
        assert answer.status_code == 500 and "fault of medsynth" in one_sentence(answer)
    found = capfd.readouterr()
    assert CELL not in found.err + found.out + caplog.text and "Traceback" not in found.err
    assert "KeyError in screens.py" in found.err


def test_no_cell_is_in_any_answer(page: Page, folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """Of all screens and forms: nor in a new file, nor in a name of one. Nothing is written outside the folder."""
    others = [path for path in folder.parent.rglob("*") if path != folder and folder not in path.parents]
    outside = {path: path.stat().st_mtime_ns for path in others}
    odd = dict.fromkeys(("table", "dictionary", "text"), "../x") | {"unit": "", "epsilon": "1"}
    odd |= {"rows": "9", "format": ".csv", "replace": "on"}
    for path in (*STEPS, *server.SCREEN_OF):
        for form in ({}, odd):
            answer = page.post(path, form)
            page.wait()
            assert answer.status_code == 303 and CELL not in str(answer.headers)
            for screen in SCREENS:
                assert CELL not in page.get(screen).get_data(as_text=True), (path, screen)
    found = [path for path in folder.iterdir() if path.name != "ward.csv"]
    assert found and not [path for path in found if CELL in path.name or CELL in path.read_text()]
    others = [path for path in folder.parent.rglob("*") if path != folder and folder not in path.parents]
    assert outside == {path: path.stat().st_mtime_ns for path in others}
    assert CELL not in capfd.readouterr().err


# Through the server


@pytest.fixture
def served(page: Page) -> Iterator[Page]:
    """The page behind the server that people use."""
    listening = socket.create_server(("127.0.0.1", 0))
    page.session.door.port = listening.getsockname()[1]
    logging.getLogger("waitress").setLevel(logging.CRITICAL)
    running = create_server(
        made(page.session), sockets=[listening], threads=2, ident=None, max_request_body_size=LARGEST_FORM
    )
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    yield page
    running.close()
    with contextlib.suppress(OSError):
        running.trigger.pull_trigger()  # type: ignore[union-attr]


def raw(page: Page, content: bytes, wait: float = 20.0) -> bytes:
    """What the server answers to these bytes, until it closes."""
    with socket.create_connection(("127.0.0.1", page.session.door.port), timeout=wait) as connection:
        with contextlib.suppress(OSError):
            connection.sendall(content)
            connection.shutdown(socket.SHUT_WR)
        found = b""
        with contextlib.suppress(OSError):
            while part := connection.recv(65536):
                found += part
    return found


def test_the_server_refuses_what_is_no_request(served: Page) -> None:
    path, port = served.session.door.path, served.session.door.port
    host, end = f"Host: 127.0.0.1:{port}\r\n", "Connection: close\r\n\r\n"
    get, post = f"GET {path}/table HTTP/1.1\r\n", f"POST {path}/fit HTTP/1.1\r\n{host}"
    requests = {
        "no host": f"GET {path}/table HTTP/1.0\r\n\r\n",
        "an empty host": f"{get}Host:\r\n{end}",
        "a foreign host": f"{get}Host: evil.example:{port}\r\n{end}",
        "two hosts": f"{get}{host}Host: evil.example\r\n{end}",
        "a foreign address in the first line": f"GET http://evil.example{path}/table HTTP/1.1\r\n{host}{end}",
        "a forwarded host": f"{get}Host: evil.example\r\nX-Forwarded-Host: 127.0.0.1:{port}\r\n{end}",
        "two lengths": f"{post}Content-Length: 3\r\nContent-Length: 4\r\n{end}abcd",
        "a length and chunks": f"{post}Content-Length: 3\r\nTransfer-Encoding: chunked\r\n{end}0\r\n\r\n",
        "a large body": f"{post}Content-Length: {LARGEST_FORM * 2}\r\n{end}",
        "large headers": f"{get}{host}X: {'x' * 300_000}\r\n{end}",
        "a split header": f"{get}{host}X: a\rb\nc\r\n{end}",
        "no words": "\0\0\0\0\r\n\r\n",
        "an upgrade": f"{get}{host}Upgrade: websocket\r\nSec-WebSocket-Key: x\r\nOrigin: http://evil.example\r\n{end}",
        "not http": "\x16\x03\x01\x02\x00\x01\x00\x01\xfc",
    }
    for name, content in requests.items():
        answer = raw(served, content.encode("latin-1"))
        status = answer.split(b" ")[1:2]
        assert not answer or status[0] in (b"400", b"403", b"413", b"431"), (name, answer[:200])
        assert CELL.encode() not in answer and b"Traceback" not in answer and b"Server:" not in answer, name
        assert b"<html" not in answer, name


def test_slow_requests_keep_nobody_out(served: Page) -> None:
    """Bodies that never end hold connections, and no thread."""
    start = f"POST {served.session.door.path}/fit HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n\r\nchanges="
    with contextlib.ExitStack() as stack:
        for _ in range(30):
            slow = stack.enter_context(socket.create_connection(("127.0.0.1", served.session.door.port)))
            slow.sendall(start.encode())
        answer = raw(
            served,
            f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{served.session.door.port}\r\nConnection: close\r\n\r\n".encode(),
        )
    assert b" 403 " in answer
    assert not served.session.jobs._jobs
