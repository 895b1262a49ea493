"""The page in a real browser, from `medsynth app` to a report. Skipped, saying so, without Playwright or a Chromium.

`pytest -s` prints the minutes and the typed characters of the walks from a file to a folder. MEDSYNTH_SCREENSHOTS names
a folder for pictures.
"""

import os
import re
import shutil
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from local_page import CELL, table
from medsynth_sample_data import simulate

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright: pip install playwright")
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.filterwarnings("ignore"),  # of Playwright's own
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium, chromium-browser or google-chrome on PATH"),
]
PATIENT = 600_000  # milliseconds, on a busy machine
MOST_TYPED = 300  # characters of a walk: nobody types a schema
AT_ONCE = 0.2  # seconds in which a screen answers while a fit runs


class Server:
    """`medsynth app` in a folder, in a process of its own."""

    def __init__(self, folder: Path, *words: str) -> None:
        self.folder, begun = folder, time.monotonic()
        command = [sys.executable, "-m", "medsynth_cli", "app", "--no-browser", *words]
        self.errors = (folder.parent / "errors.txt").open("ab")
        self.process = subprocess.Popen(
            command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.errors, text=True
        )
        assert self.process.stdout
        self.address = self.process.stdout.readline().strip()
        self.seconds = time.monotonic() - begun
        assert self.address.startswith("http://127.0.0.1:"), self.said()
        self.root = self.address.split("/enter")[0]

    def said(self) -> str:
        return (self.folder.parent / "errors.txt").read_text()

    def renewed(self) -> str:
        """Return a new one-time address, as by pressing Enter in the terminal."""
        assert self.process.stdin and self.process.stdout
        self.process.stdin.write("\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def stop(self, how: signal.Signals = signal.SIGINT) -> int:
        self.process.send_signal(how)
        code = self.process.wait(60)
        for stream in (self.process.stdin, self.process.stdout, self.errors):
            if stream:
                stream.close()
        return code


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    with playwright.sync_playwright() as runner:
        browser = runner.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture
def tab(chromium: Any) -> Iterator[Any]:
    """A tab of a new browser. Nothing may be loaded from elsewhere, and no script may fail."""
    context = chromium.new_context(viewport={"width": 1280, "height": 900})
    context.set_default_timeout(PATIENT)
    opened, faults = context.new_page(), list[str]()
    opened.on("pageerror", lambda error: faults.append(str(error)))

    def asked(request: Any) -> None:
        if not request.url.startswith(("http://127", "file:", "data:")):
            faults.append(request.url)

    opened.on("request", asked)
    yield opened
    context.close()
    assert not faults


@pytest.fixture
def server(folder: Path) -> Iterator[Server]:
    (folder / "ward.csv").unlink()
    simulate.cohort(1500, 5).to_csv(folder / "clinic.csv", index=False)
    running = Server(folder)
    yield running
    if running.process.poll() is None:
        assert running.stop() == 0
    assert "Traceback" not in running.said()


def press(tab: Any, name: str) -> None:
    tab.get_by_role("button", name=name, exact=True).click()


def choose(tab: Any, server: Server, name: str = "clinic.csv") -> None:
    tab.goto(server.address)
    tab.wait_for_url("**/table**")
    tab.check(f"input[value='{name}']")
    press(tab, "Use this table")
    tab.wait_for_selector("#now, .said")
    if tab.locator("[name=who]").count():
        tab.check("[name=who][value=one]")
        press(tab, "Go on")
        tab.wait_for_url("**/public**")


def declare(tab: Any) -> None:
    """Write the clinic's schema as text."""
    tab.goto(tab.url.rsplit("/", 1)[0] + "/columns")
    tab.locator("summary", has_text="Edit the file as text").click()
    tab.fill("textarea[name=text]", simulate.schema_text())
    tab.locator("textarea[name=text]").locator("xpath=ancestor::form").get_by_role("button").click()
    tab.wait_for_url("**/public**")


def fit(tab: Any) -> None:
    tab.goto(tab.url.rsplit("/", 1)[0] + "/fit")
    tab.check("[name=agreed]")
    press(tab, "Fit")
    tab.wait_for_selector("[data-job]")


def accessible(tab: Any, root: str, screens: tuple[str, ...]) -> None:
    """No violation that axe finds, in light and dark, and no screen is wider than a telephone."""
    from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]

    for width, scheme in ((1280, "light"), (1280, "dark"), (390, "light"), (390, "dark")):
        tab.set_viewport_size({"width": width, "height": 844})
        tab.emulate_media(color_scheme=scheme)
        for screen in screens:
            tab.goto(f"{root}/{screen}")
            found = Axe().run(tab).response["violations"]
            assert not [(one["id"], one["nodes"][0]["html"][:200]) for one in found], (screen, width, scheme)
            assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth"), (screen, width)
    tab.set_viewport_size({"width": 1280, "height": 900})
    tab.emulate_media(color_scheme="light")


