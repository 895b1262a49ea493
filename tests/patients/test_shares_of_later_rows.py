"""What the one-way marginals measured of all later rows stays, whatever the noisier tables of two columns say."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from quick_methods import offer_quick

import medsynth
from medsynth.patients import training
from medsynth.schema import Schema

COLUMNS: dict[str, Any] = {
    "who": {"kind": "identifier"},
    "day": {"kind": "count", "bounds": [0, 99]},
    "value": {"kind": "continuous", "bounds": [0, 100], "decimals": 1, "missing": True},
    "code": {"kind": "categorical", "levels": ["a", "b", "rare"]},
    "grade": {"kind": "count", "bounds": [0, 3]},
}
PATIENTS = 400


def table() -> pd.DataFrame:
    rng = np.random.default_rng(0)
    who = np.repeat(np.arange(PATIENTS), 4)
    day = 10 * np.tile(np.arange(4), PATIENTS) + rng.integers(0, 5, len(who))
    value = rng.normal(50, 15, len(who)).clip(0, 100).round(1)
    return pd.DataFrame({
        "who": who, "day": day, "value": np.where(rng.random(len(who)) < 0.06, np.nan, value),
        "code": rng.choice(["a", "b", "rare"], len(who), p=[0.5, 0.44, 0.06]),
        "grade": rng.choice(4, len(who), p=[0.44, 0.3, 0.2, 0.06]),
    })  # fmt: skip


@pytest.fixture(scope="module")
def shares() -> dict[str, tuple[float, float]]:
    """Shares of one cell in real and synthetic later rows, where noise added to that cell in every persistence table:
    the last one of missing values, or of the rarest level or value.
    """
    persistence, relations = (
        training.ChainTraining.measure_persistence,
        training.ChainTraining.measure_relations,
    )

    def none(self: Any, chain: Any) -> Any:
        """Return no other tables, which would show the truth as well."""
        relations(self, chain)
        return {}

    def spoiled(self: Any, contexts: Any) -> Any:
        found = persistence(self, contexts)
        for name, variable in contexts.variables.items():
            context, own = found[name][0]
            if name in COLUMNS:
                counts = own.counts.copy()
                counts[own.tie[:, variable.values - 1]] += 0.12 * PATIENTS / len(np.unique(own.region))
                found[name][0] = context, replace(own, counts=counts)
        return found

    with pytest.MonkeyPatch.context() as patch:
        offer_quick(patch)
        patch.setattr(training, "SIMULATED", 3000)
        patch.setattr(training.ChainTraining, "measure_persistence", spoiled)
        patch.setattr(training.ChainTraining, "measure_relations", none)
        real = table()
        keys = {"name": "t", "target": "code", "unit": "who", "max_rows": 4, "order": "day"}
        own = Schema.from_dict({**keys, "columns": COLUMNS})
        model = medsynth.fit(real, epsilon=30, delta=1e-5, schema=own, rows=len(real), method="independent", seed=0)
    made = model.sample(patients=3000, seed=1)
    later = [rows[rows["who"].duplicated()] for rows in (real, made)]
    found = [
        {"value": rows["value"].isna(), "grade": rows["grade"] == 3, "code": rows["code"] == "rare"} for rows in later
    ]
    return {name: (float(found[0][name].mean()), float(found[1][name].mean())) for name in found[0]}


@pytest.mark.nightly
@pytest.mark.parametrize("column", ["value", "code", "grade"])
def test_a_share_in_all_rows_is_the_one_that_was_measured(column: str, shares: Any) -> None:
    """The tables of two columns alone would have added 0.12."""
    real, made = shares[column]
    assert made == pytest.approx(real, abs=0.04)
