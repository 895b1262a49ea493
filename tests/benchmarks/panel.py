"""The panel: medsynth's default compared with AIM and MST of private-pgm and OpenDP, on real and simulated tables.

All tools get the same declarations and, if they need bins, the same public grid. Each fit is a process of its own;
other tools have environments of their own. Results join --output one by one and are not run again. docs/results.md
explains what each tool gets and what each figure means.

With --bins, similarity is counted in other numbers of even bins too: AIM and MST measured the 20 even bins, and the
figures of the panel are counted in the same ones.
"""

from __future__ import annotations

import itertools
import json
import resource
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tests.benchmarks import bins, other_tools, tables
from tests.benchmarks.common import (
    DELTA,
    Job,
    Run,
    again,
    append,
    markdown,
    options,
    read,
    report,
    spread,
    values,
)
from tests.benchmarks.figures import by_order, of_panel

FIELDS = ["table", "method", "epsilon", "seed", "mean", "best", "one_way", "two_way", "three_way", "one_way_quantile",
          "two_way_quantile", "three_way_quantile", "propensity", "overlap", "seconds", "cpu_seconds", "peak_gib",
          "state"]  # fmt: skip
TOOLS = ["pgm-aim", "pgm-mst"]
OPENDP = ["opendp-aim", "opendp-mst", "opendp-mstround"]
QUANTILES = "-quantiles"  # The tool gets the training rows' quantiles as bins, for free.
TIMES = " x"  # TABLE x4: four times as many rows are drawn as were fitted.
CUT_POINTS = "medsynth-cut-points"  # The default, with the public grid's bins as the schema's cut points.
METHODS = ["medsynth", CUT_POINTS, "bootstrap", *TOOLS, *OPENDP, *(tool + QUANTILES for tool in TOOLS)]
SHOWN = {"mean": ("mean AuROC", 3), "best": ("best AuROC", 3), "one_way": ("one-way", 4), "two_way": ("two-way", 4),
         "three_way": ("three-way", 4), "one_way_quantile": ("one-way, quantile bins", 4),
         "two_way_quantile": ("two-way, quantile bins", 4), "three_way_quantile": ("three-way, quantile bins", 4),
         "propensity": ("propensity AuROC", 3), "overlap": ("interval overlap", 2), "cpu_seconds": ("CPU s", 0),
         "peak_gib": ("GiB", 2)}  # fmt: skip
RANGED = ("mean", "two_way", "two_way_quantile", "propensity")
BINS = (10, 15, 17, 20, 23, 30, 50)


