"""The simulated hospital extract, fitted with its declared schema for a patient: what a hospital would look at first.

    OMP_NUM_THREADS=1 python tests/benchmarks/hospital_extract.py --runs 3 --output results/hospital_extract.csv

20,000 visits of 8,000 patients (sample_data/hospital.py); a quarter of the patients is held out, the same ones in every
run; fitted at epsilon 3.7, delta 1e-6 for a patient with at most 3 rows; 20,000 rows are sampled. Figures, in per cent
but for the propensity AuROC, of real rows beside the bars and each run:

  paediatric adults    rows of the paediatric ward whose age is 18 years or more
  one missing alone    rows in which just one of two columns is missing, of pairs that are missing together in nearly
                       all real rows: the largest difference to the real share, and the pair
  both missing         of the same pairs: the largest difference between the shares of rows that lack both
  rules broken         rules of the schema that some row breaks
  propensity           AuROC of the report's classifier, held-out rows against synthetic ones, and the columns it uses

A run that is on file is not made again. With --model rows of a model file are measured, and nothing is fitted.
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import resumable

EPSILON, DELTA, ROWS = 3.7, 1e-6, 20_000
ADULT, TOGETHER = 18.0, 0.02  # years; share of rows that may lack just one of two columns missing together
BARS = {"paediatric_adults": 1.0, "one_alone": 3.0, "both": 3.0, "rules_broken": 0, "propensity": 0.9}
FIELDS = ["table", "method", "epsilon", "seed", *BARS, "one_alone_pair", "both_pair", "adults_real", "paediatric_rows",
          "columns", "cpu_seconds"]  # fmt: skip


def parts() -> tuple[pd.DataFrame, pd.DataFrame]:
    """Training and held-out rows, divided by patient."""
    from medsynth_sample_data import hospital

    frame: pd.DataFrame = hospital.extract()
    patients = frame["patient_id"].unique()
    held = np.random.default_rng(0).choice(patients, len(patients) // 4, replace=False)
    out = frame["patient_id"].isin(held)
    return frame[~out].reset_index(drop=True), frame[out].reset_index(drop=True)


def adults(frame: pd.DataFrame) -> tuple[float, int]:
    """Per cent of the paediatric ward's rows that are of adults, and how many rows it has."""
    ward = frame[frame["ward"] == "paediatrics"]
    return 100 * float((ward["age_years"].astype(float) >= ADULT).mean()), len(ward)


def missing(frame: pd.DataFrame, schema: Any) -> pd.DataFrame:
    """Which cells of text are missing, codes of missing values included; columns that may be missing alone."""
    names = [name for name, column in schema.columns.items() if column.gaps and column.modelled]
    return pd.DataFrame({
        name: frame[name].isin(["", *schema.columns[name].gap_words]) for name in names
    })  # fmt: skip


def together(real: pd.DataFrame, drawn: pd.DataFrame) -> dict[str, tuple[float, str]]:
    """The largest differences of shares, in points, over pairs missing together: of one alone and of both."""
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


def figures(drawn: pd.DataFrame, train: pd.DataFrame, held: pd.DataFrame, schema: Any) -> dict[str, Any]:
    """All figures of the sampled rows."""
    from threadpoolctl import threadpool_limits

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


def one(table: str, method: str, epsilon: float, seed: int) -> dict[str, Any]:
    """A fit, a sample, its figures."""
    from medsynth_sample_data import hospital

    import medsynth

    train, held = parts()
    started = time.process_time()
    model = medsynth.fit(train, epsilon=epsilon, delta=DELTA, schema=hospital.SCHEMA, method=method, rows=len(train))
    drawn = medsynth.sample(model, ROWS)
    used = time.process_time() - started
    return {**figures(drawn, train, held, model.schema), "cpu_seconds": round(used, 1)}


def summary(runs: list[dict[str, Any]]) -> str:
    """A markdown table: the bars, then a line a run."""
    lines = ["| run | " + " | ".join(BARS) + " | pair, one alone | propensity relies on | CPU s |", "|---" * 9 + "|"]
    lines.append("| at most | " + " | ".join(f"{bar:g}" for bar in BARS.values()) + " | | | |")
    for run in runs:
        found = " | ".join(str(run[name]) for name in BARS)
        more = " | ".join(str(run[name]) for name in ("one_alone_pair", "columns", "cpu_seconds"))
        lines.append(f"| {run['method']}, epsilon {float(run['epsilon']):g}, {run['seed']} | {found} | {more} |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, and print all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--epsilon", type=float, default=EPSILON)
    parser.add_argument("--method", default="mixture")
    parser.add_argument("--minutes", type=float, default=60.0, help="no run begins later")
    parser.add_argument("--model", type=Path, help="a model file of the extract whose rows to measure")
    parser.add_argument("--output", type=Path, default=Path("results/hospital_extract.csv"))
    given = parser.parse_args()
    if given.model:
        import medsynth

        model = medsynth.load(given.model)
        print(json.dumps(figures(medsynth.sample(model, ROWS), *parts(), model.schema), indent=1))
        return
    wanted = [("hospital", given.method, given.epsilon, seed) for seed in range(given.runs)]
    runs, left = resumable.run(wanted, one, given.output, FIELDS, given.minutes)
    print(summary(runs))
    if left:
        print(f"\nNot run: {left}.")


if __name__ == "__main__":
    main()
