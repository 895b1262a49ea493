"""A table's file is looked at once, and opened again only for a pass over its rows."""

import os
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from medsynth_cli.main import app
from typer.testing import CliRunner

OPENED: list[str] = []  # the names of files, while somebody counts
COUNTS: list[bool] = []


def _watch(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and COUNTS and isinstance(arguments[0], str | os.PathLike):
        OPENED.append(os.path.basename(os.fspath(arguments[0])))


sys.addaudithook(_watch)


def opens(name: str, *words: str) -> int:
    """How often a command opens a file."""
    OPENED.clear()
    COUNTS.append(True)
    try:
        done = CliRunner().invoke(app, [*words])
    finally:
        COUNTS.clear()
    assert done.exit_code == 0, done.stderr
    return OPENED.count(name)


@pytest.mark.usefixtures("quick", "few_trees")
def test_a_fit_opens_its_table_twice_and_a_report_its_rows_four_times(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once to see what it is, and once for each pass: a report also compares the rows with their model's."""
    monkeypatch.chdir(tmp_path)
    pd.DataFrame({"ward": ["a", "b"] * 200, "age": range(400), "sick": ["no", "yes"] * 200}).to_csv(
        "t.csv", index=False
    )
    fit = ["fit", "t.csv", "--epsilon", "9", "--method", "independent", "--one-row-a-patient"]
    assert opens("t.csv", *fit) == 2
    assert opens("t.csv", *fit, "--force", "--holdout", "0.3") == 3  # its form decides the names of the parts
    assert opens("t.synthetic.csv", "sample", "-n", "300") <= 1
    assert opens("t.synthetic.csv", "report", "--shareable") == 4
