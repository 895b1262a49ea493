"""Rows that a model was fitted to are known as such by what is on file, whatever their file is called."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from medsynth_cli.app import app
from medsynth_sample_data import simulate
from typer.testing import CliRunner

from medsynth.artifact import load
from medsynth.fitting.holdout import was_fitted
from medsynth.io.split_number import file_beside, number_of

FIT = "fit clinic.csv --epsilon 3.7 --method independent -q"


def run(words: str) -> Any:
    outcome = CliRunner().invoke(app, words.split())
    assert outcome.exit_code == 0, outcome.stderr
    return outcome


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table and its schema."""
    monkeypatch.chdir(tmp_path)
    simulate.cohort(120, 3).to_csv("clinic.csv", index=False)
    Path("clinic.schema.yaml").write_text(simulate.schema_text())
    return tmp_path


def fitted(model: str, real: str) -> bool:
    return was_fitted(load(model), Path(model), Path(real))


def test_rows_held_out_of_the_fit_are_unseen_and_all_others_are_not(clinic: Path) -> None:
    run(f"{FIT} --holdout 0.4")
    assert not fitted("clinic.medsynth", "clinic.heldout.csv")
    assert fitted("clinic.medsynth", "clinic.train.csv") and fitted("clinic.medsynth", "clinic.csv")
    (clinic / "elsewhere").mkdir()
    other = str(shutil.copy("clinic.csv", clinic / "elsewhere"))
    assert not fitted("clinic.medsynth", other) and not was_fitted(None, None, Path("clinic.csv"))


def test_rows_that_an_earlier_fit_held_out_are_not_unseen(clinic: Path) -> None:
    """The files stay where they are when the fit is repeated without a hold-out."""
    run(f"{FIT} --holdout 0.4")
    run(f"{FIT} --force")
    assert fitted("clinic.medsynth", "clinic.heldout.csv")
    file_beside(Path("clinic.heldout.csv")).unlink()
    assert not fitted("clinic.medsynth", "clinic.heldout.csv")  # held out by hand, as far as is on file


def test_rows_held_out_of_another_models_fit_are_not_unseen(clinic: Path) -> None:
    run(f"{FIT} --holdout 0.4")
    run(f"{FIT} --holdout 0.4 --force -o second.medsynth")
    assert fitted("clinic.medsynth", "clinic.heldout.csv") and not fitted("second.medsynth", "clinic.heldout.csv")
    run(f"{FIT} -o whole.medsynth")
    assert fitted("whole.medsynth", "clinic.heldout.csv") and fitted("whole.medsynth", "clinic.csv")


def test_the_number_of_a_split_is_drawn_anew_and_private(clinic: Path) -> None:
    run(f"{FIT} --holdout 0.4")
    first, file = number_of(Path("clinic.heldout.csv")), file_beside(Path("clinic.heldout.csv"))
    assert first and file.stat().st_mode & 0o077 == 0
    run(f"{FIT} --holdout 0.4 --force")
    assert number_of(Path("clinic.heldout.csv")) not in (first, None)
    file.write_text("no number")
    assert number_of(Path("clinic.heldout.csv")) is None