SCREENS = ("table", "public", "columns", "budget", "fit", "rows", "report")


def test_six_steps_to_a_report(tab: Any, server: Server) -> None:
    choose(tab, server)
    press(tab, "Start the form from the names alone")
    tab.wait_for_selector("a.button[href$='/columns']")
    declare(tab)
    press(tab, "Compare the table with it")
    tab.wait_for_selector("section.private")
    press(tab, "Go on")
    press(tab, "Show what this means")
    tab.wait_for_selector("text=What this budget means")
    press(tab, "Go on")
    tab.check("[name=agreed]")
    press(tab, "Fit")
    tab.wait_for_selector("text=Done in")
    assert (server.folder / "clinic.medsynth").exists()
    tab.get_by_role("link", name="Go on").click()
    press(tab, "Draw rows")
    tab.wait_for_selector("text=The first rows")
    tab.wait_for_selector(".plots svg")
    tab.get_by_role("link", name="Go on").click()
    press(tab, "Write the report")
    tab.wait_for_selector("iframe")
    tab.locator("iframe").scroll_into_view_if_needed()
    heading = tab.frame_locator("iframe").locator("h1").first
    heading.wait_for()
    assert heading.is_visible() and heading.inner_text().strip()
    if shots := os.environ.get("MEDSYNTH_SCREENSHOTS"):
        tab.screenshot(path=f"{shots}/report.png")
    with tab.context.expect_page() as opened:
        tab.get_by_role("link", name=re.compile("tab of its own")).click()
    opened.value.locator("h1").first.wait_for()
    press(tab, "Make the folder")
    tab.locator("code", has_text="clinic.package").first.wait_for()
    accessible(tab, server.root, SCREENS)
    assert server.stop() == 0 and "Stopped" in server.said()


def test_the_first_screens_by_keyboard_alone(tab: Any, server: Server) -> None:
    """Tab, Space, arrows and Enter lead to a plan."""
    tab.goto(server.address)
    tab.wait_for_url("**/table**")

    def to(selector: str) -> None:
        for _ in range(60):
            tab.keyboard.press("Tab")
            if tab.evaluate(f"document.activeElement.matches({selector!r})"):
                assert tab.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
                return
        raise AssertionError(f"no key leads to {selector}")

    to("input[name=table]")
    tab.keyboard.press("Space")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("[name=who]")
    to("[name=who]")
    tab.keyboard.press("Space")
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/public**")
    to("form[action$='/public'] button")
    tab.keyboard.press("Enter")
    tab.wait_for_url("**/budget**")
    to("input[name=epsilon]")
    tab.keyboard.press("Control+a")
    tab.keyboard.type("2")
    tab.keyboard.press("Enter")
    tab.wait_for_selector("text=What this budget means")


def test_a_bad_file_is_one_sentence(tab: Any, server: Server) -> None:
    table(server.folder)
    (server.folder / "bad.csv").write_bytes(b'a,"b\n' + CELL.encode())
    choose(tab, server, "bad.csv")
    assert "a quote that is not closed" in tab.locator(".said").first.inner_text()
    assert CELL not in tab.content() + server.said()


