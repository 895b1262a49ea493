"""Utility and fidelity of methods and of other tools over tables, epsilons and runs.

A method may be a preset's name. Changes to its settings may follow, as in mixture+strongest_share=0, and +rules=0
leaves the schema's rules out. +no_dp=1 fits without noise: an upper bound, whose epsilon only names its row of the
results. Another tool is named like dpmm-mst; it gets the schema's bounds, levels and scales, and 20 bins if it needs
bins. Classifiers learn from 10,000 synthetic rows and predict real held-out rows. Each fit is a process of its own.
Results join --output one by one and are not run again.
"""

from __future__ import annotations

import itertools
import json
import resource
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tests.benchmarks import other_tools, tables
from tests.benchmarks.common import ROOT, Run, again, markdown, options, report, spread, values
from tests.benchmarks.figures import of_report

TABLES = ("thyroid", "cancer", "diabetes130@8200", "clinic-4k", "clinic-10k", "clinic-50k")
PEERS = ("dpmm-mst", "dpmm-privbayes", "smartnoise-mst")
FIELDS = ["table", "method", "epsilon", "seed", "mean", "best", "lr", "mlp", "rf", "hgb", "one_way", "one_way_ceiling",
          "two_way", "two_way_ceiling", "propensity_auroc", "fit_seconds", "peak_gib", "spent"]  # fmt: skip
HEADS = ["table", "method", "epsilon", "runs", "mean AuROC", "best AuROC", "two-way (ceiling)", "propensity AuROC",
         "fit s", "GiB"]  # fmt: skip
DRAWN = 10_000


def one(table: str, method: str, epsilon: float, data: str | None) -> Run:
    """Return all figures of one fit and one sample."""
    import medsynth
    from medsynth.methods.registry import presets

    train, test, schema, target = tables.load(table, data)
    started = time.perf_counter()
    method, *changes = method.split("+")
    preset = method if method in presets() else None
    no_dp = "no_dp=1" in changes
    settings = dict(change.split("=") for change in changes if change != "no_dp=1")
    if settings.pop("rules", None) is not None:
        schema = schema.model_copy(update={"rules": ()})
    model = medsynth.fit(train, epsilon=None if no_dp else epsilon, no_dp=no_dp, schema=schema, rows=len(train),
                         preset=preset, method=None if preset else method, settings=settings)  # fmt: skip
    seconds, peak = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    drawn = medsynth.sample(model, DRAWN)[test.columns]
    spent = "no limit" if model.epsilon is None else round(model.epsilon, 4)
    cost = {"fit_seconds": round(seconds, 1), "peak_gib": round(peak, 2), "spent": spent}
    return {**of_report(drawn, train, test, schema, target), **cost}


def domain(schema: Any) -> dict[str, dict[str, Any]]:
    """Return what the schema declares of each column, as plain data."""
    declared: dict[str, dict[str, Any]] = {}
    for name, column in schema.columns.items():
        if column.levels:
            declared[name] = {"levels": [str(level) for level in column.levels]}
        else:
            scale, step = getattr(column, "scale", "linear"), 10.0**-column.places
            declared[name] = {"bounds": column.bounds, "scale": scale, "step": step, "missing": column.missing}
    return declared


def level_of(levels: Any) -> Callable[[Any], Any]:
    """Return a function from a tool's text or number of a level to the level; missing if there is none."""
    kinds = {str(level): level for level in levels}
    return lambda value: kinds.get(str(value), kinds.get(str(value).split(".")[0], np.nan))


def peer(table: str, tool: str, epsilon: float, given: Any) -> Run:
    """Return all figures of one fit of another tool; no AuROC if it did not finish."""
    train, test, schema, target = tables.load(table, given.data)
    with tempfile.TemporaryDirectory() as folder:
        started = time.perf_counter()
        state, drawn = other_tools.fitted(tool, Path(folder), train, domain(schema), epsilon, DRAWN, given)
        seconds = time.perf_counter() - started
    if drawn is None:
        return {"fit_seconds": given.cap if state == "time-out" else round(seconds, 1), "spent": state}
    drawn = drawn[test.columns]
    for name, column in schema.columns.items():
        if column.levels:
            drawn[name] = drawn[name].map(level_of(column.levels))
    # Rows with a missing value in a column that has none cannot be rows of the table. They are left out.
    full = [name for name, column in schema.columns.items() if not column.missing]
    drawn = drawn.dropna(subset=full).reset_index(drop=True).astype({name: train[name].dtype for name in full})
    return {**of_report(drawn, train, test, schema, target), "fit_seconds": round(seconds, 1), "spent": epsilon}


def summary(runs: list[Run]) -> str:
    """Return a Markdown table of medians and ranges."""
    lines = []

    def key(run: Run) -> tuple[int, str, float]:
        return TABLES.index(run["table"]), run["method"], float(run["epsilon"])

    for (_, method, epsilon), group in itertools.groupby(sorted(runs, key=key), key):
        some = list(group)
        first = [some[0]["table"], method, f"{epsilon:g}", len(some)]
        seconds = spread(values(some, "fit_seconds"), 0, False)
        if not values(some, "mean"):
            lines.append([*first, ", ".join(sorted({str(run["spent"]) for run in some})), "", "", "", seconds, ""])
            continue
        ways = [spread(values(some, name), 3, False) for name in ("best", "two_way", "two_way_ceiling")]
        gib = max(values(some, "peak_gib") or [0])
        lines.append([*first, spread(values(some, "mean")), ways[0], f"{ways[1]} ({ways[2]})",
                      spread(values(some, "propensity_auroc"), 2, False), seconds, f"{gib:.2f}"])  # fmt: skip
    return markdown(HEADS, lines)


def main(words: list[str]) -> None:
    """Run what is missing in the time given, and print the table."""
    parser = options("utility", __doc__, data=True, output="utility.csv", minutes=60)
    parser.add_argument("--tables", nargs="+", choices=TABLES, default=["thyroid", "cancer", "clinic-4k"])
    parser.add_argument("--methods", nargs="+", default=["mixture"], metavar="METHOD", help=f"or {', '.join(PEERS)}")
    parser.add_argument("--epsilons", nargs="+", type=float, default=[3.7])
    parser.add_argument("--seeds", type=int, default=3, help="runs")
    parser.add_argument("--one", nargs=3, help="used for its own processes")
    other_tools.add_options(parser, 600)
    given = parser.parse_args(words)
    if given.one:
        table, method, epsilon = given.one
        print(json.dumps(one(table, method, float(epsilon), given.data)))
        return

    def fitted(table: str, method: str, epsilon: float, seed: int) -> Run:
        if method in PEERS:
            return peer(table, method, epsilon, given)
        command = again(
            "utility", "--one", table, method, str(epsilon), *(["--data", given.data] if given.data else [])
        )
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        found: Run = json.loads(done.stdout.splitlines()[-1])
        return found

    order = itertools.product(range(given.seeds), given.tables, given.methods, given.epsilons)
    report([(table, method, epsilon, seed) for seed, table, method, epsilon in order], fitted, given, FIELDS, summary)
