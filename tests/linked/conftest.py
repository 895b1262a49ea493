"""Small tables of patients, stays and tests, with every kind of link and rule; and a quick model of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from quick_methods import offer_quick

import medsynth
from medsynth.patients import training
from medsynth.schema.linked import LinkedTables

TABLES = """
name: ward
key: patient
tables:
  patients:
    target: sex
    columns:
      patient: {kind: identifier, shape: "P-####"}
      born: {kind: date, bounds: [1930-01-01, 2000-12-31]}
      sex: {kind: binary, levels: [F, M]}
      height: {kind: continuous, bounds: [140, 200], decimals: 0, missing: true}
  stays:
    order: admitted
    max_rows: 3
    columns:
      stay: {kind: identifier, shape: "S-#####"}
      patient: {kind: identifier}
      admitted: {kind: date, bounds: [1990-01-01, 2024-12-31]}
      discharged: {kind: date, after: admitted, bounds: [0, 60]}
      ward: {kind: categorical, levels: [heart, kidney, lung]}
      died: {kind: binary, levels: ["no", "yes"]}
    rules:
      - admitted > born
      - admitted > previous(discharged)
      - died = yes implies last row
  tests:
    order: taken
    max_rows: 4
    latest: {stay: stays}
    columns:
      patient: {kind: identifier}
      stay: {kind: identifier, missing: true}
      taken: {kind: date, bounds: [1990-01-01, 2024-12-31]}
      value: {kind: continuous, bounds: [0, 20], decimals: 1}
      done: {kind: date, after: taken, bounds: [0, 9], missing: true}
    rules:
      - taken > born
  consent:
    columns:
      patient: {kind: identifier}
      given: {kind: binary, levels: [true, false]}
"""


def simulated(count: int, seed: int) -> dict[str, pd.DataFrame]:
    """Patients who have up to four stays and up to five tests at or after them; consent of most."""
    rng = np.random.default_rng(seed)
    keys = np.array([f"K{k}" for k in range(count)])
    born = pd.Timestamp("1930-01-01") + pd.to_timedelta(rng.integers(0, 20_000, count), unit="D")
    sex = rng.choice(["F", "M"], count)
    height = np.where(rng.random(count) < 0.1, "", np.where(sex == "F", 165, 178).astype(str))
    stays, tests, number = list[dict[str, object]](), list[dict[str, object]](), 0
    for k in range(count):
        day = pd.Timestamp("2005-01-01") + pd.Timedelta(int(rng.integers(0, 3000)), "D")
        ward = rng.choice(["heart", "kidney", "lung"])
        for turn in range(int(rng.choice([0, 1, 2, 3, 4], p=[0.2, 0.4, 0.2, 0.1, 0.1]))):
            out = day + pd.Timedelta(int(rng.integers(0, 10)), "D")
            number += 1
            stays.append({"stay": f"T{number}", "patient": keys[k], "admitted": day, "discharged": out, "ward": ward,
                          "died": "no"})  # fmt: skip
            for _ in range(int(rng.choice([0, 1, 2]))):
                at = day + pd.Timedelta(int(rng.choice([0, 0, 0, 3])), "D")
                value = {"heart": 4.0, "kidney": 9.0, "lung": 14.0}[ward] + rng.normal(0, 0.5)
                tests.append({"patient": keys[k], "stay": f"T{number}", "taken": at, "value": round(value, 1),
                              "done": at + pd.Timedelta(1, "D") if rng.random() < 0.7 else pd.NaT})  # fmt: skip
            day = out + pd.Timedelta(1 + int(rng.exponential(200)), "D")
            if turn == 3:
                stays[-1]["died"] = "yes"
    agreed = rng.random(count) < 0.8
    consent = pd.DataFrame(
        {"patient": keys[agreed], "given": np.where(rng.random(agreed.sum()) < 0.9, "true", "false")}
    )
    patients = pd.DataFrame({"patient": keys, "born": born, "sex": sex, "height": height})
    made = {"patients": patients, "stays": pd.DataFrame(stays), "tests": pd.DataFrame(tests), "consent": consent}
    return {name: frame.sample(frac=1, random_state=seed) for name, frame in made.items()}


def write(frames: dict[str, pd.DataFrame], folder: Path, text: str = TABLES) -> Path:
    """The tables as CSV files of a folder, with the file that names them."""
    folder.mkdir(exist_ok=True)
    for name, frame in frames.items():
        frame.to_csv(folder / f"{name}.csv", index=False, date_format="%Y-%m-%d")
    (folder / "ward.tables.yaml").write_text(text)
    return folder


@pytest.fixture(scope="session")
def tables() -> LinkedTables:
    return LinkedTables.from_yaml(TABLES)


@pytest.fixture(scope="session")
def frames() -> dict[str, pd.DataFrame]:
    return simulated(300, 0)


@pytest.fixture
def ward(frames: dict[str, pd.DataFrame], tmp_path: Path) -> Path:
    return write(frames, tmp_path / "ward")


@pytest.fixture(scope="session")
def model(frames: dict[str, pd.DataFrame], once: Callable[..., Path]) -> medsynth.Model:
    def make(folder: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            offer_quick(patch)
            patch.setattr(training, "SIMULATED", 2000)
            ward = write(frames, folder / "ward")
            medsynth.fit(ward, epsilon=50, method="independent", seed=0, rows=300).save(folder / "ward.medsynth")

    return medsynth.load(once("linked_model", make) / "ward.medsynth")


@pytest.fixture(scope="session")
def drawn(model: medsynth.Model) -> dict[str, pd.DataFrame]:
    return medsynth.sample_tables(model, 2000, seed=1)
