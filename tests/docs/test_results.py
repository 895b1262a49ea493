"""The page of results is made from its CSV files, and every benchmark command that a page prints can be run."""

import argparse
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.benchmarks import page
from tests.benchmarks.__main__ import BENCHMARKS, listed, run
from tests.benchmarks.common import public_folder

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMAND = re.compile(r"python -m tests\.benchmarks ([a-z][^\n`]*)")
WITH_FIGURES = ["results", "inference", "patients-over-time", "several-tables", "report", "audit", "how-to/federation",
                "methods/README", "methods/mixture-ablation"]  # fmt: skip
NEED_DATA = ("thyroid-study", "mnist", "federation", "federation-cost")


class Parsed(Exception):
    """A command's options were accepted."""


@pytest.fixture
def parsing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Benchmarks stop once they have read their options."""
    parse = argparse.ArgumentParser.parse_args

    def parsed(self: argparse.ArgumentParser, *args: Any) -> None:
        parse(self, *args)
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", parsed)


def commands(path: Path) -> list[str]:
    return COMMAND.findall(path.read_text().replace("\\\n", " "))


def test_the_page_of_results_is_current() -> None:
    assert page.PAGE.read_text() == page.written(page.PAGE.read_text())
    made = {found[1] for found in page.TABLE.findall(page.PAGE.read_text())}
    assert made == {path.name for path in page.TABLES.glob("*.csv")}


def test_a_table_is_made_from_chosen_lines_and_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text('table,mean,way\nx,"0.9 (0.8 to 1.0)",one\ny,"0.5 (0.4 to 0.6)",two\n')
    assert page.table("a.csv", "table=x", "way, mean~", tmp_path).splitlines()[2:] == ["| one | 0.9 |"]
    with pytest.raises(ValueError, match="no line with table=z"):
        page.table("a.csv", "table=z", "way", tmp_path)
    with pytest.raises(ValueError, match="no column best"):
        page.table("a.csv", "", "best", tmp_path)


def test_a_page_with_figures_names_the_command_that_prints_them() -> None:
    for name in WITH_FIGURES:
        assert commands(ROOT / "docs" / f"{name}.md"), name


@pytest.mark.usefixtures("parsing")
def test_every_command_of_a_page_is_accepted() -> None:
    for path in PAGES:
        for command in commands(path):
            name, *words = shlex.split(command, comments=True)
            with pytest.raises(Parsed):
                run(name, words)


@pytest.mark.usefixtures("parsing")
@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_is_listed_and_its_quick_options_are_accepted(name: str) -> None:
    assert f"\n{name} " in listed()
    with pytest.raises(Parsed):
        run(name, ["--quick"])


@pytest.mark.nightly
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("name", [name for name in BENCHMARKS if name != "page"])
def test_every_benchmark_runs_to_its_end(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At the smallest setting."""
    if name in NEED_DATA and public_folder() is None:
        pytest.skip("no public tables: set MEDSYNTH_DATA")
    if name.startswith("federat"):
        pytest.importorskip("nvflare")
    monkeypatch.setenv("PYTHONWARNINGS", "ignore")
    run(name, ["--quick"])