def fit_in(folder: Path, epsilon: float, times: int) -> None:
    """Fit the default to the table in a folder, in this process; write the drawn rows and their cost."""
    import medsynth
    from medsynth.schema import Schema

    train = pd.read_parquet(folder / "train.parquet")
    schema = Schema.from_dict(json.loads((folder / "schema.json").read_text()))
    clock, used = time.perf_counter(), time.process_time()
    model = medsynth.fit(train, epsilon=epsilon, delta=DELTA, schema=schema)
    made = medsynth.sample(model, len(train) * times)
    cost = {"seconds": time.perf_counter() - clock, "cpu_seconds": time.process_time() - used}
    cost["peak_gib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    made.to_parquet(folder / "made.parquet")
    (folder / "cost.json").write_text(json.dumps(cost))


def typed(drawn: pd.DataFrame, train: pd.DataFrame) -> pd.DataFrame:
    """Return rows with the column types of the training rows."""
    return drawn[train.columns].astype({n: train[n].dtype for n in train if not drawn[n].isna().any()})


def peer(
    tool: str, train: pd.DataFrame, schema: Any, epsilon: float, given: Any, place: Path, seed: int, times: int = 1
) -> tuple[str, pd.DataFrame | None]:
    """Return the state and the drawn rows of another tool, which gets the codes of the public grid or of quantiles."""
    by = bins.grids(schema, train if tool.endswith(QUANTILES) else None)
    sizes = {name: grid.size for name, grid in by.items()}
    codes, rows = bins.coded(train, by), len(train) * times
    state, made = other_tools.fitted(tool.removesuffix(QUANTILES), place, codes, sizes, epsilon, rows, given)
    return state, None if made is None else typed(bins.decoded(made, by, np.random.default_rng(seed)), train)


def fitted(
    method: str, train: pd.DataFrame, schema: Any, epsilon: float, given: Any, place: Path, seed: int, times: int = 1
) -> tuple[str, pd.DataFrame | None]:
    """Return the state and the drawn rows of any of METHODS, `times` as many rows as there are to fit."""
    if method == "bootstrap":
        return "done", train.sample(frac=times, replace=True, random_state=seed).reset_index(drop=True)
    if method not in ("medsynth", CUT_POINTS):
        return peer(method, train, schema, epsilon, given, place, seed, times)
    known = bins.with_cut_points(schema) if method == CUT_POINTS else schema
    train.to_parquet(place / "train.parquet")
    (place / "schema.json").write_text(json.dumps(known.to_dict()))
    state = other_tools.child(again("panel", "--fit", str(place), str(epsilon), str(times)), given.cap)
    return state, typed(pd.read_parquet(place / "made.parquet"), train) if state == "done" else None


def one(table: str, method: str, epsilon: float, seed: int, given: Any) -> Run:
    """Return the figures of one fit; none if it did not finish."""
    loaded, _, factor = table.partition(TIMES)
    train, test, schema, target = tables.load(loaded, given.data)
    times = int(factor or 1)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        state, drawn = fitted(method, train, schema, epsilon, given, place, seed, times)
        cost = json.loads((place / "cost.json").read_text()) if (place / "cost.json").exists() else {}
    if drawn is None:
        return {"seconds": given.cap if state == "time-out" else None, "state": state}
    cost = {key: round(value, 2) for key, value in cost.items()}
    return {**of_panel(drawn, train, test, schema, target, times), **cost, "state": state}


def jobs(given: Any) -> list[Job]:
    """Return what is wanted: the first run of everything before the second of anything. A bootstrap has no epsilon."""
    runs = range(max(given.runs, given.own_runs))
    found = []
    for seed, table, epsilon, method in itertools.product(runs, given.tables, given.epsilons, given.methods):
        most = given.own_runs if method in ("medsynth", CUT_POINTS, "bootstrap") else given.runs
        job = (table, method, 0.0 if method == "bootstrap" else epsilon, seed)
        if seed < most and job not in found:
            found.append(job)
    return found


def row(runs: list[Run]) -> list[str]:
    """Return the cells of one method at one epsilon."""
    method, epsilon = runs[0]["method"], float(runs[0]["epsilon"])
    states = [run["state"] for run in runs if run["state"] != "done"]
    other = "".join(f", {states.count(state)} {state}" for state in sorted(set(states)))
    cells = [method, f"{epsilon:g}" if epsilon else "none", f"{len(runs) - len(states)}{other}"]
    return cells + [spread(values(runs, name), places, name in RANGED) for name, (_, places) in SHOWN.items()]


def summary(runs: list[Run]) -> str:
    """Return a Markdown table for each table of the panel, in the order of the results."""
    text = []
    for table in dict.fromkeys(run["table"] for run in runs):
        some = [run for run in runs if run["table"] == table]
        some.sort(key=lambda run: (float(run["epsilon"]), run["method"]))
        by = itertools.groupby(some, key=lambda run: (float(run["epsilon"]), run["method"]))
        heads = ["method", "epsilon", "runs", *(name for name, _ in SHOWN.values())]
        text.append(f"### {table}\n\n" + markdown(heads, (row(list(group)) for _, group in by)))
    return "\n\n".join(text)


def similarities(real: pd.DataFrame, drawn: pd.DataFrame, schema: object) -> list[tuple[int, float, float]]:
    """Return the number of bins with one-way and two-way similarity, for each of BINS."""
    found = []
    for count in BINS:
        one_way, two_way = by_order(real, drawn, bins.grids(schema, bins=count), (1, 2))
        found.append((count, one_way, two_way))
    return found


def in_other_bins(given: Any) -> None:
    """Fit what is asked for, and print similarities by the number of bins."""
    fields = ["table", "method", "epsilon", "seed", *(f"{figure}_{k}" for figure in ("one", "two") for k in BINS)]
    output = given.output.with_stem(given.output.stem + "-bins")
    known = read(output, fields)
    for table, method, epsilon, seed in jobs(given):
        key = {"table": table, "method": method, "epsilon": str(epsilon), "seed": str(seed)}
        if any(all(run[name] == value for name, value in key.items()) for run in known):
            continue
        train, _, schema, _ = tables.load(table, given.data)
        with tempfile.TemporaryDirectory() as place:
            state, drawn = fitted(method, train, schema, epsilon, given, Path(place), seed)
        if drawn is None:
            print(f"{table}, {method}, epsilon {epsilon:g}, run {seed}: {state}", flush=True)
            continue
        found = similarities(train, drawn, schema)
        known.append(key | {f"{name}_{line[0]}": line[k] for k, name in ((1, "one"), (2, "two")) for line in found})
        append(output, fields, known[-1])
    lines = []
    for figure, words in (("one", "one-way"), ("two", "two-way")):
        for table, method, epsilon in dict.fromkeys((r["table"], r["method"], r["epsilon"]) for r in known):
            some = [r for r in known if (r["table"], r["method"], r["epsilon"]) == (table, method, epsilon)]
            cells = [spread(values(some, f"{figure}_{k}"), 4, False) for k in BINS]
            lines.append([table, method, epsilon, len(some), words, *cells])
    print(markdown(["table", "method", "epsilon", "runs", "figure", *(f"{k} bins" for k in BINS)], lines))


def main(words: list[str]) -> None:
    """Run what is missing in the time given, and print the tables."""
    parser = options("panel", __doc__, data=True, output="panel.csv", minutes=60)
    parser.add_argument("--tables", nargs="+", metavar="TABLE[@ROWS]", help="all; without --data the simulated ones")
    parser.add_argument("--times", type=int, default=1, help="draw this many times as many rows as were fitted")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=["medsynth", "bootstrap", *TOOLS])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.5, 1.0, 3.7, 10.0])
    parser.add_argument("--runs", type=int, default=3, help="of other tools")
    parser.add_argument("--own-runs", type=int, default=5, help="of medsynth and the bootstrap")
    parser.add_argument("--bins", action="store_true", help="count similarity in other bins, and nothing else")
    parser.add_argument("--fit", nargs=3, help="used for its own processes")
    other_tools.add_options(parser, 900)
    given = parser.parse_args(words)
    if given.fit:
        fit_in(Path(given.fit[0]), float(given.fit[1]), int(given.fit[2]))
        return
    given.tables = given.tables or [name for name in tables.NAMES if given.data or name not in tables.PUBLIC]
    if given.times > 1:
        given.tables = [f"{table}{TIMES}{given.times}" for table in given.tables]
    if given.bins:
        in_other_bins(given)
        return
    report(jobs(given), lambda t, m, e, s: one(t, m, e, s, given), given, FIELDS, summary)
