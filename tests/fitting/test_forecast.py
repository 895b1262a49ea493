"""The forecast of a table with several rows per patient, from declared numbers: what is hidden, and a `max_rows`."""

from __future__ import annotations

import csv
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import medsynth
from medsynth.errors import FEW_ROWS, Message, UsageError
from medsynth.fitting.forecast import MEASURED, RARE_SHARE, Forecast, kept, tables_alike
from medsynth.fitting.planning import plan_fit
from medsynth.fitting.settings import FitSettings
from medsynth.schema import Schema

ROWS, PATIENTS = 4000, 1000


def table(order: bool, most: int = 7) -> tuple[pd.DataFrame, Schema]:
    """Stays of patients, who have no pattern: a plan reads the header and the number of rows alone."""
    content = {"name": "stays", "target": "died", "unit": "id", "max_rows": most, "columns": {
        "id": {"kind": "identifier"}, "day": {"kind": "count", "bounds": [0, 999]},
        "ward": {"kind": "categorical", "levels": ["a", "b", "c"]}, "died": {"kind": "binary", "levels": ["no", "yes"]},
    }} | ({"order": "day"} if order else {})  # fmt: skip
    rows = pd.DataFrame({"id": np.arange(ROWS) % PATIENTS, "day": 1, "ward": "a", "died": "no"})
    return rows, Schema.from_dict(content)


def forecast(order: bool, most: int = 7, epsilon: float = 1.0) -> Forecast:
    rows, schema = table(order, most)
    plan, *_ = plan_fit(rows, FitSettings(epsilon=epsilon, schema=schema))
    return Forecast(plan=plan, schema=schema, columns=3 + order, patients=PATIENTS)


def kinds(found: Forecast) -> list[str]:
    return [Message.of(note).about.kind for note in found.notes()]


def test_more_rows_of_a_patient_hide_more_unless_they_are_in_order() -> None:
    plain = forecast(order=False)
    assert plain.lost(7) > plain.lost(3) > plain.lost(1)
    assert plain.lost(7) == pytest.approx(plain.lost(1) * 7 * kept(1, 4) / kept(7, 4))
    assert forecast(order=True).lost(7) == forecast(order=True).lost(1)
    assert forecast(order=False, epsilon=10).lost(7) < plain.lost(7) / 5


def test_a_class_that_noise_may_hide_gets_an_urgent_word() -> None:
    noisy = forecast(order=False)
    assert noisy.lost(7) > RARE_SHARE and kinds(noisy) == [FEW_ROWS, ""]
    assert kinds(forecast(order=False, epsilon=10)) == [""]
    proposed = max(one for one in range(1, 8) if one == 1 or noisy.lost(one) <= RARE_SHARE)
    assert f"`max_rows` {proposed} about {kept(proposed, 4):.0%}" in list(noisy.notes())[-1]
    (text,) = forecast(order=True, epsilon=10).notes()
    assert "4.0 rows on average" in text and "`max_rows` 9 about 92%" in text and "does not grow" in text


def test_a_plan_states_it_and_asks_for_what_is_not_declared() -> None:
    rows, schema = table(order=False)
    told = medsynth.plan(rows, epsilon=3.7, schema=schema).notes
    assert any("Declare the number of `patients`" in note for note in told)
    told = medsynth.plan(rows, epsilon=3.7, schema=schema, patients=PATIENTS).notes
    assert any("Forecast for 1000 patients" in note for note in told)
    assert f"the number of patients, {PATIENTS}, as `patients` declares it" in told[0]
    shuffled = rows.assign(id=np.random.default_rng(0).permutation(rows["id"]), died="yes")
    assert medsynth.plan(shuffled, epsilon=3.7, schema=schema, patients=PATIENTS).notes == told  # no row is read


@pytest.mark.parametrize("patients", [1, ROWS + 1])
def test_an_impossible_number_of_patients_is_refused(patients: int) -> None:
    rows, schema = table(order=False)
    with pytest.raises(UsageError, match="`patients`"):
        medsynth.plan(rows, epsilon=3.7, schema=schema, patients=patients)
    alone = schema.model_copy(update={"unit": None, "max_rows": None})
    with pytest.raises(UsageError, match="several rows per patient"):
        medsynth.plan(rows, epsilon=3.7, schema=alone, patients=PATIENTS)


def test_tables_alike_are_those_on_file() -> None:
    """A plan names the published figures of the nearest rows per column and epsilon, and none far from all."""
    file = Path(__file__).parents[2] / "docs" / "results" / "rows_per_column.csv"
    published = {
        (int(row["rows per column"]), float(row["epsilon"])): (
            int(row["tables"]), *map(float, re.findall(r"-?\d+\.\d+", row["AuROC lost"])),
        )
        for row in csv.DictReader(file.read_text().splitlines())
    }  # fmt: skip
    assert published == MEASURED
    for (count, epsilon), (tables, lost, least, most) in MEASURED.items():
        for rows, budget in ((20 * count, epsilon), (23 * count, 1.1 * epsilon)):
            (found,) = tables_alike(rows, 20, budget)
            assert (
                f"of {tables} tables with {count} rows per column" in found
                and f"epsilon {epsilon:g} lost {lost:.2f}" in found
            )
            assert f"({least:.2f} to {most:.2f})" in found
    assert not tables_alike(20, 20, 1.0) and not tables_alike(2000, 20, 0.1) and not tables_alike(10**6, 20, 1.0)
    assert any("Tables alike" in note for note in plan_fit(2000, FitSettings(epsilon=1.0))[1])
