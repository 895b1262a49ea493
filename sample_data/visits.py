"""Simulate patients over time: SIMULATED data. No row describes a real person.

The processes are simple and their truth is known. Each patient has one to five visits, most often one. The constants
below, and the functions of them, define what a model of successive visits has to learn: transitions, autocorrelations,
and the distributions of visits per patient and of days between visits. The constants are plausible and fitted to no
data: the rows teach nothing medical.

    - birth_year, sex       the same at all visits of a patient
    - severity              three states; it decides when and whether a visit follows, and the risk of death
    - flare                 two states, a chain of its own; the target
    - kidney_disease        chronic: it never goes back
    - creatinine_umol_l     its logarithm is AR(1) around the patient's own mean, which kidney disease raises
    - haemoglobin_g_l       AR(1) around the patient's own mean; sometimes missing
    - weight_kg             copied from the last visit more often than measured
    - metformin             stopped at a visit with a high creatinine, and not started then
    - fatigue_score         follows the haemoglobin of the LAST visit, not of this one
    - died                  only at a patient's last visit

    python -m medsynth_sample_data.visits --output visits.csv
    python -m medsynth_sample_data.visits --patients 2000 --seed 7 --output small.csv

Either command writes the table, and its schema next to it.
"""

import argparse
import shutil
from collections.abc import Sequence
from datetime import date
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.random import PCG64, Generator
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Codes = NDArray[np.int64]
SCHEMA = Path(__file__).parent / "visits.schema.yaml"
FIRST_DAY, START_DAYS = date(2012, 1, 1), 4 * 365  # first visits are spread over these days

#: The most visits of a patient.
MOST_VISITS = 5
LEVELS = {
    "severity": ("mild", "moderate", "severe"),
    "flare": ("no", "yes"),
    "kidney_disease": ("no", "yes"),
    "metformin": ("no", "yes"),
    "died": ("no", "yes"),
}
#: Transition matrices, from the level at a visit (row) to that at the next one (column).
TRANSITIONS = {
    "severity": np.array([[0.80, 0.15, 0.05], [0.25, 0.55, 0.20], [0.05, 0.30, 0.65]]),
    "flare": np.array([[0.85, 0.15], [0.35, 0.65]]),
    "kidney_disease": np.array([[0.93, 0.07], [0.00, 1.00]]),
}
#: Shares of the levels at first visits; of severity, by whether a patient was born before OLD.
STARTS = {"flare": np.array([0.7, 0.3]), "kidney_disease": np.array([0.85, 0.15])}
SEVERITY_STARTS = np.array([[0.6, 0.3, 0.1], [0.35, 0.4, 0.25]])
BIRTH_YEARS, OLD = (1925, 1994), 1950
#: By severity: the chance to die at a visit; for the living, to come again; mean days until then.
DEATH, AGAIN, MEAN_GAP = np.array([0.005, 0.02, 0.08]), np.array([0.45, 0.60, 0.75]), np.array([150.0, 60.0, 20.0])
LONGEST_GAP = 730
#: Standard deviations between patients' own means and within a patient, and the autocorrelation within a patient.
HAEMOGLOBIN = {"between": 9.0, "within": 8.0, "autocorrelation": 0.5, "women": 126.0, "men": 142.0}
CREATININE = {"between": 0.15, "within": 0.20, "autocorrelation": 0.7, "mean": np.log(80.0), "kidney": np.log(1.9)}
HIGH_CREATININE = 150
METFORMIN = {"start": 0.45, "stays": 0.95, "begins": 0.20}
WEIGHT_COPIED = 0.6
MISSING = 0.08  # of haemoglobin
SCORE = {"base": 7.0, "slope": -0.2, "centre": 135.0, "spread": 1.0}
SHARE_WOMEN = 0.55


def rows_law() -> Floats:
    """Return the exact chances of 1, 2, ... visits per patient, (MOST_VISITS,)."""
    law, living = np.zeros(MOST_VISITS), _first_severity()
    for visit in range(MOST_VISITS):
        on = living * (1 - DEATH) * AGAIN * (visit < MOST_VISITS - 1)
        law[visit] = living.sum() - on.sum()
        living = on @ TRANSITIONS["severity"]
    return law


