"""Rows that break a rule draw only the columns of that rule again: sums, pairs, many rules, and conditions."""

import time
from typing import Any

import numpy as np
import pandas as pd
import pytest

import medsynth
from medsynth.arrays import Codes
from medsynth.errors import UsageError
from medsynth.sampling.draw import Draw
from medsynth.sampling.pipeline import sample_codes
from medsynth.sampling.rejection import broken, rejection_sample
from medsynth.sampling.sampler import method_sampler
from medsynth.sampling.structure import structure_model
from medsynth.schema import Schema
from medsynth.schema.codec import csv_cells, day_ranges, within_days

ROWS = 8_000
YES_NO: dict[str, Any] = {"kind": "binary", "levels": ["no", "yes"]}
PERCENT: dict[str, Any] = {"kind": "count", "bounds": [0, 100]}
TENTH: dict[str, Any] = {"kind": "continuous", "bounds": [0, 9], "decimals": 1, "missing": True}
DAY: dict[str, Any] = {"kind": "date", "bounds": ["2020-01-01", "2020-12-31"], "missing": True}
COLUMNS: dict[str, Any] = {
    "type_a": YES_NO, "type_b": YES_NO, "type_o": {"kind": "binary", "levels": [1, 0]},
    "part": PERCENT, "rest": PERCENT, "other": PERCENT,
    "low": TENTH, "high": {**TENTH, "bounds": [3, 12]}, "value": {**PERCENT, "missing": True}, "day": DAY,
    "age": PERCENT, "weeks": {"kind": "count", "bounds": [1, 42], "missing": True},
    "y": {"kind": "binary", "levels": ["0", "1"]},
}  # fmt: skip
RULES = {
    "one of three": ["type_a + type_b + type_o = 1"],
    "shares": ["part + rest + other = 100"],
    "a pair": ["value is present if and only if day is present"],
    "numbers": ["low < high"],
    "branching": ["weeks is present implies age > 5"],
    "the target": ["y = 1 implies part > 20"],
}
ALL = [one for own in RULES.values() for one in own]


def schema(rules: list[str], **columns: Any) -> Schema:
    return Schema.from_dict({"name": "t", "target": "y", "columns": COLUMNS | columns, "rules": rules})


def drawn(rules: list[str], seed: int = 1, rows: int = ROWS) -> Codes:
    """Rows of a model in which all that the schema allows is about equally likely."""
    own = schema(rules)
    sampler = method_sampler(structure_model(own), own.core, {}, {})
    return rejection_sample(sampler, own, rows, seed, mends=True)


