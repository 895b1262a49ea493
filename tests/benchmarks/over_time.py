"""Patients over time: does the next visit follow from this one? Synthetic patients, the truth and other methods.

Methods: `medsynth` fits the declared schema; `independent` the same schema without its order; `real` is a second sample
of real patients, which shows what chance alone does; `pgm-mst` and `pgm-aim` fit patients as one wide row each
(visits only), in an environment of their own, at the same epsilon per patient. Smaller is better, except:

  autocorrelation   largest error of a number's correlation in successive visits
  transitions       largest total variation, of a column of levels, of the next level given this one
  rows, gaps        total variation of visits per patient, and of days between visits
  same, across      similarity (1 is best) of this visit's value with the last visit's, of one column and of two
  score             error of the correlation of a score with the last visit's haemoglobin, on which it depends
  copied            error of the share of weights copied from the last visit
  after death       share of visits after the patient died
  AuROC             of readmission from this stay and the last, on held-out patients, trained on real and on synthetic
  persistence       share of stays with the diagnosis group of the stay before
  slopes            of log bilirubin and albumin on years, mixed effects: right sign, and overlapping intervals

Prints medians over the runs with their range. A run that is on file is not made again.
"""

from __future__ import annotations

import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from medsynth_sample_data import visits
from threadpoolctl import threadpool_limits

from medsynth.arrays import Whole
from medsynth.report.data import over_time as successive
from medsynth.report.data.over_time import Sequences
from medsynth.report.data.tables import Cells
from medsynth.report.sections.over_time_models import compared_aurocs, examples, slope
from medsynth.schema import Schema
from tests.benchmarks import other_tools
from tests.benchmarks.common import DELTA, KEYS, Job, Run, markdown, options, report, spread
from tests.benchmarks.over_time_tables import NAMES, Flattened, load, parted, sequences_of, without_order

METHODS = ("medsynth", "independent", "real", "pgm-mst", "pgm-aim")
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
EXTRA = ["autocorrelation", "mean_transitions", "seconds", "cpu_seconds", "state"]
FIELDS = [*KEYS, *dict.fromkeys([*(f for shown in SHOWN.values() for f in shown), *EXTRA])]
TRUTH_PATIENTS, TRUTH_SEED = 100_000, 99
GAP_EDGES = [1.0, 8.0, 31.0, 91.0, 181.0, 366.0, 731.0]  # Days.
SLOPES = ("serBilir", "albumin")  # Of pbc, per year; bilirubin as a logarithm.
Figures = dict[str, Any]


def codes(one: Sequences, other: Sequences) -> tuple[tuple[Whole, Whole], list[int]]:
    """Return both tables as cells (rows, columns) by the first one's quantiles and levels; cells per column."""
    names = list(one.changing)
    rows = one.rows[names], other.rows[names]
    cells = Cells.of(rows[0], rows[1:], one.numbers)
    return (cells.table(rows[0]), cells.table(rows[1])), [cells.count(name) for name in names]


def split_rows(truth: Sequences, made: Sequences) -> Figures:
    """Return the largest errors of autocorrelations and transitions, and similarities of pairs of rows."""
    numbers = [name for name in truth.changing if name in truth.numbers]
    pairs = [(successive.autocorrelation(truth, n), successive.autocorrelation(made, n)) for n in numbers]
    coded, sizes = codes(truth, made)
    apart = []
    for k, name in enumerate(truth.changing):
        if name not in truth.numbers:
            tables = [successive.transitions(t, c[:, k], sizes[k]) for t, c in zip((truth, made), coded, strict=True)]
            apart.append(successive.transition_distance(*tables) or 0.0)
    own, across = successive.lagged(truth, made, coded, sizes)
    return {
        "autocorrelation": max(abs(a - (b or 0.0)) for a, b in pairs if a is not None),
        "transitions": max(apart), "mean_transitions": float(np.mean(apart)),
        "same_column": float(own.mean()), "across_columns": across,
    }  # fmt: skip


@cache
def truth_of_visits() -> Sequences:
    """Return the simulated truth: many patients."""
    return sequences_of(visits.simulate(TRUTH_PATIENTS, TRUTH_SEED), Schema.load(visits.SCHEMA))


