"""Do intervals cover? Coverage, type I error, bias and width on simulated studies whose truth is known.

    python tests/benchmarks/interval_coverage.py --rows 4000 --epsilon 3.7 --runs 100 --output runs.csv
    python tests/benchmarks/interval_coverage.py --study clinic --rows 4000 --runs 20 --output clinic.csv
    python tests/benchmarks/interval_coverage.py --read runs.csv

Each run simulates a study of its own, fits it with its regressions declared, draws one table of as many rows and
several replicates, and estimates every coefficient in each. Runs are added to the output as they end, so that it can be
read, and a benchmark that was stopped goes on. Printed: for naive intervals of the one table, for each rule of
combining, and for the real rows, the share of 95 % intervals that cover the truth; of null relations the share that
does not cover it (type I error); bias relative to the truth; widths relative to those of the real rows.
"""

from __future__ import annotations

import argparse
import importlib
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import medsynth
from medsynth.combining import RULES, combine

STUDIES = {"study": "study_data", "clinic": "clinic_study"}
Z = 1.959964
DELTA = 1e-5


def one_run(
    study: Any, rows: int, epsilon: float, run: int, replicates: int, declare: bool, method: str | None = None
) -> pd.DataFrame:
    """The estimates of one table that the module `study` simulates: one line a term and way."""
    coefficients = study.coefficients
    real = study.study(rows, 10_000 + run)
    began = time.perf_counter()
    settings = {"inference": study.DECLARED} if declare else {}
    model = medsynth.fit(
        real, epsilon=epsilon, delta=DELTA, schema=study.SCHEMA, rows=rows, settings=settings, method=method
    )
    fitted = time.perf_counter() - began
    ways = {"real": coefficients(real), "naive": coefficients(medsynth.sample(model, rows))}
    began = time.perf_counter()
    drawn = medsynth.sample(model, rows, replicates=replicates)
    refitted = time.perf_counter() - began
    each = [coefficients(own) for _, own in drawn.groupby("replicate")]
    lines = []
    for term in ways["real"].index:
        common = {"rows": rows, "epsilon": epsilon, "run": run, "term": term, "declared": declare, "fit_s": fitted,
                  "replicates_s": refitted, "true": study.truth()[term]}  # fmt: skip
        for way, found in ways.items():
            value, error = found.loc[term]
            own = {"estimate": value, "low": value - Z * error, "high": value + Z * error}
            lines.append({**common, "way": way, **own})
        values, errors = np.array([one.loc[term].to_numpy() for one in each]).T
        for rule in RULES:
            both = combine(values, errors**2, rule=rule)
            lines.append({**common, "way": rule, "estimate": both.estimate, "low": both.low, "high": both.high})
    return pd.DataFrame(lines)


def summary(study: Any, runs: pd.DataFrame) -> pd.DataFrame:
    """One line for each setting, kind of relation and way."""
    declared = {f"{outcome} ~ {term}" for outcome, _, terms in (f.partition(" ~ ") for f in study.DECLARED)
                for term in terms.split(" + ")}  # fmt: skip
    runs = runs.assign(
        covered=(runs.low <= runs.true) & (runs.true <= runs.high),
        kind=np.where(runs.term.isin(declared), "declared", "undeclared"),
        null=runs.term.isin(study.NULL),
        width=runs.high - runs.low,
    )
    keys = ["rows", "epsilon", "declared", "run", "term"]
    real = runs[runs.way == "real"][[*keys, "width"]]
    runs = runs.merge(real, on=keys, suffixes=("", "_real"))
    runs["relative_width"] = runs.width / runs.width_real
    lines = []
    for (rows, epsilon, told, kind, way), group in runs.groupby(["rows", "epsilon", "declared", "kind", "way"]):
        related, none = group[~group.null], group[group.null]
        means = related.groupby("term")[["estimate", "true"]].mean()
        bias = (means.estimate / means.true - 1).abs()
        lines.append({
            "rows": rows, "epsilon": epsilon, "told": told, "relations": kind, "way": way, "runs": group.run.nunique(),
            "coverage": related.covered.mean(), "type I": 1 - none.covered.mean(), "median bias": bias.median(),
            "largest bias": bias.max(), "median width / real": group.relative_width.median(),
        })  # fmt: skip
    return pd.DataFrame(lines)


def main() -> None:
    """Run, or read runs, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--study", choices=STUDIES, default="study")
    parser.add_argument("--rows", type=int, nargs="+", default=[4000])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[3.7])
    parser.add_argument("--runs", type=int, default=10)
    parser.add_argument("--replicates", type=int, default=20)
    parser.add_argument("--undeclared", action="store_true", help="tell the fit of no regression")
    parser.add_argument("--method")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--read", type=Path, nargs="+")
    asked = parser.parse_args()
    study = importlib.import_module(STUDIES[asked.study])
    if asked.read:
        found = [pd.read_csv(path) for path in asked.read]
    else:
        known = pd.read_csv(asked.output) if asked.output and asked.output.exists() else pd.DataFrame()
        found = [known]
        for run in range(asked.runs):
            for rows in asked.rows:
                for epsilon in asked.epsilon:
                    if len(known) and ((known.rows == rows) & (known.epsilon == epsilon) & (known.run == run)).any():
                        continue
                    found.append(
                        one_run(study, rows, epsilon, run, asked.replicates, not asked.undeclared, asked.method)
                    )
                    if asked.output:
                        pd.concat(found).to_csv(asked.output, index=False)
    print(summary(study, pd.concat(found, ignore_index=True)).round(3).to_string(index=False))


if __name__ == "__main__":
    main()
