"""Several tables of which a part is open: what is learned, with which noise, and what a fit does with it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import medsynth
from medsynth.errors import SchemaError, UsageError
from medsynth.fitting.private_tables import open_tables
from medsynth.fitting.schema_check import check_schema
from medsynth.fitting.source import find
from medsynth.patients import training
from medsynth.privacy.accounting.calibration import SELECTIONS_DELTA, Charge, make_plan
from medsynth.privacy.accounting.events import Thresholded
from medsynth.sampling.structure import structure_model
from medsynth.schema.linked import LinkedTables

from .conftest import TABLES, simulated, write

pytestmark = [
    pytest.mark.usefixtures("quick"),
    pytest.mark.filterwarnings("ignore::medsynth.errors.MedsynthWarning"),  # few rows, on purpose
]
OPTIONS: dict[str, Any] = {"epsilon": 90.0, "anyway": True, "method": "independent", "seed": 1}
LITTLE = """
name: ward
key: patient
other_columns: learn
tables:
  patients:
  stays:
    order: admitted
    max_rows: 3
    columns:
      admitted: {kind: date, bounds: [1990-01-01, 2024-12-31]}
  tests:
    columns:
      done: {kind: date, format: "%Y-%m-%d"}
  consent:
"""


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few simulated patients, since what later rows look like does not matter here."""
    monkeypatch.setattr(training, "SIMULATED", 500)


@pytest.fixture
def little(frames: dict[str, pd.DataFrame], tmp_path: Path) -> Path:
    return write(frames, tmp_path / "ward", LITTLE)


@pytest.mark.nightly
def test_a_name_and_a_key_are_enough(little: Path, frames: dict[str, pd.DataFrame]) -> None:
    assert not check_schema(little, None).problems
    plan = medsynth.plan(little, epsilon=90.0, method="independent")
    notes: list[str] = []
    model = medsynth.fit(little, notice=notes.append, **OPTIONS)
    assert model.ledger.complete and model.tables is not None and model.tables.other_columns == "refuse"
    measured = {entry.label: entry.sensitivity for entry in model.ledger.entries}
    assert set(measured) == set(plan.measurements["measurement"])
    # A patient's rows may all have the same cells: stays, of which three count, have three times a row's sensitivity.
    assert measured["patients: schema: kinds of columns"] == pytest.approx(np.sqrt(3))
    assert measured["stays: schema: kinds of columns"] == pytest.approx(3 * np.sqrt(4))
    assert measured["stays: rows per patient"] == measured["tests: rows per patient"] == 1
    assert any("first row in the file of 'tests'" in note for note in notes)
    for name, frame in medsynth.sample_tables(model, 300, seed=1).items():
        assert {*frame} == {*frames[name]}, name
    known = {name: model.tables.alone(name).columns for name in frames}
    assert set(known["stays"]["ward"].levels) - {"other"} == {"heart", "kidney", "lung"}
    assert known["patients"]["born"].dated and not known["stays"]["patient"].modelled
    model.save(little / "m.medsynth")
    assert medsynth.load(little / "m.medsynth").tables == model.tables


@pytest.mark.nightly
def test_what_is_declared_is_never_measured_and_half_open_rules_hold(
    frames: dict[str, pd.DataFrame], tmp_path: Path
) -> None:
    half = TABLES.replace("levels: [heart, kidney, lung]", "levels: [heart], others: learn")
    half = half.replace("bounds: [0, 20], decimals: 1", "decimals: 1")
    model = medsynth.fit(write(frames, tmp_path / "ward", half), **OPTIONS)
    labels = {entry.label for entry in model.ledger.entries if "schema: " in entry.label}
    assert labels == {"stays: schema: levels", "tests: schema: number formats"}
    drawn = medsynth.sample_tables(model, 400, seed=2)
    assert set(drawn["stays"]["ward"]) - {"other"} == {"heart", "kidney", "lung"}
    assert drawn["tests"]["value"].dropna().between(0, 40).all()


def test_a_target_that_nobody_named_and_cannot_serve(tmp_path: Path) -> None:
    frames = simulated(300, 0)
    frames["patients"]["consented"] = "yes"
    model = medsynth.fit(write(frames, tmp_path / "ward", LITTLE), **OPTIONS)
    assert model.schema.target == "height" and model.ledger.complete


def test_rows_beyond_the_maximum_are_not_measured(little: Path) -> None:
    private = open_tables(find(little))
    stay, units = private.kept("stays")
    assert np.bincount(units.of_row).max() == units.max_rows == 3 < np.bincount(private.whose["stays"]).max()
    dates = private.cells["stays"].cells["admitted"]
    first = dates.iloc[stay].groupby(units.of_row).max().max()
    assert len(stay) < len(dates) and first <= dates.max()


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ("admitted: {kind: date, bounds: [1990-01-01, 2024-12-31]}", "admitted: {kind: date}", "'admitted' is open"),
        ("  patients:\n", "  patients:\n    target: nobody\n", "target must name a column"),
        ("other_columns: learn", "other_columns: refuse", "needs the column 'patient'"),
    ],
)
def test_what_cannot_be_learned_is_refused(little: Path, old: str, new: str, words: str) -> None:
    (little / "ward.tables.yaml").write_text(LITTLE.replace(old, new))
    with pytest.raises(SchemaError) as found:
        medsynth.plan(little, epsilon=1.0)
    assert words in str(found.value)


def test_one_name_in_two_tables_is_refused(frames: dict[str, pd.DataFrame], tmp_path: Path) -> None:
    changed = {**frames, "consent": frames["consent"].assign(sex="F")}
    with pytest.raises(SchemaError, match="'sex' is a column of 'patients', too"):
        medsynth.plan(write(changed, tmp_path / "ward", LITTLE), epsilon=1.0)


def test_a_file_without_a_fit_must_be_closed() -> None:
    for text in (LITTLE, TABLES.replace("levels: [heart, kidney, lung]", "missing: true")):
        with pytest.raises(SchemaError, match=r"is open|other_columns"):
            structure_model(LinkedTables.from_yaml(text))


def test_partition_selections_of_all_tables_share_their_part_of_delta() -> None:
    queries = [Charge(label=str(k), weight=1.0, thresholded=True) for k in range(20)]
    for some in (queries[:1], queries[:2], queries):
        events = [event for event, _ in make_plan(some, epsilon=1.0, delta=1e-5, rows=10).events.values()]
        assert sum(event.delta for event in events if isinstance(event, Thresholded)) <= SELECTIONS_DELTA * 1.001e-5


def test_large_tables_are_refused(little: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("medsynth.io.reader.LARGE_BYTES", 1)
    with pytest.raises(UsageError, match="too large to be read at once"):
        medsynth.plan(little, epsilon=1.0)
