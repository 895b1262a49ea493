"""Conditional samples are those rows of unconditional ones that meet the condition."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from medsynth_sample_data import simulate
from quick_methods import offer

import medsynth
from medsynth import rng
from medsynth.errors import UsageError
from medsynth.schema import Schema
from medsynth.schema.codec import parse


@pytest.fixture(scope="module")
def model() -> Any:
    schema = Schema.from_yaml(simulate.schema_text())
    with pytest.MonkeyPatch.context() as patch:
        offer(patch, "mixture", steps=150)
        patch.setattr(rng, "system_entropy", lambda: rng.SeededEntropy(0))
        return medsynth.fit(simulate.cohort(3000, 7), epsilon=20, schema=schema, rows=3000, seed=1)


@pytest.mark.statistical
def test_a_condition_holds_in_every_row_and_the_rest_follows(model: Any) -> None:
    """The seed is fixed: it cannot fail by chance."""
    words = ["sex_at_birth=F", "age_years=40..60", "tt4_nmol_l=80..140.5"]
    drawn = medsynth.sample(model, 4000, seed=1, where=words)
    assert set(drawn["sex_at_birth"]) == {"F"}
    assert drawn["age_years"].between(40, 60).all() and drawn["tt4_nmol_l"].between(80, 140.5).all()
    many = medsynth.sample(model, 60_000, seed=2)
    met = many[
        (many["sex_at_birth"] == "F") & many["age_years"].between(40, 60) & many["tt4_nmol_l"].between(80, 140.5)
    ]
    for name in ("levothyroxine", "diagnosis"):
        one, other = (t[name].value_counts(normalize=True) for t in (drawn, met))
        assert (one - other).abs().max() < 0.03
    assert abs(drawn["t4_uptake_ratio"].mean() - met["t4_uptake_ratio"].mean()) < 0.03


@pytest.mark.statistical
def test_classes_by_condition_and_by_balance(model: Any) -> None:
    """The seed is fixed: it cannot fail by chance."""
    assert set(medsynth.sample(model, 300, seed=1, where=["diagnosis=overt"])["diagnosis"]) == {"overt"}
    shares = medsynth.sample(model, 3000, seed=1, balance=True)["diagnosis"].value_counts(normalize=True)
    assert shares.min() > 0.29 and len(shares) == 3
    assert medsynth.sample(model, 50, seed=1, where=["t3_nmol_l="])["t3_nmol_l"].isna().all()


@pytest.mark.statistical
def test_rows_can_be_drawn_given_a_numeric_target(quick: None, seeded_entropy: None) -> None:
    """Its range holds, inside the bins too, and other columns follow it as they do in unconditional rows.

    The seed is fixed: it cannot fail by chance.
    """
    stream = np.random.default_rng(0)
    x = stream.integers(0, 101, 4000)
    frame = pd.DataFrame({"x": x, "high": np.where(x > 50, "yes", "no"), "z": stream.choice(["a", "b"], 4000)})
    frame["x"] = frame["x"].astype("Int64").mask(stream.random(4000) < 0.1)
    columns = {
        "x": {"kind": "count", "bounds": [0, 100], "missing": True},
        "high": {"kind": "binary", "levels": ["no", "yes"]},
        "z": {"kind": "binary", "levels": ["a", "b"]},
    }
    schema = Schema.from_dict({"name": "t", "target": "x", "columns": columns})
    made = medsynth.fit(frame, epsilon=20, schema=schema, rows=4000, seed=0)
    drawn = medsynth.sample(made, 3000, seed=0, where=["x=20..33"])
    assert drawn["x"].between(20, 33).all() and drawn["x"].nunique() == 14
    many = medsynth.sample(made, 40_000, seed=1)
    met = many[many["x"].between(20, 33)]
    assert abs((drawn["high"] == "no").mean() - (met["high"] == "no").mean()) < 0.03
    assert abs(drawn["x"].astype(float).mean() - met["x"].astype(float).mean()) < 0.4  # 4 standard errors
    assert medsynth.sample(made, 40, seed=0, where=["x="])["x"].isna().all()


@pytest.mark.parametrize(
    "word, message",
    [
        ("nothing=1", "is not a column"),
        ("age_years", "COLUMN=VALUE"),
        ("sex_at_birth=X", "levels are"),
        ("age_years=old", "not a number"),
        ("age_years=60..40", "no value"),
        ("age_years=200..300", "no value"),
        ("age_years=1..2..3", "no value"),
        ("age_years=", "missing values"),
    ],
)
def test_mistakes_are_refused_with_a_reason(fitted_clinic: Path, word: str, message: str) -> None:
    model = medsynth.load(fitted_clinic / "patients.medsynth")
    with pytest.raises(UsageError, match=message):
        medsynth.sample(model, 5, where=[word])
    with pytest.raises(UsageError, match="twice"):
        parse(["age_years=40", "age_years=50"], model.schema)


def test_other_methods_refuse_conditions(cohort: pd.DataFrame, clinic: Schema, quick: None) -> None:
    plain = medsynth.fit(cohort, epsilon=3.7, schema=clinic, rows=300, method="dp-cgan", preset="random-features")
    with pytest.raises(UsageError, match="mixture"):
        medsynth.sample(plain, 5, balance=True)
    assert plain.epsilon is not None and np.isfinite(plain.epsilon)
