"""What rows are fit for: declared regressions with combined intervals beside real ones, and one plain line."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import medsynth
from medsynth.artifact import Model
from medsynth.report.build import build
from medsynth.report.page.render import page
from medsynth.report.sections import inference as fit_for
from medsynth.report.sections.inference import Estimation, estimation
from medsynth.schema import Schema

SCHEMA = Schema.from_dict({
    "name": "small",
    "target": "event",
    "columns": {
        "age": {"kind": "count", "bounds": [18, 100], "out_of_range": "clip"},
        "dose": {"kind": "continuous", "bounds": [1, 1000], "decimals": 0, "scale": "log", "missing": True},
        "ward": {"kind": "categorical", "levels": ["a", "b", "c"]},
        "event": {"kind": "binary", "levels": [0, 1]},
    },
})  # fmt: skip


def table(rows: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(20, 90, rows)
    dose = np.clip(np.round(np.exp(3 + 0.02 * age + 0.4 * rng.standard_normal(rows))), 1, 1000)
    return pd.DataFrame({"age": age, "dose": np.where(rng.random(rows) < 0.05, np.nan, dose),
                         "ward": rng.choice(["a", "b", "c"], rows),
                         "event": (rng.random(rows) < age / 120).astype(int)})  # fmt: skip


@pytest.fixture(scope="module")
def model() -> Model:
    told = ["dose ~ age + ward", "event ~ age * dose"]
    return medsynth.fit(table(800, 1), schema=SCHEMA, epsilon=6, delta=1e-5, rows=800, inference=told)


def section(model: Model, real: pd.DataFrame | None, **options: Any) -> tuple[Estimation, Any]:
    made = build(synthetic=model.sample(800, 1), real=real, model=model, **{"drawn_by_model": True} | options)
    found = made.sections["estimation"]
    assert isinstance(found, Estimation)
    return found, made


@pytest.mark.nightly
@pytest.mark.slow
def test_declared_regressions_stand_beside_the_real_ones(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit_for, "REPLICATES", 4)
    found, made = section(model, table(500, 2))
    assert [one.formula for one in found.regressions] == ["dose ~ age + ward", "event ~ age + dose + age:dose"]
    assert [one.model for one in found.regressions] == ["least squares", "logistic"]
    labels = [[term.predictor for term in one.terms] for one in found.regressions]
    assert labels == [["age", "ward = b", "ward = c"], ["age", "dose, logarithm", "age × dose, logarithm"]]
    term = found.regressions[0].terms[0]
    assert term.combined and term.real and term.combined.low is not None and term.combined.high is not None
    assert term.naive.low is not None and term.naive.high is not None
    assert term.combined.high - term.combined.low > 0 and found.replicates == 4
    assert found.reason in page(made) and "synthetic, as if real" in page(made)


@pytest.mark.nightly
def test_the_shareable_page_says_how_to_combine(model: Model) -> None:
    found, made = section(model, None)
    assert found.fit_for.startswith("estimation") and found.advice and "combine" in found.advice
    assert all(not one.terms for one in found.regressions) and found.advice in page(made)


@pytest.mark.nightly
def test_rows_of_no_known_model_and_undeclared_relations_are_for_prediction(model: Model) -> None:
    import dataclasses

    found, _ = section(model, None, drawn_by_model=False)
    assert found.fit_for == "prediction only" and "not proven" in found.reason
    plain = dataclasses.replace(model, config=model.config | {"inference": []})
    undeclared = estimation(plain, model.sample(10, 1).astype(str), None, proven=True)
    assert undeclared.fit_for == "prediction only" and "No regression was declared" in undeclared.reason
    other = estimation(dataclasses.replace(model, method="dp-merf"), model.sample(10, 1), None, proven=True)
    assert other.fit_for == "prediction only" and "mixture" in other.reason
