"""Other ways to estimates with intervals on the studies of interval_coverage.py: other tools' rows, and no rows at all.

    python tests/benchmarks/interval_peers.py --ways AIM MST binned --epsilon 3.7 1 --runs 5 --output peers.csv
    python tests/benchmarks/interval_peers.py --ways regression --rows 4000 20000 --epsilon 3.7 1 --runs 100 \
        --output regressions.csv

Run r simulates the study of run r of interval_coverage.py; lines and the table printed are that file's. AIM and MST of
private-pgm get the schema's bounds as 20 even bins a number, as in panel.py, which says where checkout and environment
come from; of one table of as many rows, intervals are the naive ones. `binned`: the real rows through these bins and
back, what bins alone do. `-quantiles`: bins are the real rows' quantiles, at no charge. `regression`: the whole budget
for the declared regressions and for no rows, dp_regression.py.
"""

from __future__ import annotations

import argparse
import itertools
import math
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import dp_regression
import numpy as np
import pandas as pd
import panel
import panel_bins
from interval_coverage import DELTA, Z, summary
from study_data import CENTRES, DECLARED, SCHEMA, coefficients, numbers, study, truth

TOOLS = {
    "AIM": "pgm-aim", "MST": "pgm-mst", "AIM-quantiles": "pgm-aim-quantiles", "MST-quantiles": "pgm-mst-quantiles",
}  # fmt: skip
WAYS = {"regression": "DP regression", **{name: f"{name}, naive" for name in (*TOOLS, "binned")}}
Estimates = pd.DataFrame  # of each term: estimate and std_error


def of_rows(name: str, real: pd.DataFrame, epsilon: float, run: int, environments: Path, cap: float) -> Estimates:
    """What a program prints of rows as if they were real. Raises SystemExit where a tool fails."""
    if name == "binned":
        by = panel_bins.grids(SCHEMA)
        return coefficients(panel_bins.decoded(panel_bins.coded(real, by), by, np.random.default_rng(run)))
    given = SimpleNamespace(environments=environments, cap=cap)
    with tempfile.TemporaryDirectory() as place:
        state, drawn = panel.peer(TOOLS[name], real, SCHEMA, epsilon, given, Path(place), run)
    if drawn is None:
        raise SystemExit(f"{name}: {state}")
    return coefficients(drawn)


def bounds() -> dp_regression.Bounds:
    """What the schema says of the columns as `numbers` has them: logarithms, less centres, and levels as 0 and 1."""
    found = {}
    for name, column in SCHEMA.columns.items():
        ends = tuple(map(float, column.bounds)) if column.ordered else (0.0, 1.0)
        if column.scale == "log":
            ends = (math.log(ends[0]), math.log(ends[1]))
        found[name] = (ends[0] - CENTRES.get(name, 0.0), ends[1] - CENTRES.get(name, 0.0))
    return found


def one_run(name: str, rows: int, epsilon: float, run: int, environments: Path, cap: float) -> pd.DataFrame:
    """One line for each term and way, of a way and of the real rows beside it."""
    real = study(rows, 10_000 + run)
    began = time.perf_counter()
    if name == "regression":
        found = dp_regression.fit(numbers(real), DECLARED, bounds(), epsilon, DELTA, np.random.default_rng())
    else:
        found = of_rows(name, real, epsilon, run, environments, cap)
    common = {"rows": rows, "epsilon": epsilon, "run": run, "declared": name == "regression",
              "fit_s": time.perf_counter() - began}  # fmt: skip
    both = [found.assign(way=WAYS[name]), coefficients(real).loc[found.index].assign(way="real")]
    lines = pd.concat(both).reset_index(names="term").assign(**common)
    lines["true"] = lines.term.map(truth())
    lines["low"], lines["high"] = lines.estimate - Z * lines.std_error, lines.estimate + Z * lines.std_error
    return lines


def main() -> None:
    """Run what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=["regression"])
    parser.add_argument("--rows", type=int, nargs="+", default=[4000])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[3.7])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--cap", type=float, default=900.0, help="seconds of one fit")
    parser.add_argument("--environments", type=Path, default=Path("results/peers"))
    parser.add_argument("--output", type=Path, required=True)
    asked = parser.parse_args()
    found = pd.read_csv(asked.output, float_precision="round_trip") if asked.output.exists() else pd.DataFrame()
    known = set(found[["way", "rows", "epsilon", "run"]].itertuples(index=False, name=None)) if len(found) else set()
    for run, rows, epsilon, name in itertools.product(range(asked.runs), asked.rows, asked.epsilon, asked.ways):
        if (WAYS[name], rows, epsilon, run) not in known:
            found = pd.concat([found, one_run(name, rows, epsilon, run, asked.environments, asked.cap)])
            # Of each setting the real rows' lines stand once, whichever way came first.
            found = found.drop_duplicates(["rows", "epsilon", "run", "declared", "term", "way"])
            found.to_csv(asked.output, index=False)
    print(summary(found).round(3).to_string(index=False))


if __name__ == "__main__":
    main()
