"""Cut points of number columns: read in each kind's own units, refused where they part no values."""

from typing import Any

import pytest

from medsynth.errors import SchemaError
from medsynth.schema import Schema
from medsynth.schema.columns.number import Quantity

SICK = {"kind": "binary", "levels": ["no", "yes"]}


def declared(column: dict[str, Any], **others: Any) -> Schema:
    return Schema.from_dict({"name": "t", "target": "sick", "columns": {**others, "x": column, "sick": SICK}})


def cuts(schema: Schema) -> tuple[int, ...]:
    column = schema.columns["x"]
    assert isinstance(column, Quantity)
    return column.cut_codes


@pytest.mark.parametrize(
    ("column", "codes"),
    [
        ({"kind": "count", "bounds": [10, 50], "cut_points": [18.5, 25, 50]}, (9, 15, 40)),
        ({"kind": "continuous", "bounds": [10, 60], "decimals": 1, "cut_points": [18.5, 25, 30.01]}, (85, 150, 201)),
        ({"kind": "continuous", "bounds": [-1, 1], "decimals": 1, "cut_points": [0.3]}, (13,)),  # 0.3 x 10 as decimals
        ({"kind": "date", "bounds": ["2020-01-01", "2020-12-31"], "cut_points": ["2020-02-01"]}, (31,)),
        (
            {"kind": "date", "bounds": ["2020-01-01", "2020-12-31"], "resolution": "minute",
             "format": "%Y-%m-%d %H:%M", "cut_points": ["2020-01-02"]},
            (24 * 60,),
        ),
    ],
)  # fmt: skip
def test_a_part_begins_at_the_first_value_that_reaches_its_cut_point(
    column: dict[str, Any], codes: tuple[int, ...]
) -> None:
    schema = declared(column)
    assert cuts(schema) == codes
    assert Schema.from_yaml(schema.to_yaml()) == schema
    assert Schema.from_dict(schema.to_dict()) == schema


def test_days_after_another_date_are_cut_by_their_number() -> None:
    first = {"kind": "date", "bounds": ["2020-01-01", "2020-12-31"]}
    schema = declared({"kind": "date", "after": "first", "bounds": [0, 60], "cut_points": [7, 28]}, first=first)
    assert cuts(schema) == (7, 28)


@pytest.mark.parametrize("points", [[30, 20], [20, 20], [10], [9], [51], [20.2, 20.8], ["2020-01-01"], [float("inf")]])
def test_cut_points_that_part_no_values_are_refused(points: list[Any]) -> None:
    """Not ascending, at the lower bound or beyond them, with no whole number in between, of another kind."""
    with pytest.raises(SchemaError, match=r"at columns\.x: cut points must"):
        declared({"kind": "count", "bounds": [10, 50], "cut_points": points})


def test_a_number_cuts_no_dates() -> None:
    with pytest.raises(SchemaError, match="same kind as the column's bounds"):
        declared({"kind": "date", "bounds": ["2020-01-01", "2020-12-31"], "cut_points": [40]})


def test_a_column_without_them_has_none_and_levels_take_none() -> None:
    assert cuts(declared({"kind": "count", "bounds": [0, 9]})) == ()
    with pytest.raises(SchemaError, match="cut_points"):
        declared({"kind": "ordinal", "levels": ["a", "b", "c"], "cut_points": [1]})


def test_the_report_names_them() -> None:
    column = declared({"kind": "count", "bounds": [10, 50], "unit": "kg/m2", "cut_points": [18.5, 25]}).columns["x"]
    assert column.describe().domain == "10 to 50 kg/m2, linear scale, cut at 18.5, 25"
