"""Simulated studies whose relations are known: linear, logistic, interactions and none. No row describes a real person.

`study` has the coefficients of `simulated`. `clinic` is the simulated clinic of sample_data: its hormones have heavy
tails and bent relations. The truth of a study is what an analysis finds in a table of a million rows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pandas as pd
import statsmodels.api as sm
from medsynth_sample_data import simulate

from medsynth.methods.regressions import Regression
from medsynth.schema import Schema

TRUTH_ROWS, TRUTH_SEED = 1_000_000, 99
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
# In formulas, crp and creatinine mean their logarithms, because their scale is log.
DECLARED = (
    "pressure ~ age + bmi + smoker + female",
    "albumin ~ age + crp",
    "hb ~ bmi + female + creatinine",
    "quality ~ age + treated + crp + age:treated + age:crp",
    "event ~ age + crp + smoker + hb + crp:smoker",
)
UNDECLARED = ("creatinine ~ age + female", "crp ~ smoker", "bmi ~ hb", "ward_a ~ age")
NULL = {"pressure ~ female", "hb ~ bmi", "quality ~ age:crp", "event ~ hb", "bmi ~ hb", "ward_a ~ age"}  # As simulated.
CENTRES = {"age": 60.0, "crp": 1.5}  # Subtracted, so that coefficients next to an interaction describe usual patients.


def simulated(rows: int, seed: int) -> pd.DataFrame:
    """Return simulated patients, the same for the same seed."""
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
    """Return the columns as regressions use them: numbers on their scales less CENTRES, levels as indicators."""
    found: dict[str, pd.Series[float]] = {"ward_a": (table["ward"].astype(str) == "a").astype(float)}
    for name, column in SCHEMA.columns.items():
        if column.kind == "binary":
            found[name] = (table[name].astype(str) == "yes").astype(float)
        elif column.ordered:
            values = pd.to_numeric(table[name]).astype(float)
            found[name] = (values.map(np.log) if column.scale == "log" else values) - CENTRES.get(name, 0.0)
    return pd.DataFrame(found)


CLINIC = Schema.from_yaml(simulate.schema_text())


def clinic_numbers(table: pd.DataFrame) -> pd.DataFrame:
    """Return the clinic's numbers on their scales; a value below the least of an assay counts as that least."""
    found = {}
    for name, column in CLINIC.columns.items():
        if column.kind in ("count", "continuous"):
            values = pd.to_numeric(table[name]).astype(float)
            found[name] = np.log(values.clip(lower=10.0**-column.places)) if column.scale == "log" else values
    return pd.DataFrame(found)


@dataclass(frozen=True, kw_only=True)
class Study:
    """A simulated study: its schema, regressions that a fit declares and others, and terms known to be zero."""

    schema: Schema
    declared: tuple[str, ...]
    undeclared: tuple[str, ...]
    simulate: Callable[[int, int], pd.DataFrame]
    numbers: Callable[[pd.DataFrame], pd.DataFrame]
    null: frozenset[str] = frozenset()
    logistic: str = ""

    def coefficients(self, table: pd.DataFrame, formulas: tuple[str, ...] = ()) -> pd.DataFrame:
        """Return estimate and standard error of each term, such as "hb ~ bmi", from the rows that have all columns."""
        values, found = self.numbers(table), dict[str, tuple[float, float]]()
        for formula in formulas or self.declared + self.undeclared:
            regression = Regression.parse(formula)
            known = values[list(regression.columns)].dropna()
            crossed = {f"{a}:{b}": known[a] * known[b] for a, b in regression.interactions}
            design = sm.add_constant(known[list(regression.predictors)].assign(**crossed))
            outcome = known[regression.outcome]
            binary = regression.outcome == self.logistic
            result = sm.Logit(outcome, design).fit(disp=0) if binary else sm.OLS(outcome, design).fit()
            for name in (*regression.predictors, *crossed):
                found[f"{regression.outcome} ~ {name}"] = (result.params[name], result.bse[name])
        return pd.DataFrame.from_dict(found, orient="index", columns=["estimate", "std_error"])


STUDIES = {
    "study": Study(
        schema=SCHEMA, declared=DECLARED, undeclared=UNDECLARED, simulate=simulated, numbers=numbers,
        null=frozenset(NULL), logistic="event",
    ),
    "clinic": Study(
        schema=CLINIC,
        declared=(
            "tt4_nmol_l ~ tsh_miu_l",
            "t3_nmol_l ~ tt4_nmol_l + age_years",
            "pulse_bpm ~ tt4_nmol_l",
            "systolic_mmhg ~ age_years",
            "t4_uptake_ratio ~ t3_nmol_l",
        ),
        undeclared=("pulse_bpm ~ tsh_miu_l", "t3_nmol_l ~ tsh_miu_l", "clinic_visits ~ age_years"),
        simulate=simulate.cohort, numbers=clinic_numbers,
    ),
}  # fmt: skip


@cache
def truth(name: str) -> pd.Series:
    """Return the true coefficient of each term of a study."""
    study = STUDIES[name]
    found = study.coefficients(study.simulate(TRUTH_ROWS, TRUTH_SEED))["estimate"]
    return found.where(~found.index.isin(study.null), 0.0)
