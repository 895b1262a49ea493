"""Rules between columns: what is a rule, what breaks one, and that no sampled row does."""

from datetime import date
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import medsynth
from medsynth.errors import SchemaError, UsageError
from medsynth.report.sections.plausibility import plausibility
from medsynth.sampling.rejection import broken, complete, rejection_sample
from medsynth.sampling.rules_across_rows import values
from medsynth.schema import Schema
from medsynth.schema.rules import evaluate, parse

COLUMNS: dict[str, dict[str, Any]] = {
    "systolic": {"kind": "count", "bounds": [50, 250]},
    "diastolic": {"kind": "count", "bounds": [30, 150]},
    "pulse pressure": {"kind": "count", "bounds": [0, 100]},
    "sex": {"kind": "binary", "levels": ["F", "M"]},
    "pregnant": {"kind": "binary", "levels": [0, 1]},
    "alive": {"kind": "binary", "levels": [True, False], "missing": True},
    "weight": {"kind": "continuous", "bounds": [1, 300], "decimals": 1, "missing": True},
    "height": {"kind": "continuous", "bounds": [0.3, 2.5], "decimals": 2},
    "bmi": {"kind": "continuous", "bounds": [5, 90], "decimals": 1, "missing": True},
}
RULES = [
    "systolic > diastolic",
    "`pulse pressure` = systolic - diastolic",
    "pregnant = 1 implies sex = F and alive != false",
    "bmi = weight / (height * height)",
]


def schema(rules: list[str] = RULES, **columns: Any) -> Schema:
    return Schema.from_dict({"name": "t", "target": "sex", "columns": COLUMNS | columns, "rules": rules})


