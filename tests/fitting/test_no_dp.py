"""--no-dp: an upper bound without noise that is marked as such everywhere."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from medsynth_cli.main import app
from typer.testing import CliRunner

import medsynth
from medsynth.artifact import claim
from medsynth.errors import UsageError
from medsynth.methods.registry import METHODS
from medsynth.schema import Schema

pytestmark = pytest.mark.usefixtures("quick")
STAMP = "NOT DIFFERENTIALLY PRIVATE"


@pytest.mark.matrix
@pytest.mark.nightly_for("dp-gan")
@pytest.mark.parametrize("method", METHODS)
def test_every_method_has_an_upper_bound_without_a_claim(
    method: Any, cohort: pd.DataFrame, clinic: Schema, tmp_path: Path
) -> None:
    model = medsynth.fit(cohort, no_dp=True, schema=clinic, rows=len(cohort), method=method)
    assert model.epsilon is None and not model.claims and STAMP in claim(model)
    again = medsynth.load(model.save(tmp_path / "m.medsynth"))
    assert not again.claims and STAMP in claim(again) and STAMP in again.ledger.random_source
    assert len(medsynth.sample(again, 20)) == 20


def test_its_counts_are_exact(cohort: pd.DataFrame, clinic: Schema) -> None:
    model = medsynth.fit(cohort, no_dp=True, schema=clinic, rows=len(cohort), method="independent")
    shares = cohort["diagnosis"].value_counts(normalize=True).reindex(clinic.columns["diagnosis"].levels)
    assert np.abs(model.tensors["prior"] - shares.to_numpy()).max() < 1e-3


@pytest.mark.parametrize("both", [{}, {"epsilon": 1.0, "no_dp": True}])
def test_exactly_one_of_the_two(both: Any, cohort: pd.DataFrame, clinic: Schema) -> None:
    with pytest.raises(UsageError, match="exactly one"):
        medsynth.fit(cohort, schema=clinic, **both)


@pytest.mark.nightly
@pytest.mark.usefixtures("few_trees")
@pytest.mark.slow
def test_every_command_marks_it(patients: Path) -> None:
    run = CliRunner().invoke
    made = run(app, ["fit", "patients.csv", "--no-dp"])
    assert made.exit_code == 0 and STAMP in made.stdout and STAMP in made.stderr
    facts = json.loads(run(app, ["fit", "patients.csv", "--no-dp", "--force", "--json"]).stdout)
    assert facts["epsilon"] is None and facts["claims"] is False
    assert STAMP in run(app, ["sample", "-n", "300"]).stderr
    assert STAMP in run(app, ["ledger"]).stdout
    refused = run(app, ["ledger", "--verify"])
    assert refused.exit_code == 1 and "no privacy claim" in refused.stderr
    (patients.parent / "patients.heldout.csv").write_text(patients.read_text())
    page = run(app, ["report", "--real", "patients.csv", "--force"])
    assert page.exit_code == 0, page.stderr
    assert STAMP in (patients.parent / "patients.report.html").read_text()
