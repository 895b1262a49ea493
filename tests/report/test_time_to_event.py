"""Kaplan-Meier curves and hazard ratios against statsmodels computed apart; roles in the schema; odd tables."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from statsmodels.duration.hazard_regression import PHReg
from statsmodels.duration.survfunc import SurvfuncRight

import medsynth
from medsynth.errors import SchemaError
from medsynth.report.build import build
from medsynth.report.data.survival import Times
from medsynth.report.data.verdict import Thresholds
from medsynth.report.page.render import page
from medsynth.report.sections.time_to_event import TIME_TO_EVENT, TimeToEventFigures, cox, time_to_event
from medsynth.schema import Schema

COLUMNS: dict[str, Any] = {
    "days": {"kind": "continuous", "bounds": [0, 5000], "decimals": 0, "unit": "days"},
    "age": {"kind": "continuous", "bounds": [0, 110], "decimals": 1},
    "drug": {"kind": "binary", "levels": ["no", "yes"]},
    "noise": {"kind": "continuous", "bounds": [-10, 10], "decimals": 2},
    "status": {"kind": "categorical", "levels": [0, 1, 2]},
    "died": {"kind": "binary", "levels": ["no", "yes"]},
}
ROLES = {"time": "days", "event": "died"}
NUMBERS = frozenset({"days", "age", "noise"})


def schema(**roles: Any) -> Schema:
    return Schema.from_dict({"name": "t", "target": "died", "columns": COLUMNS, "survival": roles or ROLES})


def cohort(rows: int, seed: int, age: float = 0.8, drug: float = -0.7) -> pd.DataFrame:
    """Exponential times with known log hazard ratios of age (per ten years) and drug, and a censoring time."""
    rng = np.random.default_rng(seed)
    made = pd.DataFrame({"age": rng.normal(60, 10, rows).round(1), "drug": rng.choice(["no", "yes"], rows)})
    hazard = np.exp(age * (made.age - 60) / 10 + drug * (made.drug == "yes")) / 900
    death, end = rng.exponential(1 / hazard), rng.uniform(100, 3000, rows)
    made = made.assign(days=np.minimum(death, end).round(), died=np.where(death <= end, "yes", "no"))
    return made.assign(noise=rng.normal(0, 1, rows).round(2), status=np.where(made.died == "yes", "2", "0"))


def figures(real: pd.DataFrame | None, made: pd.DataFrame, **roles: Any) -> TimeToEventFigures:
    found = time_to_event(schema(**roles), real, made, NUMBERS, np.random.default_rng(0))
    assert found is not None
    return found


def test_curves_are_those_of_statsmodels() -> None:
    real, made = cohort(300, 1), cohort(500, 2)
    found = figures(real, made)
    for table, shares, median in (
        (real, found.curve.real, found.median_real),
        (made, found.curve.synthetic, found.median_synthetic),
    ):
        theirs = SurvfuncRight(table.days, table.died == "yes")
        step = np.searchsorted(theirs.surv_times, found.curve.times, side="right")
        expected = np.concatenate([[1.0], theirs.surv_prob])[step]
        known = [k for k, share in enumerate(shares or []) if share is not None]
        assert len(known) > 20 and [(shares or [])[k] for k in known] == pytest.approx(expected[known], abs=1e-5)
        assert median == theirs.quantile(0.5)
    assert (found.events_real, found.events_synthetic) == ((real.died == "yes").sum(), (made.died == "yes").sum())


@pytest.mark.nightly
def test_hazard_ratios_are_those_of_statsmodels() -> None:
    real, made = cohort(600, 1), cohort(900, 2)
    found = figures(real, made)
    by_name = {one.predictor: one for one in found.hazards}
    assert len(by_name) == 3, "the column that repeats the event is not a predictor"
    drug = next(name for name in by_name if name.startswith("drug"))
    order = list(by_name)
    for side, table in (("real", real), ("synthetic", made)):
        x = pd.DataFrame({"drug": table.drug == drug.split(" = ")[1], "status": table.status == "0"}, dtype=float)
        for name in ("age", "noise"):
            x[name] = (table[name] - real[name].mean()) / real[name].std(ddof=0)
        kept = [name.split(" ")[0] for name in order]
        result = PHReg(table.days, x[kept], status=(table.died == "yes").to_numpy(), ties="efron").fit()
        for k, name in enumerate(order):
            one = getattr(by_name[name], side)
            if one.value is not None:
                assert one.value == pytest.approx(result.params[k], abs=1e-3)
                low, high = result.conf_int()[k]
                assert (one.low, one.high) == (pytest.approx(low, abs=1e-3), pytest.approx(high, abs=1e-3))


def test_a_model_that_newtons_method_loses_is_estimated() -> None:
    """Full Newton steps diverge if a rare level has a long time; the estimate exists all the same."""
    rng = np.random.default_rng(0)
    for k in range(8):
        x = np.stack([rng.lognormal(0, 1.2, 100), (rng.random(100) < 0.05) * 1.0, rng.normal(0, 1, 100)], 1)
        x[:, 0] /= x[:, 0].std()
        time = np.ceil(rng.exponential(500 / np.exp(1.5 * x[:, 0] - 2 * x[:, 1])))
        assert np.isfinite(cox(x, Times(time, rng.random(100) < 0.6)).value[[0, 2]]).all(), k


@pytest.mark.nightly
def test_the_verdict_tells_shorter_lives_and_not_the_same_ones() -> None:
    assert TIME_TO_EVENT.verdicts is not None
    told = []
    for made in (cohort(1500, 2), cohort(1500, 2).assign(days=lambda t: (t.days / 2).round())):
        (line,) = TIME_TO_EVENT.verdicts(figures(cohort(1500, 1), made), Thresholds())
        told.append(line.outcome)
    assert told[0] in ("within", "cannot tell") and told[1] == "beyond"


@pytest.mark.parametrize(
    ("roles", "words"),
    [
        ({"time": "dyas", "event": "died"}, "must name a number column. Did you mean 'days'"),
        ({"time": "drug", "event": "died"}, "must name a number column"),
        ({"time": "days", "event": "age"}, "must name a column with levels"),
        ({"time": "days", "event": "status"}, "has not exactly two levels"),
        ({"time": "days", "event": "status", "level": 3}, "must be a level of 'status'"),
        ({"time": "days"}, "event"),
        ({"time": "days", "event": "died", "start": "age"}, "there is no such key"),
    ],
)
def test_wrong_roles_are_named(roles: dict[str, Any], words: str) -> None:
    with pytest.raises(SchemaError, match=words):
        schema(**roles)


def test_roles_come_back_from_a_file() -> None:
    for roles, level in (
        (ROLES, "yes"),
        ({**ROLES, "level": "no"}, "no"),
        ({**ROLES, "event": "status", "level": 2}, "2"),
    ):
        mine = schema(**roles)
        assert Schema.from_yaml(mine.to_yaml()) == mine and mine.event_level == level and mine.core.survival is None
    several = {**COLUMNS, "pid": {"kind": "identifier"}}
    with pytest.raises(SchemaError, match="one row per patient"):
        Schema.from_dict({"name": "t", "columns": several, "survival": ROLES, "unit": "pid", "max_rows": 3})


ODD: dict[str, Any] = {
    "as it is": {}, "no event": {"died": "no"}, "all die": {"died": "yes"}, "no time": {"days": np.nan},
    "one time": {"days": 5.0}, "all at once": {"days": 0.0, "died": "yes"}, "no event known": {"died": None},
    "constant": {"age": 4.0, "noise": np.nan, "drug": "no", "status": "0"},
}  # fmt: skip


@pytest.mark.parametrize("synthetic", ODD)
@pytest.mark.parametrize("real", ODD)
def test_odd_tables_are_computed_or_say_why_not(real: str, synthetic: str) -> None:
    for rows in (5, 60):
        found = figures(cohort(rows, 1).assign(**ODD[real]), cohort(80, 2).assign(**ODD[synthetic]))
        assert found.reasons or found.hazards
        numbers = [v for one in found.hazards for v in (one.real.value, one.synthetic.value) if v is not None]
        assert np.isfinite(numbers).all() and (found.curve_gap.value is not None or found.reasons)


@pytest.mark.nightly
def test_the_page_has_curves_in_both_variants() -> None:
    model = medsynth.fit(
        cohort(400, 3), schema=schema(), epsilon=5.0, method="independent", rows=400, notice=lambda line: None
    )
    drawn = medsynth.sample(model, 400, seed=1)
    internal, shareable = (
        build(synthetic=drawn, real=table, model=model, drawn_by_model=True) for table in (cohort(300, 4), None)
    )
    assert "Kaplan-Meier" in page(internal) and "log hazard ratio" in page(internal)
    record = shareable.sections["time_to_event"]
    assert isinstance(record, TimeToEventFigures) and record.rows_real is None and "Kaplan-Meier" in page(shareable)
    assert any(line.key == "time_to_event_gap" for line in internal.verdicts)
    assert not any(line.key == "time_to_event_gap" for line in shareable.verdicts)