def of_visits(drawn: pd.DataFrame, train: pd.DataFrame, held: pd.DataFrame | None, schema: Schema) -> Figures:
    """Compare with the simulator's truth; rows per patient and gaps with its exact laws."""
    truth, made, edges = truth_of_visits(), sequences_of(drawn, schema), np.array(GAP_EDGES)
    counts = successive.rows_counts(made, visits.MOST_VISITS)
    found = split_rows(truth, made)
    score = [_last_haemoglobin(each) for each in (truth, made)]
    dead, never = made.rows["died"].to_numpy() == "yes", made.rows["kidney_disease"].to_numpy()
    copied = [successive.unchanged(each, "weight_kg") or 0.0 for each in (truth, made)]
    return found | {
        "rows": successive.total_variation(visits.rows_law(), counts),
        "gaps": successive.total_variation(visits.gaps_law(GAP_EDGES), successive.gap_counts(made, edges)),
        "last_haemoglobin": abs(score[0] - score[1]), "copied": abs(copied[0] - copied[1]),
        "rows_after_death": float(dead[made.last].mean()),
        "chronic_undone": float(((never[made.last] == "yes") & (never[made.now] == "no")).mean()),
    }  # fmt: skip


def _last_haemoglobin(made: Sequences) -> float:
    """Return the correlation of a visit's fatigue score with the last visit's haemoglobin."""
    pair = np.stack(
        [made.rows["haemoglobin_g_l"].to_numpy()[made.last], made.rows["fatigue_score"].to_numpy()[made.now]]
    )
    return float(np.corrcoef(pair[:, np.isfinite(pair).all(0)])[0, 1])


def of_diabetes(drawn: pd.DataFrame, train: pd.DataFrame, held: pd.DataFrame | None, schema: Schema) -> Figures:
    """Compare readmission from this stay and the last, on held-out patients; and how often the diagnosis stays."""
    assert held is not None and schema.target is not None
    real, made, test = (sequences_of(frame, schema) for frame in (train, drawn, held))
    lines = [examples(each, schema.target, ahead=0) for each in (real, made, test)]
    rng = np.random.default_rng(0)
    some = [rows if len(rows) <= 25_000 else rows.sample(25_000, random_state=0) for rows, _ in lines[:2]]
    with threadpool_limits(1):
        areas = compared_aurocs(some[0], some[1], *lines[2], rng)
    kept = [successive.unchanged(each, "diagnosis") or 0.0 for each in (test, made)]
    counts = [successive.rows_counts(each, schema.max_rows or 1) for each in (test, made)]
    return split_rows(test, made) | {
        "auroc_real": areas["real"].value, "auroc_synthetic": areas["synthetic"].value,
        "persistence_real": kept[0], "persistence": kept[1], "rows": successive.total_variation(counts[0], counts[1]),
    }  # fmt: skip


def of_pbc(drawn: pd.DataFrame, train: pd.DataFrame, held: pd.DataFrame | None, schema: Schema) -> Figures:
    """Compare slopes on the years since enrolment: whether signs agree and intervals overlap."""
    real, made = (sequences_of(frame, schema) for frame in (train, drawn))
    found: Figures = {}
    for name in SLOPES:
        one, other = slope(real, name, 1.0), slope(made, name, 1.0)
        known = None not in (one.low, one.high, other.low, other.high)
        found |= {f"{name}_real": one.value, f"{name}_synthetic": other.value}
        found[f"{name}_sign"] = bool(known and (one.value or 0.0) * (other.value or 0.0) > 0)
        found[f"{name}_overlaps"] = bool(
            known and max(one.low or 0, other.low or 0) <= min(one.high or 0, other.high or 0)
        )
    counts = [successive.rows_counts(each, schema.max_rows or 1) for each in (real, made)]
    return split_rows(real, made) | found | {"rows": successive.total_variation(counts[0], counts[1])}


FIGURES = {"visits": of_visits, "diabetes130": of_diabetes, "pbc": of_pbc}


