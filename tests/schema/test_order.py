"""The schema key `order`: which columns may say how a patient's rows follow one another."""

from __future__ import annotations

import pytest

from medsynth.errors import SchemaError
from medsynth.schema import Schema

VISITS = """
name: visits
target: state
unit: patient
max_rows: 4
ORDER
constant: [sex]
columns:
  patient: {kind: identifier}
  encounter: {kind: identifier}
  day: {kind: date, bounds: [2020-01-01, 2024-12-31]}
  discharged: {kind: date, after: day, bounds: [0, 90]}
  visit: {kind: count, bounds: [1, 9]}
  age: {kind: continuous, bounds: [0, 110]}
  grade: {kind: ordinal, levels: [low, high]}
  twice: {kind: continuous, bounds: [0, 220]}
  sex: {kind: binary, levels: [F, M]}
  state: {kind: categorical, levels: [a, b, c]}
rules: ["twice = age + age"]
"""


@pytest.mark.parametrize("name", ["day", "visit", "age", "encounter", "grade"])
def test_a_date_a_number_an_identifier_and_planned_visits_may_order_rows(name: str) -> None:
    schema = Schema.from_yaml(VISITS.replace("ORDER", f"order: {name}"))
    assert schema.order == name
    assert Schema.from_yaml(schema.to_yaml()) == schema
    assert schema.core.order is None


@pytest.mark.parametrize("name", ["patient", "sex", "state", "discharged", "twice", "weight"])
def test_no_other_column_may(name: str) -> None:
    with pytest.raises(SchemaError, match=name):
        Schema.from_yaml(VISITS.replace("ORDER", f"order: {name}"))


def test_without_patients_there_is_no_order() -> None:
    text = VISITS.replace("ORDER", "order: day").replace("unit: patient\n", "").replace("max_rows: 4\n", "")
    with pytest.raises(SchemaError, match="unit"):
        Schema.from_yaml(text.replace("constant: [sex]\n", ""))


def test_something_must_change() -> None:
    text = VISITS.replace("ORDER", "order: day").replace(
        "constant: [sex]", "constant: [sex, state, visit, age, grade, discharged]"
    )
    with pytest.raises(SchemaError, match="no column other than 'day' changes"):
        Schema.from_yaml(text)
