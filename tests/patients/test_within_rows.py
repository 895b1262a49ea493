"""Later rows are measured as rows: what goes together in a row does so at each visit."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import medsynth
from medsynth.methods.bins import Bins
from medsynth.patients import training
from medsynth.patients.variables import Variable
from medsynth.schema import Schema

PATIENTS, VISITS = 1500, 4
SCHEMA = Schema.from_dict({
    "name": "panel", "target": "flare", "unit": "who", "max_rows": VISITS, "order": "visit", "columns": {
        "who": {"kind": "identifier"}, "visit": {"kind": "count", "bounds": [0, VISITS - 1]},
        "score": {"kind": "continuous", "bounds": [-6, 6], "decimals": 2},
        "grade": {"kind": "ordinal", "levels": [1, 2, 3]}, "flare": {"kind": "binary", "levels": ["no", "yes"]},
        **{f"other {k}": {"kind": "count", "bounds": [0, 9]} for k in range(4)},
    },
})  # fmt: skip


def panel() -> pd.DataFrame:
    """Visits at which a lasting score, a weaker grade and a flare go together; the others do not."""
    rng = np.random.default_rng(0)
    score, grade, flare = rng.normal(size=(3, PATIENTS))
    rows = []
    for visit in range(VISITS):
        if visit:
            score, grade, flare = 0.8 * np.array([score, grade, flare]) + 0.6 * rng.normal(size=(3, PATIENTS))
        others = {f"other {k}": rng.integers(0, 10, PATIENTS) for k in range(4)}
        rows.append(pd.DataFrame({
            "who": np.arange(PATIENTS), "visit": visit, "score": score.clip(-6, 6).round(2),
            "grade": 1 + np.digitize(0.4 * score + grade, [-0.5, 0.8]),
            "flare": np.where(0.4 * score + flare > 0.7, "yes", "no"), **others,
        }))  # fmt: skip
    return pd.concat(rows, ignore_index=True)


def slopes(rows: pd.DataFrame) -> list[float]:
    """Return by how much flares and grades rise with the score at third and later visits."""
    late = rows[rows["visit"] >= 2]
    ends = (late["flare"] == "yes").astype(float), late["grade"].astype(float)
    return [float(np.polyfit(late["score"].astype(float), one, 1)[0]) for one in ends]


@pytest.mark.nightly
def test_relations_within_later_rows_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """At an epsilon at which their distance is lost among the chance and noise of many tables. Without tables that are
    measured whatever the distance, less than a third was left.
    """
    monkeypatch.setattr(training, "SIMULATED", 4000)
    real = panel()
    model = medsynth.fit(real, epsilon=10, delta=1e-5, schema=SCHEMA, rows=len(real), method="independent", seed=0)
    made = slopes(model.sample(patients=4000, seed=0))
    assert all(0.5 < one / other < 1.5 for one, other in zip(made, slopes(real), strict=True))
    sensitivity = {entry.label: entry.sensitivity for entry in model.ledger.entries}
    columns = 7
    assert sensitivity[training.WITHIN] ** 2 == pytest.approx(columns * (columns - 1) / 2)  # of one row per patient


def test_a_repeated_value_counts_as_the_last_one() -> None:
    column = Schema.from_dict({
        "name": "t", "columns": {"x": {"kind": "count", "bounds": [0, 319]}},
    }).columns["x"]  # fmt: skip
    variable = Variable.of("x", column, Bins.of(column, None, None, 32), (4, 3), moves=True)
    assert variable.repeats and variable.reached.shape == (variable.values, variable.cells)
    assert (variable.reached[:, :-1] == variable.coarse).all() and (variable.reached[:, -1] == variable.coarse).all()
    still = Variable.of("x", column, Bins.of(column, None, None, 32), (4, 3), moves=False)
    assert (still.reached == still.coarse).all()
