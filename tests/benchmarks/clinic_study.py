"""The simulated clinic as a study: regressions of its hormones, whose tails are heavy and whose lines bend.

The same names as in study_data.py. No relation of these is known to be zero.
"""

from __future__ import annotations

from functools import cache

import pandas as pd
from medsynth_sample_data import simulate
from slopes import numbers
from study_data import estimates

from medsynth.schema import Schema

SCHEMA = Schema.from_yaml(simulate.schema_text())
DECLARED = (
    "tt4_nmol_l ~ tsh_miu_l",
    "t3_nmol_l ~ tt4_nmol_l + age_years",
    "pulse_bpm ~ tt4_nmol_l",
    "systolic_mmhg ~ age_years",
    "t4_uptake_ratio ~ t3_nmol_l",
)
UNDECLARED = ("pulse_bpm ~ tsh_miu_l", "t3_nmol_l ~ tsh_miu_l", "clinic_visits ~ age_years")
NULL = set[str]()
TRUTH_ROWS, TRUTH_SEED = 1_000_000, 99


def study(rows: int, seed: int) -> pd.DataFrame:
    """`rows` simulated patients; the same for the same seed."""
    found: pd.DataFrame = simulate.cohort(rows, seed)
    return found


def coefficients(table: pd.DataFrame) -> pd.DataFrame:
    """Estimate and standard error of each term, by least squares on the rows that have all columns of a regression."""
    return estimates(numbers(table, SCHEMA), DECLARED + UNDECLARED)


@cache
def truth() -> pd.Series:
    """The coefficient of each term in a table of a million rows."""
    return coefficients(study(TRUTH_ROWS, TRUTH_SEED))["estimate"]
