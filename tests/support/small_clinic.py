"""The simulated clinic with ten of its 21 columns, at least one of each kind: a fit takes half the time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pandas as pd
from medsynth_sample_data import simulate

from medsynth.schema import Schema

FILE = Path(__file__).parents[2] / "sample_data" / "clinic.schema.yaml"
COLUMNS = (
    "sex_at_birth", "age_years", "referral_source", "is_pregnant", "tsh_miu_l", "t3_nmol_l", "tt4_nmol_l",
    "t4_uptake_ratio", "ft4_index_nmol_l", "diagnosis",
)  # fmt: skip
FEW = ("sex_at_birth", "age_years", "t3_nmol_l", "diagnosis")  # for tests of what surrounds a fit


def cohort(rows: int, seed: int, columns: Sequence[str] = COLUMNS) -> pd.DataFrame:
    """Return these columns of simulated patients."""
    made: pd.DataFrame = simulate.cohort(rows, seed)[list(columns)]
    return made


def schema(columns: Sequence[str] = COLUMNS) -> Schema:
    """Return the schema of these columns, with both rules of the clinic if it has their columns."""
    whole = Schema.load(FILE)
    some = {name: whole.columns[name] for name in columns}
    return whole.model_copy(update={"columns": some, "rules": whole.rules if columns == COLUMNS else ()})
