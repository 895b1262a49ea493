"""Simulated patients in three parts, and rows that stand for synthetic ones: real patients, and independent rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from medsynth_sample_data import visits

from medsynth.report.data.columns import cells_of
from medsynth.report.data.over_time import Sequences, sequences
from medsynth.schema import Schema

Parts = tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]


@pytest.fixture(scope="session")
def schema() -> Schema:
    return Schema.load(visits.SCHEMA)


@pytest.fixture(scope="session")
def parts() -> Parts:
    """(training rows, held-out rows, rows of other patients), each of 400 patients."""
    return visits.simulate(400, 1), visits.simulate(400, 2), visits.simulate(400, 3)


@pytest.fixture(scope="session")
def shuffled(parts: Parts) -> pd.DataFrame:
    """Rows of other patients, what changes drawn anew for each: nothing follows from the row before."""
    rng, frame = np.random.default_rng(0), parts[2]
    order = rng.permutation(len(frame))
    moved = [str(name) for name in frame if name not in ("patient_id", "visit_date", "birth_year", "sex")]
    return frame.assign(**{name: frame[name].to_numpy()[order] for name in moved})


@pytest.fixture(scope="session")
def found(parts: Parts, schema: Schema) -> Any:
    """The sequences of synthetic, held-out and training rows, from a table that stands for the synthetic one."""

    def made(synthetic: pd.DataFrame, train: bool = True) -> dict[str, Sequences]:
        fitted = cells_of(parts[0].assign(patient_id="t" + parts[0]["patient_id"])) if train else None
        return sequences(cells_of(parts[1]), cells_of(synthetic), fitted, schema)

    return made
