"""The page in a real browser, headless: widths, the dark, paper. Skipped, saying so, where no Chromium is installed."""

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from medsynth.report.page.render import page

WIDTHS = (1280, 390)  # CSS pixels: of a desk's screen and of a telephone's
MEASURE = """
<script>
const box = (e) => [e.scrollWidth, e.clientWidth];
const measured = (w) => {
  const d = w.document, style = (e) => w.getComputedStyle(e);
  return {
    width: w.innerWidth, page: d.documentElement.scrollWidth,
    cut: [...d.querySelectorAll(".tablebox")].map(box).filter(([whole, shown]) => shown && whole > shown + 1).length,
    tables: d.querySelectorAll(".tablebox").length,
    labels: [...d.querySelectorAll(".tablebox td")].filter((e) => !e.dataset.label).length,
    stacked: style(d.querySelector(".tablebox td")).display,
    ink: style(d.body).color, paper: style(d.body).backgroundColor,
    shot: style(d.querySelector("svg text")).fill,
  };
};
addEventListener("load", () => document.body.dataset.found = JSON.stringify(
  [...document.querySelectorAll("iframe")].map((f) => measured(f.contentWindow))));
</script>
"""


CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = [
    pytest.mark.nightly,
    pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed to render the page in"),
]


@pytest.fixture(scope="module")
def html(report: Any) -> str:
    return page(report)


def chromium(folder: Path, *words: str) -> str:
    """What a headless Chromium prints, its profile in `folder`."""
    still = ["--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update",
             "--disable-sync", "--allow-file-access-from-files", f"--user-data-dir={folder / 'profile'}"]  # fmt: skip
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", *still, *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, check=True).stdout


def measured(html: str, folder: Path, *words: str) -> list[dict[str, Any]]:
    """What the page measures of itself at each of the widths."""
    (folder / "page.html").write_text(html)
    frames = "".join(f'<iframe src="page.html" width="{width}" height="900"></iframe>' for width in WIDTHS)
    (folder / "frames.html").write_text(f"<!DOCTYPE html><html><body>{frames}{MEASURE}</body></html>")
    dom = chromium(folder, *words, "--dump-dom", (folder / "frames.html").as_uri())
    found = re.search(r'data-found="([^"]+)"', dom)
    assert found
    return list(json.loads(found[1].replace("&quot;", '"')))


def test_no_script_error_and_tables_sort(html: str, tmp_path: Path) -> None:
    probe = (
        "<script>window.addEventListener('error', (e) => document.body.dataset.failed = e.message);"
        "window.addEventListener('load', () => { const b = document.querySelector('table.sorts th.n button');"
        "b.click(); document.body.dataset.sorted = b.closest('th').getAttribute('aria-sort'); });</script></head>"
    )
    path = tmp_path / "page.html"
    path.write_text(html.replace("</head>", probe, 1))
    dom = chromium(tmp_path, "--dump-dom", path.as_uri())
    assert 'data-sorted="ascending"' in dom and "data-failed" not in dom


def test_no_column_is_cut(html: str, tmp_path: Path) -> None:
    """On a desk every table is shown whole; on a telephone its rows are blocks, a line a cell, named."""
    desk, phone = measured(html, tmp_path)
    assert [desk["width"], phone["width"]] == list(WIDTHS)
    for found in (desk, phone):
        assert found["page"] <= found["width"] and found["cut"] == 0 and found["tables"] > 8 and found["labels"] == 0
    assert desk["stacked"] == "table-cell" and phone["stacked"] == "grid"


@pytest.mark.filterwarnings("ignore")  # of Playwright's own
def test_axe_finds_nothing(html: str, tmp_path: Path) -> None:
    """On a desk and on a telephone, by day and in the dark."""
    playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="needs axe-playwright-python")
    (tmp_path / "page.html").write_text(html)
    with playwright.sync_playwright() as runner:
        browser = runner.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        for width, scheme in zip(WIDTHS, ("light", "dark"), strict=True):
            tab = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
            tab.set_default_timeout(600_000)
            tab.goto((tmp_path / "page.html").as_uri())
            found = axe.Axe().run(tab).response["violations"]
            assert not [(one["id"], [node["html"] for node in one["nodes"]]) for one in found]
        browser.close()


def brightness(colour: str) -> float:
    """The mean of red, green and blue, 0 to 255, of a computed colour."""
    parts = [float(part) for part in re.findall(r"[0-9.]+", colour)[:3]]
    return sum(parts) / 3


def test_it_is_dark_where_the_reader_wants_it_dark(html: str, tmp_path: Path) -> None:
    for scheme, dark in ((0, True), (1, False)):
        (tmp_path / str(scheme)).mkdir()
        found = measured(html, tmp_path / str(scheme), f"--blink-settings=preferredColorScheme={scheme}")[0]
        assert (brightness(found["paper"]) < 60) is dark and (brightness(found["ink"]) > 190) is dark
        assert (brightness(found["shot"]) > 140) is dark  # words in drawings too


def test_it_prints_with_headers_on_each_page_and_page_numbers(html: str, tmp_path: Path) -> None:
    """No heading is the last line of a page. What a page says is read by pdftotext, where that is installed."""
    variables = r"(bounds or levels</th>.*?<tbody>)(.*?)(</tbody>)"  # repeated, so that the table goes over a page
    html = re.sub(variables, lambda found: found[1] + found[2] * 6 + found[3], html, count=1, flags=re.DOTALL)
    (tmp_path / "page.html").write_text(html)
    path = tmp_path / "page.pdf"
    chromium(tmp_path, "--no-pdf-header-footer", f"--print-to-pdf={path}", (tmp_path / "page.html").as_uri())
    content = path.read_bytes()
    assert content.startswith(b"%PDF-") and content.rstrip().endswith(b"%%EOF")
    assert len(re.findall(rb"/Type\s*/Page\b", content)) > 5
    reader = shutil.which("pdftotext")
    if reader is None:
        pytest.skip("no pdftotext is installed to read the printed pages with")
    text = subprocess.run([reader, "-layout", str(path), "-"], capture_output=True, text=True, check=True).stdout
    pages = text.split("\f")[:-1]
    assert sum("bounds or levels" in each for each in pages) >= 2
    titles = re.findall(r"<h[23][^>]*>(?:<span[^>]*>\d+</span>)?(.*?)</h[23]>", html)
    headings = {re.sub(r"<[^>]+>", "", title).strip() for title in titles}
    assert {"The claim", "Class by class"} <= headings
    for number, each in enumerate(pages, 1):
        lines = [line.strip() for line in each.splitlines() if line.strip()]
        assert lines[-1] == f"page {number} of {len(pages)}"
        assert re.sub(r"^\d+ +", "", lines[-2]) not in headings, lines[-2]
