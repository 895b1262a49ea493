"""Where patients are the privacy unit, the report divides and resamples patients: other visits of one tell too much."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier

from medsynth.errors import TableError
from medsynth.report.data import protocol
from medsynth.report.data import statistics as stats
from medsynth.report.data.columns import cells_of
from medsynth.report.data.protocol import TaskPredictions
from medsynth.report.data.tables import Tables, gather
from medsynth.report.sections.attacks import attacks
from medsynth.report.sections.fidelity import propensity_auroc
from medsynth.schema import Schema

VISITS = 6
SCHEMA: dict[str, Any] = {
    "name": "visits", "target": "sick", "unit": "patient", "max_rows": VISITS,
    "columns": {
        "patient": {"kind": "identifier"},
        "height": {"kind": "continuous", "bounds": [120, 220], "decimals": 2},
        "pressure": {"kind": "continuous", "bounds": [50, 200], "decimals": 1},
        "sick": {"kind": "binary", "levels": ["no", "yes"]},
    },
}  # fmt: skip


def visits(patients: range, seed: int) -> pd.DataFrame:
    """Six visits of each patient: a height of their own, and a diagnosis of theirs that nothing explains."""
    rng = np.random.default_rng(seed)
    number = np.repeat(np.array(patients), VISITS)
    height, sick = rng.normal(170, 10, len(patients)).round(2), rng.random(len(patients)) < 0.4
    return pd.DataFrame({
        "patient": [f"P{k}" for k in number],
        "height": np.repeat(height, VISITS),
        "pressure": rng.normal(120, 10, len(number)).round(1),
        "sick": np.where(np.repeat(sick, VISITS), "yes", "no"),
    })  # fmt: skip


def tables(unit: bool, train: pd.DataFrame | None = None) -> Tables:
    real, synthetic = visits(range(120), 1), visits(range(120), 2)
    schema = SCHEMA if unit else {name: value for name, value in SCHEMA.items() if name not in ("unit", "max_rows")}
    parts = [cells_of(frame) for frame in (real, synthetic)]
    fitted = None if train is None else cells_of(train)
    rng = np.random.default_rng(0)
    return gather(parts[0], parts[1], fitted, "sick", Schema.from_dict(schema), rng, disjoint=True)


def auroc(made: dict[str, protocol.Predictions], found: Tables) -> float:
    return float(stats.auroc((found.real["sick"] == "yes").to_numpy(), made["hgb"].probabilities[:, 1])[0])


def test_the_baseline_learns_nothing_of_a_patients_other_visits() -> None:
    """A diagnosis that only the height of its patient tells: rows divided one by one seem to predict it."""

    def models(labels: Any) -> Any:
        return {name: HistGradientBoostingClassifier(max_iter=30, learning_rate=0.3) for name in protocol.LABELS}

    by_row, by_patient = (auroc(TaskPredictions(found, models).real, found) for found in map(tables, (False, True)))
    assert by_row > 0.9 and abs(by_patient - 0.5) < 0.2


@pytest.mark.parametrize("unit", [False, True])
def test_patients_of_both_sides_do_not_make_controls_unfair(unit: bool) -> None:
    found = attacks(tables(unit, visits(range(500, 620), 3)), [], np.random.default_rng(0))
    assert found is not None and found.fair is unit


def test_two_samples_of_real_patients_are_not_told_apart_by_heights() -> None:
    aurocs = []
    for unit in (False, True):
        found = tables(unit, visits(range(500, 620), 3))
        assert found.train is not None
        own = found.patients_of(found.real, "real"), found.patients_of(found.train, "train")
        aurocs.append(propensity_auroc(found.real, found.train, found, np.random.default_rng(0), own)[0].value)
    assert aurocs[0] is not None and aurocs[1] is not None and aurocs[0] > 0.8 and abs(aurocs[1] - 0.5) < 0.15


def test_rows_of_held_out_patients_leave_the_training_table() -> None:
    both = pd.concat([visits(range(500, 600), 3), visits(range(20), 4)], ignore_index=True)
    found = tables(True, both)
    assert found.train is not None and len(found.train) == 100 * VISITS and "120 rows" in found.notes[-1]
    assert not set(found.patients["real"]) & set(found.patients["train"])
    with pytest.raises(TableError, match="same patients"):
        tables(True, visits(range(20), 4))


def test_a_report_without_the_patients_column_divides_rows() -> None:
    real, synthetic = (cells_of(visits(range(60), seed)) for seed in (1, 2))
    rng, schema = np.random.default_rng(0), Schema.from_dict(SCHEMA)
    assert not gather(real.drop(columns="patient"), synthetic, None, "sick", schema, rng).patients
    made = gather(real, synthetic.drop(columns="patient"), None, "sick", schema, rng).patients
    assert len(set(made["real"])) == 60 and len(set(made["synthetic"])) == len(synthetic)


def test_resamples_halves_and_folds_hold_whole_patients() -> None:
    rng, patients = np.random.default_rng(0), np.random.default_rng(1).permutation(np.repeat(np.arange(40), 5))
    weights = next(stats.resamples(len(patients), rng, patients))
    assert all((weights[:, patients == k] == weights[:, patients == k][:, :1]).all() for k in range(40))
    shares = stats.resampled(len(patients), rng, lambda w: w @ (patients < 20) / w.sum(1), patients)
    assert shares.std() > 1.5 * stats.resampled(len(patients), rng, lambda w: w @ (patients < 20) / w.sum(1)).std()
    first, second = stats.halves(len(patients), rng, patients)
    assert not set(patients[first]) & set(patients[second]) and len(first) == len(second) == 100
    assert sorted([*first, *second]) == list(range(200))
    for truth in (patients % 2, np.arange(200) == 0):
        cut = stats.folds(truth, 5, patients)
        assert sorted(np.concatenate([outside for _, outside in cut])) == list(range(200))
        assert not any(set(patients[inside]) & set(patients[outside]) for inside, outside in cut)
    assert len(stats.folds(np.arange(8) % 2, 4, np.zeros(8, np.int64))) == 4
