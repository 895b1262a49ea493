"""Other ways to estimates with intervals on the studies of interval_coverage.py: other tools' rows, and no rows at all.

    python tests/benchmarks/interval_peers.py --ways AIM MST binned --epsilon 3.7 1 --runs 5 --output peers.csv
    python tests/benchmarks/interval_peers.py --ways NAPSU-MQ NAPSU-bins --runs 3 --output napsu.csv
    python tests/benchmarks/interval_peers.py --ways regression --rows 4000 20000 --epsilon 3.7 1 --runs 100 \
        --output regressions.csv

Run r simulates the study of run r of interval_coverage.py; lines and the table printed are that file's. AIM and MST of
private-pgm get the schema's bounds as 20 even bins a number, as in panel.py, which says where checkout and environment
come from; of one table of as many rows, intervals are the naive ones. `AIM-declared`: AIM with the pairs of columns of
the declared regressions as its workload, in place of all pairs. `binned`: the real rows through these bins and
back, what bins alone do. `regression`: the whole budget for the declared regressions and for no rows, dp_regression.py.

NAPSU-MQ (twinify, napsu_fit.py) gets the columns of one declared regression alone, with the whole budget, and, at no
charge, the real rows' quantiles as NAPSU_BINS bins a number and their means as the bins' values; 20 tables, combined by
the rule `fully`. `NAPSU-bins`: the real rows through these bins.
"""

from __future__ import annotations

import argparse
import itertools
import json
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
import statsmodels.api as sm
import study_data
from environments import python_of
from interval_coverage import DELTA, Z, summary
from study_data import CENTRES, DECLARED, SCHEMA, coefficients, numbers, study, truth

from medsynth.combining import combine
from medsynth.methods.regressions import Regression

TOOLS = {"AIM": "pgm-aim", "AIM-declared": "pgm-aim", "MST": "pgm-mst"}
NAPSU, NAPSU_BINS, NAPSU_TABLES = "albumin ~ age + crp", 3, 20
NAIVE = (*TOOLS, "binned", "NAPSU-bins")
WAYS = {"regression": "DP regression", "NAPSU-MQ": "NAPSU-MQ", **{name: f"{name}, naive" for name in NAIVE}}
Estimates = pd.DataFrame  # of each term: estimate, low and high


def intervals(found: pd.DataFrame) -> Estimates:
    """Normal intervals of estimates and standard errors."""
    half = Z * found["std_error"]
    return pd.DataFrame(
        {"estimate": found["estimate"], "low": found["estimate"] - half, "high": found["estimate"] + half}
    )


def bounds() -> dp_regression.Bounds:
    """What the schema says of the columns as `numbers` has them: logarithms, less centres, and levels as 0 and 1."""
    found = {}
    for name, column in SCHEMA.columns.items():
        low, high = (float(str(end)) for end in column.bounds) if column.ordered else (0.0, 1.0)
        if column.scale == "log":
            low, high = math.log(low), math.log(high)
        found[name] = (low - CENTRES.get(name, 0.0), high - CENTRES.get(name, 0.0))
    return found


def declared_pairs() -> list[tuple[str, str]]:
    """Every two columns of one declared regression, once."""
    found = [sorted(Regression.parse(text).columns) for text in DECLARED]
    return sorted({pair for names in found for pair in itertools.combinations(names, 2)})


def of_rows(name: str, real: pd.DataFrame, epsilon: float, run: int, given: SimpleNamespace) -> Estimates:
    """What a program prints of rows as if they were real. Raises SystemExit where a tool fails."""
    if name == "binned":
        by = panel_bins.grids(SCHEMA)
        drawn = panel_bins.decoded(panel_bins.coded(real, by), by, np.random.default_rng(run))
    else:
        with tempfile.TemporaryDirectory() as place:
            if name == "AIM-declared":
                (Path(place) / "pairs.json").write_text(json.dumps(declared_pairs()))
            state, drawn = panel.peer(TOOLS[name], real, SCHEMA, epsilon, given, Path(place), run)
        if drawn is None:
            raise SystemExit(f"{name}: {state}")
    return intervals(coefficients(drawn))


