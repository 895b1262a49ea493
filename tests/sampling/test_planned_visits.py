"""Visits on a declared list: the order has levels, such as months 0, 2, 6, 12 and 18."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from medsynth.errors import SchemaError
from medsynth.report.data.over_time import compared, ordered
from medsynth.sampling import Draw, sample_codes
from medsynth.sampling.rules_across_rows import in_order
from medsynth.sampling.structure import structure_model
from medsynth.schema import Schema
from medsynth.schema.codec import csv_cells
from medsynth.schema.linked import LinkedTables

SCHEMA = """
name: planned
unit: patient
max_rows: 4
order: month
columns:
  patient: {kind: identifier}
  month: {kind: ordinal, levels: [0, 2, 6, 12, 18]}
  score: {kind: count, bounds: [0, 9]}
rules:
  - month != previous(month)
"""
LINKED = """
name: two
key: patient
tables:
  patients: {target: sex, columns: {patient: {kind: identifier}, sex: {kind: binary, levels: [F, M]}}}
  stays:
    order: month
    max_rows: 3
    columns:
      patient: {kind: identifier}
      stay: {kind: identifier}
      month: {kind: ordinal, levels: [0, 6]}
      ward: {kind: binary, levels: [a, b]}
  tests:
    order: month
    max_rows: 3
    latest: {stay: stays}
    columns:
      patient: {kind: identifier}
      stay: {kind: identifier, missing: true}
      month: {kind: count, bounds: [0, 20]}
      value: {kind: count, bounds: [0, 9]}
"""


def test_rows_are_at_planned_visits_and_follow_one_another() -> None:
    schema = Schema.from_yaml(SCHEMA)
    cells = csv_cells(sample_codes(structure_model(schema), Draw(patients=200, seed=0)), schema)
    months = cells["month"].astype(int)
    assert set(months) == {0, 2, 6, 12, 18}
    apart = months.groupby(cells["patient"], sort=False).diff().dropna()
    assert len(apart) > 50 and (apart > 0).all()
    made = ordered(cells, pd.factorize(cells["patient"])[0], schema, compared(schema))
    assert made.time is not None and set(made.time) == {0, 2, 6, 12, 18}  # the report compares months


def test_cells_ascend_as_levels_do() -> None:
    words = SCHEMA.replace("[0, 2, 6, 12, 18]", "[screening, week 2, end]").replace("max_rows: 4", "max_rows: 3")
    cells = pd.DataFrame({"patient": ["a", "a", "b", "a"], "month": ["end", "screening", "end", "week 2"]})
    assert in_order(cells.assign(score="1"), Schema.from_yaml(words)).before.tolist() == [3, -1, -1, 1]
    ranks = Schema.from_yaml(SCHEMA).columns["month"].ranks(pd.Series(["12", "2", ""]))
    assert ranks[:2].tolist() == [12, 2] and np.isnan(ranks[2])


def test_levels_without_an_order_of_their_own_sort_nothing() -> None:
    with pytest.raises(SchemaError, match="kind ordinal"):
        Schema.from_yaml(SCHEMA.replace("kind: ordinal", "kind: categorical"))
    with pytest.raises(SchemaError, match="both of dates or both of numbers"):
        LinkedTables.from_yaml(LINKED)
