"""Patients' rows in order: by dates, numbers and keys; whose they are; which of them count."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from medsynth.report.data.columns import cells_of
from medsynth.report.data.over_time import Sequences, changing, sequences
from medsynth.schema import Schema

CONTENT: dict[str, Any] = {
    "name": "visits", "target": "state", "unit": "patient", "max_rows": 3, "order": "day", "constant": ["sex"],
    "columns": {
        "patient": {"kind": "identifier"},
        "visit": {"kind": "identifier"},
        "day": {"kind": "date", "bounds": ["2020-01-01", "2024-12-31"]},
        "left": {"kind": "date", "after": "born", "bounds": [0, 40000]},
        "born": {"kind": "date", "bounds": ["1920-01-01", "2020-12-31"]},
        "sex": {"kind": "binary", "levels": ["F", "M"]},
        "dose": {"kind": "continuous", "bounds": [0, 100], "decimals": 1, "scale": "log", "missing": True},
        "state": {"kind": "categorical", "levels": ["a", "b", "c"]},
    },
}  # fmt: skip
ROWS = pd.DataFrame(
    [
        ("p", "7", "2020-03-01", "2020-04-01", "1950-01-01", "F", 4.0, "b"),
        ("q", "3", "2021-01-01", "2021-04-01", "1960-01-01", "M", 0.0, "c"),
        ("p", "10", "2020-01-01", "2020-02-01", "1950-01-01", "F", 1.0, "a"),
        ("p", "9", None, "2020-02-01", "1950-01-01", "F", 2.0, "c"),
    ],
    columns=list(CONTENT["columns"]),
)


def schema(**changes: Any) -> Schema:
    return Schema.from_dict({**CONTENT, **changes})


def of(rows: pd.DataFrame, declared: Schema) -> Sequences:
    """The synthetic table's sequences."""
    return sequences(None, cells_of(rows), None, declared)["synthetic"]


def test_rows_stand_by_patient_and_day() -> None:
    found = of(ROWS, schema())
    assert found.patient.tolist() == [0, 0, 0, 1] and found.place.tolist() == [0, 1, 2, 0]
    assert found.rows["state"].tolist() == ["a", "b", "c", "c"]  # a row without a day comes last
    assert found.time is not None and found.time[1] - found.time[0] == 60 and np.isnan(found.time[2])
    assert found.now.tolist() == [1, 2] and found.last.tolist() == [0, 1] and found.sizes.tolist() == [3, 1]


def test_numbers_are_on_their_scale_and_levels_are_text() -> None:
    found = of(ROWS, schema())
    assert found.rows["dose"].to_numpy() == pytest.approx(np.log([1.0, 4.0, 2.0, 0.05]))
    assert found.numbers == {"dose", "left", "born"} and list(found.rows["sex"]) == ["F", "F", "F", "M"]
    assert found.changing == ("dose", "state") == tuple(changing(schema()))


@pytest.mark.parametrize(("keys", "wanted"), [(["7", "3", "10", "9"], ["b", "c", "a", "c"]),
                                              (["v7", "v3", "v10", "v9"], ["b", "c", "a", "c"])])  # fmt: skip
def test_digits_in_keys_are_ordered_as_numbers_and_keys_have_no_times(keys: list[str], wanted: list[str]) -> None:
    found = of(ROWS.assign(visit=keys), schema(order="visit"))
    assert found.time is None and found.rows["state"].tolist() == wanted


def test_a_patient_has_the_first_rows_alone() -> None:
    found = of(ROWS, schema(max_rows=2))
    assert found.rows["state"].tolist() == ["a", "b", "c"] and found.sizes.tolist() == [2, 1]


def test_patients_of_both_real_tables_stay_in_the_held_out_one() -> None:
    real, train = ROWS, pd.concat([ROWS, ROWS.iloc[:2].assign(patient=["r", "s"])], ignore_index=True)
    found = sequences(cells_of(real), cells_of(ROWS), cells_of(train), schema())
    assert len(found["train"].sizes) == 2 and not set(found["train"].patient) & set(found["real"].patient)
    assert not set(found["synthetic"].patient) & set(found["real"].patient)  # equal keys are of other patients


def test_without_an_order_or_its_columns_there_are_none() -> None:
    assert sequences(None, cells_of(ROWS), None, None) == {}
    assert sequences(None, cells_of(ROWS), None, schema(order=None)) == {}
    for name in ("patient", "day"):
        assert sequences(cells_of(ROWS), cells_of(ROWS.drop(columns=name)), None, schema()) == {}


def test_columns_that_one_table_lacks_are_left_out_with_what_depends_on_them() -> None:
    found = sequences(cells_of(ROWS.drop(columns="born")), cells_of(ROWS), None, schema())
    assert all(list(one.rows) == ["sex", "dose", "state"] for one in found.values())


def test_a_large_table_is_represented_by_whole_patients() -> None:
    many = pd.concat([ROWS.assign(patient=ROWS["patient"] + str(k)) for k in range(50)], ignore_index=True)
    found, rng = of(many, schema()), np.random.default_rng(0)
    assert found.capped(rng) is found and found.some(100, rng) is found
    some = found.capped(rng, most=90)
    assert 60 < len(some.patient) <= 90 and set(some.sizes) <= {1, 3}
    few = found.some(10, rng)
    assert len(few.sizes) == 10 and set(few.sizes) <= {1, 3} and len(few.rows) == len(few.patient) == few.sizes.sum()