def gaps_law(edges: Sequence[float]) -> Floats:
    """Return exact chances that the days between two visits are in [edges[k], edges[k + 1]), (edges - 1,).

    Days are 1 + floor(x), at most LONGEST_GAP, with x exponential. Its mean depends on the earlier visit's severity.
    """
    living, before = _first_severity(), np.zeros(len(DEATH))
    for _visit in range(MOST_VISITS - 1):
        on = living * (1 - DEATH) * AGAIN
        before, living = before + on, on @ TRANSITIONS["severity"]
    ends = np.maximum(np.ceil(np.asarray(edges, float)) - 1, 0)  # a gap below an end means an x below the end minus one
    below = np.where(ends[:, None] >= LONGEST_GAP, 1.0, 1 - np.exp(-ends[:, None] / MEAN_GAP))
    return np.asarray(np.diff(below @ before) / before.sum())


def haemoglobin_autocorrelation() -> float:
    """Return the Pearson correlation of haemoglobin at two successive visits over all patients, before rounding."""
    women = SHARE_WOMEN * (1 - SHARE_WOMEN) * (HAEMOGLOBIN["men"] - HAEMOGLOBIN["women"]) ** 2
    between, within = HAEMOGLOBIN["between"] ** 2 + women, HAEMOGLOBIN["within"] ** 2
    return float((between + HAEMOGLOBIN["autocorrelation"] * within) / (between + within))


def _first_severity() -> Floats:
    """Return the shares of the severities at first visits."""
    old = (OLD - BIRTH_YEARS[0]) / (BIRTH_YEARS[1] + 1 - BIRTH_YEARS[0])
    return np.asarray([1 - old, old] @ SEVERITY_STARTS)


def _drawn(rng: Generator, chances: Floats) -> Codes:
    """Draw one code per row of `chances`, (rows, codes)."""
    return np.asarray((rng.random((len(chances), 1)) > chances.cumsum(1)[:, :-1]).sum(1), np.int64)


def _next(rng: Generator, last: Floats, process: dict[str, float]) -> Floats:
    """Return the next deviations from patients' own means of an AR(1) process: (patients,)."""
    keep = process["autocorrelation"]
    return np.asarray(keep * last + process["within"] * np.sqrt(1 - keep**2) * rng.standard_normal(len(last)))


def _people(rng: Generator, count: int) -> pd.DataFrame:
    """Return what patients keep, and their state before the first visit, from the processes' stationary law."""
    woman = rng.random(count) < SHARE_WOMEN
    born = rng.integers(BIRTH_YEARS[0], BIRTH_YEARS[1] + 1, count)
    spread = rng.standard_normal((5, count))
    return pd.DataFrame({
        "woman": woman, "born": born, "day": rng.integers(0, START_DAYS, count),
        "haemoglobin_mean": np.where(woman, HAEMOGLOBIN["women"], HAEMOGLOBIN["men"])
        + HAEMOGLOBIN["between"] * spread[0],
        "creatinine_mean": CREATININE["mean"] + CREATININE["between"] * spread[1],
        "haemoglobin": HAEMOGLOBIN["within"] * spread[2], "creatinine": CREATININE["within"] * spread[3],
        "weight": np.where(woman, 70, 83) + 13 * spread[4], "metformin": rng.random(count) < METFORMIN["start"],
        **{name: _drawn(rng, np.tile(start, (count, 1))) for name, start in STARTS.items()},
        "severity": _drawn(rng, SEVERITY_STARTS[(born < OLD).astype(int)]),
    })  # fmt: skip


