"""The door: who is let in, and what every answer says to a browser."""

import re
import stat
from pathlib import Path
from typing import Any

import pytest
from local_page import HERE, PORT, Page
from medsynth_cli.app.door import ENTRY_SECONDS, Door

from medsynth.errors import UsageError

LOCAL = f"http://localhost:{PORT}"


def test_a_token_opens_once() -> None:
    door = Door()
    token = door.address.split("token=")[1]
    assert not door.opens("") and not door.opens("é") and not door.opens(token[:-1])
    assert door.opens(token) and not door.opens(token) and token not in door.address


def test_a_new_token_replaces_the_old_one() -> None:
    door = Door()
    old = door.address.split("token=")[1]
    new = door.renew().split("token=")[1]
    assert not door.opens(old) and door.opens(new)


def test_a_token_gets_too_old(monkeypatch: pytest.MonkeyPatch) -> None:
    door = Door()
    token = door.address.split("token=")[1]
    monkeypatch.setattr("medsynth_cli.app.door.time.monotonic", lambda: door._until + 0.001)
    assert not door.opens(token) and ENTRY_SECONDS <= 300


def test_the_cookie_is_for_this_page_alone(folder: Path) -> None:
    page = Page(folder)
    answer = page.client.get(page.session.door.address.removeprefix(HERE), base_url=HERE)
    (cookie,) = answer.headers.getlist("Set-Cookie")
    parts = cookie.split("; ")
    assert {"HttpOnly", "SameSite=Strict", f"Path={page.session.door.path}"} <= set(parts)
    assert not any(part.startswith(("Domain", "Expires", "Max-Age")) for part in parts)
    assert len(page.session.door.path) > 20


@pytest.mark.parametrize("path", ["/", "/table", "/static/app.css", "/nothing"])
def test_outside_the_secret_path_is_nothing(page: Page, path: str) -> None:
    """Nor does an answer tell whether something is there."""
    answers = [page.client.get(path, base_url=HERE), Page(page.session.folder).client.get(path, base_url=HERE)]
    assert [answer.status_code for answer in answers] == [403, 403]


def every(page: Page) -> list[tuple[str, str]]:
    """All addresses that the page answers, with their methods."""
    rules = [rule for rule in page.flask.url_map.iter_rules() if not rule.rule.endswith("/enter")]
    found = [(rule.rule.replace("<path:filename>", "app.css"), rule.methods or set()) for rule in rules]
    return [(path, "POST" if "POST" in methods else "GET") for path, methods in found]


STRANGERS: dict[str, dict[str, Any]] = {
    "another name, as DNS rebinding uses": {"base_url": f"http://evil.example:{PORT}"},
    "another port": {"base_url": "http://127.0.0.1:1"},
    "no port": {"base_url": "http://127.0.0.1"},
    "another name of this machine": {"base_url": f"http://127.0.0.2:{PORT}"},
    "a name that ends alike": {"base_url": f"http://127.0.0.1.evil.example:{PORT}"},
    "a foreign page": {"headers": {"Origin": "http://evil.example"}},
    "a page of another port": {"headers": {"Origin": "http://127.0.0.1:8888"}},
    "a page without an origin, as in a sandbox": {"headers": {"Origin": "null"}},
    "this page over https": {"headers": {"Origin": HERE.replace("http", "https")}},
    "an origin with a path": {"headers": {"Origin": f"{HERE}/"}},
}


@pytest.mark.parametrize("stranger", STRANGERS.values(), ids=STRANGERS)
def test_strangers_get_no_answer(page: Page, stranger: dict[str, Any]) -> None:
    """They have the cookie, and know the path: host and origin alone stop them, at every address."""
    jar = page.client._cookies
    cookie = next(iter(jar.values())).value if jar else ""
    for path, method in every(page):
        options = {"base_url": HERE, "headers": {"Origin": HERE}} | stranger
        options["headers"] = options["headers"] | {"Cookie": f"medsynth={cookie}"}
        client = page.flask.test_client(use_cookies=False)
        answer = client.open(path, method=method, data={"changes": page.session.state()}, **options)
        assert answer.status_code == 403 and len(answer.data) < 200, path
    assert not page.session.jobs._jobs and page.session.changes == 0