def of_napsu(name: str, real: pd.DataFrame, epsilon: float, given: SimpleNamespace) -> Estimates:
    """NAPSU-MQ's combined estimates, or those of the real rows in its bins. Raises SystemExit where it fails."""
    outcome, terms = NAPSU.split(" ~ ")[0], NAPSU.split(" ~ ")[1].split(" + ")
    values = numbers(real)[[outcome, *terms]]
    codes = values.apply(lambda column: pd.qcut(column, NAPSU_BINS, labels=False))
    means = {column: values[column].groupby(codes[column]).mean() for column in values}
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        if name == "NAPSU-bins":
            made = codes.assign(replicate=0)
        else:
            codes.to_csv(place / "codes.csv", index=False)
            (place / "sizes.json").write_text(json.dumps({column: len(means[column]) for column in codes}))
            script = str(Path(__file__).with_name("napsu_fit.py"))
            words = [str(python_of("napsu", given.environments.absolute())), script, folder, f"{epsilon}", f"{DELTA}"]
            if (state := panel.child([*words, f"{NAPSU_TABLES}"], place, given.cap, {})) != "done":
                raise SystemExit(f"{name}: {state}")
            made = pd.read_csv(place / "made.csv")
    tables = [pd.DataFrame({c: own[c].map(means[c]) for c in values}) for _, own in made.groupby("replicate")]
    fits = [sm.OLS(table[outcome], sm.add_constant(table[terms])).fit() for table in tables]
    found = {}
    for term in terms:
        each, errors = np.array([(fit.params[term], fit.bse[term]) for fit in fits]).T
        if len(fits) == 1:
            found[f"{outcome} ~ {term}"] = (each[0], each[0] - Z * errors[0], each[0] + Z * errors[0])
        else:
            both = combine(each.tolist(), (errors**2).tolist(), rule="fully")
            found[f"{outcome} ~ {term}"] = (both.estimate, both.low, both.high)
    return pd.DataFrame.from_dict(found, orient="index", columns=["estimate", "low", "high"])


def one_run(name: str, rows: int, epsilon: float, run: int, given: SimpleNamespace) -> pd.DataFrame:
    """One line for each term and way, of a way and of the real rows beside it."""
    real = study(rows, 10_000 + run)
    began = time.perf_counter()
    if name == "regression":
        rng = np.random.default_rng()
        found = intervals(dp_regression.fit(numbers(real), DECLARED, bounds(), epsilon, DELTA, rng))
    elif name.startswith("NAPSU"):
        found = of_napsu(name, real, epsilon, given)
    else:
        found = of_rows(name, real, epsilon, run, given)
    common = {"rows": rows, "epsilon": epsilon, "run": run, "declared": name not in (*TOOLS, "binned"),
              "fit_s": time.perf_counter() - began}  # fmt: skip
    both = [found.assign(way=WAYS[name]), intervals(coefficients(real)).loc[found.index].assign(way="real")]
    lines = pd.concat(both).reset_index(names="term").assign(**common)
    return lines.assign(true=lines["term"].map(truth()))


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
    given = SimpleNamespace(environments=asked.environments, cap=asked.cap)
    found = pd.read_csv(asked.output, float_precision="round_trip") if asked.output.exists() else pd.DataFrame()
    known = set(found[["way", "rows", "epsilon", "run"]].itertuples(index=False, name=None)) if len(found) else set()
    for run, rows, epsilon, name in itertools.product(range(asked.runs), asked.rows, asked.epsilon, asked.ways):
        if (WAYS[name], rows, epsilon, run) not in known:
            found = pd.concat([found, one_run(name, rows, epsilon, run, given)])
            # Of each setting the real rows' lines stand once, whichever way came first.
            found = found.drop_duplicates(["rows", "epsilon", "run", "declared", "term", "way"])
            found.to_csv(asked.output, index=False)
    print(summary(study_data, found).round(3).to_string(index=False))


if __name__ == "__main__":
    main()
