"""How patients end: shares, survival curves and last values, by statsmodels and pandas alone, and what must be seen."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from medsynth_sample_data import visits

from medsynth.report.data.columns import cells_of
from medsynth.report.data.over_time import sequences
from medsynth.report.data.survival import Times, surviving
from medsynth.report.data.verdict import Thresholds, Verdict
from medsynth.report.sections.outcomes import Outcomes, _verdicts, conditions, outcomes
from medsynth.schema import Schema


def followed(units: int, seed: int, *, ties: bool = True) -> Times:
    rng = np.random.default_rng(seed)
    time = rng.exponential(20, units)
    return Times(np.floor(time) if ties else time, rng.random(units) < 0.6)


@pytest.mark.parametrize("ties", [True, False])
def test_a_curve_is_that_of_statsmodels(ties: bool) -> None:
    """With events at zero, ties of events with ends of follow-up, and units that a resample draws several times."""
    found, at = followed(200, 1, ties=ties), np.linspace(0, 60, 50)
    weights = np.random.default_rng(2).poisson(1.0, (3, 200)).astype(np.float64)
    for draw in (None, *weights):
        count = np.ones(200, np.int64) if draw is None else draw.astype(np.int64)
        oracle = sm.SurvfuncRight(np.repeat(found.time, count), np.repeat(found.event, count))
        steps = np.concatenate([[1.0], oracle.surv_prob])
        expected = steps[np.searchsorted(oracle.surv_times, at, side="right")]
        ours = surviving(found, at, None if draw is None else draw[None])[0]
        assert ours == pytest.approx(expected, abs=1e-9)


RULES = {
    "died = yes implies last row": ["died = yes", "flare = no", "flare = yes"],
    "died != no implies last row": ["died = yes", "flare = no", "flare = yes"],
    "flare = yes implies last row": ["flare = yes"],
    "fatigue_score >= 9 implies last row": ["fatigue_score >= 9", "flare = no", "flare = yes"],
    "died = yes and severity = severe implies last row": [
        "died = yes and severity = severe", "flare = no", "flare = yes",
    ],
    "died = yes implies last row and severity = severe": ["died = yes", "flare = no", "flare = yes"],
    "previous(died) = no implies last row": ["flare = no", "flare = yes"],
    "first row implies severity = mild": ["flare = no", "flare = yes"],
}  # fmt: skip


@pytest.mark.parametrize("rule", RULES)
def test_states_are_what_rules_tie_to_the_last_row(rule: str, schema: Schema) -> None:
    declared = Schema.from_dict({**schema.to_dict(), "rules": [rule]}, "schema")
    assert [state.name for state in conditions(declared, "flare", declared.names)] == RULES[rule]


def made(schema: Schema, real: pd.DataFrame, synthetic: pd.DataFrame) -> Outcomes:
    found = sequences(cells_of(real), cells_of(synthetic), None, schema)
    record = outcomes(found, schema, "flare", np.random.default_rng(0))
    assert record is not None
    return record


def lines(record: Outcomes) -> dict[str, Verdict]:
    return {line.key: line for line in _verdicts(record, Thresholds())}


def test_figures_are_those_of_last_rows(schema: Schema) -> None:
    """By pandas alone: the share that died, the mean score of the dead, and the time to death by statsmodels."""
    real, other = visits.simulate(1200, 2), visits.simulate(1200, 5)
    record = made(schema, real, other)
    ends = [table.sort_values("visit_date").groupby("patient_id") for table in (real, other)]
    last = [table.tail(1) for table in ends]
    died = record.states[0]
    dead = [(side["died"] == "yes") for side in last]
    assert died.share_real == pytest.approx(dead[0].mean()) and died.share_synthetic == pytest.approx(dead[1].mean())
    score = next(v for v in record.last_values if (v.state, v.column) == ("died = yes", "fatigue_score"))
    assert score.real == pytest.approx(last[0].loc[dead[0], "fatigue_score"].mean())
    assert score.synthetic == pytest.approx(last[1].loc[dead[1], "fatigue_score"].mean())
    spread = last[0]["fatigue_score"].std(ddof=0)
    assert score.difference == pytest.approx((score.synthetic - score.real) / spread)
    days = pd.to_datetime(other["visit_date"])
    each = days.groupby(other["patient_id"])
    time = (each.max() - each.min()).dt.days
    event = (other["died"] == "yes").groupby(other["patient_id"]).any()
    oracle = sm.SurvfuncRight(time.to_numpy(), event.to_numpy())
    steps = np.concatenate([[1.0], oracle.surv_prob])
    expected = steps[np.searchsorted(oracle.surv_times, died.curve.times, side="right")]
    assert died.curve.synthetic == pytest.approx(expected, abs=1e-4)


def test_deaths_that_disappear_are_beyond(schema: Schema) -> None:
    real, other = visits.simulate(2500, 7), visits.simulate(2500, 8)
    other["died"] = "no"
    found = lines(made(schema, real, other))
    assert found["last_row_share_gap"].outcome == "beyond" and "died = yes" in found["last_row_share_gap"].detail
    assert found["time_to_last_row_gap"].outcome != "within"


def test_last_values_without_a_relation_are_beyond(schema: Schema) -> None:
    """Severity drawn anew for each row: every share and every curve is right, and the relation to death is gone."""
    real, other = visits.simulate(2500, 7), visits.simulate(2500, 8)
    other["severity"] = np.random.default_rng(0).permutation(other["severity"])
    found = lines(made(schema, real, other))
    assert found["last_values_gap"].outcome == "beyond" and "severity" in found["last_values_gap"].detail
    assert found["last_row_share_gap"].outcome == "within"


@pytest.mark.statistical
def test_patients_of_the_same_kind_are_never_beyond(schema: Schema) -> None:
    for seed in range(10):
        record = made(schema, visits.simulate(800, 100 + seed), visits.simulate(800, 200 + seed))
        assert {line.outcome for line in lines(record).values()} <= {"within", "cannot tell"}


@pytest.mark.nightly
def test_odd_tables_compute_or_say_why_not(schema: Schema, parts: Any) -> None:
    whole = parts[1]
    few = whole[whole["patient_id"].isin(whole["patient_id"].unique()[:3])]
    one_row = whole.drop_duplicates("patient_id")
    tables = {
        "few": few, "one row each": one_row, "all die": whole.assign(died="yes"),
        "nobody dies": whole.assign(died="no"), "one class": whole.assign(flare="no", died="no"),
        "an empty column": whole.assign(haemoglobin_g_l=np.nan),
    }  # fmt: skip
    for name, table in tables.items():
        for real, other in ((table, whole), (whole, table), (table, table)):
            record = made(schema, real, other)
            figures = [record.share_gap, record.time_gap, record.values_gap]
            assert all(figure.value is None or np.isfinite(figure.value) for figure in figures), name
            if name == "few":
                assert record.reason and record.share_gap.value is None
    number = Schema.from_dict({**schema.to_dict(), "target": "fatigue_score", "rules": []}, "schema")
    found = sequences(cells_of(whole), cells_of(parts[2]), None, number)
    without = outcomes(found, number, "fatigue_score", np.random.default_rng(0))
    assert without is not None and without.reason and without.last_values and not without.states
    assert [line.key for line in _verdicts(without, Thresholds())] == ["last_values_gap"]


def test_no_real_figure_without_real_rows(schema: Schema, parts: Any) -> None:
    alone = outcomes(sequences(None, cells_of(parts[1]), None, schema), schema, "flare", np.random.default_rng(0))
    assert alone is not None and alone.patients_real is None and not alone.last_values
    assert all(state.share_real is None and state.curve.real is None for state in alone.states)
    assert not _verdicts(alone, Thresholds())


def test_no_cell_shows_fewer_than_twenty_real_patients(schema: Schema, parts: Any) -> None:
    """Thirteen deaths among the real patients: no share, no last value, but a verdict."""
    real = parts[1].copy()
    dead = real.loc[real["died"] == "yes", "patient_id"].unique()
    real.loc[real["patient_id"].isin(dead[13:]), "died"] = "no"
    record = made(schema, real, visits.simulate(1000, 5))
    assert record.states[0].share_real is None and record.states[0].difference is not None
    assert not [v for v in record.last_values if v.state == "died = yes"]
