"""First rows, and later rows beside those before: of one patient each, in order."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from medsynth.patients.split_rows import (
    SplitRows,
    changing,
    later_columns,
    rows_column,
    split_rows,
    with_rows_column,
)
from medsynth.privacy.contribution import PrivacyUnits
from medsynth.schema import Schema

SCHEMA = Schema.from_yaml("""
name: visits
target: state
unit: patient
max_rows: 4
order: day
constant: [sex]
columns:
  patient: {kind: identifier}
  state: {kind: categorical, levels: [a, b, c]}
  day: {kind: date, bounds: [2020-01-01, 2024-12-31]}
  dose: {kind: count, bounds: [0, 9]}
  sex: {kind: binary, levels: [F, M]}
""")
CORE = SCHEMA.core.names  # state, day, dose, sex


def split(patients: list[list[list[int]]]) -> SplitRows:
    codes = np.array([row for own in patients for row in own], np.int32).reshape(-1, 4)
    of_row = np.array([k for k, own in enumerate(patients) for _ in own], np.int64)
    return split_rows(codes, PrivacyUnits(of_row, 4), SCHEMA)


def test_rows_of_two_patients() -> None:
    found = split([[[0, 10, 1, 0], [1, 15, 2, 0], [2, 15, 3, 0]], [[1, 3, 9, 1]]])
    assert found.first.tolist() == [[0, 10, 1, 0, 2], [1, 3, 9, 1, 0]]  # and one row less than there are
    by_name = dict(zip(later_columns(SCHEMA), found.later.T.tolist(), strict=True))
    assert by_name["now:dose"] == [2, 3] and by_name["last:dose"] == [1, 2] and by_name["first:dose"] == [1, 1]
    assert by_name["of:\0gap"] == [5, 0] and by_name["of:left"] == [1, 0]
    assert by_name["of:visit"] == [0, 1] and by_name["of:rows"] == [2, 2]
    assert found.patients.of_row.tolist() == [0, 1] and found.patients.max_rows == 1
    assert found.patients_of_later.of_row.tolist() == [0, 0] and found.patients_of_later.max_rows == 3
    by_name = dict(zip(later_columns(SCHEMA), found.last.T.tolist(), strict=True))  # the second patient has one row
    assert by_name["now:dose"] == [3, 9] and by_name["last:dose"] == [2, 0] and by_name["first:dose"] == [1, 0]
    assert by_name["first:sex"] == [0, 1] and by_name["of:rows"] == [2, 0] and by_name["of:left"] == [0, 0]
    assert found.patients_of_last.of_row.tolist() == [0, 1] and found.patients_of_last.max_rows == 1


ROW = st.tuples(st.integers(0, 2), st.integers(0, 1826), st.integers(0, 9), st.integers(0, 1)).map(list)
PATIENT = st.lists(ROW, min_size=1, max_size=4).map(lambda rows: sorted(rows, key=lambda row: row[1]))


@given(st.lists(PATIENT, min_size=1, max_size=5), PATIENT)
def test_no_row_depends_on_two_patients(others: list[list[list[int]]], one: list[list[int]]) -> None:
    """The rows of all are those of each by themselves: with one patient more, only that one's are more."""
    whole, before, alone = split([*others, one]), split(others), split([one])
    assert np.array_equal(whole.first, np.concatenate([before.first, alone.first]))
    assert np.array_equal(whole.later, np.concatenate([before.later, alone.later]))
    assert np.bincount(whole.patients_of_later.of_row, minlength=1).max() <= 3
    by_patient = [rows.last[np.argsort(rows.patients_of_last.of_row)] for rows in (whole, before, alone)]
    assert np.array_equal(by_patient[0], np.concatenate(by_patient[1:]))
    assert (np.bincount(whole.patients_of_last.of_row) == 1).all()  # each patient has one last row


def test_what_changes_and_what_does_not() -> None:
    assert changing(SCHEMA) == ["dose", "state"]  # the target last
    ends = SCHEMA.model_copy(update={"rules": ("dose = 9 implies last row",)})
    assert changing(ends) == ["state", "dose"]  # the column that decides the end after all others
    assert rows_column(SCHEMA) in with_rows_column(SCHEMA).core.columns
    twice = SCHEMA.model_copy(update={"columns": {**SCHEMA.columns, rows_column(SCHEMA): SCHEMA.columns["dose"]}})
    assert rows_column(twice) not in SCHEMA.columns | {rows_column(SCHEMA): None}


def test_rows_that_are_not_by_patient_are_an_error() -> None:
    with pytest.raises(AssertionError):
        split_rows(np.zeros((3, 4), np.int32), PrivacyUnits(np.array([0, 1, 0]), 4), SCHEMA)
