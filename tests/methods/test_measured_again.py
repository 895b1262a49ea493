"""Where no column separates the classes, one-way marginals are measured again in the place of class marginals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest

import medsynth
from medsynth.io.table import from_frame
from medsynth.methods.shared.cuts import fine_grid
from medsynth.methods.shared.labels import COARSE, ONE_WAY, REMEASURED, VALUES
from medsynth.methods.warm_dp_cgan.marginals.one_way_marginals import COARSE_OF, LEVELS_OF, OneWayMarginals
from medsynth.methods.warm_dp_cgan.posterior.released import Recorded
from medsynth.privacy.accounting.calibration import Query, make_plan
from medsynth.privacy.release import Releases
from medsynth.privacy.vault import Vault
from medsynth.rng import SeededEntropy
from medsynth.schema import Schema
from medsynth.transforms.table_codec import encode

SCHEMA = Schema.from_dict({
    "name": "t", "target": "y",
    "columns": {"age": {"kind": "count", "bounds": [0, 120]},
                "pressure": {"kind": "continuous", "decimals": 1, "bounds": [40, 260], "missing": True},
                "ward": {"kind": "categorical", "levels": ["a", "b", "c"]},
                "y": {"kind": "binary", "levels": [0, 1]}},
})  # fmt: skip


def table(rows: int, *, separated: bool) -> pd.DataFrame:
    """The class by chance, or by whether the pressure is high."""
    rng = np.random.default_rng(7)
    pressure = np.round(rng.normal(120, 20, rows).clip(40, 260), 1)
    y = (pressure > 130 if separated else rng.random(rows) < 0.3).astype(int)
    ages, wards = rng.integers(0, 100, rows), rng.choice(["a", "b", "c"], rows)
    return pd.DataFrame({"age": ages, "pressure": pressure, "ward": wards, "y": y})


def measured_again(monkeypatch: pytest.MonkeyPatch, *, separated: bool) -> dict[str, Any]:
    """The axes of the tables of a fit's second measurement, by name."""
    found, before = dict[str, Any](), Recorded.measure_marginals

    def seen(self: Recorded, label: str, axes: Mapping[str, Any], *given: Any, **named: Any) -> Any:
        if label == REMEASURED:
            found.update(axes)
        return before(self, label, axes, *given, **named)

    monkeypatch.setattr(Recorded, "measure_marginals", seen)
    medsynth.fit(table(2000, separated=separated), schema=SCHEMA, epsilon=3.7, rows=2000)
    return found


def test_columns_that_do_not_separate_classes_are_measured_without_them(
    quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = measured_again(monkeypatch, separated=False)
    assert set(found) == {"age", "pressure", COARSE_OF + "age", COARSE_OF + "pressure", LEVELS_OF + "ward"}
    assert all(len(axes) == 1 for axes in found.values())


def test_a_column_that_separates_classes_is_measured_by_class(quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """The fault that the test above would catch, and the other way round: pressures decide the class."""
    found = measured_again(monkeypatch, separated=True)
    assert "pressure" in found and all(len(axes) == 2 for axes in found.values())


def test_replicates_measure_the_same_tables_again(quick: None) -> None:
    """They read what was measured from the model file, in the order in which it was measured."""
    model = medsynth.fit(table(1000, separated=False), schema=SCHEMA, epsilon=3.7, rows=1000)
    drawn = medsynth.sample(model, 50, replicates=2, seed=1)
    assert drawn.groupby("replicate").size().tolist() == [50, 50]


@pytest.mark.statistical
def test_counts_that_were_measured_twice_err_by_the_noise_that_is_claimed() -> None:
    """Squared errors of 60 fits' counts in variances, by the exact counts of the cells; the seed is fixed."""
    core, rows = SCHEMA.core, table(1000, separated=False)
    names = list(core.columns)
    codes = encode(from_frame(rows[names]), core)
    asked = [Query(label=label, weight=1.0) for label in (COARSE, VALUES, ONE_WAY, REMEASURED)]
    plan = make_plan(asked, epsilon=2.0, delta=1e-5, rows=1000)
    squares = dict[str, list[float]]()
    for seed in range(60):
        entropy = SeededEntropy(seed)
        vault = Vault(codes, tuple(names), Releases(plan.ledger(entropy.source), entropy))
        first = OneWayMarginals.measure(vault, core, plan, 20)
        ward = fine_grid(core.columns["ward"])
        both = first.measured_again(vault, REMEASURED, plan.noise(REMEASURED), {"ward": ward})
        grids = {name: (name, grid, both.counts[name], both.std[name]) for name, grid in both.grids.items()}
        grids["ward"] = ("ward", ward, both.counts[LEVELS_OF + "ward"], both.std[LEVELS_OF + "ward"])
        grids |= {COARSE_OF + n: (n, s.coarse, s.counts, s.std) for n, s in both.surveys.items()}
        for key, (name, grid, counts, std) in grids.items():
            exact = np.bincount(grid.cell_of(codes[:, names.index(name)]), minlength=grid.cells)
            squares.setdefault(key, []).append(float(np.mean((counts - exact) ** 2)) / std**2)
        assert both.std["age"] < 0.8 * first.std["age"]
    found = {key: float(np.mean(some)) for key, some in squares.items()}
    assert abs(found.pop("ward") - 1) < 0.42  # four standard errors: 60 x 3 squares
    assert len(found) == 4 and all(abs(mean - 1) < 0.13 for mean in found.values()), found  # four standard errors