def test_a_stopped_fit_writes_nothing(tab: Any, server: Server) -> None:
    choose(tab, server)
    declare(tab)
    before = {path.name for path in server.folder.iterdir()}
    fit(tab)
    press(tab, "Stop")
    tab.wait_for_selector("text=Stopped.")
    left = {path.name for path in server.folder.iterdir()} - before
    assert all("checkpoint" in name for name in left), left  # what was measured, and counts
    tab.check("[name=agreed]")
    press(tab, "Fit")
    tab.wait_for_selector("text=Done in")
    assert (server.folder / "clinic.medsynth").exists()


def test_a_closed_tab_and_a_killed_server(chromium: Any, tab: Any, server: Server) -> None:
    """The fit goes on without its tab. After a crash of all, a new server goes on with what was measured."""
    simulate.cohort(20_000, 5).to_csv(server.folder / "clinic.csv", index=False)
    choose(tab, server)
    declare(tab)
    fit(tab)
    tab.close()
    checkpoint = server.folder / "clinic.medsynth-checkpoint"
    until = time.monotonic() + PATIENT / 1000
    while not checkpoint.exists():
        assert time.monotonic() < until and not (server.folder / "clinic.medsynth").exists()
        time.sleep(0.05)
    children = subprocess.run(["ps", "-o", "pid=", "--ppid", str(server.process.pid)], capture_output=True, text=True)
    server.stop(signal.SIGKILL)
    for child in children.stdout.split():
        os.kill(int(child), signal.SIGKILL)
    second = Server(server.folder)
    context = chromium.new_context()
    context.set_default_timeout(PATIENT)
    again = context.new_page()
    choose(again, second)
    again.goto(f"{second.root}/fit")
    press(again, "Go on with the fit")
    again.wait_for_selector("text=Done in")
    assert (server.folder / "clinic.medsynth").exists() and not checkpoint.exists()
    context.close()
    assert second.stop(signal.SIGTERM) == 0


def test_two_tabs(tab: Any, server: Server) -> None:
    choose(tab, server)
    other = tab.context.new_page()
    for one in (tab, other):
        one.goto(f"{server.root}/budget")
    tab.fill("[name=epsilon]", "1")
    press(tab, "Show what this means")
    tab.wait_for_selector("text=What this budget means")
    other.fill("[name=epsilon]", "9")
    press(other, "Show what this means")
    assert "Another tab" in other.locator(".said").first.inner_text()
    assert other.input_value("[name=epsilon]") == "1"


def test_strangers(chromium: Any, tab: Any, server: Server) -> None:
    """A wrong token, a browser without the cookie, and a page of another origin that knows the secret path."""
    choose(tab, server)
    stranger = chromium.new_context().new_page()
    for address in (f"{server.root}/enter?token=wrong", server.address, f"{server.root}/table"):
        assert stranger.goto(address).status == 403
    foreign = tab.context.new_page()
    foreign.goto("data:text/html,<form method=post></form>")
    foreign.evaluate(f"() => {{ const f = document.forms[0]; f.action = '{server.root}/draft'; f.submit(); }}")
    foreign.wait_for_url("**/draft")
    assert "another page" in foreign.content() and not (server.folder / "clinic.schema.yaml").exists()
    assert stranger.goto(server.renewed()).status == 200
    stranger.context.close()


def test_three_hundred_columns(tab: Any, server: Server) -> None:
    table(server.folder, header=tuple(f"column{k}" for k in range(300)))
    choose(tab, server, "ward.csv")
    tab.goto(f"{server.root}/columns")
    assert tab.locator("details.column").count() == 300
    tab.evaluate("""() => { for (const kind of document.querySelectorAll(".kind")) {
        kind.value = "count"; kind.dispatchEvent(new Event("change")); }
        for (const name of ["low", "high"]) for (const box of document.querySelectorAll(`[name$='.${name}']`))
            box.value = name === "low" ? "0" : "9"; }""")
    press(tab, "Save ward.schema.yaml")
    tab.wait_for_url("**/public**")
    assert "All columns are described" in tab.content() and CELL not in tab.content()


