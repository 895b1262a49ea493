"""Patients over time: does the next visit follow from this one? Synthetic patients beside the truth and other methods.

    OMP_NUM_THREADS=1 python tests/benchmarks/patients_over_time.py --tables visits --methods medsynth independent real
    python tests/benchmarks/patients_over_time.py --tables diabetes130 pbc --data FOLDER --epsilons 3.7 10

Methods: `medsynth` fits the declared schema; `independent` the same schema without its order; `real` is a second sample
of real patients, what chance alone does; `pgm-mst` and `pgm-aim` are private-pgm's on patients as one wide row each
(over_time_flat.py; visits alone), in an environment of their own, at the same epsilon for one patient. Figures, smaller
is better where no other is said (over_time_figures.py):

  autocorrelation   largest error of a number's correlation in successive visits
  transitions       largest total variation, of a column of levels, of the next level given this one
  rows, gaps        total variation of visits a patient, and of days between visits
  same, across      similarity (1 is best) of this visit's value with the last visit's, of one column and of two
  score             error of the correlation of a score with the last visit's haemoglobin, on which it depends
  copied            error of the share of weights copied from the last visit
  after death       share of visits before which the patient died
  AuROC             of readmission from this stay and the last, on held-out patients, trained on real and on synthetic
  persistence       share of stays with the diagnosis group of the stay before
  slopes            of log bilirubin and albumin on years, mixed effects: right sign, and overlapping intervals

Figures of a table are medians over the runs with their range. A run that is on file is not made again.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import over_time_data
import pandas as pd
import panel
import resumable
from environments import python_of
from over_time_figures import FIGURES, GAP_EDGES
from over_time_flat import Flattened

METHODS = ("medsynth", "independent", "real", "pgm-mst", "pgm-aim")
DELTA = 1e-5
SHOWN = {
    "visits": {"autocorrelation": "autocorrelation", "transitions": "transitions", "rows": "rows", "gaps": "gaps",
               "same_column": "same", "across_columns": "across", "last_haemoglobin": "score", "copied": "copied",
               "rows_after_death": "after death", "chronic_undone": "chronic undone"},
    "diabetes130": {"auroc_real": "AuROC, real", "auroc_synthetic": "AuROC, synthetic",
                    "persistence_real": "persistence, real", "persistence": "persistence, synthetic",
                    "rows": "rows", "transitions": "transitions", "same_column": "same", "across_columns": "across"},
    "pbc": {"serBilir_real": "bilirubin, real", "serBilir_synthetic": "bilirubin", "serBilir_sign": "right sign",
            "serBilir_overlaps": "overlap", "albumin_real": "albumin, real", "albumin_synthetic": "albumin",
            "albumin_sign": "right sign", "albumin_overlaps": "overlap", "autocorrelation": "autocorrelation",
            "rows": "rows"},
}  # fmt: skip
EXTRA = ["autocorrelation", "mean_transitions", "seconds", "cpu_seconds", "state"]
FIELDS = [
    "table",
    "method",
    "epsilon",
    "seed",
    *dict.fromkeys([*(f for shown in SHOWN.values() for f in shown), *EXTRA]),
]


def drawn(table: str, method: str, train: pd.DataFrame, schema: Any, epsilon: float, run: int, given: Any) -> Any:
    """The rows that a method draws, as many as it was given, or None where it failed; and how that went."""
    if method == "real" and table == "visits":
        return over_time_data.load(table, None, 500_000 + run)[0], "done"
    if method.startswith("pgm"):
        return flattened(method, train, schema, epsilon, run, given)
    import medsynth

    own = over_time_data.without_order(schema) if method == "independent" else schema
    model = medsynth.fit(train, epsilon=epsilon, delta=DELTA, schema=own, rows=len(train))
    return medsynth.sample(model, len(train), seed=run), "done"


def flattened(tool: str, train: pd.DataFrame, schema: Any, epsilon: float, run: int, given: Any) -> Any:
    """The rows of a tool that was fitted to one wide row a patient, and how that went."""
    flat = Flattened(schema, GAP_EDGES)
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        codes, sizes = flat.wide(train)
        codes.to_csv(place / "codes.csv", index=False)
        (place / "sizes.json").write_text(json.dumps(sizes))
        script, folder = str(Path(__file__).with_name("panel_peer.py")), given.environments.absolute()
        words = [str(python_of(tool, folder)), script, str(place), tool, str(epsilon), str(DELTA)]
        state = panel.child(words, place, given.cap, {"MEDSYNTH_PRIVATE_PGM": panel.checkout(folder)})
        if state != "done":
            return None, state
        made = pd.read_csv(place / "made.csv").astype(np.int64)
    start = np.arange("2012-01-01", "2016-01-01", dtype="datetime64[D]").astype(np.int64)
    return flat.visits(made, np.random.default_rng(run), start), state


def one(table: str, method: str, epsilon: float, run: int, given: Any) -> dict[str, Any]:
    """A fit and its figures."""
    train, held, schema = over_time_data.load(table, given.data, run)
    if method == "real" and table != "visits":  # one half of the real patients stands for synthetic ones
        train, made = over_time_data.parted(train, schema.unit or "", 0.5, run)
        state, started, used = "done", time.perf_counter(), time.process_time()
    else:
        started, used = time.perf_counter(), time.process_time()
        made, state = drawn(table, method, train, schema, epsilon, run, given)
    cost = {"seconds": round(time.perf_counter() - started, 1), "cpu_seconds": round(time.process_time() - used, 1)}
    if made is None:
        return {**cost, "state": state}
    found = FIGURES[table](made, train, held, schema)
    figures = {name: round(v, 5) if isinstance(v, float) else v for name, v in found.items() if name in FIELDS}
    return {**figures, **cost, "state": state}


def spread(values: list[str]) -> str:
    """Median and range; of yes and no, how often yes."""
    if not values:
        return "-"
    if set(values) <= {"True", "False"}:
        return f"{values.count('True')} of {len(values)}"
    numbers = [float(value) for value in values]
    middle = f"{statistics.median(numbers):.3f}"
    return middle if len(numbers) == 1 else f"{middle} ({min(numbers):.3f} to {max(numbers):.3f})"


def summary(runs: list[dict[str, Any]]) -> str:
    """A Markdown table for each table of patients."""
    text = []
    for table in (name for name in SHOWN if any(run["table"] == name for run in runs)):
        shown = [*SHOWN[table].items(), ("seconds", "seconds")]
        lines = [f"### {table}", "", "| method | epsilon | runs | " + " | ".join(words for _, words in shown) + " |"]
        lines.append("|" + " --- |" * (len(shown) + 3))
        mine = [run for run in runs if run["table"] == table]
        for epsilon, method in sorted({(float(run["epsilon"]), run["method"]) for run in mine}):
            some = [run for run in mine if (float(run["epsilon"]), run["method"]) == (epsilon, method)]
            cells = [spread([str(run[name]) for run in some if run.get(name) not in (None, "")]) for name, _ in shown]
            lines.append(f"| {method} | {f'{epsilon:g}' if epsilon else 'none'} | {len(some)} | {' | '.join(cells)} |")
        text.append("\n".join(lines))
    return "\n\n".join(text)


def jobs(given: Any) -> list[resumable.Job]:
    """The first run of everything before the second of anything. Real patients have no epsilon."""
    found: list[resumable.Job] = []
    for run in range(given.runs):
        for table in given.tables:
            for method in given.methods:
                for epsilon in [0.0] if method == "real" else given.epsilons:
                    if table == "visits" or not method.startswith("pgm"):
                        found.append((table, method, epsilon, run))
    return found


def main() -> None:
    """Run what is missing, and print all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=over_time_data.TABLES, default=["visits"])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS[:3]))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[3.7])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=60.0, help="no run begins later")
    parser.add_argument("--cap", type=float, default=1800.0, help="seconds that another tool's fit may take")
    parser.add_argument("--data", type=Path, default=os.environ.get("MEDSYNTH_DATA"), help="folder of the public files")
    parser.add_argument("--output", type=Path, default=Path("results/patients_over_time.csv"))
    parser.add_argument("--environments", type=Path, default=Path("results/peers"))
    given = parser.parse_args()
    given.data = Path(given.data) if given.data else None
    runs, left = resumable.run(
        jobs(given), lambda t, m, e, s: one(t, m, e, s, given), given.output, FIELDS, given.minutes
    )
    print(summary(runs))
    if left:
        print(f"\nNot run: {left}.")


if __name__ == "__main__":
    main()
