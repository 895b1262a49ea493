"""The figures of patients_over_time.py: how far a table of patients lies from the truth, or from real patients."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pandas as pd
from over_time_data import sequences_of
from threadpoolctl import threadpool_limits

from medsynth.report.data import over_time as successive
from medsynth.report.data.over_time import Sequences
from medsynth.report.data.statistics import Whole
from medsynth.report.data.tables import Cells
from medsynth.report.sections.over_time_models import compared_aurocs, examples, slope
from medsynth.schema import Schema

TRUTH_PATIENTS, TRUTH_SEED = 100_000, 99
GAP_EDGES = [1.0, 8.0, 31.0, 91.0, 181.0, 366.0, 731.0]  # days
SLOPES = ("serBilir", "albumin")  # of pbc, a year; bilirubin as a logarithm
Figures = dict[str, Any]


def codes(one: Sequences, other: Sequences) -> tuple[tuple[Whole, Whole], list[int]]:
    """Both tables as cells, (rows, columns), by the first one's quantiles and levels; cells a column."""
    names = list(one.changing)
    rows = one.rows[names], other.rows[names]
    cells = Cells.of(rows[0], rows[1:], one.numbers)
    return (cells.table(rows[0]), cells.table(rows[1])), [cells.count(name) for name in names]


def successive_rows(truth: Sequences, made: Sequences) -> Figures:
    """Of all columns: the largest errors of autocorrelations and transitions, and similarities of pairs of rows."""
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
    """The simulated truth: many patients."""
    from medsynth_sample_data import visits

    return sequences_of(visits.simulate(TRUTH_PATIENTS, TRUTH_SEED), Schema.load(visits.SCHEMA))


def of_visits(drawn: pd.DataFrame, train: pd.DataFrame, held: pd.DataFrame | None, schema: Schema) -> Figures:
    """Against the simulator's truth; rows a patient and gaps against its exact laws."""
    from medsynth_sample_data import visits

    truth, made, edges = truth_of_visits(), sequences_of(drawn, schema), np.array(GAP_EDGES)
    counts = successive.rows_counts(made, visits.MOST_VISITS)
    found = successive_rows(truth, made)
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
    """Correlation of a visit's fatigue score with the last visit's haemoglobin."""
    pair = np.stack(
        [made.rows["haemoglobin_g_l"].to_numpy()[made.last], made.rows["fatigue_score"].to_numpy()[made.now]]
    )
    return float(np.corrcoef(pair[:, np.isfinite(pair).all(0)])[0, 1])


def of_diabetes(drawn: pd.DataFrame, train: pd.DataFrame, held: pd.DataFrame | None, schema: Schema) -> Figures:
    """Readmission from this stay and the last, on held-out patients; how often the diagnosis stays."""
    assert held is not None and schema.target is not None
    real, made, test = (sequences_of(frame, schema) for frame in (train, drawn, held))
    lines = [examples(each, schema.target, ahead=0) for each in (real, made, test)]
    rng = np.random.default_rng(0)
    some = [rows if len(rows) <= 25_000 else rows.sample(25_000, random_state=0) for rows, _ in lines[:2]]
    with threadpool_limits(1):
        areas = compared_aurocs(some[0], some[1], *lines[2], rng)
    kept = [successive.unchanged(each, "diagnosis") or 0.0 for each in (test, made)]
    counts = [successive.rows_counts(each, schema.max_rows or 1) for each in (test, made)]
    return successive_rows(test, made) | {
        "auroc_real": areas["real"].value, "auroc_synthetic": areas["synthetic"].value,
        "persistence_real": kept[0], "persistence": kept[1], "rows": successive.total_variation(counts[0], counts[1]),
    }  # fmt: skip


def of_pbc(drawn: pd.DataFrame, train: pd.DataFrame, held: pd.DataFrame | None, schema: Schema) -> Figures:
    """Slopes on the years since enrolment: whether signs agree and intervals overlap."""
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
    return successive_rows(real, made) | found | {"rows": successive.total_variation(counts[0], counts[1])}


FIGURES = {"visits": of_visits, "diabetes130": of_diabetes, "pbc": of_pbc}
