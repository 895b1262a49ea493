"""Columns that are missing together stay together in a table of a few hundred rows."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import medsynth
from medsynth.schema import Schema

LABS = [f"lab{k}" for k in range(5)]


@pytest.mark.nightly
@pytest.mark.usefixtures("seeded_entropy")
@pytest.mark.parametrize(("apart", "least", "most"), [(False, 0.13, 0.3), (True, 0.0, 0.03)])
def test_gaps_are_shared_as_in_the_rows(apart: bool, least: float, most: float) -> None:
    """Five of thirteen columns lack 26 % of the values: in the same rows, or each in rows of its own."""
    rng, rows = np.random.default_rng(2), 300
    gaps = np.stack([rng.random(rows) < 0.26 for _ in LABS]) if apart else np.tile(rng.random(rows) < 0.26, (5, 1))
    frame = pd.DataFrame({"sick": rng.integers(0, 2, rows), "sex": rng.choice(["f", "m"], rows)})
    columns: dict[str, Any] = {name: {"kind": "binary", "levels": sorted(set(frame[name]))} for name in ("sick", "sex")}
    for name, gone in zip(LABS, gaps, strict=True):
        frame[name] = pd.Series(rng.normal(50, 10, rows).round()).mask(gone)
        columns[name] = {"kind": "count", "bounds": [0, 100], "missing": True}
    for k in range(6):
        frame[f"x{k}"] = rng.integers(0, 100, rows)
        columns[f"x{k}"] = {"kind": "count", "bounds": [0, 100]}
    schema = Schema.from_dict({"name": "labs", "target": "sick", "columns": columns})
    model = medsynth.fit(frame, epsilon=3.7, schema=schema, rows=rows, seed=1, notice=lambda text: None)
    gone = model.sample(3000, seed=1)[LABS].isna()
    assert least <= gone.all(axis=1).mean() < most, gone.all(axis=1).mean()
    assert abs(gone.to_numpy().mean() - gaps.mean()) < 0.04
