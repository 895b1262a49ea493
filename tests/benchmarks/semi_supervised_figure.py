"""Draw results of semi_supervised.py: quality over the number of public rows, one panel a table.

python tests/benchmarks/semi_supervised_figure.py results/semi-supervised.csv --output docs/assets/semi-supervised.svg
"""

from __future__ import annotations

import argparse
import csv
import math
import statistics
from pathlib import Path
from typing import Any

import plot

from medsynth.report.page.charts import Drawing, Scale

PANELS = {
    "mnist": ("MNIST: accuracy over public rows", 0.3, 1.0),
    "thyroid": ("thyroid: macro AuROC over public rows", 0.7, 1.0),
}
SERIES = (  # source, what, mark
    ("mixture", "public", "○"),
    ("mixture", "synthetic", ""),  # a broken line
    ("mixture", "both", "●"),
    ("dp-gan+public", "both", "G"),
)
LEGEND = "○ public rows alone   broken line: the default's rows alone   ● both   G dp-gan's and public rows"
ROWS = (20, 50, 100, 200, 500, 1000, 2000)
WIDE, HIGH = 330.0, 250.0


def panel(drawing: Drawing, runs: list[dict[str, Any]], name: str, low: float, high: float, left: float) -> None:
    """One table's curves of medians over the number of public rows, on a logarithmic scale."""
    across = Scale(math.log(ROWS[0]), math.log(ROWS[-1]), left + 10, left + WIDE - 60)
    up = Scale(low, high, HIGH - 20, 35)
    drawing.text(left, 16, name, "mark")
    for value in (low, (low + high) / 2, high):
        drawing.line((left, up(value)), (left + WIDE - 50, up(value)), "grid")
        drawing.text(left - 5, up(value) + 4, f"{value:g}", anchor="end")
    for rows in ROWS:
        drawing.text(across(math.log(rows)), HIGH - 2, f"{rows}", anchor="middle")
    for source, what, mark in SERIES:
        some = [run for run in runs if run["method"] == source]
        if not some:
            continue
        places = []
        for rows in sorted({int(run["rows"]) for run in some}):
            median = statistics.median(float(run[what]) for run in some if int(run["rows"]) == rows)
            places.append((across(math.log(rows)), up(median)))
            drawing.text(places[-1][0], places[-1][1] + 4, mark, anchor="middle")
        if source == "mixture" and what != "public":
            drawing.path(places, "ceiling" if what == "synthetic" else "stroke")


def main() -> None:
    """Read the results and write the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--output", type=Path, default=Path("results/semi-supervised.svg"))
    given = parser.parse_args()
    runs = list(csv.DictReader(given.results.open()))
    drawing = Drawing(
        2 * WIDE + 40, HIGH + 35, "Few public rows beside synthetic ones",
        "Quality of logistic regression over the number of public rows, medians: trained on these alone, on synthetic "
        "rows alone, and on both. All figures stand in the tables beside it.",
    )  # fmt: skip
    for k, (table, (name, low, high)) in enumerate(PANELS.items()):
        panel(drawing, [r for r in runs if r["table"].split(":")[0] == table], name, low, high, 50 + k * WIDE)
    drawing.text(50, HIGH + 25, LEGEND)
    svg = drawing.render().replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    head, _, body = svg.partition("</desc>")
    given.output.write_text(f"{head}</desc>{plot.STYLE}{body}\n")


if __name__ == "__main__":
    main()
