"""Marginals of a column by other names than its own cannot be taken for those of a column that is named so."""

import numpy as np
import pandas as pd
import pytest

import medsynth

COLUMNS = {
    "age": {"kind": "count", "bounds": [0, 120]},
    "levels of sex": {"kind": "continuous", "bounds": [0, 100], "decimals": 2},
    "runs of age": {"kind": "continuous", "bounds": [0, 10], "decimals": 2},
    "sex": {"kind": "binary", "levels": ["F", "M"]},
    "y": {"kind": "binary", "levels": [0, 1]},
}


@pytest.mark.nightly
@pytest.mark.usefixtures("seeded_entropy")
def test_columns_named_like_marginals_keep_their_shares(rng: np.random.Generator) -> None:
    """Each column's mean within a tenth of its range: at epsilon 20 the noise is a few rows of 2,000. Seeded."""
    rows = 2000
    frame = pd.DataFrame(
        {
            "age": rng.integers(0, 40, rows),
            "levels of sex": rng.normal(80, 5, rows).clip(0, 100).round(2),
            "runs of age": rng.normal(2, 0.5, rows).clip(0, 10).round(2),
            "sex": rng.choice(["F", "M"], rows, p=[0.9, 0.1]),
            "y": rng.choice([0, 1], rows),
        }
    )
    schema = {"name": "odd names", "target": "y", "columns": COLUMNS}
    drawn = medsynth.sample(medsynth.fit(frame, epsilon=20.0, schema=schema, rows=rows, seed=1), rows, seed=1)
    for name, span in (("age", 120), ("levels of sex", 100), ("runs of age", 10)):
        assert abs(drawn[name].mean() - frame[name].mean()) < span / 10
    assert abs((drawn["sex"] == "F").mean() - 0.9) < 0.05
