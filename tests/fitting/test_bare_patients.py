"""The patient as the unit of privacy of a table without a schema."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from medsynth_cli.main import app
from open_tables import queries as bare_queries
from typer.testing import CliRunner

import medsynth
from medsynth.errors import SchemaError, UsageError
from medsynth.fitting.planning import plan_fit
from medsynth.fitting.settings import FitSettings
from medsynth.privacy import partition_selection as selection
from medsynth.sampling.patients import ROWS_PER_PATIENT

LEARNING = {query.label for query in bare_queries()}


def visits(patients: int = 1500) -> pd.DataFrame:
    """Up to six rows a patient, in any order."""
    draw = np.random.default_rng(0)
    each = draw.integers(1, 7, patients)
    rows = int(each.sum())
    return pd.DataFrame({
        "patient_id": np.repeat([f"A-{k}" for k in range(patients)], each), "age": draw.integers(18, 90, rows),
        "ward": draw.choice(["a", "b", "c"], rows), "sick": draw.choice(["no", "yes"], rows),
    }).sample(frac=1, random_state=0, ignore_index=True)  # fmt: skip


def fitted(frame: pd.DataFrame, **options: Any) -> tuple[medsynth.Model, list[str]]:
    notices: list[str] = []
    given: dict[str, Any] = {"epsilon": 20.0, "method": "independent", "seed": 0, "notice": notices.append, **options}
    return medsynth.fit(frame, **given), notices


@pytest.mark.statistical
def test_a_fit_for_a_patient_without_a_schema(quick: None, seeded_entropy: None, tmp_path: Path) -> None:
    """The seed is fixed: it cannot fail by chance."""
    frame = visits()
    model, notices = fitted(frame, unit="patient_id", max_rows=3)
    again = medsynth.load(model.save(tmp_path / "m.medsynth"))
    assert model.ledger.complete and again.ledger.max_rows == 3 and "one patient" in again.ledger.relation
    assert (model.schema.unit, model.schema.max_rows) == ("patient_id", 3)
    charged = {entry.label: entry.sensitivity for entry in again.ledger.entries}
    assert set(charged) >= LEARNING and charged.pop("rows per patient") == 1.0 and min(charged.values()) >= 3
    assert charged[selection.KINDS] == pytest.approx(3 * np.sqrt(3))  # the key is no column to learn
    kinds = {name: column.kind for name, column in model.schema.columns.items()}
    assert kinds == {"patient_id": "identifier", "age": "count", "ward": "categorical", "sick": "binary"}
    assert model.schema.columns["ward"].levels == ("a", "b", "c")  # the rows that patients keep are all there are
    kept = frame["patient_id"].value_counts().clip(upper=3).sum()
    assert abs(model.rows - kept) < 300 < len(frame) - kept
    drawn = medsynth.sample(again, 2000, seed=0)
    sizes = drawn["patient_id"].value_counts()
    assert sizes.max() == 3 and not set(drawn["patient_id"]) & set(frame["patient_id"])
    shares = np.bincount(sizes, minlength=4)[1:] / len(sizes)
    assert np.abs(shares - model.tensors[ROWS_PER_PATIENT]).max() < 0.07
    assert any("'patient_id' names the patient of each row" in text for text in notices)
    warned = [text for text in notices if text.startswith("WARNING")]
    assert len(warned) == 1 and "constant" in warned[0]  # nothing else: the unit is declared


def test_a_patient_counts_with_one_row_if_nobody_says_more(quick: None) -> None:
    model, notices = fitted(visits(), unit="patient_id")
    assert model.ledger.protects == "one patient with up to 1 row" and model.schema.max_rows == 1
    assert medsynth.sample(model, 300, seed=0)["patient_id"].is_unique
    assert any("with at most 1 row, drawn at random" in text for text in notices)


def test_any_column_can_name_the_patients(quick: None) -> None:
    """Names that are no key's, and the last column, which is the target where nothing names another."""
    frame = visits(600).rename(columns={"patient_id": "house"})
    model, _ = fitted(frame[["age", "ward", "sick", "house"]], unit="house")
    assert not model.schema.columns["house"].modelled and model.schema.target == "sick"


def test_noise_and_needs_are_those_of_patients(tmp_path: Path) -> None:
    visits().to_csv(tmp_path / "v.csv", index=False)
    table, plans = tmp_path / "v.csv", {}
    for most in (1, 3):
        plans[most], notes, _ = plan_fit(
            table, FitSettings(epsilon=3.7, method="independent", unit="patient_id", max_rows=most)
        )
    assert plans[3].noise(selection.KINDS) == pytest.approx(3 * plans[1].noise(selection.KINDS))
    assert "rows per patient" in plans[1].events
    assert any("'patient_id' names the patient of each row" in note for note in notes)
    _, notes, _ = plan_fit(table, FitSettings(epsilon=3.7, unit="patient_id", max_rows=100))
    assert any("too few" in note for note in notes)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"max_rows": 3}, "Set `unit` to the column of patients"),
        ({"unit": "patient_id", "max_rows": 0}, "between 1 and"),
        ({"unit": "patient_id", "max_rows": 2.5}, "whole number"),
        ({"unit": "patient_id", "one_row_a_patient": True}, "Give one of"),
        ({"unit": "patientid"}, "not a column.*patient_id"),
        ({"unit": "sick", "target": "sick"}, "is the target"),
        ({"unit": "patient_id", "schema": {"name": "t", "unit": "patient_id", "max_rows": 2, "columns": {
            "patient_id": {"kind": "identifier"}, "age": {"kind": "count", "bounds": [0, 99]},
            "ward": {"kind": "categorical", "levels": ["a", "b", "c"]},
            "sick": {"kind": "binary", "levels": ["no", "yes"]}}}}, "schema names the column of patients"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_unit(options: dict[str, Any], message: str) -> None:
    with pytest.raises((UsageError, SchemaError), match=message):
        fitted(visits(20), **options)


def test_a_row_without_a_patient_is_refused() -> None:
    frame = visits(20)
    frame.loc[4, "patient_id"] = None
    with pytest.raises(SchemaError, match="'patient_id', row 5"):
        fitted(frame, unit="patient_id")


@pytest.mark.statistical
def test_on_the_terminal_with_a_hold_out(quick: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A part without one of 1,500 patients has a chance below 1e-300: the false-alarm rate."""
    monkeypatch.chdir(tmp_path)
    visits().to_csv("v.csv", index=False)
    run = CliRunner().invoke
    words = ["--epsilon", "8", "--unit", "patient_id", "--max-rows", "2"]
    made = run(app, ["fit", "v.csv", *words, "--method", "independent", "--holdout", "0.4"])
    assert made.exit_code == 0 and "one patient with up to 2 rows" in made.stdout, made.stderr
    train, heldout = (set(pd.read_csv(f"v.{part}.csv")["patient_id"]) for part in ("train", "heldout"))
    assert train and heldout and not train & heldout
    assert "for one patient, up to 2 rows" in run(app, ["ledger", "--table", "v.csv"]).stdout
    assert run(app, ["ledger", "--verify"]).exit_code == 0
    planned = run(app, ["plan", "v.csv", *words, "--json"])
    assert any(line["label"] == "rows per patient" for line in json.loads(planned.stdout)["measurements"])
    wrong = run(app, ["plan", "3000", *words])
    assert wrong.exit_code == 2 and "--unit names a column of a table" in wrong.stderr
    alone = run(app, ["fit", "v.csv", "--epsilon", "8", "--max-rows", "2", "--force"])
    assert alone.exit_code == 2 and "--unit" in alone.stderr
