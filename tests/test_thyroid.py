"""The main job on the real table, where it is to be had."""

import time
from pathlib import Path

import pandas as pd
import pytest

import medsynth
from medsynth.io.table import from_frame
from medsynth.privacy.accounting import accountant
from medsynth.schema import bundled
from medsynth.schema.codec import encode


@pytest.mark.nightly
@pytest.mark.statistical
@pytest.mark.thyroid
def test_the_main_job_on_real_patients(thyroid: tuple[pd.DataFrame, pd.DataFrame], tmp_path: Path) -> None:
    """The rarest of 93 rows is counted 21 times with noise of standard deviation 10: false-alarm rate below 1e-15."""
    started = time.perf_counter()
    path = tmp_path / "thyroid.csv"
    thyroid[0].to_csv(path, index=False)
    model = medsynth.fit(path, epsilon=3.7)
    drawn = medsynth.sample(model, 10_000)
    assert time.perf_counter() - started < 120
    assert set(drawn["class"]) == {1, 2, 3} and len(drawn) == 10_000
    strict = {n: c.model_copy(update={"out_of_range": "error"} if hasattr(c, "bounds") else {})
              for n, c in bundled()["thyroid"].columns.items()}  # fmt: skip
    encode(from_frame(drawn), bundled()["thyroid"].model_copy(update={"columns": strict}))
    assert model.epsilon is not None and 0.9 * 3.7 < model.epsilon <= 3.7
    assert accountant.cross_check(model.ledger.composition(), 1e-5) <= model.epsilon * 1.005
    pd.testing.assert_index_equal(drawn.columns, thyroid[0].columns)
