"""Patients whose rules leave no room for a planned row: they end as others do, lose few rows, and are counted.

The models follow from schemas alone, so no test needs a fit. All seeds are fixed: none can fail by chance.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from medsynth_cli.main import app
from typer.testing import CliRunner

import medsynth
from medsynth.errors import UsageError
from medsynth.rng import numpy_stream
from medsynth.sampling import Draw, sample_codes
from medsynth.sampling import visits as module
from medsynth.sampling.patients import PatientRows, RowCounts, cut_short
from medsynth.sampling.pipeline import drawn_parts
from medsynth.sampling.provenance import Provenance, load
from medsynth.sampling.rules_across_rows import in_order
from medsynth.sampling.structure import structure_model
from medsynth.sampling.visits import ChainView, visits
from medsynth.schema import Schema
from medsynth.schema.codec import csv_cells, decode
from medsynth.schema.linked import LinkedTables
from tests.linked.conftest import TABLES

SCHEMA = """
name: followed
unit: patient
max_rows: 6
order: day
constant: [followup]
columns:
  patient: {kind: identifier}
  day: {kind: count, bounds: [0, 400]}
  followup: {kind: count, bounds: [0, 400]}
  marker: {kind: count, bounds: [0, 9]}
  died: {kind: binary, levels: ["no", "yes"]}
rules:
  - day <= followup
  - day > previous(day)
  - died = yes implies last row
"""
PATIENTS = 1000


@pytest.fixture(scope="module")
def schema() -> Schema:
    return Schema.from_yaml(SCHEMA)


@pytest.fixture(autouse=True)
def few_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cut patients after few rounds, which is quick."""
    monkeypatch.setattr(module, "REJECTION_ROUNDS", 5)
    monkeypatch.setattr(module, "REDRAWS", 1)
    monkeypatch.setattr(module, "FEW_ROUNDS", 2)


def drawn(schema: Schema, followup: int, asked: tuple[str, ...] = ()) -> PatientRows:
    """Patients with six planned rows, of whom each has the first on day 0."""
    first = np.zeros((PATIENTS, len(schema.names) + 1), np.int32)
    first[:, schema.names.index("followup")] = followup
    first[:, -1] = 5
    return visits(structure_model(schema).tensors, ChainView(schema), first, numpy_stream(0, "later rows"), asked)


def deaths(found: PatientRows, schema: Schema, of: np.ndarray) -> float:
    """The share of these patients, (patients,), who die."""
    dead = np.zeros(PATIENTS, np.bool_)
    np.logical_or.at(dead, found.whose, found.codes[:, schema.names.index("died")] == 1)
    return float(dead[of].mean())


def test_patients_who_are_cut_short_die_as_often_as_others(schema: Schema, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "REDRAWS", 0)
    found = drawn(schema, 25)
    assert found.lacking is not None
    cut = found.lacking > 0
    assert 0.2 < cut.mean() < 0.8
    assert deaths(found, schema, cut) == pytest.approx(0.5, abs=0.06)
    assert deaths(found, schema, ~cut) == pytest.approx(0.5, abs=0.06)
    cells = csv_cells(found.codes, schema).assign(patient=found.whose.astype(str))
    position = in_order(cells, schema)
    assert not ((cells["died"] == "yes") & ~position.last).any()
    assert (cells["day"].astype(int) <= 25).all()
    assert (np.bincount(found.whose, minlength=PATIENTS) + found.lacking == 6).all()


def test_a_patient_with_one_day_of_followup_may_die_on_it(schema: Schema) -> None:
    """Nothing follows a first row without room. A condition on its state still decides it."""
    found = drawn(schema, 0)
    assert found.lacking is not None and (found.lacking == 5).all() and len(found.codes) == PATIENTS
    everyone = np.ones(PATIENTS, np.bool_)
    assert deaths(found, schema, everyone) == pytest.approx(0.5, abs=0.06)
    assert deaths(drawn(schema, 0, ("died",)), schema, everyone) == 0


