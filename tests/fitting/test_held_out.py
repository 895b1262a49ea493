"""Rows that a model was fitted to are known as such by what is on file, whatever their file is called."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from medsynth_cli.main import app
from typer.testing import CliRunner

from medsynth.artifact import load
from medsynth.fitting import pipeline
from medsynth.fitting.holdout import budget_of_model, was_fitted
from medsynth.io.split import file_beside, number_of, table_of

pytestmark = pytest.mark.usefixtures("quick")
SCHEMA = """
name: clinic
target: sick
columns:
  age: {kind: count, bounds: [0, 99]}
  sick: {kind: binary, levels: ["no", "yes"]}
"""
FIT = "fit clinic.csv --epsilon 3.7 --method independent --anyway -q"


def run(words: str) -> Any:
    outcome = CliRunner().invoke(app, words.split())
    assert outcome.exit_code == 0, outcome.stderr
    return outcome


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with a table and its schema."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(0, 99, 120), "sick": rng.choice(["no", "yes"], 120)})
    frame.to_csv("clinic.csv", index=False)
    Path("clinic.schema.yaml").write_text(SCHEMA)
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
    """Each model has a split of its own, named after it; the splits' files lead to the table that they share."""
    run(f"{FIT} --holdout 0.4")
    run(f"{FIT} --holdout 0.4 -o second.medsynth")
    (clinic / "out").mkdir()
    run(f"{FIT} --holdout 0.4 -o out/third.medsynth")
    run(f"{FIT} -o whole.medsynth")
    splits = {"clinic": "clinic.medsynth", "second": "second.medsynth", "out/third": "out/third.medsynth"}
    for name in splits:
        for other, model in {**splits, "whole": "whole.medsynth"}.items():
            assert fitted(model, f"{name}.heldout.csv") == (name != other), (name, other)
            assert fitted(model, f"{name}.train.csv") and fitted(model, "clinic.csv")


def test_a_split_is_found_by_the_name_of_its_model(clinic: Path) -> None:
    """A second `--output` after a bare fit is a fit; what is replaced is what its own name has."""
    run(f"{FIT} --holdout 0.4")
    before = {path.name: path.read_bytes() for path in clinic.iterdir() if "ledger" not in path.name}
    run(f"{FIT} --holdout 0.4 -o a.medsynth")
    made = {path.name for path in clinic.iterdir() if "ledger" not in path.name} - set(before)
    assert made == {"a.medsynth", "a.train.csv", "a.heldout.csv", "a.heldout.csv.split"}
    assert all((clinic / name).read_bytes() == content for name, content in before.items())
    refused = CliRunner().invoke(app, f"{FIT} --holdout 0.4 -o a.medsynth".split())
    assert refused.exit_code == 1 and "exists already" in refused.stderr
    rows = [len(pd.read_csv(f"a.{part}.csv")) for part in ("train", "heldout")]
    assert sum(rows) == 120
    assert table_of(Path("a.heldout.csv")) == clinic / "clinic.csv" and table_of(Path("clinic.csv")) is None
    budget = budget_of_model(Path("a.medsynth"), Path("a.heldout.csv"))
    assert budget is not None and budget.path.resolve() == clinic / "clinic.medsynth-ledger"


def test_the_table_of_a_split_is_found_where_both_were_moved(clinic: Path, tmp_path: Path) -> None:
    run(f"{FIT} --holdout 0.4 -o a.medsynth")
    run(f"{FIT} -o whole.medsynth")
    moved = tmp_path.with_name(f"{tmp_path.name} moved")
    clinic.rename(moved)
    real = moved / "a.heldout.csv"
    assert was_fitted(load(moved / "whole.medsynth"), moved / "whole.medsynth", real)
    assert not was_fitted(load(moved / "a.medsynth"), moved / "a.medsynth", real)


def test_a_hold_out_that_was_not_begun_with_is_not_begun_at_a_resume(clinic: Path) -> None:
    """No rows are split, and none are left behind."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pipeline, "note_counted_rows", lambda *args: (_ for _ in ()).throw(KeyboardInterrupt))
        assert CliRunner().invoke(app, FIT.split()).exit_code == 130
    assert Path("clinic.medsynth-checkpoint").exists()
    before = {path.name: path.read_bytes() for path in clinic.iterdir()}
    done = CliRunner().invoke(app, f"{FIT} --holdout 0.4 --resume".split())
    assert done.exit_code == 2 and "started without --holdout" in done.stderr
    assert {path.name: path.read_bytes() for path in clinic.iterdir()} == before


def test_the_number_of_a_split_is_drawn_anew_and_private(clinic: Path) -> None:
    run(f"{FIT} --holdout 0.4")
    first, file = number_of(Path("clinic.heldout.csv")), file_beside(Path("clinic.heldout.csv"))
    assert first and file.stat().st_mode & 0o077 == 0
    run(f"{FIT} --holdout 0.4 --force")
    assert number_of(Path("clinic.heldout.csv")) not in (first, None)
    file.write_text("no number")
    assert number_of(Path("clinic.heldout.csv")) is None
