"""Rows of several tables have the codes that their patient was drawn with."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import medsynth
from medsynth.fitting.private_tables import coded_tables
from medsynth.patients import codes as of_codes
from medsynth.patients import training
from medsynth.patients.codes import Together, names_of_codes
from medsynth.patients.plan import CODES
from medsynth.schema.linked import LinkedTables

from .conftest import write
from .test_codes import read


@pytest.fixture(autouse=True)
def three_codes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(of_codes, "FEWEST_LEVELS", 3)


def test_a_patient_has_a_code_of_rows_that_stay(frames: dict[str, pd.DataFrame], tables: LinkedTables) -> None:
    coded = coded_tables(read(frames, tables)).together
    wards = ["heart", "kidney", "lung"]
    assert [*names_of_codes(tables).values()] == [(0, level) for level in range(3)]
    for place, key in enumerate(frames["patients"]["patient"]):
        stays = frames["stays"][frames["stays"]["patient"] == key].sort_values("admitted", kind="stable").head(3)
        assert coded[place].tolist() == [int(ward in set(stays["ward"])) for ward in wards]


@pytest.mark.nightly
@pytest.mark.usefixtures("quick")
def test_rows_have_the_codes_of_their_patient(
    frames: dict[str, pd.DataFrame], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each of them, and no other. Few patients' rows broke a rule: these may have other codes."""
    monkeypatch.setattr(training, "SIMULATED", 2000)
    model = medsynth.fit(write(frames, tmp_path / "ward"), epsilon=50, method="independent", seed=0, rows=300)
    assert any(entry.label == CODES for entry in model.ledger.entries)
    found = dict[int, Any]()
    draw = Together.draw

    def noted(self: Together, *given: Any) -> Any:
        found.update(draw(self, *given))
        return found

    monkeypatch.setattr(Together, "draw", noted)
    drawn = medsynth.sample_tables(model, 400, seed=5)
    levels, has = found[0]
    names = np.array(["heart", "kidney", "lung"])[levels]
    stays = drawn["stays"].groupby("patient")["ward"].agg(set)
    alike, seen = 0, 0
    for key, own in zip(drawn["patients"]["patient"], has, strict=True):
        if key in stays.index:
            seen += 1
            alike += set(stays[key]) & set(names) == set(names[own])
    assert seen > 100 and alike > 0.9 * seen