def drawn(table: str, method: str, train: pd.DataFrame, schema: Any, epsilon: float, run: int, given: Any) -> Any:
    """Return as many rows as a method got, or None if it failed; and the state of the fit."""
    if method == "real" and table == "visits":
        return load(table, None, 500_000 + run)[0], "done"
    if method.startswith("pgm"):
        return flattened(method, train, schema, epsilon, run, given)
    import medsynth

    own = without_order(schema) if method == "independent" else schema
    model = medsynth.fit(train, epsilon=epsilon, delta=DELTA, schema=own, rows=len(train))
    return medsynth.sample(model, len(train), seed=run), "done"


def flattened(tool: str, train: pd.DataFrame, schema: Any, epsilon: float, run: int, given: Any) -> Any:
    """Return the rows of a tool that was fitted to one wide row per patient, and the state of the fit."""
    flat = Flattened(schema, GAP_EDGES)
    codes, sizes = flat.wide(train)
    with tempfile.TemporaryDirectory() as place:
        state, made = other_tools.fitted(tool, Path(place), codes, sizes, epsilon, len(codes), given)
    if made is None:
        return None, state
    start = np.arange("2012-01-01", "2016-01-01", dtype="datetime64[D]").astype(np.int64)
    return flat.visits(made.astype(np.int64), np.random.default_rng(run), start), state


def one(table: str, method: str, epsilon: float, run: int, given: Any) -> Run:
    """Return the figures of one fit."""
    train, held, schema = load(table, given.data, run)
    started, used = time.perf_counter(), time.process_time()
    if method == "real" and table != "visits":  # One half of the real patients plays the synthetic ones.
        train, made = parted(train, schema.unit or "", 0.5, run)
        state = "done"
    else:
        made, state = drawn(table, method, train, schema, epsilon, run, given)
    cost = {"seconds": round(time.perf_counter() - started, 1), "cpu_seconds": round(time.process_time() - used, 1)}
    if made is None:
        return {**cost, "state": state}
    found = FIGURES[table](made, train, held, schema)
    figures = {name: round(v, 5) if isinstance(v, float) else v for name, v in found.items() if name in FIELDS}
    return {**figures, **cost, "state": state}


def middle(values: list[str]) -> str:
    """Return median and range; for yes and no, the number of yes."""
    if values and set(values) <= {"True", "False"}:
        return f"{values.count('True')} of {len(values)}"
    return spread([float(value) for value in values])


def summary(runs: list[Run]) -> str:
    """Return a Markdown table for each table of patients."""
    text = []
    for table in (name for name in SHOWN if any(run["table"] == name for run in runs)):
        shown, lines = [*SHOWN[table].items(), ("seconds", "seconds")], []
        mine = [run for run in runs if run["table"] == table]
        for epsilon, method in sorted({(float(run["epsilon"]), run["method"]) for run in mine}):
            some = [run for run in mine if (float(run["epsilon"]), run["method"]) == (epsilon, method)]
            cells = [middle([str(run[name]) for run in some if run.get(name) not in (None, "")]) for name, _ in shown]
            lines.append([method, f"{epsilon:g}" if epsilon else "none", len(some), *cells])
        heads = ["method", "epsilon", "runs", *(words for _, words in shown)]
        text.append(f"### {table}\n\n" + markdown(heads, lines))
    return "\n\n".join(text)


def jobs(given: Any) -> list[Job]:
    """Return the first run of everything before the second of anything. Real patients have no epsilon."""
    found: list[Job] = []
    for run in range(given.runs):
        for table in given.tables:
            for method in given.methods:
                for epsilon in [0.0] if method == "real" else given.epsilons:
                    if table == "visits" or not method.startswith("pgm"):
                        found.append((table, method, epsilon, run))
    return found


def main(words: list[str]) -> None:
    """Run what is missing, and print all."""
    parser = options("over-time", __doc__, data=True, output="patients_over_time.csv", minutes=60)
    parser.add_argument("--tables", nargs="+", choices=NAMES, default=["visits"])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS[:3]))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[3.7])
    parser.add_argument("--runs", type=int, default=5)
    other_tools.add_options(parser, 1800)
    given = parser.parse_args(words)
    report(jobs(given), lambda t, m, e, s: one(t, m, e, s, given), given, FIELDS, summary)
