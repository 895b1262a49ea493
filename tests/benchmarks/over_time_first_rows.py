"""Are first visits as good as without an order? A model of patients over time beside one of their first visits alone.

    export OMP_NUM_THREADS=1
    python tests/benchmarks/over_time_first_rows.py --tables visits extract --methods ordered before alone --runs 5

`visits` are simulated patients over time, `extract` is the simulated hospital's extract, its visits in order of
admission; a quarter of the patients is held out, the same ones in every run. `ordered` fits all visits of the others,
in order, and keeps the first of each synthetic patient; `before` does the same by the schema without an order, as a
fit of several rows a patient was before there was one; `alone` fits first visits, one row a patient, by the same
schema without patients; `real` are the first visits that were fitted. All at the same epsilon for one patient. Printed
are medians over the runs with their range: AuROC (the mean of four classifiers, trained on as many synthetic first
visits as patients were fitted, tried on real held-out ones), and the report's similarities of one column and of two.

A run that is on file is not made again.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pandas as pd
import resumable
from over_time_data import parted
from patients_over_time import spread
from utility import figures

from medsynth.schema import Schema

DELTA, PATIENTS = 1e-6, 8_000
TARGETS = {"visits": "kidney_disease", "extract": "readmitted"}  # at first visits nothing says who has a flare
METHODS = ("ordered", "before", "alone", "real")
SHOWN = ("mean", "best", "one_way", "two_way")
FIELDS = ["table", "method", "epsilon", "seed", *SHOWN]


def load(table: str) -> tuple[pd.DataFrame, Schema]:
    """All visits, and their schema with an order."""
    from medsynth_sample_data import hospital, visits

    if table == "visits":
        return visits.simulate(PATIENTS, 1000), Schema.load(visits.SCHEMA)
    schema = Schema.load(hospital.SCHEMA)
    return hospital.extract(PATIENTS), Schema.from_dict({**schema.to_dict(), "order": "admitted"})


def first_visits(frame: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """The first row of each patient."""
    assert schema.unit is not None and schema.order is not None
    return frame.sort_values([schema.unit, schema.order], kind="stable").drop_duplicates(schema.unit)


def of_first_visits(schema: Schema) -> Schema:
    """The schema of tables with one row a patient."""
    return without(schema, "order", "unit", "max_rows", "constant")


def without(schema: Schema, *keys: str) -> Schema:
    """The schema without some of its keys, the order among them, and so without rules across rows."""
    content = {name: value for name, value in schema.to_dict().items() if name not in keys}
    return Schema.from_dict({**content, "rules": [rule.text for rule in schema.parsed_rules if not rule.across]})


def one(table: str, method: str, epsilon: float, run: int) -> dict[str, Any]:
    """A fit and its figures."""
    import medsynth

    frame, schema = load(table)
    assert schema.unit is not None
    train, held = parted(frame, schema.unit, 0.25, 0)
    firsts, test = (first_visits(rows, schema).reset_index(drop=True) for rows in (train, held))
    if method in ("ordered", "before"):
        known = schema if method == "ordered" else without(schema, "order")
        model = medsynth.fit(train, epsilon=epsilon, delta=DELTA, schema=known, rows=len(train))
        drawn = first_visits(medsynth.sample(model, len(train) + 500, seed=run), schema).head(len(firsts))
    elif method == "real":
        drawn = firsts
    else:
        model = medsynth.fit(firsts, epsilon=epsilon, delta=DELTA, schema=of_first_visits(schema), rows=len(firsts))
        drawn = medsynth.sample(model, len(firsts), seed=run)
    names = [name for name, column in schema.columns.items() if column.modelled]
    target = TARGETS[table]
    made, fitted, real = (side[names].reset_index(drop=True) for side in (drawn, firsts, test))
    found = figures(made, fitted, real, of_first_visits(schema).model_copy(update={"target": target}), target)
    return {name: found[name] for name in SHOWN}


def summary(runs: list[dict[str, Any]]) -> str:
    """A Markdown table."""
    lines = ["| table | method | epsilon | runs | " + " | ".join(SHOWN) + " |", "|" + " --- |" * (4 + len(SHOWN))]
    for table, method, epsilon in sorted({(run["table"], run["method"], float(run["epsilon"])) for run in runs}):
        some = [run for run in runs if (run["table"], run["method"], float(run["epsilon"])) == (table, method, epsilon)]
        cells = [spread([str(run[name]) for run in some]) for name in SHOWN]
        lines.append(f"| {table} | {method} | {epsilon:g} | {len(some)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Run what is missing, and print all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=sorted(TARGETS), default=["visits"])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=["ordered", "alone"])
    parser.add_argument("--epsilon", type=float, default=3.7)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=60.0, help="no run begins later")
    parser.add_argument("--output", type=Path, default=Path("results/over_time_first_rows.csv"))
    given = parser.parse_args()
    jobs = [(t, m, given.epsilon, run) for run in range(given.runs) for t in given.tables for m in given.methods]
    runs, left = resumable.run(jobs, one, given.output, FIELDS, given.minutes)
    print(summary(runs))
    if left:
        print(f"\nNot run: {left}.")


if __name__ == "__main__":
    main()
