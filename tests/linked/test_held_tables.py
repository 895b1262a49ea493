"""Several tables: with all releases held, fits on neighbours release the same; answers differ by what is charged."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from held import ExactAnswers, FixedReleases

from .conftest import simulated
from .test_fits import released

METHODS = ("independent", "mixture", "gs-wgan", "pate-gan", "dp-gan")


@pytest.mark.nightly
@pytest.mark.parametrize("method", METHODS)
def test_one_patient_of_several_tables(
    method: str, tmp_path: Path, quick: None, fixed_entropy: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A patient with as many and as extreme rows as there can be, the same one without any, and none at all."""
    fixed, exact = FixedReleases(monkeypatch), ExactAnswers(monkeypatch)
    made = simulated(60, 3)
    key = made["stays"]["patient"].value_counts().index[0]
    gone = {name: f if name == "patients" else f[f["patient"] != key] for name, f in made.items()}
    extreme = {name: frame.copy() for name, frame in made.items()}
    extreme["stays"].loc[extreme["stays"]["patient"] == key, ["admitted", "discharged"]] = pd.Timestamp("2024-12-31")
    extreme["tests"].loc[extreme["tests"]["patient"] == key, "value"] = 20.0
    without = {name: frame[frame["patient"] != key] for name, frame in made.items()}
    one: Any = released(made, tmp_path / "made", method)
    answers, most = exact.answers, 0.0
    for other, same_patients in ((gone, True), (extreme, True), (without, False)):
        fixed.again()
        exact.next()
        assert released(other, tmp_path / "made", method) == one
        assert fixed.at == len(fixed.known)
        if same_patients:
            found = [a.distance(b) for a, b in zip(answers, exact.answers, strict=True)]
            assert max(found) <= 2 + 1e-9
            most = max(most, *found)
    assert most > 0.3
