"""The panel: medsynth's default beside AIM, MST, PrivBayes and a GAN, on real and simulated tables, in every figure.

    python tests/benchmarks/panel.py --data FOLDER --tables thyroid clinic-4k --methods medsynth pgm-aim
    python tests/benchmarks/panel_table.py results/panel.csv

FOLDER (or MEDSYNTH_PANEL_DATA) holds the public files, see panel_data.py. Every fit runs in a process of its own, of
another tool in an environment of its own (made under --environments; private-pgm is cloned there, or
MEDSYNTH_PRIVATE_PGM names a checkout of the commit below). Results join OUTPUT one by one and are not run again; a fit
that passes --cap seconds counts as a time-out. docs/panel.md tells what each tool is told and what each figure is.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import panel_bins
import panel_data
import resumable
from environments import python_of

DELTA = 1e-5
FIELDS = ["table", "method", "epsilon", "seed", "mean", "best", "one_way", "two_way", "three_way", "one_way_quantile",
          "two_way_quantile", "three_way_quantile", "propensity", "overlap", "seconds", "cpu_seconds", "peak_gib",
          "state"]  # fmt: skip
PRIVATE_PGM = "https://github.com/ryan112358/private-pgm"
COMMIT = "41b5346afd0bbad2656bf505b1006508f5a232ec"  # 5 June 2024, the last that runs on NumPy alone
TOOLS = ["pgm-aim", "pgm-mst", "dpmm-aim", "dpmm-mst", "dpmm-privbayes", "smartnoise-dpctgan", "smartnoise-patectgan"]
QUANTILES = "-quantiles"  # the tool gets the training rows' quantiles as bins, at no charge
TIMES = " x"  # TABLE x4: four times as many rows are drawn as were fitted
CUT_POINTS = "medsynth-cut-points"  # the default, told the public grid's bins as the schema's cut points
METHODS = ["medsynth", CUT_POINTS, "bootstrap", *TOOLS, *(tool + QUANTILES for tool in TOOLS)]
SETTINGS = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}


def checkout(folder: Path) -> str:
    """The folder of private-pgm's sources, cloned where no checkout is named."""
    if named := os.environ.get("MEDSYNTH_PRIVATE_PGM"):
        return named
    place = folder / "private-pgm"
    if not place.exists():
        subprocess.run(["git", "clone", "--quiet", PRIVATE_PGM, place], check=True)
        subprocess.run(["git", "-C", place, "checkout", "--quiet", COMMIT], check=True)
    return str(place)


def child(words: list[str], place: Path, cap: float, more: dict[str, str]) -> str:
    """Run a fit; its state: done, failed, or time-out."""
    try:
        done = subprocess.run(words, capture_output=True, text=True, timeout=cap, check=False,
                              env=os.environ | SETTINGS | more)  # fmt: skip
    except subprocess.TimeoutExpired:
        return "time-out"
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        print(f"{words[3]}: {last[:300]}", file=sys.stderr)
        (place / "cost.json").write_text("{}")
        return "failed"
    return "done"


def peer(
    tool: str, train: pd.DataFrame, schema: Any, epsilon: float, given: Any, place: Path, seed: int, times: int = 1
) -> Any:
    """(state, drawn rows or None) of another tool: it gets the codes of the public grid, or of quantiles."""
    by = panel_bins.grids(schema, train if tool.endswith(QUANTILES) else None)
    tool = tool.removesuffix(QUANTILES)
    panel_bins.coded(train, by).to_csv(place / "codes.csv", index=False)
    (place / "sizes.json").write_text(json.dumps({name: grid.size for name, grid in by.items()}))
    script, folder = str(Path(__file__).with_name("panel_peer.py")), given.environments.absolute()
    words = [str(python_of(tool, folder)), script, str(place), tool, str(epsilon), str(DELTA), str(times)]
    more = {"MEDSYNTH_PRIVATE_PGM": checkout(folder)} if tool.startswith("pgm") else {}
    state = child(words, place, given.cap, more)
    if state != "done":
        return state, None
    drawn = panel_bins.decoded(pd.read_csv(place / "made.csv"), by, np.random.default_rng(seed))
    return state, typed(drawn, train)


