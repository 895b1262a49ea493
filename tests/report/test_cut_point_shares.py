"""Shares between cut points, and subgroups by these: the groups as the schema has them, each table's rows its own."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

from medsynth.report.data.columns import cells_of
from medsynth.report.data.tables import Tables
from medsynth.report.sections.fidelity import cut_points
from medsynth.report.sections.utility import subgroups
from medsynth.schema import Schema

BMI = {"kind": "continuous", "bounds": [10, 60], "decimals": 1, "unit": "kg/m2", "cut_points": [18.5, 25, 30]}
SICK = {"kind": "binary", "levels": ["no", "yes"]}
GROUPS = ["below 18.5", "18.5 to below 25", "25 to below 30", "30 and above"]


def declared(**columns: Any) -> Schema:
    return Schema.from_dict({"name": "t", "target": "sick", "columns": {**columns, "sick": SICK}})


def cells(**columns: Any) -> pd.DataFrame:
    return cells_of(pd.DataFrame(columns))


def test_shares_are_of_each_tables_rows_with_a_value() -> None:
    """A value at a cut point belongs to the group above it; missing values and those of no kind count in none."""
    schema = declared(bmi=BMI | {"missing": True})
    synthetic = cells(bmi=[18.4, 18.5, 24.9, 25, 29.9, 30, 60, None, None, None])
    real = cells(bmi=["12.0", "40.0", "unknown", "41.0"])
    found = cut_points(schema, synthetic, real, cells(bmi=[20, 20]))
    assert found is not None
    [column] = found.columns
    assert (column.name, column.unit, column.groups) == ("bmi", "kg/m2", GROUPS)
    assert column.synthetic == pytest.approx([1 / 7, 2 / 7, 2 / 7, 2 / 7], abs=1e-5)
    assert column.real == pytest.approx([1 / 3, 0, 0, 2 / 3], abs=1e-5)
    assert column.train == [0, 1, 0, 0]


def test_days_after_another_date_are_grouped_by_their_number() -> None:
    first = {"kind": "date", "bounds": ["2020-01-01", "2020-12-31"], "cut_points": ["2020-07-01"]}
    schema = declared(first=first, last={"kind": "date", "after": "first", "bounds": [0, 60], "cut_points": [7]})
    found = cut_points(schema, cells(first=["2020-06-30", "2020-07-01"], last=["2020-07-06", "2020-07-08"]))
    assert found is not None
    assert [c.groups for c in found.columns] == [
        ["before 2020-07-01", "2020-07-01 and later"],
        ["below 7", "7 and above"],
    ]
    assert [c.synthetic for c in found.columns] == [[0.5, 0.5], [0.5, 0.5]]
    assert all(c.real is None and c.train is None for c in found.columns)


def test_without_cut_points_or_their_columns_there_is_no_section() -> None:
    plain = {name: value for name, value in BMI.items() if name != "cut_points"}
    assert cut_points(declared(bmi=plain), cells(bmi=[20, 30])) is None
    assert cut_points(declared(bmi=BMI), cells(other=[20, 30])) is None


def test_subgroups_of_a_number_are_those_between_its_cut_points() -> None:
    """In their order, rows without a value in a group of their own; without cut points by the real rows' quartiles."""
    bmi = [10.0, 18.4, 18.5, 25.0, 29.9, 30.0, 31.0, np.nan]
    real = pd.DataFrame({"bmi": bmi, "sick": ["no", "yes"] * 4})
    made = pd.DataFrame({"bmi": [20.0, 20.0, np.nan, 45.0], "sick": ["no", "yes"] * 2})
    known = Tables(real, made, None, "sick", frozenset(["bmi"]))
    schema = declared(bmi=BMI | {"missing": True})
    found = subgroups(known, ["bmi"], None, np.random.default_rng(0), schema.columns).groups
    assert [g.group for g in found] == [*GROUPS, "missing"]
    assert [g.rows for g in found] == [2, 1, 2, 2, 1]
    assert [g.share_synthetic for g in found] == [0, 0.5, 0, 0.25, 0.25]
    assert [g.group for g in subgroups(known, ["bmi"], None, np.random.default_rng(0)).groups] == [
        "up to 18.45", "18.45 to 25", "25 to 29.95", "above 29.95", "missing",
    ]  # fmt: skip
