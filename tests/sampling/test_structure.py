"""Rows of a schema alone: they hold its rules, no table is opened, and nothing passes them off as a fit's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import medsynth_sample_data
import numpy as np
import pandas as pd
import pyarrow.parquet
import pytest
from medsynth_cli.main import app
from typer.testing import CliRunner

import medsynth
from medsynth.artifact import claim
from medsynth.errors import MedsynthError, SchemaError, UsageError
from medsynth.fitting.schema_check import check_schema
from medsynth.fitting.source import bundled_text
from medsynth.schema import Schema, bundled

SCHEMAS = Path(medsynth_sample_data.__file__).parent
SCHEMA = """
name: tiny
unit: patient
max_rows: 4
order: day
columns:
  patient: {kind: identifier, shape: "P-######"}
  day: {kind: date, bounds: [2020-01-01, 2024-12-31]}
  sex: {kind: binary, levels: [F, M]}
  pregnant: {kind: binary, levels: ["no", "yes"]}
  died: {kind: binary, levels: ["no", "yes"]}
  tsh: {kind: continuous, bounds: [0, 50], decimals: 2, missing: true}
constant: [sex]
rules:
  - sex = M implies pregnant = no
  - died = yes implies last row
"""


def run(*words: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, list(map(str, words)))
    return done.exit_code, done.output + done.stderr


def written(name: str, folder: Path) -> Path:
    path = folder / f"{name}.schema.yaml"
    path.write_text((SCHEMAS / path.name).read_text())
    return path


@pytest.mark.parametrize(("name", "rows"), [
    ("clinic", 2_000), ("visits", 300),
    *(pytest.param(name, 30_000, marks=pytest.mark.nightly) for name in ("clinic", "visits", "hospital")),
])  # fmt: skip
def test_rows_meet_everything_that_the_schema_declares(name: str, rows: int, tmp_path: Path) -> None:
    schema = written(name, tmp_path)
    code, told = run(
        "sample", "--schema", str(schema), "-n", str(rows), "-o", str(tmp_path / "made.csv"), "--seed", "1"
    )
    assert code == 0 and "STRUCTURE ONLY" in told
    found = check_schema(tmp_path / "made.csv", schema)
    assert not found.problems, found.problems
    assert len(pd.read_csv(tmp_path / "made.csv")) == rows


@pytest.mark.nightly
@pytest.mark.parametrize("patients", [300, 5_000])
def test_keys_of_several_tables_join_and_their_rules_hold(patients: int, tmp_path: Path) -> None:
    (tmp_path / "omop.tables.yaml").write_text(bundled_text("omop"))
    code, told = run("sample", "--schema", "omop", "-n", str(patients), "-o", str(tmp_path / "made"))
    assert code == 0, told
    for file in (tmp_path / "made").iterdir():
        file.rename(tmp_path / file.name)
    found = check_schema(tmp_path / "omop.tables.yaml", None)
    assert not found.problems, found.problems
    people = set(pd.read_csv(tmp_path / "person.csv")["person_id"])
    visits = pd.read_csv(tmp_path / "visit_occurrence.csv")
    assert len(people) == patients and set(visits["person_id"]) <= people
    named = pd.read_csv(tmp_path / "measurement.csv")["visit_occurrence_id"].dropna()
    assert len(named) and set(named.astype(int)) <= set(visits["visit_occurrence_id"])


@pytest.mark.parametrize("dropped", ["note", "patient", "nr"])
def test_rows_without_dropped_columns_meet_their_schema(dropped: str, quick: None, tmp_path: Path) -> None:
    """No fit reads the cells of such a column, unless it names the patient or orders the rows."""
    text = SCHEMA.replace("order: day", "order: nr").replace("constant", "  nr: {kind: identifier}\nconstant", 1)
    text = text.replace("constant", "  note: {kind: identifier}\nconstant", 1)
    (tmp_path / "t.schema.yaml").write_text(text.replace(f"{dropped}: {{kind", f"{dropped}: {{drop: true, kind"))
    assert run("sample", "--schema", str(tmp_path / "t.schema.yaml"), "-n", "50", "-o", str(tmp_path / "t.csv"))[0] == 0
    assert dropped not in pd.read_csv(tmp_path / "t.csv")
    if dropped == "note":
        assert not check_schema(tmp_path / "t.csv", None).problems
        fitted = medsynth.fit(tmp_path / "t.csv", epsilon=9, method="independent", rows=50)
        assert dropped not in fitted.schema.columns
    else:
        with pytest.raises(SchemaError, match=f"no column '{dropped}'"):
            check_schema(tmp_path / "t.csv", None)


def test_rows_are_even_where_no_rule_forbids_it() -> None:
    """Levels, missing values and both halves of the bounds: each share is within five standard errors."""
    ward = {"kind": "categorical", "levels": ["a", "b", "c", "d"]}
    tsh = {"kind": "continuous", "bounds": [0, 50], "decimals": 2, "missing": True}
    schema = Schema.from_dict({"name": "t", "columns": {"ward": ward, "tsh": tsh}})
    rows = medsynth.structure_model(schema).sample(10_000, seed=3)
    shares = [*((rows["ward"] == level).mean() for level in "abcd"), (rows["tsh"].dropna() < 25).mean() / 2]
    assert shares == pytest.approx([0.25] * 5, abs=5 * np.sqrt(0.1875 / len(rows)))
    assert rows["tsh"].isna().mean() == pytest.approx(0.1, abs=5 * np.sqrt(0.09 / len(rows)))


def test_patients_in_order_with_constant_columns_and_last_rows() -> None:
    rows = medsynth.structure_model(Schema.from_yaml(SCHEMA)).sample(400, seed=1)
    assert rows["patient"].value_counts().max() == 4
    assert (rows.groupby("patient")["sex"].nunique() == 1).all()
    assert (rows.groupby("patient")["day"].apply(lambda days: days.is_monotonic_increasing)).all()
    last = rows.groupby("patient").cumcount(ascending=False) == 0
    assert last[rows["died"] == "yes"].all() and (rows["died"] == "yes").any()
    assert not ((rows["sex"] == "M") & (rows["pregnant"] == "yes")).any()


@pytest.mark.nightly
def test_no_table_is_opened(tmp_path: Path) -> None:
    """The table lies beside its schema. Python's audit of opened files shows that nothing reads it."""
    written("clinic", tmp_path)
    (tmp_path / "clinic.csv").write_text("sex_at_birth\nsecret\n")
    code = (
        "import sys\n"
        "opened = []\n"
        "sys.addaudithook(lambda event, args: event == 'open' and opened.append((str(args[0]), str(args[1]))))\n"
        "from medsynth_cli.main import main\n"
        "sys.argv = ['medsynth', 'sample', '--schema', 'clinic.schema.yaml', '-n', '50']\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code\n"
        "print([name for name, mode in opened if name.endswith('.csv') and 'structure' not in name])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
    assert (tmp_path / "clinic.structure.csv").exists()


def test_files_say_that_they_are_structure_only(tmp_path: Path) -> None:
    schema, table = written("clinic", tmp_path), tmp_path / "made.parquet"
    assert run("sample", "--schema", str(schema), "-n", "20", "-o", str(table), "--mark")[0] == 0
    told = json.loads((tmp_path / "made.parquet.provenance.json").read_text())
    assert told["claim"].startswith("STRUCTURE ONLY") and "No result may rest on them" in told["note"]
    assert told["model"] == "clinic.schema.yaml"
    found = pyarrow.parquet.read_table(table)
    assert found.schema.metadata[b"medsynth.claim"].startswith(b"STRUCTURE ONLY")
    assert set(found["synthetic"].to_pylist()) == {"structure only"}


def test_a_schema_that_a_fit_learned_carries_its_claim() -> None:
    own = bundled()["thyroid"]
    assert "nothing is claimed" in claim(medsynth.structure_model(own))
    learned = medsynth.structure_model(own.model_copy(update={"name": "learned"}))
    assert "carry that fit's claim" in claim(learned) and not learned.claims


def test_no_file_passes_for_a_model_of_a_schema(tmp_path: Path) -> None:
    model = medsynth.structure_model(bundled()["thyroid"])
    with pytest.raises(UsageError, match="follows from a schema alone"):
        model.save(tmp_path / "m.medsynth")
    with pytest.raises(UsageError, match="Nothing was measured"):
        list(model.replicates(2))
    with pytest.raises(MedsynthError):
        medsynth.verify(model)


def test_codes_of_a_hierarchy_have_the_finest_layer_that_is_small_enough() -> None:
    tree = {"heart": ["I20", "I21"], "lung": ["J44"]}
    codes = {"kind": "categorical", "hierarchy": tree, "unknown": "other"}
    columns = {"code": codes, "n": {"kind": "count", "bounds": [0, 3]}}
    rows = medsynth.structure_model(Schema.from_dict({"name": "t", "columns": columns})).sample(200, seed=1)
    assert set(rows["code"]) == {"I20", "I21", "J44", "other"}


@pytest.mark.parametrize(("words", "told"), [
    (["--schema", "t.csv"], "is not a schema"),
    (["--schema", "thyroid", "--model", "m.medsynth"], "Leave one of them out"),
    (["--schema", "thyroid", "--replicates", "3"], "Nothing was measured"),
    (["--schema", "t.schema.yaml", "-o", "t.csv", "--force"], "table of real rows"),
])  # fmt: skip
def test_what_cannot_be_drawn_is_refused(
    words: list[str], told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("age\n1\n")
    Path("t.schema.yaml").write_text("name: t\ncolumns:\n  age: {kind: count, bounds: [0, 120]}\n")
    code, output = run("sample", *words)
    assert code == 2 and told in " ".join(output.split()) and Path("t.csv").read_text() == "age\n1\n"
