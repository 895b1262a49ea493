"""Several tables under one claim: simulated OMOP tables, fitted, drawn and held against a second real sample.

    OMP_NUM_THREADS=1 python tests/benchmarks/several_tables.py --runs 5 --output results/several_tables.csv

Each run simulates five tables (`medsynth_sample_data.omop`), fits the bundled schemas at one epsilon for one patient in
all of them, and draws as many patients. Figures, beside those of a second simulated sample:

  broken           orphans, rows before what they belong to, rows beyond the most a patient may have
  rules            rules of the tables, across tables and rows, that any row breaks
  rows             largest difference of the mean number of rows a patient, of the four tables
  concepts         largest total variation of a table's concepts
  same day         error of the share of conditions on the day of the visit they belong to
  transitions      largest total variation of the next condition, or drug, given this one
  together         error of the correlation, over patients, of metformin with chronic kidney disease
  fit, draw        seconds

Runs are added to the output as they end. Figures are medians with their range.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import resumable
from medsynth_sample_data import omop

import medsynth
from medsynth.fitting.source import bundled
from medsynth.linked.integrity import linked_facts
from medsynth.linked.report import rows_beside_patients
from medsynth.report.sections.plausibility import plausibility
from medsynth.schema.linked import LinkedTables

CONCEPTS = {"visit_occurrence": "visit_concept_id", "condition_occurrence": "condition_concept_id",
            "drug_exposure": "drug_concept_id", "measurement": "measurement_concept_id"}  # fmt: skip
FIGURES = ["broken", "rules", "rows", "concepts", "same_day", "transitions", "together", "fit_s", "draw_s"]
FIELDS = ["table", "method", "epsilon", "seed", *FIGURES]
DELTA = 1e-5


def shares(values: pd.Series) -> pd.Series:
    """The share of each value."""
    return values.value_counts(normalize=True)


def apart(one: pd.Series, other: pd.Series) -> float:
    """Total variation of two laws."""
    return float(one.sub(other, fill_value=0).abs().sum() / 2)


def following(rows: pd.DataFrame, concept: str) -> dict[Any, pd.Series]:
    """The law of the next concept of a patient given this one, of those that 100 rows or more have."""
    last = rows.groupby("person_id")[concept].shift()
    return {level: shares(own) for level, own in rows[concept].groupby(last) if len(own) >= 100}


def figures(made: dict[str, pd.DataFrame], true: dict[str, pd.DataFrame], tables: LinkedTables) -> dict[str, float]:
    """The figures of some tables beside others."""
    texts = {name: frame.astype(str).replace({"NaT": "", "nan": "", "<NA>": ""}) for name, frame in made.items()}
    both = (made, true)
    found = {
        "broken": linked_facts(tables, texts, None, {}).broken,
        "rules": sum(
            plausibility(tables.view(name), None, rows_beside_patients(tables, name, texts, "synthetic").cells).broken
            for name in tables.others
        ),
        "rows": max(
            abs(len(made[name]) / len(made["person"]) - len(true[name]) / len(true["person"])) for name in CONCEPTS
        ),
        "concepts": max(apart(*(shares(side[name][column]) for side in both)) for name, column in CONCEPTS.items()),
    }
    same_day, together = [], []
    for side in both:
        rows = side["condition_occurrence"].dropna(subset=["visit_occurrence_id"])
        start = side["visit_occurrence"].set_index("visit_occurrence_id")["visit_start_date"].astype(str)
        at = start.loc[rows["visit_occurrence_id"].astype(int)].to_numpy()
        day = rows["condition_start_date"].astype(str).to_numpy() == at
        same_day.append(day.sum() / len(side["condition_occurrence"]))
        who = side["person"]["person_id"].astype(int)
        has = [
            who.isin(side[name].loc[side[name][column] == concept, "person_id"].astype(int))
            for name, column, concept in (
                ("condition_occurrence", "condition_concept_id", omop.KIDNEY_DISEASE),
                ("drug_exposure", "drug_concept_id", omop.METFORMIN),
            )
        ]
        together.append(float(np.corrcoef(has[0], has[1])[0, 1]))
    found |= {"same_day": abs(same_day[0] - same_day[1]), "together": abs(together[0] - together[1])}
    moves = []
    for name in ("condition_occurrence", "drug_exposure"):
        ours, theirs = (following(side[name], CONCEPTS[name]) for side in both)
        moves += [apart(ours[level], law) if level in ours else 1.0 for level, law in theirs.items()]
    return {**found, "transitions": max(moves)}


def one_run(patients: int, epsilon: float, run: int, method: str) -> dict[str, Any]:
    """The figures of one simulated hospital."""
    true, again = omop.simulate(patients, 100 + run), omop.simulate(patients, 1000 + run)
    tables = bundled("omop")
    if method == "real":
        return {**figures(again, true, tables), "fit_s": 0.0, "draw_s": 0.0}
    with tempfile.TemporaryDirectory() as folder:
        for name, frame in true.items():
            frame.to_csv(Path(folder) / f"{name}.csv", index=False)
        began = time.perf_counter()
        model = medsynth.fit(folder, epsilon=epsilon, delta=DELTA, rows=patients, notice=lambda text: None)
        fitted = time.perf_counter()
        drawn = medsynth.sample_tables(model, patients)
    return {**figures(drawn, true, tables), "fit_s": fitted - began, "draw_s": time.perf_counter() - fitted}


def main() -> None:
    """Run what is not on file, and print medians."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--patients", type=int, default=8000)
    parser.add_argument("--epsilon", type=float, default=3.7)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--output", type=Path, default=Path("results/several_tables.csv"))
    chosen = parser.parse_args()
    done = resumable.done(resumable.read(chosen.output, FIELDS))
    for run in range(chosen.runs):
        for method in ("medsynth", "real"):
            if (job := ("omop", method, chosen.epsilon, run)) not in done:
                found = one_run(chosen.patients, chosen.epsilon, run, method)
                line = dict(zip(["table", "method", "epsilon", "seed"], job, strict=True)) | found
                resumable.append(chosen.output, FIELDS, line)
    rows = resumable.read(chosen.output, FIELDS)
    for method in ("medsynth", "real"):
        own = [row for row in rows if row["method"] == method]
        print(f"{method}, {len(own)} runs")
        for figure in FIGURES:
            values = [float(row[figure]) for row in own]
            print(f"  {figure:<12} {statistics.median(values):.3f} ({min(values):.3f} to {max(values):.3f})")


if __name__ == "__main__":
    main()
