"""The site builds strictly, opens from disk, and points at nothing that is not there."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import medsynth

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted(DOCS.rglob("*.md"))]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)#\s]+)(?:#[^)]*)?\)")
NAMED = re.compile(r"(?<![\w/.])(?:medsynth|cli|tests|schemas|sample_data)/[\w/.-]+\.(?:py|yaml|html|csv)(?![\w<])")
OUTSIDE = re.compile(r"""<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=["']?(?:https?:)?//[^>]*>""")
FENCED = re.compile(r"^```.*?^```$", re.MULTILINE | re.DOTALL)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The built site. Skipped where the tools of the extra `docs` are not installed."""
    lacking = [name for name in ("mkdocs", "material", "mkdocstrings") if importlib.util.find_spec(name) is None]
    if lacking:
        pytest.skip(f"{', '.join(lacking)} not installed: pip install -c constraints.txt -e '.[docs]'")
    folder = tmp_path_factory.mktemp("site")
    words = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.mark.nightly
def test_it_builds_without_a_warning_and_needs_nothing_from_elsewhere(site: Any) -> None:
    pages = sorted(site.rglob("*.html"))
    assert len(pages) > 30
    for page in pages:
        assert not OUTSIDE.findall(page.read_text()), page
    assert (site / "search" / "search_index.js").exists()  # the search that works from disk


def test_the_command_reference_has_every_command(site: Any) -> None:
    import typer
    from medsynth_cli.main import app

    text = (site / "reference" / "cli.html").read_text()
    group: Any = typer.main.get_command(app)
    commands = group.commands
    assert len(commands) >= 8
    for name, command in commands.items():
        assert f"medsynth {name}" in text, name
        for option in (option for parameter in command.params for option in parameter.opts if option.startswith("--")):
            assert option in text, (name, option)


def test_relative_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in LINK.findall(FENCED.sub("", page.read_text())):
            if not target.startswith(("http:", "https:", "mailto:")):
                assert (page.parent / target).exists(), (page, target)


def test_files_that_are_named_exist() -> None:
    for page in PAGES:
        for name in NAMED.findall(page.read_text()):
            assert (ROOT / name).exists(), (page, name)


def test_every_page_is_in_the_navigation() -> None:
    """The decisions are linked from their index instead."""
    text = (ROOT / "mkdocs.yml").read_text()
    decisions = LINK.findall((DOCS / "decisions" / "index.md").read_text())
    for page in sorted(DOCS.rglob("*.md")):
        listed = page.parent.name == "decisions" and page.name in decisions
        assert listed or f"- {page.relative_to(DOCS)}\n" in text, page


def test_the_readme_is_short_and_has_the_two_commands() -> None:
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) <= 130
    assert "make demo" in text and "make test" in text


def test_every_place_names_the_same_version() -> None:
    named = {
        "pyproject.toml": r'^version = "(.+)"$',
        "CITATION.cff": r"^version: (.+)$",
        "CHANGELOG.md": r"^## (\S+),",
        "docs/report.schema.json": r'"default": "(\d+\.\d+\.\d+)"',
    }
    for name, pattern in named.items():
        found = re.search(pattern, (ROOT / name).read_text(), re.MULTILINE)
        assert found and found[1] == medsynth.__version__, name