def test_screens_answer_while_a_fit_runs(tab: Any, server: Server) -> None:
    """In 200 ms at the median, after each was shown once. The figures are printed: `pytest -s`."""
    simulate.cohort(100_000, 5).to_csv(server.folder / "clinic.csv", index=False)
    choose(tab, server)
    declare(tab)
    for screen in SCREENS:
        tab.goto(f"{server.root}/{screen}")
    fit(tab)
    seconds = list[float]()
    for screen in SCREENS * 6:
        begun = time.monotonic()
        answer = tab.request.get(f"{server.root}/{screen}")
        seconds.append(time.monotonic() - begun)
        assert answer.status == 200
    running = tab.request.get(f"{server.root}/job?step=fit").json()["running"]
    median, worst = statistics.median(seconds), max(seconds)
    print(f"\nwhile a fit runs ({running}): median {median:.3f} s, worst {worst:.3f} s, load {os.getloadavg()[0]:.1f}")
    print(f"from the command to the first page: {server.seconds:.1f} s")
    assert running
    if os.getloadavg()[0] < (os.cpu_count() or 1) + 1:  # a busy machine says nothing about the page
        assert median < AT_ONCE and server.seconds < 3
    press(tab, "Stop")
    tab.wait_for_selector("text=Stopped.")


# Recorded walks of a steward without a terminal: from a file of each kind to the folder to hand over.


def extract(folder: Path) -> str:
    """A German extract: semicolons, decimal commas, times of day, limits, forms, codes, and several stays a patient."""
    draw = np.random.default_rng(7)
    rows = 2000
    came = pd.Timestamp("2019-01-01") + pd.to_timedelta(draw.integers(0, 1800, rows), unit="D")
    left = came + pd.to_timedelta(draw.integers(0, 20, rows), unit="D")
    crp, weight = np.exp(draw.normal(1.5, 1.6, rows)), draw.normal(80, 16, rows)
    pressure = draw.normal(132, 19, rows).round().astype(int)
    columns = {
        "Patienten-ID": [f"P{100_234 + 7 * one}" for one in draw.integers(0, 1600, rows)],
        "Aufnahmedatum": came.strftime("%d.%m.%Y"),
        "Aufnahmezeit": [f"{hour:02d}:{minute:02d}" for hour, minute in draw.integers(0, (24, 60), (rows, 2))],
        "Entlassdatum": left.strftime("%d.%m.%Y"), "Alter (Jahre)": draw.integers(18, 99, rows),
        "Geschlecht": draw.choice(["m", "w", "d"], rows, p=[0.48, 0.51, 0.01]),
        "Hauptdiagnose (ICD-10)": draw.choice(["I10.00", "I50.01", "E11.90", "J18.9", "N18.3"], rows),
        "CRP (mg/l)": ["<0,5" if one < 0.5 else f"{min(one, 200):.1f}".replace(".", ",") for one in crp],
        "Gewicht (kg)": [f"{one:.1f}".replace(".", ",") for one in weight],
        "Blutdruck (mmHg)": [f"{one}/{one // 2}" for one in pressure],
        "LVEF": [f"{one}%" for one in draw.integers(20, 75, rows)],
        "Bemerkung": [f"klagt über Fieber; Rückruf {one}" for one in draw.integers(100_000, 999_999, rows)],
        "Verstorben": draw.choice(["nein", "ja"], rows, p=[0.8, 0.2]),
    }  # fmt: skip
    pd.DataFrame(columns).to_csv(folder / "klinik.csv", sep=";", index=False)
    return "klinik.csv"


def workbook(folder: Path) -> str:
    pytest.importorskip("openpyxl")
    simulate.cohort(1500, 5).to_excel(folder / "clinic.xlsx", index=False)
    return "clinic.xlsx"


def spss(folder: Path) -> str:
    """A file of SPSS, whose codes have labels that people wrote."""
    pyreadstat = pytest.importorskip("pyreadstat")
    rows = simulate.cohort(1500, 5)
    labels = dict[str, dict[float, str]]()
    for name in [name for name in rows if rows[name].dtype == object]:
        labels[name] = {float(k): str(level) for k, level in enumerate(sorted(rows[name].dropna().unique()))}
        rows[name] = rows[name].map({level: code for code, level in labels[name].items()})
    pyreadstat.write_sav(rows, folder / "clinic.sav", variable_value_labels=labels)
    return "clinic.sav"


