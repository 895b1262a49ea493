"""Print a page to a PDF by the browser that is installed. It has no network, and a profile that is thrown away."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

from ...errors import MedsynthError
from ...io.atomic import atomic_write

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome", "microsoft-edge")
SECONDS = 120.0  # A page prints in a few seconds.


def browser() -> str:
    """Return the first browser found. Raises MedsynthError if there is none."""
    for name in BROWSERS:
        if found := shutil.which(name):
            return found
    raise MedsynthError(
        "A PDF needs Chromium, Chrome or Edge, and none is installed. Install one, or open the page in your browser "
        "and print it to a file."
    )


def print_page(page: Path, pdf: Path, *, force: bool = False, private: bool = True) -> Path:
    """Print the HTML file `page` to `pdf`, tagged for screen readers and with an outline. Return `pdf`.

    Raises OutputExists unless `force`, and MedsynthError without a browser, or if it does not print the page.
    """
    program = browser()
    with tempfile.TemporaryDirectory() as folder:  # only its owner can read it
        made = Path(folder) / "page.pdf"
        words = [
            program, "--headless=new", "--disable-gpu", "--no-first-run", "--disable-extensions",
            "--disable-background-networking", "--disable-component-update", "--host-resolver-rules=MAP * ~NOTFOUND",
            f"--user-data-dir={folder}/profile", "--no-pdf-header-footer", "--export-tagged-pdf",
            "--generate-pdf-document-outline", f"--print-to-pdf={made}", page.resolve().as_uri(),
        ]  # fmt: skip
        if os.geteuid() == 0:  # Chromium has no sandbox for root
            words.insert(1, "--no-sandbox")
        with contextlib.suppress(OSError, subprocess.TimeoutExpired):  # then nothing was printed
            subprocess.run(words, capture_output=True, timeout=SECONDS, check=False, cwd=folder)
        if not made.is_file() or not made.stat().st_size:
            raise MedsynthError(
                f"{Path(program).name} did not print {page}. Open the page in your browser and print it to a file."
            )
        content = made.read_bytes()
    atomic_write(pdf, content, force=force, private=private)
    return pdf
