"""A page as PDF: tagged, whole or not at all, and without a browser a message that says what to do."""

from pathlib import Path

import pytest

from medsynth.errors import MedsynthError, OutputExists
from medsynth.report.page import pdf

PAGE = (
    "<!doctype html><html lang=en><title>t</title><h1>Claim</h1><p>Text</p><img src=https://example.org/x.png></html>"
)


@pytest.mark.nightly
def test_a_page_is_printed_and_tagged(tmp_path: Path) -> None:
    try:
        pdf.browser()
    except MedsynthError:
        pytest.skip("no Chromium, Chrome or Edge is installed")
    page, made = tmp_path / "a page.html", tmp_path / "made.pdf"
    page.write_text(PAGE)
    content = pdf.print_page(page, made).read_bytes()
    assert content.startswith(b"%PDF") and b"/StructTreeRoot" in content and b"/Outlines" in content
    assert made.stat().st_mode & 0o077 == 0
    with pytest.raises(OutputExists):
        pdf.print_page(page, made)


def test_without_a_browser_the_message_says_what_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MedsynthError, match="print it to a file"):
        pdf.print_page(tmp_path / "page.html", tmp_path / "made.pdf")


def test_a_browser_that_prints_nothing_leaves_what_was_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken, made = tmp_path / "chromium", tmp_path / "made.pdf"
    broken.write_text("#!/bin/sh\nexit 0\n")
    broken.chmod(0o755)
    made.write_text("before")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(MedsynthError, match="did not print"):
        pdf.print_page(tmp_path / "page.html", made, force=True)
    assert made.read_text() == "before"
