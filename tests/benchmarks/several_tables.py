"""Several tables under one claim: simulated OMOP tables, fitted, drawn and compared with the simulated patients.

Each run simulates five tables (`medsynth_sample_data.omop`), fits the bundled schemas at one epsilon for one patient in
all of them, and draws as many patients. `real` is a second simulated sample. Figures:

  broken           orphans, rows before what they belong to, rows beyond the most that a patient may have
  rules            rules of the tables, across tables and rows, that any row breaks
  rows             largest difference of the mean number of rows per patient, of the four tables
  concepts         largest total variation of a table's concepts
  same day         error of the share of conditions on the day of the visit they belong to
  transitions      largest total variation of the next condition, or drug, given this one
  together         error of the correlation, over patients, of metformin with chronic kidney disease
  fit, draw        seconds

Runs join --output as they end. Prints medians with their range.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from medsynth_sample_data import omop

import medsynth
from medsynth.fitting.source import bundled
from medsynth.report.sections.plausibility import plausibility
from medsynth.report.several_tables import linked_facts, rows_beside_patients
from medsynth.schema.linked import LinkedTables
from tests.benchmarks.common import DELTA, KEYS, Run, markdown, options, report, spread, values

CONCEPTS = {"visit_occurrence": "visit_concept_id", "condition_occurrence": "condition_concept_id",
            "drug_exposure": "drug_concept_id", "measurement": "measurement_concept_id"}  # fmt: skip
FIGURES = ["broken", "rules", "rows", "concepts", "same_day", "transitions", "together", "fit_s", "draw_s"]
FIELDS = [*KEYS, *FIGURES]


def shares(values: pd.Series) -> pd.Series:
    """Return the share of each value."""
    return values.value_counts(normalize=True)


def apart(one: pd.Series, other: pd.Series) -> float:
    """Return the total variation of two laws."""
    return float(one.sub(other, fill_value=0).abs().sum() / 2)


def following(rows: pd.DataFrame, concept: str) -> dict[Any, pd.Series]:
    """Return the law of a patient's next concept given this one, for concepts with 100 rows or more."""
    last = rows.groupby("person_id")[concept].shift()
    return {level: shares(own) for level, own in rows[concept].groupby(last) if len(own) >= 100}


def figures(made: dict[str, pd.DataFrame], true: dict[str, pd.DataFrame], tables: LinkedTables) -> dict[str, float]:
    """Return the figures of tables compared with other tables."""
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


def one(patients: int, epsilon: float, run: int, method: str) -> Run:
    """Return the figures of one simulated hospital."""
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


def summary(runs: list[Run]) -> str:
    """Return a Markdown table with a line per figure."""
    by = {method: [run for run in runs if run["method"] == method] for method in ("medsynth", "real")}
    heads = ["figure", *(f"{method}, {len(some)} runs" for method, some in by.items())]
    return markdown(heads, ([name, *(spread(values(some, name)) for some in by.values())] for name in FIGURES))


def main(words: list[str]) -> None:
    """Run what is not on file, and print medians."""
    parser = options("several-tables", __doc__, output="several_tables.csv", minutes=60)
    parser.add_argument("--patients", type=int, default=8000)
    parser.add_argument("--epsilon", type=float, default=3.7)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args(words)
    wanted = [("omop", method, given.epsilon, run) for run in range(given.runs) for method in ("medsynth", "real")]
    report(wanted, lambda t, m, e, s: one(given.patients, e, s, m), given, FIELDS, summary)