def shares(codes: Codes) -> dict[str, list[float]]:
    """Shares of levels, of missing values, and of the quarters of numbers."""
    found = {}
    for k, (name, column) in enumerate(schema([]).columns.items()):
        groups = codes[:, k] if column.categorical else np.minimum(codes[:, k] * 4 // column.size, 4)
        found[name] = (np.bincount(groups, minlength=5) / len(codes)).tolist()
    return found


@pytest.mark.matrix
@pytest.mark.parametrize("rules", [*RULES.values(), ALL], ids=[*RULES, "all"])
def test_no_row_breaks_a_rule_and_shares_stay(rules: list[str]) -> None:
    """Within four standard errors and one per cent. Shares that contradict a sum move as far as they must."""
    found, wanted = drawn(rules), shares(drawn([], 2))
    assert len(found) == ROWS and not broken(found, schema(rules)).any()
    for name, own in shares(found).items():
        summed = any(f"{name} +" in rule or f"+ {name}" in rule for rule in rules)
        if not summed:
            assert own == pytest.approx(wanted[name], abs=4 * np.sqrt(0.5 / ROWS) + 0.01), name
    assert len(np.unique(found, axis=0)) > 0.97 * ROWS


def test_sums_keep_shares_that_allow_them() -> None:
    """Three shares of a third, and percentages whose means add up to 100, each as the model draws it."""
    third = {"kind": "categorical", "levels": ["a", "b", "c"]}
    own = schema(["one + two = 1", "half + rest = 100"], one=YES_NO, two=YES_NO, half=PERCENT, third=third)
    sampler = method_sampler(structure_model(own), own.core, {}, {})
    found = rejection_sample(sampler, own, ROWS, 1, mends=True)
    assert not broken(found, own).any()
    values = {name: found[:, own.names.index(name)] for name in ("one", "half", "third", "rest")}
    assert values["one"].mean() == pytest.approx(0.5, abs=4 * np.sqrt(0.25 / ROWS))
    for name in ("half", "rest"):
        assert values[name].mean() == pytest.approx(50, abs=4 * 29.2 / np.sqrt(ROWS) + 0.5)
        assert values[name].std() == pytest.approx(29.2, abs=1)


@pytest.mark.nightly
def test_conditions_stay_where_a_sum_would_change_a_column() -> None:
    rows = medsynth.sample(structure_model(schema(RULES["shares"])), 3000, seed=1, where="part=60..70")
    assert rows["part"].between(60, 70).all() and (rows[["part", "rest", "other"]].sum(axis=1) == 100).all()
    some = medsynth.sample(structure_model(schema(RULES["numbers"])), 3000, seed=1, where="low=1..2,5..6")
    assert (some["low"].between(1, 2) | some["low"].between(5, 6)).all()
    assert not (some["low"] >= some["high"]).any()


def test_written_rows_obey_at_the_last_decimal(tmp_path: object) -> None:
    """Read back as text: 20,000 rows of two numbers with one decimal."""
    rows = medsynth.sample(structure_model(schema(["low < high", "part + rest = 100"])), 20_000, seed=3)
    known = rows[["low", "high"]].astype(str).astype(float).dropna()
    assert len(known) > 12_000 and (known["low"] < known["high"]).all() and (rows["part"] + rows["rest"] == 100).all()


def test_even_classes_stay_even() -> None:
    rows = medsynth.sample(structure_model(schema(RULES["the target"])), 3000, seed=1, balance=True)
    assert (rows["y"] == "1").mean() == pytest.approx(0.5, abs=0.03)
    assert (rows.loc[rows["y"] == "1", "part"] > 20).all()


@pytest.mark.nightly
def test_thirty_rules_cost_at_most_half_more() -> None:
    """Thirty rules, each broken in 2 to 15 per cent of the rows that a model draws, in seconds of the processor."""
    columns: dict[str, Any] = {}
    rules = []
    for k in range(10):
        columns |= {f"low{k}": TENTH, f"high{k}": {**TENTH, "bounds": [7, 16]}, f"day{k}": DAY, f"next{k}": DAY}
        columns |= {f"x{k}": PERCENT, f"z{k}": PERCENT}
        rules += [
            f"low{k} <= high{k}",
            f"day{k} is present if and only if next{k} is present",
            f"x{k} > 90 implies z{k} > 50",
        ]
    models = [structure_model(schema(own, **columns)) for own in ([], rules)]
    seconds: list[list[float]] = [[], []]
    for run in range(3):
        for own, model in zip(seconds, models, strict=True):
            start = time.process_time()
            rows = medsynth.sample(model, 60_000, seed=run)
            own.append(time.process_time() - start)
    assert len(rows) == 60_000 and min(seconds[1]) < 1.5 * min(seconds[0]), seconds


@pytest.mark.nightly
def test_rules_hold_as_cells_are_written_and_conditions_on_dates_that_follow_take_days() -> None:
    """Two timestamps with seconds in cells without them; and a discharge after an admission."""
    moment = {
        "kind": "date",
        "bounds": ["2020-01-01", "2020-01-02"],
        "resolution": "second",
        "format": "%d.%m.%Y %H:%M",
    }
    stay = {"kind": "date", "after": "admitted", "bounds": [0, 90]}
    model = structure_model(schema(["start < end"], start=moment, end=moment))
    cells = csv_cells(sample_codes(model, Draw(rows=5000, seed=1).of(model)), model.schema)
    start, end = (pd.to_datetime(cells[name], format=moment["format"]) for name in ("start", "end"))
    assert (start < end).all()
    model = structure_model(schema(["admitted <= left"], admitted={**DAY, "missing": False}, left=stay))
    rows = medsynth.sample(model, 500, seed=1, where="left=2020-05-01..2020-05-31")
    assert rows["left"].between("2020-05-01", "2020-05-31").all() and (rows["left"] >= rows["admitted"]).all()
    assert (rows["left"] - rows["admitted"]).dt.days.nunique() > 50
    one = medsynth.sample(model, 200, seed=1, where={"left": "2020-06-07"})
    assert (one["left"] == "2020-06-07").all()
    assert (medsynth.sample(model, 200, seed=1, where="left=3..4")["left"] >= "2020-01-04").all()
    with pytest.raises(UsageError, match="left"):
        medsynth.sample(model, 10, where="left=soon")


@pytest.mark.parametrize("resolution", ["day", "minute"])
def test_a_condition_on_days_limits_the_date_before_to_those_that_lead_there(
    resolution: str, rng: np.random.Generator
) -> None:
    per_day = 1 if resolution == "day" else 1440
    rest = {"kind": "date", "resolution": resolution, "format": "%Y-%m-%d" + " %H:%M" * (per_day > 1)}
    first = {**rest, "bounds": ["2020-01-01", "2020-12-31"]}
    own = Schema.from_dict({"name": "t", "columns": {
        "admitted": first, "left": {**rest, "after": "admitted", "bounds": [2 * per_day, 30 * per_day]}
    }})  # fmt: skip
    admitted, left = own.columns.values()
    codes = np.stack([rng.integers(0, column.size, 200_000) for column in (admitted, left)], 1).astype(np.int32)
    for where in ("left=2020-03-04", "left=..2020-01-20", "left=2021-01-05.."):
        days = day_ranges(where, own)
        low, high = left.anchor_codes(days["left"], admitted)
        some = codes[within_days(codes, own, days), 0]
        assert len(some) > 100 and low <= some.min() and some.max() <= high
        assert high - low <= some.max() - some.min() + 3 * per_day
    model = structure_model(own)
    assert (
        medsynth.sample(model, 50, seed=1, where="left=2020-03-04")["left"].dt.date.astype(str) == "2020-03-04"
    ).all()
    with pytest.raises(UsageError, match="leads to the days"):
        medsynth.sample(model, 50, where=["left=2020-03-04", "admitted=2020-06-01.."])
