"""Rows that are drawn in chunks: the same on one core as on several; one by one where many would need much memory."""

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

import medsynth
from medsynth.artifact import Model
from medsynth.mixture.method import Independent
from medsynth.sampling import Draw, pipeline, sample_csv


@pytest.fixture(scope="module")
def model() -> Model:
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"age": rng.integers(20, 90, 300), "ill": rng.integers(0, 2, 300), "ward": list("abc") * 100})
    schema = {
        "name": "t",
        "target": "ill",
        "columns": {
            "age": {"kind": "count", "bounds": [0, 110]},
            "ill": {"kind": "binary", "levels": ["0", "1"]},
            "ward": {"kind": "categorical", "levels": ["a", "b", "c"]},
        },
    }
    return medsynth.fit(rows, schema=schema, epsilon=3, rows=300, method="independent")


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> Iterator[set[int]]:
    """The threads that draw, in chunks of 50 rows."""
    found, generate = set[int](), Independent.generate

    def generated(*args: Any, **given: Any) -> Any:
        found.add(threading.get_ident())
        return generate(*args, **given)

    monkeypatch.setattr(pipeline, "CHUNK_ROWS", 50)
    monkeypatch.setattr(Independent, "generate", generated)
    yield found


def test_rows_are_the_same_on_one_core_and_on_several(
    model: Model, threads: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = []
    for cores in (1, 3):
        monkeypatch.setattr("os.cpu_count", lambda cores=cores: cores)
        texts.append(sample_csv(model, Draw(rows=230, seed=5, where=("age=30..",))))
    assert texts[0] == texts[1] and len(texts[0].splitlines()) == 231
    assert len(threads) > 1


def test_rows_of_many_columns_are_drawn_one_chunk_after_another(
    model: Model, threads: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 3)
    monkeypatch.setattr(pipeline, "CELLS_AT_ONCE", 2 * 50 * 3 - 1)
    sample_csv(model, Draw(rows=230, seed=5))
    assert threads == {threading.get_ident()}
