"""How many rows the default needs: what its rows lose, by real rows per column and epsilon.

Rows are drawn from a table's training rows, others in each run, and as many synthetic rows are made. AuROC is that of
the report's four classifiers on held-out rows, and lost is what synthetic rows have less than the real ones they are
made from. Two-way similarity is to these real rows, in ten quantile bins. `--figure FILE` draws both as SVG: a line is
the median of the tables.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

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
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {2 * WIDTH} {HEIGHT}" font-family="sans-serif" '
        'font-size="12" role="img"><title>What synthetic rows lose, by real rows per column and epsilon</title>'
        f'<rect width="{2 * WIDTH}" height="{HEIGHT}" fill="#fff"/>'
    ]
    for k, (name, title, ends) in enumerate((("lost", "AuROC lost", (0.3, 0.0)),
                                             ("two_way", "two-way similarity", (0.4, 1.0)))):  # fmt: skip
        parts.append(f'<g transform="translate({k * WIDTH + LEFT} {TOP})">' + _plot(runs, name, title, ends) + "</g>")
    return "".join([*parts, "</svg>\n"])


def _plot(runs: list[Run], name: str, title: str, ends: tuple[float, float]) -> str:
    wide, high = WIDTH - LEFT - 60, HEIGHT - TOP - 40
    places = np.log(PER_COLUMN)
    xs = wide * (places - places[0]) / (places[-1] - places[0])
    text = [f'<text x="0" y="-14" font-weight="bold">{title}</text>']
    for share in np.linspace(*ends, 7):
        y = high * (1 - (share - ends[0]) / (ends[1] - ends[0]))
        text.append(f'<path d="M0 {y:.1f}H{wide}" stroke="#ddd"/><text x="-6" y="{y + 4:.1f}" text-anchor="end">')
        text.append(f"{share:.2f}</text>")
    for count, x in zip(PER_COLUMN, xs, strict=True):
        text.append(f'<text x="{x:.1f}" y="{high + 16}" text-anchor="middle">{count}</text>')
    text.append(f'<text x="{wide / 2:.0f}" y="{high + 34}" text-anchor="middle">real rows per column</text>')
    for epsilon, colour in zip(EPSILONS, COLOURS, strict=True):
        found = [(x, of(runs, count, epsilon, name)) for count, x in zip(PER_COLUMN, xs, strict=True)]
        text.append(_line([(x, statistics.median(each)) for x, each in found if each], ends, high, colour, epsilon))
    return "".join(text)


def _line(
    points: Sequence[tuple[float, float]], ends: tuple[float, float], high: int, colour: str, epsilon: float
) -> str:
    if not points:
        return ""
    at = [(x, high * (1 - np.clip((value - ends[0]) / (ends[1] - ends[0]), 0, 1))) for x, value in points]
    path = "L".join(f"{x:.1f} {y:.1f}" for x, y in at)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in at)
    end = f'<text x="{at[-1][0] + 8:.1f}" y="{at[-1][1] + 4:.1f}" fill="{colour}">ε {epsilon:g}</text>'
    return f'<path d="M{path}" fill="none" stroke="{colour}" stroke-width="2"/>{dots}{end}'


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
