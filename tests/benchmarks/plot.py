"""Draw results of utility.py and peers.py: mean AuROC and two-way similarity over epsilon, one panel a table.

python tests/benchmarks/plot.py results/utility.csv results/peers.csv --output docs/benchmarks.svg
"""

from __future__ import annotations

import argparse
import csv
import math
import statistics
from pathlib import Path
from typing import Any

from medsynth.report.page.charts import Drawing, Scale

STYLE = (
    "<style>text{font:12px sans-serif;fill:#333}.mark{font-weight:600}.grid{stroke:#ddd}"
    ".stroke{fill:none;stroke:#b3541e;stroke-width:2}"
    ".range{stroke:#b3541e;stroke-width:1.5}.ceiling{stroke:#1f4e79;stroke-dasharray:5 4}</style>"
    '<rect width="100%" height="100%" fill="#fff"/>'
)
MARKS = {
    "mixture": "●",
    "dp-cgan": "○",
    "independent": "□",
    "dpmm-mst": "M",
    "dpmm-privbayes": "P",
    "smartnoise-mst": "S",
}
TABLES = ("thyroid", "cancer", "clinic-4k", "clinic-50k")
EPSILONS = (0.5, 1.0, 3.7, 10.0)
LINES = {"mean": ("mean AuROC", 0.5, 1.0), "two_way": ("two-way similarity", 0.0, 1.0)}
WIDE, HIGH = 210.0, 190.0


def main() -> None:
    """Read the results and write the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", type=Path)
    parser.add_argument("--output", type=Path, default=Path("results/benchmarks.svg"))
    given = parser.parse_args()
    runs = [run for path in given.results for run in csv.DictReader(path.open()) if run["mean"]]
    drawing = Drawing(
        len(TABLES) * WIDE + 20, 2 * HIGH + 60, "Utility and fidelity over epsilon",
        "Medians of the default with their ranges; other methods and published tools as single marks; the broken line "
        "is what a second real sample scores in two-way similarity. All figures stand in the tables beside it.",
    )  # fmt: skip
    for column, table in enumerate(TABLES):
        for row, (figure, (name, low, high)) in enumerate(LINES.items()):
            panel(drawing, [r for r in runs if r["table"] == table], table, figure, name, low, high, column, row)
    legend = (
        "● the default   ○ dp-cgan   □ independent   M dpmm MST   P dpmm PrivBayes   S smartnoise MST   (epsilon below)"
    )
    drawing.text(50, 2 * HIGH + 45, legend)
    svg = drawing.render().replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1)
    head, _, body = svg.partition("</desc>")
    given.output.write_text(f"{head}</desc>{STYLE}{body}\n")


def panel(
    drawing: Any, runs: Any, table: Any, figure: Any, name: Any, low: Any, high: Any, column: Any, row: Any
) -> None:
    """One table's panel of one figure."""
    left, top = 50 + column * WIDE, 20 + row * (HIGH + 5)
    across = Scale(math.log(0.4), math.log(13), left, left + WIDE - 40)
    up = Scale(low, high, top + HIGH - 40, top + 10)
    for value in (low, (low + high) / 2, high):
        drawing.line((left, up(value)), (left + WIDE - 40, up(value)), "grid")
        drawing.text(left - 5, up(value) + 4, f"{value:g}", anchor="end")
    for epsilon in EPSILONS:
        drawing.text(across(math.log(epsilon)), up(low) + 16, f"{epsilon:g}", anchor="middle")
    drawing.text(left, top, f"{table}: {name}", "mark")
    if figure == "two_way" and runs:
        ceiling = statistics.median(float(run["two_way_ceiling"]) for run in runs)
        drawing.line((left, up(ceiling)), (left + WIDE - 40, up(ceiling)), "ceiling")
    line = []
    for method, mark in MARKS.items():
        for k, epsilon in enumerate(EPSILONS):
            some = [float(r[figure]) for r in runs if r["method"] == method and float(r["epsilon"]) == epsilon]
            if not some:
                continue
            place, middle = across(math.log(epsilon)), up(statistics.median(some))
            if method == "mixture":
                line.append((place, middle))
                drawing.line((place, up(min(some))), (place, up(max(some))), "range")
                drawing.text(place, middle + 4, mark, anchor="middle")
            else:
                drawing.text(place + 9 * (list(MARKS).index(method) - 3) + 3 * k, middle + 4, mark, anchor="middle")
    if len(line) > 1:
        drawing.path(line, "stroke")


if __name__ == "__main__":
    main()