def _visit(rng: Generator, people: pd.DataFrame, first: bool) -> pd.DataFrame:
    """Return the columns of everybody's next visit, (patients, 12); `people` keeps the state."""
    count, before = len(people), (people["haemoglobin_mean"] + people["haemoglobin"]).to_numpy()
    if not first:
        for name, matrix in TRANSITIONS.items():
            people[name] = _drawn(rng, matrix[people[name]])
    for name, process in (("haemoglobin", HAEMOGLOBIN), ("creatinine", CREATININE)):
        people[name] = _next(rng, people[name].to_numpy(), process)
    log = people["creatinine_mean"] + people["creatinine"] + CREATININE["kidney"] * people["kidney_disease"]
    creatinine = np.clip(np.round(np.exp(log.to_numpy())), 20, 1000)
    stays, begins = (1.0, 0.0) if first else (METFORMIN["stays"], METFORMIN["begins"])
    people["metformin"] = rng.random(count) < np.where(people["metformin"], stays, begins)
    people["metformin"] &= creatinine <= HIGH_CREATININE
    measured = np.clip(np.round(people["weight"] + 3 * rng.standard_normal(count), 1), 35, 180)
    copied = (rng.random(count) < WEIGHT_COPIED) & (not first)
    people["weight"] = np.where(copied, people["weight"], measured)
    haemoglobin = np.clip(np.round(people["haemoglobin_mean"] + people["haemoglobin"]), 50, 220)
    score = SCORE["base"] + SCORE["slope"] * (before - SCORE["centre"]) + SCORE["spread"] * rng.standard_normal(count)
    died = rng.random(count) < DEATH[people["severity"]]
    return pd.DataFrame({
        "visit_date": people["day"].to_numpy(), "birth_year": people["born"],
        "sex": np.where(people["woman"], "F", "M"),
        **{name: np.array(LEVELS[name])[people[name]] for name in ("severity", "flare", "kidney_disease")},
        "creatinine_umol_l": creatinine.astype(int),
        "haemoglobin_g_l": np.where(rng.random(count) < MISSING, np.nan, haemoglobin),
        "weight_kg": people["weight"].to_numpy(),
        "metformin": np.array(LEVELS["metformin"])[people["metformin"].astype(int)],
        "fatigue_score": np.clip(np.round(score), 0, 20).astype(int),
        "died": np.array(LEVELS["died"])[died.astype(int)],
    })  # fmt: skip


def simulate(patients: int = 8000, seed: int = 0) -> pd.DataFrame:
    """Return all visits of `patients`, (visits, 13), sorted by patient and day; equal arguments, equal rows.

    Raises ValueError for fewer than one patient.
    """
    if patients < 1:
        raise ValueError("`patients` must be one or more")
    rng = Generator(PCG64(seed))
    people = _people(rng, patients)
    comes, rows = np.ones(patients, bool), list[pd.DataFrame]()
    for visit in range(MOST_VISITS):
        now = _visit(rng, people, first=visit == 0)
        rows.append(now[comes])
        severity = people["severity"].to_numpy()
        comes &= (now["died"] == "no").to_numpy() & (rng.random(patients) < AGAIN[severity])
        gap = 1 + np.floor(rng.exponential(MEAN_GAP[severity]))
        people["day"] += np.minimum(gap, LONGEST_GAP).astype(int)
    table = pd.concat(rows).sort_index(kind="stable")  # by patient, and each patient's in drawn order
    keys = np.array([f"P-{k:06}" for k in rng.permutation(patients)])
    table.insert(0, "patient_id", keys[table.index])
    table["visit_date"] = (np.datetime64(FIRST_DAY) + table["visit_date"].to_numpy()).astype(str)
    return table.reset_index(drop=True)


def main(argv: list[str] | None = None) -> None:
    """Write a table and its schema."""
    parser = argparse.ArgumentParser(description="Simulate patients over time; no row describes a real person.")
    parser.add_argument("--patients", type=int, default=8000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, required=True, help="CSV file to write")
    chosen = parser.parse_args(argv)
    simulate(chosen.patients, chosen.seed).to_csv(chosen.output, index=False, lineterminator="\n")
    shutil.copyfile(SCHEMA, chosen.output.with_suffix(".schema.yaml"))


if __name__ == "__main__":
    main()
