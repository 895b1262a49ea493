"""Keys of patients and rows are found by their names or by a charged measurement, and no model learns them."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from open_tables import queries as bare_queries
from open_tables import raw_vault

import medsynth
from medsynth.io.table import from_frame
from medsynth.privacy.accounting.calibration import make_plan
from medsynth.privacy.release import Releases
from medsynth.rng import SeededEntropy
from medsynth.schema.learned import Learned

N = 2139  # rows of the ACTG 175 trial
Draw = np.random.Generator


def trial_numbers(draw: Draw) -> Any:
    """Different numbers of five and six digits, most of them small, as `pidnum` in that trial."""
    return draw.choice(np.unique(np.exp(draw.normal(12.1, 0.9, 400_000)).astype(int).clip(10_056, 990_077)), N, False)


COLUMNS: dict[str, tuple[Callable[[Draw], Any], bool]] = {
    "trial numbers": (trial_numbers, True),
    "sorted": (lambda d: np.sort(trial_numbers(d)), True),
    "in one run": (lambda d: np.arange(N) + 100_000, True),
    "of seven digits": (lambda d: d.integers(1_000_000, 9_999_999, N), True),
    "of eight digits": (lambda d: d.integers(10_000_000, 99_999_999, N), True),
    "X": (lambda d: np.arange(N) + 1, True),
    "from zero": (lambda d: np.arange(N), True),
    "shuffled": (lambda d: d.permutation(N) + 1, True),
    "every second": (lambda d: 1 + np.sort(d.choice(2 * N, N, False)), True),
    "device_id": (lambda d: [f"D-{k}" for k in range(N)], True),
    "implantId": (lambda d: d.integers(1000, 9999, N), True),
    "age": (lambda d: d.integers(18, 95, N), False),
    "ward_id": (lambda d: d.integers(1, 30, N), False),
    "year": (lambda d: d.integers(1950, 2020, N), False),
    "days": (lambda d: d.exponential(800, N).astype(int), False),
    "cpk": (lambda d: np.exp(d.normal(5.5, 1, N)).astype(int), False),
    "birth weight": (lambda d: d.normal(3300, 500, N).astype(int), False),
    "even days of a year": (lambda d: d.integers(1, 366, N), False),
    "total charges": (lambda d: np.exp(d.normal(11, 0.5, N)).astype(int), False),
    "plateletCount": (lambda d: 1000 * d.normal(250, 60, N).round().clip(20).astype(int), False),
    "score": (lambda d: d.integers(0, 100, N), False),
    "long with zeros": (lambda d: np.where(d.random(N) < 0.3, 0, d.integers(10_000, 990_000, N)), False),
    "long and missing": (lambda d: pd.array(d.integers(10_000, 990_000, N), "Int64").take(
        np.where(d.random(N) < 0.2, -1, np.arange(N)), allow_fill=True), False),
}  # fmt: skip


def learn(frame: pd.DataFrame) -> Learned:
    """The schema at epsilon 3.7; the seed is fixed."""
    plan = make_plan(bare_queries(), epsilon=3.7, delta=1e-5, rows=N)
    table = raw_vault(from_frame(frame), N, Releases(plan.ledger("t"), SeededEntropy(1)), "label")
    return table.measure_schema()


@pytest.mark.statistical
@pytest.mark.parametrize("name", COLUMNS)
def test_keys_are_told_from_numbers(name: str) -> None:
    draw = np.random.default_rng(2)
    values, is_key = COLUMNS[name]
    frame = pd.DataFrame({f"x{k}": draw.normal(50, 9, N).round(1) for k in range(6)})
    frame = frame.assign(**{name: values(draw), "label": draw.choice(["ill", "well"], N)})
    found = learn(frame)
    assert (not found.schema.columns[name].modelled) is is_key
    assert any(text.startswith(f"Read as keys, which no model learns: {name}.") for text in found.summary()) is is_key


@pytest.mark.statistical
@pytest.mark.parametrize("name", ["pidnum", "mrn", "patient_id", "enrolment"])
def test_no_number_of_a_patient_comes_back(name: str) -> None:
    """By a public name or by its numbers. The name alone costs nothing."""
    draw = np.random.default_rng(3)
    frame = pd.DataFrame({name: trial_numbers(draw), "age": draw.integers(18, 90, N)})
    frame["arm"] = draw.choice(["a", "b"], N)
    model = medsynth.fit(frame, epsilon=3.7, method="independent", target="arm", notice=lambda text: None)
    drawn = medsynth.sample(model, N, seed=1)[name]
    assert drawn.nunique() == N and not set(drawn.astype(int)) & set(frame[name])
