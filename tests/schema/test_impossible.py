"""Rules that no row can meet are refused before anything is spent."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from medsynth_sample_data import hospital, visits

import medsynth
from medsynth.errors import SchemaError, UsageError
from medsynth.fitting.schema_check import check_schema
from medsynth.fitting.source import bundled
from medsynth.schema import Schema
from medsynth.schema.impossible import refuse_impossible_rules

COLUMNS: dict[str, Any] = {
    "sex": {"kind": "binary", "levels": ["F", "M"]},
    "ward": {"kind": "categorical", "levels": ["a", "b", "c"]},
    "low": {"kind": "count", "bounds": [0, 120]},
    "high": {"kind": "count", "bounds": [60, 250]},
    "weight": {"kind": "continuous", "bounds": [1, 300], "decimals": 1},
    "often": {"kind": "count", "bounds": [0, 9], "missing": True},
    "double": {"kind": "count", "bounds": [0, 500]},
    "wide": {"kind": "continuous", "bounds": [0, 9000], "decimals": 2},
}


def schema(*rules: str, **keys: Any) -> Schema:
    return Schema.from_dict({"name": "t", "target": "sex", "columns": COLUMNS, "rules": list(rules), **keys})


IMPOSSIBLE = {
    "beyond a bound": ["low > 120"],
    "beyond a bound, of decimals": ["weight < 1"],
    "a range without a value": ["low > 5 and low < 6"],
    "two rules of one column": ["low > 50", "low < 50"],
    "two columns": ["low > high + 60"],
    "two rules of two columns": ["low > high", "high >= 120"],
    "a level under two conditions": ["sex = F implies ward = a", "ward = a implies sex = M", "sex = F"],
    "a chain over three columns": ["sex = F implies ward = a", "ward = a implies low > 90", "low < 9", "sex = F"],
    "of a computed column": ["double = low + low", "double > 240"],
}
POSSIBLE = {
    "no rules": [],
    "a bound itself": ["low >= 120", "weight <= 1"],
    "one row of many": ["low > high + 59"],
    "missing values meet every rule": ["often > 20"],
    "a condition that no row meets": ["low > 200 implies sex = F"],
    "too many values to try": ["wide > weight + 9000", "wide < weight"],
    "other columns": ["low > 50", "high < 70", "sex = F", "ward != a"],
}


@pytest.mark.parametrize("rules", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_rules_that_no_row_can_meet_are_refused_by_their_text(rules: list[str]) -> None:
    with pytest.raises(SchemaError, match="no row can meet") as error:
        refuse_impossible_rules(schema(*rules))
    assert rules[-1] in str(error.value)


@pytest.mark.parametrize("rules", POSSIBLE.values(), ids=POSSIBLE)
def test_other_rules_are_not_refused(rules: list[str]) -> None:
    refuse_impossible_rules(schema(*rules))


def test_rules_of_bundled_schemas_are_not_refused() -> None:
    for one in (visits.SCHEMA, hospital.SCHEMA):
        refuse_impossible_rules(Schema.load(one))
    tables = bundled("omop")
    for name in tables.tables:
        refuse_impossible_rules(tables.view(name))


def simulated(folder: Path) -> tuple[Path, Schema]:
    plain = Schema.load(visits.SCHEMA).to_dict()
    visits.simulate(60, 1).to_csv(folder / "visits.csv", index=False)
    return folder / "visits.csv", Schema.from_dict({**plain, "rules": ["fatigue_score > 9000"]})


def test_a_fit_refuses_them_before_it_spends_and_schema_check_finds_them(tmp_path: Path) -> None:
    file, rules = simulated(tmp_path)
    with pytest.raises(SchemaError, match="fatigue_score > 9000"):
        medsynth.fit(file, epsilon=1, schema=rules, rows=60)
    assert not list(tmp_path.glob("*ledger*"))
    (tmp_path / "visits.schema.yaml").write_text(rules.to_yaml())
    assert any("no row can meet" in text for text in check_schema(file, None).problems)


def test_a_fit_of_several_tables_refuses_them(tmp_path: Path) -> None:
    (tmp_path / "t.tables.yaml").write_text(
        "name: t\nkey: id\ntables:\n  one:\n    columns:\n      id: {kind: identifier}\n"
        "      age: {kind: count, bounds: [0, 9]}\n  two:\n    order: day\n    max_rows: 3\n    columns:\n"
        "      id: {kind: identifier}\n      day: {kind: count, bounds: [0, 99]}\n"
        "      x: {kind: count, bounds: [0, 9]}\n"
        "    rules: [x > 3, x > 5 + age, age > 3]\n"
    )
    pd.DataFrame({"id": ["p", "q"], "age": [1, 2]}).to_csv(tmp_path / "one.csv", index=False)
    pd.DataFrame({"id": ["p", "q"], "day": [1, 2], "x": [1, 2]}).to_csv(tmp_path / "two.csv", index=False)
    with pytest.raises(SchemaError, match="no row can meet 'x > 3' and 'x > 5"):
        medsynth.fit(tmp_path, epsilon=1, rows=2)
    assert any("no row can meet" in text for text in check_schema(tmp_path, None).problems)


@pytest.mark.nightly
@pytest.mark.usefixtures("quick")
def test_a_fit_that_has_spent_ends_even_if_no_row_of_its_model_meets_the_rules() -> None:
    """The rule is about too many values to try, and none of them meets it."""
    wide = {"kind": "continuous", "bounds": [0, 9000], "decimals": 2}
    columns = {"id": {"kind": "identifier"}, "day": {"kind": "count", "bounds": [0, 9]}, "a": wide, "b": wide}
    rules = Schema.from_dict({
        "name": "t", "target": "b", "unit": "id", "max_rows": 2, "order": "day", "columns": columns,
        "rules": ["a - b = 0.005"],
    })  # fmt: skip
    rows = [(f"p{k}", day, 100.0 * k, 100.0 * k) for k in range(40) for day in (1, 3)]
    model = medsynth.fit(pd.DataFrame(rows, columns=list(columns)), epsilon=9, schema=rules, rows=80, anyway=True)
    with pytest.raises(UsageError, match="No sampled row meets"):
        medsynth.sample(model, patients=10, seed=0)
