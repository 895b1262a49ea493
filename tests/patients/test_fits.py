"""Fits of patients over time, from the table to sampled rows."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from medsynth_sample_data.visits import SCHEMA as SCHEMA_FILE
from medsynth_sample_data.visits import simulate
from quick_methods import offer_quick

import medsynth
from medsynth.errors import MedsynthError, UsageError
from medsynth.methods.registry import CLAIMING
from medsynth.patients import plan as shares
from medsynth.patients import training
from medsynth.patients.contexts import moving, plain
from medsynth.patients.split_rows import GAP, OF, VISIT
from medsynth.patients.stored import restored, tensors
from medsynth.schema import Schema

SCHEMA = Schema.load(SCHEMA_FILE)
UNIT, ORDER = "patient_id", "visit_date"


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    made: pd.DataFrame = simulate(400, seed=3)
    return made.sample(frac=1, random_state=0)  # rows in any order


@pytest.fixture(scope="module")
def model(table: pd.DataFrame, once: Callable[..., Path]) -> medsynth.Model:
    def make(folder: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            offer_quick(patch)
            patch.setattr(training, "SIMULATED", 3000)
            fitted = medsynth.fit(table, epsilon=20, schema=SCHEMA, method="independent", seed=0)
        assert fitted.ledger.complete
        fitted.save(folder / "m.medsynth")

    return medsynth.load(once("model_of_patients", make) / "m.medsynth")


@pytest.fixture(scope="module")
def rows(model: medsynth.Model) -> pd.DataFrame:
    return model.sample(3000, seed=1)


@pytest.mark.nightly
def test_the_ledger_is_the_plan_and_rows_have_the_noise_of_one(model: medsynth.Model, table: pd.DataFrame) -> None:
    """Whatever the cap on rows: first rows are one a patient, later ones are averaged."""
    assert model.ledger.max_rows == 5
    found = {entry.label: entry.sensitivity for entry in model.ledger.entries}
    assert set(shares.SHARES) < set(found)
    changing_and_gap = 10
    assert found[shares.ONE_WAY] == pytest.approx(np.sqrt(changing_and_gap))
    assert found[shares.TWO_WAY] ** 2 == pytest.approx(round(found[shares.TWO_WAY] ** 2))
    unordered = SCHEMA.model_copy(update={"order": None, "rules": ()})
    other = medsynth.fit(table, epsilon=20, schema=unordered, method="independent", seed=0)
    before = {entry.label: entry.sensitivity for entry in other.ledger.entries}
    assert 4 < before["one-way marginals"] / found["one-way marginals"] <= 5
    assert medsynth.verify(model)["pld"] <= 20


def test_every_patient_is_whole_and_in_order(rows: pd.DataFrame) -> None:
    assert len(rows) == 3000
    patients = rows.groupby(UNIT, sort=False)
    assert (rows[UNIT] != rows[UNIT].shift()).sum() == patients.ngroups  # rows of a patient stand together
    assert patients.size().max() == 5 and patients.size().min() == 1
    days = pd.to_datetime(rows[ORDER])
    assert (days.groupby(rows[UNIT]).diff().dropna() >= pd.Timedelta(0)).all()
    assert days.min() >= pd.Timestamp("2012-01-01") and days.max() <= pd.Timestamp("2024-12-31")
    for name in SCHEMA.constant:
        assert (patients[name].nunique() == 1).all()
    assert not ((rows["creatinine_umol_l"] > 150) & (rows["metformin"] == "yes")).any()


def test_values_follow_from_those_before(table: pd.DataFrame, rows: pd.DataFrame, model: medsynth.Model) -> None:
    """By hundreds of rows: each bound is far below what is expected, and far above what independent rows have."""

    def again(frame: pd.DataFrame, name: str) -> tuple[pd.Series, pd.Series]:
        frame = frame.sort_values([UNIT, ORDER], kind="stable")
        before = frame.groupby(UNIT)[name].shift()
        known = before.notna() & frame[name].notna()
        return before[known], frame.loc[known, name]

    before, now = again(rows, "haemoglobin_g_l")
    assert np.corrcoef(before.astype(float), now.astype(float))[0, 1] > 0.5  # 0.85 of the process
    before, now = again(rows, "kidney_disease")
    assert (now[before == "yes"] == "yes").mean() > 0.85  # 1 of the process, some 0.2 of all rows
    before, now = again(rows, "weight_kg")
    assert (before == now).mean() > 0.4  # 0.6 of the process
    sizes = rows.groupby(UNIT).size().value_counts(normalize=True)
    assert sizes[1] == pytest.approx(table.groupby(UNIT).size().value_counts(normalize=True)[1], abs=0.1)


def test_a_saved_model_draws_the_same_rows(model: medsynth.Model, tmp_path: Path) -> None:
    again = medsynth.load(model.save(tmp_path / "m.medsynth"))
    pd.testing.assert_frame_equal(model.sample(300, seed=5), again.sample(300, seed=5))
    chain = restored(again.tensors, again.schema)
    given = {context for own in chain.weights.values() for context, _ in own if moving(context)}
    assert {plain(context) for context in given} >= {(OF, GAP), (OF, VISIT)}  # of so few patients in any case
    assert {key: value.tobytes() for key, value in tensors(chain).items()} == {
        key: value.tobytes() for key, value in again.tensors.items() if key.startswith("later.")
    }


@pytest.mark.nightly
def test_conditions_are_about_first_rows(model: medsynth.Model) -> None:
    found = model.sample(400, seed=2, where=["sex=F", "severity=severe"])
    assert set(found["sex"]) == {"F"}
    assert set(found.groupby(UNIT).first()["severity"]) == {"severe"}
    assert "mild" in set(found["severity"])


def test_no_key_comes_twice_in_chunks(model: medsynth.Model, monkeypatch: pytest.MonkeyPatch) -> None:
    from medsynth.sampling import Draw, pipeline

    monkeypatch.setattr(pipeline, "CHUNK_ROWS", 100)
    found = pd.concat(one for part in pipeline.frames(model, Draw(rows=250, seed=1)) for one in part.values())
    assert len(found) == 250 and (found[UNIT] != found[UNIT].shift()).sum() == found[UNIT].nunique()


@pytest.mark.nightly_for("mixture")
@pytest.mark.matrix
@pytest.mark.nightly_for("dp-cgan", "dp-gan", "gs-wgan", "pate-gan", "g-pate")
@pytest.mark.parametrize("method", CLAIMING)
def test_any_method_draws_the_first_rows(method: str, quick: None, table: pd.DataFrame) -> None:
    made = medsynth.fit(table, epsilon=20, schema=SCHEMA, method=method, seed=0).sample(200, seed=1)
    assert len(made) == 200 and made.groupby(UNIT).size().max() > 1


@pytest.mark.nightly
def test_a_fit_that_was_killed_goes_on(
    quick: None, table: pd.DataFrame, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No release is drawn twice: the model is that of its first measurements."""

    def stopped(*args: object) -> None:
        raise KeyboardInterrupt

    fit = partial(medsynth.fit, table, epsilon=20, schema=SCHEMA, method="independent", seed=0,
                  checkpoint=tmp_path / "c.checkpoint")  # fmt: skip
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(training.ChainTraining, "measure_relations", stopped)
        fit()
    whole, again = fit(resume=True), fit(resume=True)
    assert whole.ledger.complete
    assert {k: t.tobytes() for k, t in whole.tensors.items()} == {k: t.tobytes() for k, t in again.tensors.items()}