def test_a_form_needs_an_origin(page: Page) -> None:
    """Also with the cookie. A browser sends one with every form."""
    for path, method in every(page):
        if method == "POST":
            answer = page.client.open(path, method=method, base_url=HERE, data={"changes": page.session.state()})
            assert answer.status_code == 403, path
    cross = {"Origin": HERE, "Sec-Fetch-Site": "cross-site"}
    assert page.post("draft", headers=cross).status_code == 403


@pytest.mark.parametrize("cookie", ["", "medsynth=", "medsynth=wrong", "medsynth=\u00e9", "other=1", "medsynth"])
def test_a_request_needs_the_cookie(page: Page, cookie: str) -> None:
    token = page.session.door.renew().split("token=")[1]
    for path, method in every(page):
        client = page.flask.test_client(use_cookies=False)
        headers = {"Origin": HERE, "Cookie": cookie, "Authorization": f"Bearer {token}", "X-Token": token}
        answer = client.open(f"{path}?token={token}", method=method, base_url=HERE, headers=headers)
        assert answer.status_code == 403, path
    assert page.session.door.opens(token)  # it was used nowhere


def test_the_token_opens_at_its_address_alone(page: Page) -> None:
    path, client = page.session.door.path, page.flask.test_client(use_cookies=False)
    assert client.get(f"{path}/enter", base_url=HERE).status_code == 403
    assert client.get(f"{path}/enter?token=wrong", base_url=HERE).status_code == 403
    address = page.session.door.renew().removeprefix(HERE)
    foreign = client.get(address, base_url=f"http://evil.example:{PORT}")
    assert foreign.status_code == 403 and "Set-Cookie" not in foreign.headers
    assert client.post(address, base_url=HERE, headers={"Origin": HERE}).status_code == 405
    assert client.get(address, base_url=LOCAL).status_code == 200
    assert client.get(address, base_url=LOCAL).status_code == 403


@pytest.mark.parametrize("path", ["table", "public", "job", "static/app.js", "report.css", "nothing"])
def test_every_answer_keeps_out_of_caches_and_other_pages(page: Page, path: str) -> None:
    headers = page.get(path).headers
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "frame-ancestors 'none'" in policy and "form-action 'self'" in policy
    assert "script-src 'self';" in policy and "://" not in policy
    assert headers["Cache-Control"] == "no-store" and headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Cross-Origin-Resource-Policy"] == "same-origin" and "Access-Control-Allow-Origin" not in headers


def test_the_report_gets_no_right_to_ask_this_server(page: Page) -> None:
    """It has a script of its own, and may have been replaced by somebody else's."""
    (page.session.folder / page.session.choices.page).write_text("<script>fetch('/')</script>")
    policy = page.get("page").headers["Content-Security-Policy"]
    words = {part.split()[0]: part.split()[1:] for part in policy.split("; ")}
    assert words.get("sandbox") == ["allow-scripts"] and words.get("default-src") == ["'none'"]
    assert "connect-src" not in words and "form-action" not in words


def test_the_redirect_file_is_the_owners_alone(tmp_path: Path) -> None:
    path = Door().keep(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600 and "enter?token=" in path.read_text()


def test_the_start_file_opens_the_page_again(tmp_path: Path) -> None:
    """Each of its addresses opens once, also after a while. It goes with its server, and replaces no other file."""
    door = Door()
    door._until = 0.0
    path = door.keep(tmp_path)
    tokens = list[str]()
    for _ in range(3):
        tokens += re.findall('token=([^"]+)">medsynth', path.read_text())
        assert door.opens(tokens[-1]) and not any(map(door.opens, tokens))
    assert len({*tokens}) == 3
    second = Door()
    second.keep(tmp_path)
    door.leave()
    assert path.exists()
    second.leave()
    assert not path.exists()
    path.write_text("mine")
    with pytest.raises(UsageError):
        door.keep(tmp_path)
    assert path.read_text() == "mine"