def typed(drawn: pd.DataFrame, train: pd.DataFrame) -> pd.DataFrame:
    """Rows with the columns' types of the training rows."""
    return drawn[train.columns].astype({n: train[n].dtype for n in train if not drawn[n].isna().any()})


def ours(train: pd.DataFrame, schema: Any, epsilon: float, given: Any, place: Path, times: int) -> Any:
    """(state, drawn rows or None) of medsynth's default."""
    train.to_parquet(place / "train.parquet")
    (place / "schema.json").write_text(json.dumps(schema.to_dict()))
    script = str(Path(__file__).with_name("panel_fit.py"))
    words = [sys.executable, script, str(place), "medsynth", str(epsilon), str(DELTA), str(times)]
    state = child(words, place, given.cap, {})
    return state, typed(pd.read_parquet(place / "made.parquet"), train) if state == "done" else None


def fitted(
    method: str, train: pd.DataFrame, schema: Any, epsilon: float, given: Any, place: Path, seed: int, times: int = 1
) -> Any:
    """(state, drawn rows or None) of any of METHODS, `times` as many rows as there are to fit."""
    if method == "bootstrap":
        return "done", train.sample(frac=times, replace=True, random_state=seed).reset_index(drop=True)
    if method in ("medsynth", CUT_POINTS):
        known = panel_bins.with_cut_points(schema) if method == CUT_POINTS else schema
        return ours(train, known, epsilon, given, place, times)
    return peer(method, train, schema, epsilon, given, place, seed, times)


def one(table: str, method: str, epsilon: float, seed: int, given: Any) -> dict[str, Any]:
    """One fit and its figures; empty where it did not finish."""
    from panel_figures import figures

    loaded, _, factor = table.partition(TIMES)
    train, test, schema, target = panel_data.load(loaded, given.data)
    times = int(factor or 1)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        state, drawn = fitted(method, train, schema, epsilon, given, place, seed, times)
        cost = json.loads((place / "cost.json").read_text()) if (place / "cost.json").exists() else {}
    if drawn is None:
        return {"seconds": given.cap if state == "time-out" else None, "state": state}
    cost = {key: round(value, 2) for key, value in cost.items()}
    return {**figures(drawn, train, test, schema, target, times), **cost, "state": state}


def jobs(given: Any) -> list[resumable.Job]:
    """What is wanted, the first run of everything before the second of anything. A bootstrap has no epsilon."""
    runs = range(max(given.runs, given.own_runs))
    found = []
    for seed, table, epsilon, method in itertools.product(runs, given.tables, given.epsilons, given.methods):
        most = given.own_runs if method in ("medsynth", CUT_POINTS, "bootstrap") else given.runs
        job = (table, method, 0.0 if method == "bootstrap" else epsilon, seed)
        if seed < most and job not in found:
            found.append(job)
    return found


def main() -> None:
    """Run what is missing within the time given."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", metavar="TABLE[@ROWS]", help="all; without --data the simulated")
    parser.add_argument("--times", type=int, default=1, help="draw so many times as many rows as were fitted")
    parser.add_argument("--rows", nargs="+", type=int, help="cut the training rows of every table to so many")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=["medsynth", CUT_POINTS, "bootstrap", *TOOLS])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[0.5, 1.0, 3.7, 10.0])
    parser.add_argument("--runs", type=int, default=3, help="of other tools")
    parser.add_argument("--own-runs", type=int, default=5, help="of medsynth and the bootstrap")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--cap", type=float, default=900.0)
    parser.add_argument("--data", default=os.environ.get("MEDSYNTH_PANEL_DATA"))
    parser.add_argument("--output", type=Path, default=Path("results/panel.csv"))
    parser.add_argument("--environments", type=Path, default=Path("results/peers"))
    given = parser.parse_args()
    given.tables = given.tables or [t for t in panel_data.TABLES if given.data or t not in panel_data.FILES]
    if given.rows:
        given.tables = [f"{table}@{rows}" for table in given.tables for rows in given.rows]
    if given.times > 1:
        given.tables = [f"{table}{TIMES}{given.times}" for table in given.tables]
    _, left = resumable.run(jobs(given), lambda t, m, e, s: one(t, m, e, s, given), given.output, FIELDS, given.minutes)
    if left:
        print("Not run: " + left)


if __name__ == "__main__":
    main()