@pytest.mark.parametrize("keys", [["9", "10", "2"], ["b", "c", "a"]])
def test_keys_of_rows_may_be_their_order(quick: None, keys: list[str]) -> None:
    """Keys of digits are compared as numbers: 9 comes before 10. The state of the last key is the next one's last."""
    states = dict(zip(sorted(keys, key=lambda key: (len(key), key)), ("a", "b", "c"), strict=True))
    frame = pd.DataFrame([
        {"patient": f"p{k}", "stay": key, "state": states[key]} for k in range(300) for key in keys
    ])  # fmt: skip
    schema = Schema.from_yaml("""
        name: stays
        target: state
        unit: patient
        max_rows: 3
        order: stay
        columns:
          patient: {kind: identifier}
          stay: {kind: identifier}
          state: {kind: categorical, levels: [a, b, c]}
    """)
    made = medsynth.fit(frame, epsilon=50, schema=schema, method="independent", seed=0).sample(300, seed=0)
    whole = made.groupby("patient")["state"].agg("".join)
    assert (whole[whole.str.len() == 3] == "abc").mean() > 0.9
    assert made["stay"].is_unique and made["stay"].is_monotonic_increasing


NAMES = ("gap", "rows", "now:gap", "changes of gap", "rows of the patient", "last row")


