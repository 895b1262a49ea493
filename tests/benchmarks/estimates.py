"""Do the intervals of `medsynth estimate` cover? Coverage and type I error on a small simulated table.

Each run simulates a table of six columns, fits it with two regressions declared, and asks all questions at once. The
truth is what the questions give on 400,000 simulated rows, and zero for relations that the simulation does not have.
Printed are, by what the answers rest on, the share of intervals that cover the truth, the share of relations that do
not exist with p < .05, and the spread of both between runs. Runs join --output as they end.
"""

from __future__ import annotations

import itertools
import time
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

import medsynth
from medsynth.answers.questions import Rows, question
from medsynth.io.table import from_frame
from medsynth.schema import Schema
from medsynth.schema.codec import encode
from tests.benchmarks.common import DELTA, options

YES_NO = {"kind": "binary", "levels": ["no", "yes"]}
SCHEMA = Schema.from_dict({
    "name": "small",
    "target": "ill",
    "columns": {
        "age": {"kind": "count", "bounds": [18, 100], "out_of_range": "clip"},
        "pulse": {"kind": "count", "bounds": [30, 200], "out_of_range": "clip"},
        "weight": {"kind": "count", "bounds": [30, 200], "out_of_range": "clip"},
        "treated": YES_NO,
        "ward": {"kind": "categorical", "levels": ["a", "b", "c", "d"]},
        "ill": YES_NO,
    },
})  # fmt: skip
DECLARED = ("pulse ~ age + treated + weight", "ill ~ age + treated")
QUESTIONS = (
    *DECLARED, "mean(age)", "mean(pulse)", "median(weight)", "quantile(age, 0.9)", "share(ward=d)", "share(ill=yes)",
    "difference(pulse, treated=yes)", "difference(age, treated=yes)", "difference(weight, treated=yes)",
    "correlation(age, pulse)", "odds_ratio(ill=yes, treated=yes)", "odds_ratio(ill=yes, ward=a)",
    "weight ~ age", "difference(weight, ward=a)", "correlation(weight, age)",
)  # fmt: skip
NULL = {
    ("pulse ~ age + treated + weight", "weight"), ("ill ~ age + treated", "treated=yes"),
    *((text, text) for text in ("difference(age, treated=yes)", "difference(weight, treated=yes)",
                                "odds_ratio(ill=yes, treated=yes)", "odds_ratio(ill=yes, ward=a)",
                                "difference(weight, ward=a)")),
}  # fmt: skip


def simulated(rows: int, seed: int) -> pd.DataFrame:
    """Return simulated patients: pulse follows age and treatment, illness and weight follow age."""
    rng = np.random.default_rng(seed)
    age = np.clip(np.round(rng.normal(60, 14, rows)), 18, 100)
    treated = rng.random(rows) < 0.5
    pulse = 75 + 0.2 * (age - 60) + 4 * treated + rng.normal(0, 10, rows)
    weight = 78 - 0.15 * (age - 60) + rng.normal(0, 13, rows)
    ill = rng.random(rows) < 1 / (1 + np.exp(1 - 0.04 * (age - 60)))
    return pd.DataFrame({
        "age": age.astype(int), "pulse": np.clip(np.round(pulse), 30, 200).astype(int),
        "weight": np.clip(np.round(weight), 30, 200).astype(int), "treated": np.where(treated, "yes", "no"),
        "ward": rng.choice(list("abcd"), rows, p=[0.4, 0.3, 0.2, 0.1]), "ill": np.where(ill, "yes", "no"),
    })  # fmt: skip


@cache
def truth() -> dict[tuple[str, str], float]:
    """Return the true answer of each question and term."""
    table = from_frame(simulated(400_000, 99))
    rows = Rows(SCHEMA, encode(table, SCHEMA))
    asked = [question(text, SCHEMA) for text in QUESTIONS]
    found = {(one.text, value.term): one.back(value.estimate) for one in asked for value in one.answer(rows)}
    return found | {key: 1.0 if "odds" in key[0] else 0.0 for key in NULL}


def one_run(rows: int, epsilon: float, run: int, replicates: int) -> pd.DataFrame:
    """Return one line per answer of one simulated table."""
    began = time.perf_counter()
    model = medsynth.fit(
        simulated(rows, run), epsilon=epsilon, delta=DELTA, schema=SCHEMA, rows=rows, inference=DECLARED
    )
    found = model.estimate(*QUESTIONS, replicates=replicates, seed=run).frame
    keys = [*zip(found["question"], found["term"], strict=True)]
    true = np.array([truth()[key] for key in keys])
    return found.assign(
        true=true, null=[key in NULL for key in keys], covered=(found["low"] <= true) & (true <= found["high"]),
        table_rows=rows, epsilon=epsilon, run=run, seconds=time.perf_counter() - began,
    )  # fmt: skip


def summary(found: pd.DataFrame) -> pd.DataFrame:
    """Return one line per setting and basis: coverage and type I error, with their spread between runs."""
    found = found.assign(wrong=(found["p_value"] < 0.05).where(found["null"]))
    lines = []
    for keys, group in found.groupby(["table_rows", "epsilon", "basis"]):
        runs = group.groupby("run")
        spread = runs[["covered", "wrong"]].agg(lambda x: x.astype(float).mean()).std() / np.sqrt(runs.ngroups)
        lines.append({
            **dict(zip(("rows", "epsilon", "basis"), keys, strict=True)), "runs": runs.ngroups,
            "intervals": len(group), "coverage": group["covered"].mean(), "se": spread["covered"],
            "type I": group["wrong"].astype(float).mean(), "of": int(group["null"].sum()), "its se": spread["wrong"],
        })  # fmt: skip
    return pd.DataFrame(lines)


def main(words: list[str]) -> None:
    """Run what is missing, and print the table."""
    parser = options("estimates", __doc__, output="estimates.csv")
    parser.add_argument("--rows", type=int, nargs="+", default=[1500])
    parser.add_argument("--epsilon", type=float, nargs="+", default=[1.0, 3.7])
    parser.add_argument("--runs", type=int, default=100)
    parser.add_argument("--replicates", type=int, default=10)
    given = parser.parse_args(words)
    path: Path = given.output
    path.parent.mkdir(parents=True, exist_ok=True)
    found = pd.read_csv(path) if path.exists() else pd.DataFrame()
    known = set(found[["table_rows", "epsilon", "run"]].itertuples(index=False, name=None)) if len(found) else set()
    for run, rows, epsilon in itertools.product(range(given.runs), given.rows, given.epsilon):
        if (rows, epsilon, run) not in known:
            found = pd.concat([found, one_run(rows, epsilon, run, given.replicates)])
            found.to_csv(path, index=False)
    print(summary(found).round(3).to_string(index=False))
