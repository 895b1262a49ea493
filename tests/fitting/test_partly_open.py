"""Fits of schemas of which a part is open: one path from an empty to a full schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from medsynth_cli.main import app
from typer.testing import CliRunner

import medsynth
from medsynth.artifact import load
from medsynth.budget import Budget
from medsynth.errors import DROPPED_TARGET, SchemaError, TargetError, UsageError
from medsynth.fitting.schema_check import check_schema
from medsynth.privacy import partition_selection as selection
from medsynth.schema import Schema
from tests.benchmarks.tables import opened

pytestmark = [
    pytest.mark.usefixtures("quick"),
    pytest.mark.filterwarnings("ignore::medsynth.errors.MedsynthWarning"),  # few rows, on purpose
]
OPTIONS: dict[str, Any] = {"epsilon": 30.0, "method": "independent", "anyway": True, "seed": 1}


@pytest.fixture
def table(cohort: pd.DataFrame, clinic: Schema, tmp_path: Path) -> Path:
    """A table next to a schema of which a half is open."""
    path = tmp_path / "clinic.csv"
    cohort.to_csv(path, index=False)
    (tmp_path / "clinic.schema.yaml").write_text(opened(clinic, "half").to_yaml())
    return path


def test_plan_and_fit_and_sample_say_what_is_open(table: Path, clinic: Schema) -> None:
    schema = opened(clinic, "half")
    plan = medsynth.plan(table, epsilon=5.0)
    labels = [*plan.measurements["measurement"]]
    assert labels[: len(selection.asked(schema))] == [*selection.asked(schema)]
    assert any(note.startswith("Open: ") and "privacy loss" in note for note in plan.notes)
    model = medsynth.fit(table, **OPTIONS)
    assert not model.schema.open and model.ledger.complete and model.schema.name == "clinic"
    for name, column in clinic.columns.items():
        assert name in schema.open or model.schema.columns[name] == column
    assert any(note.startswith("Learned from noisy counts: ") for note in model.ledger.notes)
    assert [*medsynth.sample(model, 20)] == [*clinic.columns]


def test_a_draft_with_its_todos_fits(cohort: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cohort.to_csv("clinic.csv", index=False)
    run = CliRunner().invoke
    assert run(app, ["schema", "draft", "clinic.csv"]).exit_code == 0
    checked = run(app, ["schema", "check", "clinic.csv"])
    assert checked.exit_code == 0 and "kind open. A fit learns this" in checked.stdout
    fitted = run(app, ["fit", "clinic.csv", "--epsilon", "30", "--method", "independent", "--anyway", "--json"])
    assert fitted.exit_code == 0 and json.loads(fitted.stdout)["epsilon"] <= 30
    assert not load(tmp_path / "clinic.medsynth").schema.open


def test_a_cell_of_an_open_column_is_never_an_error(table: Path, cohort: pd.DataFrame, clinic: Schema) -> None:
    schema = opened(clinic, "half")
    odd = cohort.astype(object)
    odd.loc[3, [*schema.open]] = "31.31.2020 x"
    odd.to_csv(table, index=False)
    medsynth.fit(table, **OPTIONS)
    closed = next(name for name, column in schema.columns.items() if name not in schema.open and column.modelled)
    odd.loc[5, closed] = "31.31.2020 x"
    odd.to_csv(table, index=False)
    before = Budget.of(table).spent()
    with pytest.raises(SchemaError, match=f"column '{closed}', row 6"):
        medsynth.fit(table, **OPTIONS)
    assert Budget.of(table).spent() == before


def test_other_columns_are_refused_left_out_or_learned(table: Path, cohort: pd.DataFrame, clinic: Schema) -> None:
    name = "age_years"
    content: dict[str, Any] = {"name": "two", "target": "diagnosis", "columns": {
        name: clinic.columns[name], "diagnosis": clinic.columns["diagnosis"]}}  # fmt: skip
    with pytest.raises(SchemaError, match="`other_columns`"):
        medsynth.fit(table, schema=content, **OPTIONS)
    left = medsynth.fit(table, schema=content | {"other_columns": "leave out"}, **OPTIONS)
    assert [*left.schema.columns] == [name, "diagnosis"]
    learned = medsynth.fit(table, schema=content | {"other_columns": "learn"}, **OPTIONS)
    assert [*learned.schema.columns] == [*cohort] and learned.schema.columns[name] == clinic.columns[name]
    assert learned.schema.other_columns == "refuse" and not learned.schema.open


def test_the_empty_schema_with_learn_is_the_bare_fit(cohort: pd.DataFrame, fixed_entropy: None) -> None:
    empty = Schema(name="learned", other_columns="learn")
    one, other = (medsynth.fit(cohort, schema=schema, **OPTIONS) for schema in (empty, None))
    assert one.schema == other.schema
    assert {name: found.tobytes() for name, found in one.tensors.items()} == {
        name: found.tobytes() for name, found in other.tensors.items()
    }


@pytest.mark.parametrize("named", [True, False])
def test_a_target_that_cannot_serve(named: bool, cohort: pd.DataFrame, clinic: Schema, tmp_path: Path) -> None:
    """Open by the schema: the fit goes on without it in the same plan, unless the schema names it."""
    content = opened(clinic, "half").to_dict()
    content["columns"] = {**content["columns"], "diagnosis": {"kind": "categorical"}}  # type: ignore[dict-item]
    content["target"] = "diagnosis" if named else None
    cohort.assign(diagnosis="normal").to_csv(tmp_path / "t.csv", index=False)
    if named:
        with pytest.raises(TargetError, match="one class"):
            medsynth.fit(tmp_path / "t.csv", schema=content, **OPTIONS)
        return
    model = medsynth.fit(tmp_path / "t.csv", schema=content, **OPTIONS)
    assert model.schema.target is None and model.ledger.complete
    assert any(note.about.kind == DROPPED_TARGET for note in model.ledger.notes)


@pytest.mark.nightly
def test_a_fit_that_holds_rows_out_and_its_report(table: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run = CliRunner().invoke
    words = ["fit", table.name, "--epsilon", "30", "--holdout", "0.3", "--method", "independent", "--anyway"]
    assert run(app, words).exit_code == 0
    model = load(tmp_path / "clinic.medsynth")
    assert model.ledger.times_measured(selection.LEVELS) == 1 and len(Budget.of(table).spent().fits) == 1
    assert run(app, ["sample", "-n", "200"]).exit_code == 0 and run(app, ["report"]).exit_code == 0


def test_na_values_are_for_open_columns(table: Path, clinic: Schema) -> None:
    model = medsynth.fit(table, na_values=["n.d."], **OPTIONS)
    assert any("n.d." in note for note in model.ledger.notes)
    with pytest.raises(UsageError, match="open columns"):
        medsynth.fit(table, schema=clinic, na_values=["n.d."], **OPTIONS)


def test_a_check_reads_declared_columns_and_lists_open_ones(table: Path, clinic: Schema) -> None:
    found = check_schema(table, None)
    assert not found.problems
    assert sum("A fit learns this" in text for text in found.remarks) == len(opened(clinic, "half").open)
