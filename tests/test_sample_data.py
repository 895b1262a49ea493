"""The simulated cohort: the committed files are the script's own, with the facts of its README."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from medsynth_sample_data import simulate

from medsynth.schema import Schema, bundled

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", simulate.COMMITTED)
def test_committed_files_are_remade_byte_for_byte(name: Any) -> None:
    text = simulate.cohort(*simulate.COMMITTED[name]).to_csv(index=False, lineterminator="\n")
    assert (ROOT / "sample_data" / name).read_bytes() == text.encode()


def test_the_schema_fits_and_no_bundled_one_claims_the_header() -> None:
    clinic = Schema.load(ROOT / "sample_data" / "clinic.schema.yaml")
    frame = pd.read_csv(ROOT / "sample_data" / "clinic.csv", nrows=5)
    assert list(frame.columns) == list(clinic.names)
    assert all(set(clinic.names) != set(schema.names) for schema in bundled().values())


@pytest.mark.statistical
def test_physiology() -> None:
    """Facts of 50,000 simulated patients; standard errors are below a tenth of the margins.

    The seed is fixed: it cannot fail by chance.
    """
    frame = simulate.cohort(50_000, 3)
    shares = frame["diagnosis"].value_counts(normalize=True)
    assert 0.02 < shares["overt"] < 0.03 and 0.045 < shares["subclinical"] < 0.065
    index = frame["tt4_nmol_l"] / frame["t4_uptake_ratio"]
    assert (np.abs(index - frame["ft4_index_nmol_l"]) <= 0.51).all()
    medians = frame.groupby("diagnosis")["tsh_miu_l"].median()
    assert medians["overt"] > 3 * medians["subclinical"] > 9 * medians["normal"] / 3
    assert 0.12 < frame["t3_nmol_l"].isna().mean() < 0.2
    assert (frame.loc[frame["is_pregnant"].astype(str) == "1", "sex_at_birth"] == "F").all()
