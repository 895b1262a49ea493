"""How many rules do synthetic patients break? Simulated visits with rules of each kind that the language has.

Fits 8,000 simulated patients at epsilon 3.7, samples as many rows as --patients patients have, writes them to CSV and
reads them. Counts the rows that break each rule twice: by the report's check of whole tables, and by pandas alone.
"""

from __future__ import annotations

import io
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from medsynth_sample_data import visits

import medsynth
from medsynth.io.reader import read
from medsynth.report.sections.plausibility import plausibility
from medsynth.schema import Schema
from tests.benchmarks.common import options

DELTA = 1e-6
MORE = {
    "haemoglobin_change": {"kind": "count", "bounds": [-230, 230], "missing": True},
    "fatigue_total": {"kind": "count", "bounds": [0, 100]},
    "kilograms_each_score": {"kind": "continuous", "bounds": [0, 250], "decimals": 1},
}
RULES = [
    "haemoglobin_change = haemoglobin_g_l - previous(haemoglobin_g_l)",
    "fatigue_total = cumulative(fatigue_score)",
    "kilograms_each_score = weight_kg / (fatigue_score + 1)",
    "weight_kg >= 0.5 * previous(weight_kg)",
    "first row implies fatigue_score <= 19",
    "previous(severity) = severe and severity = mild implies haemoglobin_g_l > 60",
]


def schema() -> Schema:
    """Return the schema of the simulated visits with more rules, and with columns that rules define."""
    plain: dict[str, Any] = Schema.load(visits.SCHEMA).to_dict()
    return Schema.from_dict({**plain, "columns": {**plain["columns"], **MORE}, "rules": [*plain["rules"], *RULES]})


def table(patients: int, seed: int) -> pd.DataFrame:
    """Return simulated visits that obey the rules; the few patients who break one are left out."""
    frame: pd.DataFrame = visits.simulate(patients, seed)
    by = frame.groupby("patient_id")
    weight, severity = by["weight_kg"].shift(), by["severity"].shift()
    bad = frame["weight_kg"] < 0.5 * weight
    bad |= weight.isna() & (frame["fatigue_score"] > 19)
    bad |= (severity == "severe") & (frame["severity"] == "mild") & (frame["haemoglobin_g_l"] <= 60)
    frame = frame.loc[~frame["patient_id"].isin(frame.loc[bad, "patient_id"])].reset_index(drop=True)
    by = frame.groupby("patient_id")
    change = by["haemoglobin_g_l"].diff()
    more = {"haemoglobin_change": change.astype("Int64"), "fatigue_total": by["fatigue_score"].cumsum(),
            "kilograms_each_score": (frame["weight_kg"] / (frame["fatigue_score"] + 1)).round(1)}  # fmt: skip
    return frame.assign(**more)


def by_pandas(made: pd.DataFrame) -> dict[str, int]:
    """Count rows that break each rule across rows, without medsynth's code."""
    by = made.groupby("patient_id", sort=False)
    last = by.shift()
    known = last["weight_kg"].notna()
    end = ~made["patient_id"].duplicated(keep="last")
    day = pd.to_datetime(made["visit_date"])
    change = made["haemoglobin_change"].astype(float) - (made["haemoglobin_g_l"] - last["haemoglobin_g_l"])
    sums = made["fatigue_total"] - by["fatigue_score"].cumsum().clip(upper=100)
    ratio = made["kilograms_each_score"] - made["weight_kg"] / (made["fatigue_score"] + 1)
    missing = made["haemoglobin_change"].isna() != (made["haemoglobin_g_l"].isna() | last["haemoglobin_g_l"].isna())
    back = known & (last["severity"] == "severe") & (made["severity"] == "mild")
    found = {
        "metformin at a high creatinine": (made["creatinine_umol_l"] > 150) & (made["metformin"] == "yes"),
        "chronic disease undone": (last["kidney_disease"] == "yes") & (made["kidney_disease"] == "no"),
        "visits after death": (made["died"] == "yes") & ~end,
        "visits not after the last": known & ~(day > pd.to_datetime(last["visit_date"])),
        "change": (change.abs() > 0) | missing,
        "running sum": sums != 0,
        "ratio": ratio.abs() > 0.051,
        "weight halved": made["weight_kg"] < 0.5 * last["weight_kg"],
        "first score": ~known & (made["fatigue_score"] > 19),
        "recovery at a low haemoglobin": back & (made["haemoglobin_g_l"] <= 60),
        "constant columns that change": known & (
            (made["sex"] != last["sex"]) | (made["birth_year"] != last["birth_year"])
        ),
        "patients of more than five rows": by.cumcount() >= visits.MOST_VISITS,
    }  # fmt: skip
    return {name: int(np.asarray(rows, bool).sum()) for name, rows in found.items()}


def main(words: list[str]) -> None:
    """Fit, sample, count, print."""
    parser = options("over-time-rules", __doc__)
    parser.add_argument("--patients", type=int, default=100_000)
    parser.add_argument("--fitted", type=int, default=8_000)
    parser.add_argument("--epsilon", type=float, default=3.7)
    given = parser.parse_args(words)
    own, rows = schema(), table(given.fitted, 1000)
    assert not any(by_pandas(rows).values())
    model = medsynth.fit(rows, epsilon=given.epsilon, delta=DELTA, schema=own, rows=len(rows))
    mean = float(visits.rows_law() @ np.arange(1, visits.MOST_VISITS + 1))
    drawn = medsynth.sample(model, round(1.03 * mean * given.patients), seed=0)
    wanted = drawn["patient_id"].drop_duplicates().head(given.patients)
    drawn = drawn[drawn["patient_id"].isin(wanted)]
    with tempfile.TemporaryDirectory() as name:
        place = Path(name) / "drawn.csv"
        drawn.to_csv(place, index=False, lineterminator="\n")
        texts, made = read(place).cells, pd.read_csv(io.BytesIO(place.read_bytes()))
    print(f"{len(wanted)} patients, {len(drawn)} rows")
    found = plausibility(own, None, texts)
    for rule in (one for one in found.rules if one.synthetic or one.column not in own.columns):
        print(f"report: {round(rule.synthetic * len(drawn))} rows break {rule.column}: {rule.rule}")
    unchecked = found.unchecked or "none"
    print(f"report: {found.broken} rules broken of {len(found.rules)}; not checked: {unchecked}")
    for text, count in by_pandas(made).items():
        print(f"pandas: {count} rows: {text}")
