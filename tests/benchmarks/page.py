"""Rewrite the tables of docs/results.md from docs/results/*.csv: add a line to a CSV file, then run this.

A table of the page is between two comments:

    <!-- table panel.csv; table=thyroid; method, epsilon, mean AuROC~ -->
    <!-- /table -->

The first names the CSV file, columns and values that select its lines (or nothing; a|b selects both), and the columns
to show. A column with ~ shows the part before a bracket: the median without its range. --check writes nothing.
"""

from __future__ import annotations

import csv
import re
from pathlib import Path

from tests.benchmarks.common import ROOT, markdown, options

PAGE = ROOT / "docs" / "results.md"
TABLES = ROOT / "docs" / "results"
TABLE = re.compile(r"(<!-- table ([\w.-]+); *([^;]*); *([^;]*?) -->\n).*?(<!-- /table -->)", re.DOTALL)


def table(file: str, chosen: str, columns: str, folder: Path = TABLES) -> str:
    """Return a Markdown table of a CSV file's lines. Raise ValueError if a choice is empty or a column is missing."""
    with (folder / file).open(newline="") as lines:
        reader = csv.DictReader(lines)
        rows, known = list(reader), reader.fieldnames or []
    wanted = dict(pair.strip().split("=") for pair in chosen.split(",") if pair.strip())
    shown = [column.strip() for column in columns.split(",")]
    names = [column.removesuffix("~") for column in shown]
    if lost := {*names, *wanted} - set(known):
        raise ValueError(f"{file} has no column {', '.join(sorted(lost))}.")
    if not rows:
        return "*Not measured with this version yet.*"
    rows = [row for row in rows if all(row[name] in value.split("|") for name, value in wanted.items())]
    if not rows:
        raise ValueError(f"{file} has no line with {chosen}.")
    cells = (
        [row[n].partition(" (")[0] if c.endswith("~") else row[n] for n, c in zip(names, shown, strict=True)]
        for row in rows
    )
    return markdown(names, cells)


def written(text: str) -> str:
    """Return the page with its tables made from the CSV files."""
    return TABLE.sub(lambda found: f"{found[1]}\n{table(found[2], found[3], found[4])}\n\n{found[5]}", text)


def main(words: list[str]) -> None:
    """Write the page, or check that it is current."""
    parser = options("page", __doc__)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args(words)
    text = PAGE.read_text()
    made = written(text)
    if given.check and made != text:
        raise SystemExit("docs/results.md is not current. Run `python -m tests.benchmarks page`.")
    if not given.check:
        PAGE.write_text(made)