@pytest.mark.nightly
@pytest.mark.nightly_for("2")
@pytest.mark.parametrize("visits", [1, 2])
def test_any_names_and_patients_of_one_row_alone(quick: None, visits: int) -> None:
    """Names that resemble those of the model's own tables; tables in which nobody comes again."""
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"who": np.repeat(np.arange(300), visits), "day": np.tile(np.arange(visits), 300)})
    for name in NAMES:
        frame[name] = rng.integers(0, 60, len(frame))
    columns = {"who": {"kind": "identifier"}, "day": {"kind": "count", "bounds": [0, 9]}}
    columns |= {name: {"kind": "count", "bounds": [0, 60]} for name in NAMES}
    schema = Schema.from_dict({"name": "t", "target": "gap", "unit": "who", "max_rows": 3, "order": "day",
                               "columns": columns})  # fmt: skip
    made = medsynth.fit(frame, epsilon=5, schema=schema, method="independent", seed=0).sample(500, seed=0)
    assert list(made) == list(frame) and len(made) == 500
    assert (made.groupby("who")["day"].diff().dropna() >= 0).all()


def test_what_cannot_be_followed_is_refused(model: medsynth.Model, table: pd.DataFrame, tmp_path: Path) -> None:
    table.to_csv(tmp_path / "public.csv", index=False)
    with pytest.raises(UsageError, match="`public` rows"):
        medsynth.fit(table, epsilon=1, schema=SCHEMA, method="dp-gan", public=tmp_path / "public.csv", citation="A")
    with pytest.raises(MedsynthError, match="several rows"):
        medsynth.sample(model, 100, replicates=2)


RULES = [
    "died = yes implies last row",
    "last row implies fatigue_score > 0",
    "previous(kidney_disease) = yes implies kidney_disease = yes",
    "visit_date > previous(visit_date)",
    "weight_kg > 0.9 * previous(weight_kg)",
    "fatigue_total = cumulative(fatigue_score)",
    "creatinine_umol_l > 150 implies metformin = no",
]


@pytest.mark.nightly
def test_rules_across_rows_hold_in_every_patient(table: pd.DataFrame, quick: None) -> None:
    """By the table's own words, with pandas and not by the code that held them."""
    content: dict[str, Any] = SCHEMA.to_dict()
    content["columns"]["fatigue_total"] = {"kind": "count", "bounds": [0, 200]}
    schema = Schema.from_dict({**content, "rules": RULES})
    total = table.sort_values([UNIT, ORDER]).groupby(UNIT)["fatigue_score"].cumsum().reindex(table.index)
    made = medsynth.fit(table.assign(fatigue_total=total), epsilon=20, schema=schema, method="independent", seed=0)
    rows = made.sample(6_000, seed=1)
    patients = rows.groupby(UNIT, sort=False)
    before, last = patients.shift(), patients.cumcount(ascending=False) == 0
    assert len(rows) == 6_000 and not (rows["died"].eq("yes") & ~last).any()
    assert (rows.loc[last, "fatigue_score"] > 0).all()
    assert not (before["kidney_disease"].eq("yes") & rows["kidney_disease"].eq("no")).any()
    follow = before[ORDER].notna()
    days, days_before = pd.to_datetime(rows.loc[follow, ORDER]), pd.to_datetime(before.loc[follow, ORDER])
    assert (days > days_before).all()
    assert (rows.loc[follow, "weight_kg"] > 0.9 * before.loc[follow, "weight_kg"]).all()
    assert (patients["fatigue_score"].cumsum() == rows["fatigue_total"]).all()
    assert follow.sum() > 1_500