@pytest.mark.nightly
def test_later_rows_are_drawn_again_before_a_patient_is_cut(schema: Schema, monkeypatch: pytest.MonkeyPatch) -> None:
    lost = list[float]()
    for rounds in (0, 3):
        monkeypatch.setattr(module, "REDRAWS", rounds)
        found = drawn(schema, 25)
        assert found.lacking is not None
        lost.append(found.lacking.mean())
        assert (np.diff(found.whose) >= 0).all() and len(np.unique(found.whose)) == PATIENTS
    assert lost[1] < 0.7 * lost[0]


@pytest.mark.nightly
def test_planned_and_written_rows_are_counted(schema: Schema, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    counts = RowCounts()
    model = structure_model(schema)
    rows = decode(sample_codes(model, Draw(patients=150, seed=1), counts), schema)
    own = counts["followed"]
    assert own["rows"] == len(rows) < own["planned"] and own["patients"] == 150 and 0 < own["cut"] < 150
    texts = cut_short(counts)
    assert len(texts) == 1
    text = texts[0]
    assert medsynth.sample(model, patients=150, seed=1).attrs["counts"] == dict(own)
    assert caplog.messages == texts  # Python prints warnings of a logger that nobody configured
    assert f"{own['rows']:,} of {own['planned']:,} planned rows" in text and f"{own['cut'] / 150:.1%}" in text
    (tmp_path / "followed.schema.yaml").write_text(SCHEMA)
    made = tmp_path / "rows.csv"
    words = ["sample", "--schema", str(tmp_path / "followed.schema.yaml"), "--patients", "150", "--seed", "1"]
    done = CliRunner().invoke(app, [*words, "-o", str(made)])
    assert done.exit_code == 0 and text in done.stderr.replace("\n", " ")
    found = load(made)
    assert found is not None and found.counts == {"followed": dict(own)}
    piped = CliRunner().invoke(app, [*words, "-o", "-"])
    assert text in piped.stderr.replace("\n", " ")


def test_a_table_that_loses_nothing_has_no_counts(tmp_path: Path) -> None:
    plain = Schema.from_yaml("name: plain\ncolumns:\n  sex: {kind: binary, levels: [F, M]}\n")
    counts = RowCounts()
    sample_codes(structure_model(plain), Draw(rows=20, seed=1), counts)
    assert not counts and not cut_short({"t": {"rows": 3, "planned": 3, "patients": 2, "cut": 0}})
    made = Provenance(model="m", model_sha256="", rows=20, seed=1, where=(), balance=False, claim="")
    made.save(tmp_path / "t.csv")
    assert "counts" not in json.loads((tmp_path / "t.csv.provenance.json").read_text())


@pytest.mark.nightly
def test_tables_that_another_places_lose_no_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most tests come before any stay, so that the rule about the birth date takes dates, but no row."""
    monkeypatch.setattr(module, "REJECTION_ROUNDS", 40)
    tables = LinkedTables.from_yaml(TABLES)
    counts = RowCounts()
    model = structure_model(tables)
    (part,) = drawn_parts(model, Draw(patients=1500, seed=3), counts)
    own = counts["tests"]
    assert own["planned"] > 2000 and own["cut"] == 0 and own["rows"] == own["planned"]
    tests = decode(part[1]["tests"], tables.written("tests"))
    patients = decode(part[1]["patients"], tables.written("patients")).set_index("patient")
    born = tests["patient"].map(patients["born"]).astype("datetime64[ns]").to_numpy()
    assert (tests["taken"].astype("datetime64[ns]").to_numpy() > born).all()
    assert tests.groupby("patient", sort=False)["taken"].apply(lambda days: days.is_monotonic_increasing).all()


def test_classes_cannot_be_even_if_they_end_patients(schema: Schema) -> None:
    """Half of the patients would die at their first row."""
    model = structure_model(schema.with_target("died"))
    with pytest.raises(UsageError, match="`where_any`"):
        sample_codes(model, Draw(patients=10, seed=1, balance=True))
    even = sample_codes(structure_model(schema.with_target("marker")), Draw(patients=10, seed=1, balance=True))
    assert len(even) >= 10