def test_a_schema_with_rules_comes_back_from_yaml() -> None:
    assert Schema.from_yaml(schema().to_yaml()) == schema()
    assert set(schema().core.names) == set(COLUMNS) - {"bmi", "pulse pressure"} and schema().core.rules == ()


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ("systolic >", "too early"),
        ("systolic", "too early"),
        ("systolic > diastolic sex", "end"),
        ("(systolic > 3", "bracket"),
        ("systolic ; diastolic", "not part of the rule language"),
        ("__import__('os')", "comparison"),
        ("sex > F", "compare levels"),
        ("sex + 1 = 3", "not a column of numbers"),
        ("`no such` = 1", "no column"),
        ("who = 3", "not a column"),
        ("sex = M implies", "too early"),
        ("bmi = systolic / 2", "twice"),
        ("height = weight / 2", "missing: true"),
        ("weight = bmi", "later"),
        ("x" * 600, "at most"),
    ],
)
def test_what_is_no_rule_is_refused_with_a_reason(rule: str, message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        schema([*([] if message == "missing: true" else RULES), rule] if message != "later" else [rule, *RULES])


def test_arithmetic_has_its_usual_ranks() -> None:
    numbers = {"a": np.array([2.0]), "b": np.array([3.0])}
    for text, truth in [("a + b * 2 = 8", 1), ("(a + b) * 2 = 10", 1), ("-a - b - 1 = -6", 1), ("8 / a / 2 = 2", 1),
                        ("a = 3", 0), ("a != 3 and b >= 3", 1)]:  # fmt: skip
        rule = parse(text, {"a": True, "b": True})
        assert rule.broken(numbers).tolist() == [not truth], text


def test_what_is_missing_breaks_no_rule() -> None:
    rule = parse("dead = yes implies age > 3", {"dead": False, "age": True})
    dead = np.array(["yes", "yes", None, "no", "yes"], object)
    assert rule.broken({"dead": dead, "age": np.array([2, np.nan, 1, 1, 4.0])}).tolist() == [True, *[False] * 4]


def test_a_rule_about_presence_takes_a_missing_value_as_one_that_equals_nothing() -> None:
    weeks, age = np.array([12, 12, 12, np.nan, np.nan]), np.array([30, np.nan, 50, np.nan, 30])
    preg = np.array(["1", None, "0", None, "1"], object)
    values = {"weeks": weeks, "preg": preg, "age": age}
    expected = {
        "weeks is present implies preg = 1": [0, 1, 1, 0, 0],
        "weeks is present implies preg != 0": [0, 0, 1, 0, 0],
        "weeks is present implies age < 40": [0, 1, 1, 0, 0],
        "weeks is missing implies preg is missing": [0, 0, 0, 0, 1],
        "weeks is present if and only if preg is present": [0, 1, 0, 0, 1],
        "age = 30 if and only if weeks is present": [0, 1, 1, 0, 1],
        "age = 30 if and only if weeks = 12": [0, 0, 1, 0, 0],
        "weeks = weeks implies preg = 1": [0, 0, 1, 0, 0],
    }
    numbers = {"weeks": True, "preg": False, "age": True}
    for text, found in expected.items():
        assert parse(text, numbers).broken(values).tolist() == [bool(one) for one in found], text
    named = parse("is is present", {"is": True})
    assert named.columns == {"is"} and named.broken({"is": np.array([np.nan, 1.0])}).tolist() == [True, False]


def test_columns_of_yes_and_no_are_counted_in_sums() -> None:
    columns = {
        "a": {"kind": "binary", "levels": ["no", "yes"], "missing": True},
        "b": {"kind": "binary", "levels": [1, 0]},
        "c": {"kind": "count", "bounds": [0, 1]},
    }
    found = schema(["a + b + c = 1"], **columns).parsed_rules[0]
    values = {"a": np.array(["yes", "no", None], object), "b": np.array(["0", "1", "1"], object), "c": np.arange(3.0)}
    assert found.broken(values).tolist() == [False, True, False]
    with pytest.raises(SchemaError, match="not a column of numbers"):
        schema(["sex + a = 1"], **columns)


def test_sums_of_decimals_are_equal_as_they_are_written() -> None:
    values = {"a": np.array([0.1, 0.1]), "b": np.array([0.2, 0.2]), "c": np.array([0.7, 0.8])}
    for text in ("a + b + c = 1", "a + b <= 0.3", "1 - a >= 0.9"):
        assert not parse(text, dict.fromkeys(values, True)).broken(values)[0], text
    assert parse("a + b + c = 1", dict.fromkeys(values, True)).broken(values).tolist() == [False, True]
    assert parse("a + b < 0.3", dict.fromkeys(values, True)).broken(values).all()


def test_an_age_follows_from_two_dates_by_the_calendar() -> None:
    day = {"kind": "date", "bounds": ["1900-01-01", "2030-12-31"], "missing": True}
    age = {"kind": "count", "bounds": [0, 120], "missing": True}
    found = schema(["age = years(birth, seen)"], birth=day, seen=day, age=age)
    births = ["1968-01-13", "2004-02-29", "2004-02-29", "1950-12-31", "1950-12-31", "2001-01-01"]
    seen = ["2023-01-12", "2023-02-28", "2023-03-01", "2023-12-31", "2023-12-30", "2001-01-01"]
    values = {
        name: np.array([date.fromisoformat(one).toordinal() for one in own] + [np.nan], float)
        for name, own in {"birth": births, "seen": seen}.items()
    }
    (rule,) = found.parsed_rules
    assert rule.defines == "age" and rule.formula is not None
    assert evaluate(rule.formula, values)[:-1].tolist() == [54, 18, 19, 73, 72, 0]
    assert np.isnan(evaluate(rule.formula, values)[-1])
    for text in ("age = years(birth)", "age = years(birth, 3)", "age = years(birth, seen", "years(birth) > 3"):
        with pytest.raises(SchemaError, match="years|early"):
            schema([text], birth=day, seen=day, age=age)
    with pytest.raises(SchemaError, match="takes dates, but 'weight' is not one"):
        schema(["age = years(birth, weight)"], birth=day, age=age)


@settings(deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_rows_keep_every_rule_and_defined_columns_are_computed(seed: int) -> None:
    table = schema()
    core = table.core

    def draw(count: Any, seed: Any) -> Any:
        rng = np.random.default_rng(seed)
        columns = [rng.integers(0, c.size + c.gaps, count) for c in core.columns.values()]
        return np.column_stack(columns).astype(np.int32)

    codes = rejection_sample(draw, table, 200, seed)
    assert not broken(codes, table).any()
    found = values(codes, table, set(table.names))
    assert (found["systolic"] > found["diastolic"]).all()
    assert not ((found["pregnant"] == "1") & (found["sex"] == "M")).any()
    assert (found["pulse pressure"] == np.minimum(found["systolic"] - found["diastolic"], 100)).all()
    known = ~np.isnan(found["weight"])
    body = np.clip(found["weight"] / found["height"] ** 2, 5, 90)[known]
    assert np.abs(found["bmi"][known] - body).max() < 0.0501 and np.isnan(found["bmi"][~known]).all()


def test_rules_that_no_row_can_keep_end_in_one_error_and_rare_ones_in_copies() -> None:
    def draw(count: Any, seed: Any) -> Any:
        codes = np.zeros((count, len(COLUMNS)), np.int32)
        codes[:, 0] = np.random.default_rng(seed).integers(0, 200, count)
        return codes

    with pytest.raises(UsageError, match="rules"):
        rejection_sample(draw, schema(["systolic > 250"]), 50, 1)
    codes = rejection_sample(draw, schema(["systolic = 57 and weight > 0"]), 5000, 1)
    assert set(values(codes, schema(), {"systolic"})["systolic"]) == {57.0}


def test_the_column_order_is_kept_and_no_number_is_no_trap() -> None:
    table = schema(["height = weight / systolic"], height=COLUMNS["height"] | {"missing": True})
    core = np.zeros((2, len(COLUMNS) - 1), np.int32)
    core[1, table.core.names.index("weight")] = 2991  # missing
    assert complete(core, table)[:, table.names.index("height")].tolist() == [0, 221]  # the bound; missing


@pytest.mark.nightly
@pytest.mark.slow
def test_fit_and_sample_keep_rules_end_to_end(quick: None) -> None:
    rng = np.random.default_rng(0)
    low = rng.integers(40, 90, 300)
    frame = pd.DataFrame({"low": low, "high": low + rng.integers(1, 60, 300), "y": rng.choice(["a", "b"], 300)})
    frame["gap"] = frame["high"] - frame["low"]
    numbers = {"kind": "count", "bounds": [0, 200]}
    columns = {"low": numbers, "high": numbers, "y": {"kind": "binary", "levels": ["a", "b"]}, "gap": numbers}
    rules = ["gap = high - low", "high > low"]
    declared = Schema.from_dict({"name": "t", "target": "y", "columns": columns, "rules": rules})
    for method in ("dp-cgan", "mixture"):
        model = medsynth.fit(frame, epsilon=5, schema=declared, rows=300, method=method)
        drawn = medsynth.sample(model, 500)
        assert list(drawn) == list(frame) and (drawn["gap"] == drawn["high"] - drawn["low"]).all()
        assert (drawn["high"] > drawn["low"]).all()
    assert (medsynth.sample(model, 40)["gap"] > 0).all()
    with pytest.raises(UsageError, match="gap"):
        medsynth.sample(model, 10, where=["gap=3"])


def test_a_target_that_no_model_can_learn_is_refused() -> None:
    with pytest.raises(SchemaError, match="target"):
        schema().with_target("bmi")
    keyed = schema(record={"kind": "identifier"})
    with pytest.raises(SchemaError, match="identifier"):
        keyed.with_target("record")


def test_the_report_reads_boolean_levels_as_rules_do() -> None:
    declared = schema(["pregnant = 1 implies alive = true"])
    frame = pd.DataFrame({"pregnant": [1, 1, 0], "alive": ["True", "False", "False"]})
    (found,) = [r for r in plausibility(declared, None, frame).rules if r.column == "between columns"]
    assert found.synthetic == pytest.approx(1 / 3)
