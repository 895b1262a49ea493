"""How many rows the default needs: what its rows lose, by real rows per column and epsilon.

Rows are drawn from a table's training rows, others in each run, and as many synthetic rows are made. AuROC is that of
the report's four classifiers on held-out rows, and lost is what synthetic rows have less than the real ones they are
made from. Two-way similarity is to these real rows, in ten quantile bins. `--figure FILE` draws both as SVG: a line is
the median of the tables.
"""

from __future__ import annotations

import itertools
import math
import statistics
from pathlib import Path
from typing import Any

import numpy as np

from medsynth.report.page import charts
from tests.benchmarks import tables
from tests.benchmarks.bins import grids
from tests.benchmarks.common import DELTA, Run, completed, markdown, options, spread, values
from tests.benchmarks.figures import by_order, classified

FIELDS = ["table", "per_column", "epsilon", "run", "rows", "columns", "real", "auroc", "lost", "two_way"]
HEADS = ["rows per column", "epsilon", "tables", "AuROC lost", "two-way"]
NAMES = ("thyroid", "diabetes130", "clinic-10k", "hospital")
PER_COLUMN = (5, 10, 20, 50, 100, 200, 500)
EPSILONS = (0.5, 1.0, 3.7)
WIDTH, HEIGHT, LEFT, TOP = 330, 250, 46, 34  # of one of the figure's two plots, in pixels
COLOURS = ("#d55e00", "#0072b2", "#009e73")


def one(job: Run, data: str | None) -> Run:
    """Return the figures of one fit, and none if the noise hid the target."""
    import medsynth
    from medsynth.errors import TargetError
    from medsynth.fitting.settings import silent

    train, test, schema, target = tables.load(job["table"], data)
    columns, number = len(schema.names), int(job["run"])
    private = train.sample(int(job["per_column"]) * columns, random_state=number).reset_index(drop=True)
    run: Run = dict(job) | {"rows": len(private), "columns": columns}
    try:
        model = medsynth.fit(
            private, epsilon=float(job["epsilon"]), delta=DELTA, schema=schema, target=target, anyway=True,
            notice=silent,
        )  # fmt: skip
    except TargetError:
        return run
    drawn = medsynth.sample(model, len(private))[list(private)].astype(private.dtypes.to_dict(), errors="ignore")
    real, made = (classified(rows, test, target)["mean"] for rows in (private, drawn))
    (two_way,) = by_order(drawn, private, grids(schema, private), (2,))
    figures = {"real": real, "auroc": made, "lost": real - made, "two_way": two_way}
    return run | {name: round(float(figure), 4) for name, figure in figures.items()}


def of(runs: list[Run], per_column: object, epsilon: object, figure: str) -> list[float]:
    """Return each table's median of a figure."""
    own = [run for run in runs if (str(run["per_column"]), str(run["epsilon"])) == (str(per_column), str(epsilon))]
    found = (values([run for run in own if run["table"] == name], figure) for name in NAMES)
    return [statistics.median(each) for each in found if each]


def summary(runs: list[Run]) -> str:
    """Return a line per epsilon and number of rows per column: the median of the tables, and their range."""
    lines = [
        [str(count), str(epsilon), str(len(of(runs, count, epsilon, "lost"))),
         *(spread(of(runs, count, epsilon, name), 2) for name in ("lost", "two_way"))]
        for epsilon in EPSILONS for count in PER_COLUMN if of(runs, count, epsilon, "lost")
    ]  # fmt: skip
    return markdown(HEADS, lines)


def figure(runs: list[Run]) -> str:
    """Return the two plots as SVG."""
    title = "What synthetic rows lose, by real rows per column and epsilon"
    made = charts.Drawing(2 * WIDTH, HEIGHT, title, title)
    made.add("rect", width=2 * WIDTH, height=HEIGHT, fill="#fff")
    _plot(made, 0, runs, "lost", "AuROC lost", (0.3, 0.0))
    _plot(made, WIDTH, runs, "two_way", "two-way similarity", (0.4, 1.0))
    alone = '<svg xmlns="http://www.w3.org/2000/svg" font-family="sans-serif" font-size="12" '
    return made.render().replace("<svg ", alone, 1) + "\n"


def _plot(made: charts.Drawing, left: float, runs: list[Run], name: str, title: str, ends: tuple[float, float]) -> None:
    across = charts.Scale(math.log(PER_COLUMN[0]), math.log(PER_COLUMN[-1]), left + LEFT, left + WIDTH - 60)
    low, high = (HEIGHT - 40, TOP) if ends[0] < ends[1] else (TOP, HEIGHT - 40)
    up = charts.Scale(min(ends), max(ends), low, high)
    made.add("text", title, x=left + LEFT, y=TOP - 14, font_weight="bold")
    for share in np.linspace(*ends, 7):
        y = up(float(share))
        made.add("path", d=f"M{across.start} {y:.1f}H{across.stop}", stroke="#ddd")
        made.text(left + LEFT - 6, y + 4, f"{share:.2f}", anchor="end")
    for count in PER_COLUMN:
        made.text(across(math.log(count)), HEIGHT - 24, str(count), anchor="middle")
    made.text((across.start + across.stop) / 2, HEIGHT - 6, "real rows per column", anchor="middle")
    lowest = math.inf  # of the labels so far: the lines of small epsilons are below
    for epsilon, colour in zip(EPSILONS, COLOURS, strict=True):
        found = [(count, of(runs, count, epsilon, name)) for count in PER_COLUMN]
        points = [(across(math.log(count)), up(statistics.median(each))) for count, each in found if each]
        for (x, y), (x2, y2) in itertools.pairwise(points):
            made.add("line", x1=x, y1=y, x2=x2, y2=y2, stroke=colour, stroke_width=2)
        for x, y in points:
            made.add("circle", cx=x, cy=y, r=3, fill=colour)
        for x, y in points[-1:]:
            lowest = min(y + 4, lowest - 12)
            made.add("text", f"ε {epsilon:g}", x=x + 8, y=lowest, fill=colour)


def main(words: list[str]) -> None:
    """Run what is missing, print the table, and draw the figure if asked."""
    parser = options("rows-per-column", __doc__, data=True, output="rows_per_column.csv")
    parser.add_argument("--tables", nargs="+", default=NAMES, choices=NAMES)
    parser.add_argument("--per-column", nargs="+", type=int, default=PER_COLUMN)
    parser.add_argument("--epsilons", nargs="+", type=float, default=EPSILONS)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--figure", type=Path, help="draw the plots into this SVG file")
    given = parser.parse_args(words)
    size = {name: tables.load(name, given.data) for name in given.tables}
    jobs: list[Run] = [
        {"table": name, "per_column": count, "epsilon": epsilon, "run": number}
        for number in range(given.runs) for count in given.per_column for name in given.tables
        if count * len(size[name][2].names) <= len(size[name][0]) for epsilon in given.epsilons
    ]  # fmt: skip
    runs: list[Any] = completed(given.output, FIELDS, jobs, lambda job: one(job, given.data))
    print(summary(runs))
    if given.figure:
        given.figure.write_text(figure(runs), encoding="utf-8")
