"""The benchmark of patients over time: its figures on tables whose figures are known, and patients as wide rows."""

from __future__ import annotations

import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from medsynth_sample_data import visits

from medsynth.schema import Schema
from tests.benchmarks import over_time, over_time_rules
from tests.benchmarks.over_time_tables import Flattened, load, parted, without_order

DATA = Path(os.environ.get("MEDSYNTH_DATA") or Path(__file__).parents[2] / "shared" / "data")


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    made: pd.DataFrame = visits.simulate(3000, 4)
    return made


@pytest.fixture(scope="module")
def schema() -> Schema:
    return Schema.load(visits.SCHEMA)


@pytest.mark.statistical
def test_real_patients_are_near_the_truth_and_shuffled_ones_are_not(
    frame: pd.DataFrame, schema: Schema, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The seed is fixed: it cannot fail by chance."""
    monkeypatch.setattr(over_time, "TRUTH_PATIENTS", 20_000)
    over_time.truth_of_visits.cache_clear()
    kept = ["patient_id", "visit_date"]
    moved = frame.drop(columns=kept).sample(frac=1, random_state=0).reset_index(drop=True)
    shuffled = pd.concat([frame[kept], moved], axis=1)
    near, far = (over_time.of_visits(rows, rows, None, schema) for rows in (frame, shuffled))
    over_time.truth_of_visits.cache_clear()
    for name in ("autocorrelation", "transitions", "rows", "gaps", "last_haemoglobin", "copied"):
        assert near[name] < 0.05, name
    assert near["rows_after_death"] == near["chronic_undone"] == 0 < far["rows_after_death"]
    assert far["autocorrelation"] > 0.7 and far["transitions"] > 0.25 and far["last_haemoglobin"] > 0.5
    assert far["chronic_undone"] > 0.05 and far["same_column"] < near["same_column"] - 0.1


@pytest.mark.statistical
def test_a_patient_as_a_wide_row_comes_back(frame: pd.DataFrame, schema: Schema) -> None:
    """Levels, whole numbers of few values, and how many visits there are, exactly. The seed is fixed."""
    flat, some = Flattened(schema, over_time.GAP_EDGES), frame.head(600)
    codes, sizes = flat.wide(some)
    assert list(codes) == list(sizes) and len(codes) == some["patient_id"].nunique()
    assert all(codes[name].between(0, size - 1).all() for name, size in sizes.items())
    start = np.array([pd.Timestamp("2012-01-01").to_datetime64().astype("datetime64[D]").astype(int)])
    back = flat.visits(codes, np.random.default_rng(0), start)
    for name in ("severity", "flare", "kidney_disease", "metformin", "died", "sex"):
        assert back[name].tolist() == some[name].tolist(), name
    assert back.groupby("patient_id").size().tolist() == some.groupby("patient_id", sort=False).size().tolist()
    again, _ = flat.wide(back)
    pd.testing.assert_frame_equal(again, codes)  # gaps and numbers fall into the bins that they came from


def test_a_visit_that_should_be_there_takes_a_value_of_another_patient(frame: pd.DataFrame, schema: Schema) -> None:
    flat = Flattened(schema, over_time.GAP_EDGES)
    codes, sizes = flat.wide(frame.head(300))
    codes["visits"] = schema.max_rows - 1 if schema.max_rows else 0
    back = flat.visits(codes, np.random.default_rng(0), np.array([15_000]))
    assert (back.groupby("patient_id").size() == schema.max_rows).all() and back["severity"].notna().all()
    days = pd.to_datetime(back["visit_date"]).to_numpy().astype("datetime64[D]").astype(np.int64)
    assert pd.Series(days).groupby(back["patient_id"]).diff().min() >= 1


def test_the_first_runs_come_first_and_wide_rows_are_for_the_simulated_table() -> None:
    given: Any = SimpleNamespace(
        tables=["visits", "pbc"], methods=["medsynth", "real", "pgm-mst"], epsilons=[3.7], runs=2
    )
    jobs = over_time.jobs(given)
    assert [job[3] for job in jobs] == [0] * 5 + [1] * 5 and ("pbc", "pgm-mst", 3.7, 0) not in jobs
    assert ("visits", "real", 0.0, 1) in jobs


def test_the_summary_is_medians_with_their_range() -> None:
    runs = [{"table": "pbc", "method": "real", "epsilon": "0.0", "serBilir_real": value, "serBilir_sign": sign}
            for value, sign in (("0.1", "True"), ("0.3", "True"), ("0.2", "False"))]  # fmt: skip
    text = over_time.summary(runs)
    assert "| real | none | 3 | 0.200 (0.100 to 0.300) | - | 2 of 3 |" in text and "### visits" not in text


def test_the_schema_without_its_order_is_otherwise_the_same(schema: Schema) -> None:
    plain = without_order(schema)
    assert plain.order is None and plain.unit == schema.unit and plain.columns == schema.columns
    assert plain.rules == schema.rules[:1]  # the others are across rows


@pytest.mark.statistical
def test_real_visits_agree_with_other_real_visits() -> None:
    """pbc: bilirubin rises and albumin falls, in both halves of the patients. The halves are fixed."""
    if not (DATA / "pbc").exists():
        pytest.skip("no pbc: set MEDSYNTH_DATA to the folder of public tables")
    frame, _, schema = load("pbc", str(DATA), 0)
    halves = parted(frame, "id", 0.5, 0)
    found = over_time.of_pbc(halves[0], halves[1], None, schema)
    assert found["serBilir_sign"] and found["albumin_sign"] and found["serBilir_overlaps"] and found["albumin_overlaps"]
    assert found["serBilir_real"] > 0 > found["albumin_real"]


def test_without_the_public_files_a_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SystemExit, match="--data"):
        load("pbc", str(tmp_path), 0)


def test_broken_rules_are_counted_and_simulated_rows_break_none() -> None:
    rows = over_time_rules.table(200, 3)
    assert not any(over_time_rules.by_pandas(rows).values())
    later = rows.index[rows["patient_id"].duplicated() & (rows["visit_date"] > "2012-02-01")][0]
    rows.loc[later, "fatigue_total"] = 99
    rows.loc[later, "visit_date"] = "2012-01-01"
    found = over_time_rules.by_pandas(rows)
    assert found["running sum"] == 1 and found["visits not after the last"] == 1
