"""A simulated study whose relations are known: linear, logistic, interactions and none. No row describes a real person.

The coefficients stand in `study`; those that an analysis of the stored columns would find in a table without end are
`truth`, from a table of a million rows: rounding and bounds change them a little.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pandas as pd
import statsmodels.api as sm

from medsynth.methods.regressions import Regression
from medsynth.schema import Schema

YES_NO = {"kind": "binary", "levels": ["no", "yes"]}
LOG = {"kind": "continuous", "scale": "log", "out_of_range": "clip"}
SCHEMA = Schema.from_dict({
    "name": "study",
    "target": "event",
    "columns": {
        "age": {"kind": "count", "bounds": [18, 100], "out_of_range": "clip"},
        "female": YES_NO,
        "smoker": YES_NO,
        "ward": {"kind": "categorical", "levels": ["a", "b", "c", "d"]},
        "bmi": {"kind": "continuous", "bounds": [10, 70], "decimals": 1, "out_of_range": "clip"},
        "creatinine": {**LOG, "bounds": [10, 2000], "decimals": 0},
        "crp": {**LOG, "bounds": [0.1, 500], "decimals": 1},
        "albumin": {"kind": "continuous", "bounds": [5, 70], "decimals": 1, "out_of_range": "clip"},
        "pressure": {"kind": "count", "bounds": [50, 280], "out_of_range": "clip"},
        "hb": {"kind": "continuous", "bounds": [3, 25], "decimals": 1, "out_of_range": "clip"},
        "treated": YES_NO,
        "quality": {"kind": "count", "bounds": [0, 150], "out_of_range": "clip"},
        "event": YES_NO,
    },
})  # fmt: skip
# crp and creatinine, whose scale is log, stand for their logarithms.
DECLARED = (
    "pressure ~ age + bmi + smoker + female",
    "albumin ~ age + crp",
    "hb ~ bmi + female + creatinine",
    "quality ~ age + treated + crp + age:treated + age:crp",
    "event ~ age + crp + smoker + hb + crp:smoker",
)
UNDECLARED = ("creatinine ~ age + female", "crp ~ smoker", "bmi ~ hb", "ward_a ~ age")
NULL = {"pressure ~ female", "hb ~ bmi", "quality ~ age:crp", "event ~ hb", "bmi ~ hb", "ward_a ~ age"}  # as simulated
CENTRES = {"age": 60.0, "crp": 1.5}  # taken off, so that coefficients beside an interaction are those of usual patients
TRUTH_ROWS, TRUTH_SEED = 1_000_000, 99


def study(rows: int, seed: int) -> pd.DataFrame:
    """`rows` simulated patients; the same for the same seed."""
    rng = np.random.default_rng(seed)
    age = np.clip(np.round(rng.normal(60, 14, rows)), 18, 100)
    female = rng.random(rows) < 0.5
    smoker = rng.random(rows) < np.where(female, 0.2, 0.3)
    log_creatinine = rng.normal(4.4, 0.35, rows) + 0.008 * (age - 60) - 0.15 * female
    log_crp = rng.normal(1.5, 1.1, rows) + 0.3 * smoker
    bmi = rng.gamma(30, 0.9, rows) - 0.5 * smoker
    albumin = 40 - 0.08 * (age - 60) - 1.2 * (log_crp - 1.5) + rng.normal(0, 3.5, rows)
    pressure = 130 + 0.5 * (age - 60) + 0.9 * (bmi - 27) + 4 * smoker + rng.normal(0, 15, rows)
    hb = 14 - 1.2 * female - 0.7 * (log_creatinine - 4.4) + rng.normal(0, 1.2, rows)
    logit = -2 + 0.03 * (age - 60) + 0.5 * (log_crp - 1.5) + 0.6 * smoker + 0.5 * (log_crp - 1.5) * smoker
    event = rng.random(rows) < 1 / (1 + np.exp(-logit))
    treated = rng.random(rows) < 0.5
    quality = 70 - 0.2 * (age - 60) + 4 * treated + 0.25 * (age - 60) * treated - 1.5 * (log_crp - 1.5)
    quality = quality + rng.normal(0, 10, rows)

    def words(flags: object) -> object:
        return np.where(np.asarray(flags), "yes", "no")

    return pd.DataFrame({
        "age": age.astype(int), "female": words(female), "smoker": words(smoker),
        "ward": rng.choice(list("abcd"), rows, p=[0.4, 0.3, 0.2, 0.1]),
        "bmi": np.round(np.clip(bmi, 10, 70), 1), "creatinine": np.clip(np.round(np.exp(log_creatinine)), 10, 2000),
        "crp": np.clip(np.round(np.exp(log_crp), 1), 0.1, 500), "albumin": np.round(np.clip(albumin, 5, 70), 1),
        "pressure": np.clip(np.round(pressure), 50, 280).astype(int), "hb": np.round(np.clip(hb, 3, 25), 1),
        "treated": words(treated), "quality": np.clip(np.round(quality), 0, 150).astype(int), "event": words(event),
    })  # fmt: skip


def numbers(table: pd.DataFrame) -> pd.DataFrame:
    """The columns as regressions take them: numbers on their scales, less their CENTRES, levels as indicators."""
    found: dict[str, pd.Series[float]] = {"ward_a": (table["ward"].astype(str) == "a").astype(float)}
    for name, column in SCHEMA.columns.items():
        if column.kind == "binary":
            found[name] = (table[name].astype(str) == "yes").astype(float)
        elif column.ordered:
            values = pd.to_numeric(table[name]).astype(float)
            found[name] = (values.map(np.log) if column.scale == "log" else values) - CENTRES.get(name, 0.0)
    return pd.DataFrame(found)


def coefficients(table: pd.DataFrame, formulas: tuple[str, ...] = DECLARED + UNDECLARED) -> pd.DataFrame:
    """Estimate and standard error of each term, such as "hb ~ bmi": logistic regression of the event, else linear."""
    return estimates(numbers(table), formulas, logistic="event")


def estimates(values: pd.DataFrame, formulas: tuple[str, ...], logistic: str = "") -> pd.DataFrame:
    """The same of a table of numbers, by the rows that have all columns of a regression; `logistic`: an outcome."""
    found = dict[str, tuple[float, float]]()
    for formula in formulas:
        regression = Regression.parse(formula)
        known = values[list(regression.columns)].dropna()
        crossed = {f"{a}:{b}": known[a] * known[b] for a, b in regression.interactions}
        design = sm.add_constant(known[list(regression.predictors)].assign(**crossed))
        outcome = known[regression.outcome]
        binary = regression.outcome == logistic
        result = sm.Logit(outcome, design).fit(disp=0) if binary else sm.OLS(outcome, design).fit()
        for name in (*regression.predictors, *crossed):
            found[f"{regression.outcome} ~ {name}"] = (result.params[name], result.bse[name])
    return pd.DataFrame.from_dict(found, orient="index", columns=["estimate", "std_error"])


@cache
def truth() -> pd.Series:
    """The true coefficient of each term."""
    found = coefficients(study(TRUTH_ROWS, TRUTH_SEED))["estimate"]
    return found.where(~found.index.isin(NULL), 0.0)