def redcap(folder: Path) -> str:
    simulate.cohort(1500, 5).to_csv(folder / "patients.csv", index=False)
    (folder / "dictionary.csv").write_text(simulate.dictionary_text())
    return "patients.csv"


class Walk:
    """What a person does in a tab, with the characters that they type."""

    def __init__(self, tab: Any, name: str) -> None:
        self.tab, self.name, self.typed, self.begun, self.shots = tab, name, 0, time.monotonic(), 0

    def type(self, field: str, text: str) -> None:
        self.tab.fill(f"[name='{field}']", text)
        self.typed += len(text)

    def press(self, name: str, until: str) -> None:
        press(self.tab, name)
        self.until(until)

    def until(self, selector: str) -> None:
        self.tab.wait_for_selector(selector)
        if shots := os.environ.get("MEDSYNTH_SCREENSHOTS"):
            self.shots += 1
            self.tab.screenshot(path=f"{shots}/{self.name}-{self.shots:02d}.png", full_page=True)


def from_looks(walk: Walk) -> None:
    walk.press("Look at the cells first", "[name=all]")
    walk.press("Take all lines", "a.button[href$='/columns']")


def from_labels(walk: Walk) -> None:
    walk.tab.check("[name=labels_are_public]")
    walk.press("Import", "a.button[href$='/columns']")


def from_dictionary(walk: Walk) -> None:
    walk.tab.check("[name='of dictionary.csv']")
    walk.press("Import", "a.button[href$='/columns']")


@pytest.mark.parametrize(
    ("made", "describe"),
    [(extract, from_looks), (workbook, from_looks), (spss, from_labels), (redcap, from_dictionary)],
    ids=lambda one: one.__name__,
)
def test_from_a_file_to_a_folder(
    tab: Any, tmp_path: Path, made: Callable[[Path], str], describe: Callable[[Walk], None]
) -> None:  # fmt: skip
    folder = tmp_path / "work"
    folder.mkdir()
    table = made(folder)
    server = Server(folder)
    walk = Walk(tab, made.__name__)
    tab.goto(server.address)
    tab.wait_for_url("**/table**")
    tab.check(f"input[value='{table}']")
    walk.press("Use this table", "[name=who]")
    if made is extract:
        tab.check("[name=who][value=several]")
        tab.select_option("[name=unit]", "Patienten-ID")
        walk.type("max_rows", "2")
    else:
        tab.check("[name=who][value=one]")
    tab.locator("form:has([name=who]) button").click()
    tab.wait_for_url("**/public**")
    describe(walk)
    tab.locator("a.button[href$='/columns']").click()
    walk.until(".column")
    if made is extract:  # a day as a German writes it would be refused in English: the form's own
        place = next(k for k in range(13) if tab.input_value(f"[name='{k}.name']") == "Aufnahmedatum")
        tab.locator(f"#c{place} > summary").click()
        walk.type(f"{place}.low", "01.01.2019")
        walk.type(f"{place}.high", "31.12.2023")
    tab.locator("form.columns > button").click()
    tab.wait_for_url("**/public**")
    walk.until("form[action$='/public'] button")
    tab.locator("form[action$='/public'] button").click()
    tab.wait_for_url("**/budget**")
    walk.press("Show what this means", "text=What this budget means")
    walk.press("Go on", "[name=agreed]")
    tab.check("[name=agreed]")
    walk.press("Fit", "text=Done in")
    tab.get_by_role("link", name="Go on").click()
    tab.wait_for_url("**/rows**")
    walk.press("Draw rows", ".preview")
    walk.until(".plots svg")
    tab.get_by_role("link", name="Go on").click()
    tab.wait_for_url("**/report**")
    walk.press("Write the report", "iframe")
    walk.press("Make the folder", "code:text('.package')")
    print(f"\n{walk.name}: {(time.monotonic() - walk.begun) / 60:.1f} min, {walk.typed} characters typed")
    name = table.partition(".")[0]
    assert list((folder / f"{name}.package").iterdir()) and walk.typed <= MOST_TYPED
    assert server.stop() == 0 and "Traceback" not in server.said()
