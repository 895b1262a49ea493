"""The simulated hospital extract, fitted with its declared schema per patient: what a hospital would check first.

20,000 visits of 8,000 patients (sample_data/hospital.py); a quarter of the patients is held out, the same ones in every
run. The fit has epsilon 3.7 and delta 1e-6 for a patient with at most 3 rows, and 20,000 rows are sampled. Figures are
percentages, except the propensity AuROC:

  paediatric adults    rows of the paediatric ward whose age is 18 years or more
  one missing alone    rows in which just one of two columns is missing, for pairs that nearly all real rows lack
                       together: the largest difference from the real share, and the pair
  both missing         for the same pairs: the largest difference between the shares of rows that lack both
  rules broken         rules of the schema that some row breaks
  propensity           AuROC of the report's classifier, held-out rows against synthetic rows, and the columns it uses

A run that is on file is not made again. With --model, rows of a model file are measured and nothing is fitted.
"""

from __future__ import annotations

import itertools
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from threadpoolctl import threadpool_limits

from tests.benchmarks.common import Run, markdown, options, report

EPSILON, DELTA, ROWS = 3.7, 1e-6, 20_000
ADULT, TOGETHER = 18.0, 0.02  # Years; share of rows that may lack just one of two columns.
BARS = {"paediatric_adults": 1.0, "one_alone": 3.0, "both": 3.0, "rules_broken": 0, "propensity": 0.9}
FIELDS = ["table", "method", "epsilon", "seed", *BARS, "one_alone_pair", "both_pair", "adults_real", "paediatric_rows",
          "columns", "cpu_seconds"]  # fmt: skip


def parts() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Return training and held-out rows, divided by patient."""
    from medsynth_sample_data import hospital

    frame: pd.DataFrame = hospital.extract()
    patients = frame["patient_id"].unique()
    held = np.random.default_rng(0).choice(patients, len(patients) // 4, replace=False)
    out = frame["patient_id"].isin(held)
    return frame[~out].reset_index(drop=True), frame[out].reset_index(drop=True)


def adults(frame: pd.DataFrame) -> tuple[float, int]:
    """Return the percentage of adults among the paediatric ward's rows, and the number of its rows."""
    ward = frame[frame["ward"] == "paediatrics"]
    return 100 * float((ward["age_years"].astype(float) >= ADULT).mean()), len(ward)


def missing(frame: pd.DataFrame, schema: Any) -> pd.DataFrame:
    """Return which cells of text are missing, of the columns that may be missing; codes of missing values count."""
    names = [name for name, column in schema.columns.items() if column.gaps and column.modelled]
    return pd.DataFrame({
        name: frame[name].isin(["", *schema.columns[name].gap_words]) for name in names
    })  # fmt: skip


def together(real: pd.DataFrame, drawn: pd.DataFrame) -> dict[str, tuple[float, str]]:
    """Return the largest differences of shares over pairs, in points: of one column missing alone, and of both."""
    found: dict[str, tuple[float, str]] = {"one_alone": (0.0, ""), "both": (0.0, "")}
    for one, two in itertools.combinations(real.columns, 2):
        both = (real[one] & real[two]).mean()
        if (real[one] ^ real[two]).mean() > TOGETHER or both < TOGETHER:
            continue
        gaps = {
            "one_alone": abs((drawn[one] ^ drawn[two]).mean() - (real[one] ^ real[two]).mean()),
            "both": abs((drawn[one] & drawn[two]).mean() - both),
        }
        for name, gap in gaps.items():
            found[name] = max(found[name], (round(100 * float(gap), 2), f"{one} {two}"))
    return found


def figures(drawn: pd.DataFrame, train: pd.DataFrame, held: pd.DataFrame, schema: Any) -> Run:
    """Return all figures of the sampled rows."""
    from medsynth.report.data import tables as inputs
    from medsynth.report.data.columns import cells_of
    from medsynth.report.sections.fidelity import propensity_auroc
    from medsynth.report.sections.plausibility import plausibility

    drawn, train, held = (cells_of(frame) for frame in (drawn, train, held))
    rng = np.random.default_rng(0)
    tables = inputs.gather(held, drawn, train, schema.target, schema, rng, disjoint=True)
    with threadpool_limits(1):
        sides = tables.patients_of(tables.real, "real"), tables.patients_of(tables.synthetic, "synthetic")
        told, columns = propensity_auroc(tables.real, tables.synthetic, tables, rng, sides)
    real = pd.concat([train, held], ignore_index=True)
    pairs = together(missing(real, schema), missing(drawn, schema))
    share, rows = adults(drawn)
    return {
        "paediatric_adults": round(share, 2), "adults_real": round(adults(real)[0], 2), "paediatric_rows": rows,
        **{name: gap for name, (gap, _) in pairs.items()},
        **{f"{name}_pair": pair for name, (_, pair) in pairs.items()},
        "rules_broken": plausibility(schema, None, drawn).broken, "propensity": round(float(told.value or 0.0), 3),
        "columns": " ".join(f"{name}:{lost}" for name, lost in columns[:5]),
    }  # fmt: skip


def one(table: str, method: str, epsilon: float, seed: int) -> Run:
    """Return the figures of one fit and one sample."""
    from medsynth_sample_data import hospital

    import medsynth

    train, held = parts()
    started = time.process_time()
    model = medsynth.fit(train, epsilon=epsilon, delta=DELTA, schema=hospital.SCHEMA, method=method, rows=len(train))
    drawn = medsynth.sample(model, ROWS)
    used = time.process_time() - started
    return {**figures(drawn, train, held, model.schema), "cpu_seconds": round(used, 1)}


def summary(runs: list[Run]) -> str:
    """Return a Markdown table: the bars, then a line per run."""
    lines = [["at most", *(f"{bar:g}" for bar in BARS.values()), "", "", ""]]
    for run in runs:
        more = [str(run[name]) for name in ("one_alone_pair", "columns", "cpu_seconds")]
        name = f"{run['method']}, epsilon {float(run['epsilon']):g}, {run['seed']}"
        lines.append([name, *(str(run[bar]) for bar in BARS), *more])
    return markdown(["run", *BARS, "pair, one alone", "propensity relies on", "CPU s"], lines)


def main(words: list[str]) -> None:
    """Run what is missing, and print all."""
    parser = options("hospital", __doc__, output="hospital_extract.csv", minutes=60)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--epsilon", type=float, default=EPSILON)
    parser.add_argument("--method", default="mixture")
    parser.add_argument("--model", type=Path, help="a model file of the extract whose rows are measured")
    given = parser.parse_args(words)
    if given.model:
        import medsynth

        model = medsynth.load(given.model)
        print(json.dumps(figures(medsynth.sample(model, ROWS), *parts(), model.schema), indent=1))
        return
    report([("hospital", given.method, given.epsilon, k) for k in range(given.runs)], one, given, FIELDS, summary)
