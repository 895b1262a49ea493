"""A small table with every kind of column, a quick model of it, and the folder that is handed over."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from commands import good
from medsynth_sample_data import omop
from quick_methods import offer_quick

from medsynth import rng as entropy
from medsynth.fitting.source import bundled_text
from medsynth.patients import training

SCHEMA = """
name: clinic
target: grade
columns:
  patient: {kind: identifier, shape: "P-####"}
  seen: {kind: date, bounds: [2020-01-01, 2020-12-31], format: "%d.%m.%Y"}
  left: {kind: date, after: seen, bounds: [0, 30], format: "%d.%m.%Y", missing: true}
  at: {kind: date, bounds: [2020-01-01, 2020-02-28], resolution: minute, format: "%Y-%m-%d %H:%M"}
  born: {kind: date, bounds: [1950-01-01, 2000-12-31]}
  month: {kind: date, bounds: [2020-01-01, 2020-12-31], format: "%Y-%m"}
  week: {kind: date, bounds: [2020-01-06, 2020-12-20], format: "%G-W%V"}
  age: {kind: count, bounds: [18, 110], unit: years}
  score: {kind: count, bounds: [0, 30], missing: [-9, refused]}
  größte Zahl / Tag: {kind: count, bounds: [0, 30], missing: [-9], dtype: float64}
  tsh: {kind: continuous, bounds: [0, 50], scale: log, decimals: 2, zeros: all, unit: mIU/l, missing: true}
  alive: {kind: binary, levels: [true, false]}
  smokes: {kind: binary, levels: [true, false], spelling: "TRUE", missing: true}
  sex: {kind: binary, levels: [0, 1], missing: [9], label: "=Sex at birth", value_labels: {0: f; x, 1: m, 9: not known}}
  died: {kind: binary, levels: [0, 1], dtype: float64, missing: true}
  grade: {kind: ordinal, levels: [low, mid, high]}
  ward: {kind: categorical, levels: ["A, \\"B\\"", "C; D", "E"]}
"""
REVIEW = """
purpose: teaching
recipient: University of X
period: 2019 to 2023-06
access: non-public
licence: https://creativecommons.org/licenses/by/4.0/
contact: data@clinic.example
roles: {age: quasi identifier, tsh: sensitive}
catalogue:
  identifier: https://clinic.example/datasets/1
  access_url: https://clinic.example/datasets/1/request
  legislation: [http://data.europa.eu/eli/reg/2025/327/oj]
  health_category: [EHRS]
  access_body: Data Access Body of X
  access_body_contact: https://body.example/contact
  publisher: Clinic of X
  geography: [DEU]
  coding_systems: [http://www.wikidata.org/entity/Q45127]
  custodian: Archive of the clinic
  custodian_contact: archive@clinic.example
"""


def table(count: int = 80) -> pd.DataFrame:
    """Rows with every kind of cell of SCHEMA."""
    rng = np.random.default_rng(0)
    days = pd.Timestamp("2020-01-06") + pd.to_timedelta(rng.integers(0, 300, count), unit="D")
    later = pd.Series(days + pd.to_timedelta(rng.integers(0, 30, count), unit="D")).dt.strftime("%d.%m.%Y")
    at = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 60_000, count), unit="min")
    return pd.DataFrame({
        "patient": [f"real-{k}" for k in range(count)],
        "seen": days.strftime("%d.%m.%Y"),
        "left": np.where(rng.random(count) < 0.2, "", later),
        "at": at.strftime("%Y-%m-%d %H:%M"),
        "born": "1970-03-04",
        "month": days.strftime("%Y-%m"),
        "week": days.strftime("%G-W%V"),
        "age": rng.integers(18, 90, count),
        "score": rng.choice(["3", "17", "-9", "refused"], count),
        "größte Zahl / Tag": rng.choice(["3.0", "17.0", "-9"], count),
        "tsh": rng.choice(["1.50", "2.25", ""], count),
        "alive": rng.choice(["true", "false"], count),
        "smokes": rng.choice(["TRUE", "FALSE", ""], count),
        "sex": rng.choice(["0", "1", "9"], count),
        "died": rng.choice(["0.0", "1.0", ""], count),
        "grade": rng.choice(["low", "mid", "high"], count),
        "ward": rng.choice(['A, "B"', "C; D", "E"], count),
    })  # fmt: skip


@pytest.fixture(autouse=True)
def quick_fits_and_reports(quick: None, few_trees: None) -> None:
    """What is described, and not how well it was learned, is tested here."""


@pytest.fixture
def rows() -> pd.DataFrame:
    return table()


@pytest.fixture(scope="session")
def fitted_small(once: Callable[[str, Callable[[Path], object]], Path]) -> Path:
    """The folder of small.medsynth, its synthetic table and a review file. Read-only."""

    def make(folder: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            offer_quick(patch)
            table().to_csv("small.csv", index=False)
            Path("small.schema.yaml").write_text(SCHEMA)
            good("fit", "small.csv", "--epsilon", "20", "--rows", "80", "--method", "independent")
            good("sample", "-n", "60", "--seed", "1")
            Path("small.csv").unlink()  # nothing after this may need a real row
            Path("review.yaml").write_text(REVIEW)

    return once("fitted_small", make)


@pytest.fixture
def small(fitted_small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that folder, which is the current one."""
    return _in_a_copy(fitted_small, tmp_path, monkeypatch)


class ClaimedEntropy(entropy.SeededEntropy):
    """Repeatable noise in a model that states a claim, as exports of real models do."""

    source = entropy.SystemEntropy.source


@pytest.fixture(scope="session")
def fitted_cdm(once: Callable[..., Path]) -> Path:
    """The folder of cdm.medsynth and its synthetic OMOP tables. Read-only."""

    def make(folder: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            offer_quick(patch)
            patch.setattr(training, "SIMULATED", 500)
            patch.setattr(entropy, "system_entropy", lambda: ClaimedEntropy(84))  # else, by chance, nobody dies
            omop.main(["--patients", "240", "--seed", "2", "--output", "cdm"])
            declared = re.sub(r"max_rows: (\d\d)", "max_rows: 3", bundled_text("omop"))
            Path("cdm/cdm.tables.yaml").write_text(declared)
            good("fit", "cdm", "--epsilon", "100", "--rows", "240", "--method", "independent")
            shutil.rmtree("cdm")  # nothing after this may need a real row
            good("sample", "--patients", "240", "--seed", "1")

    return once("fitted_cdm", make)


@pytest.fixture
def cdm(fitted_cdm: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of that folder, which is the current one."""
    return _in_a_copy(fitted_cdm, tmp_path, monkeypatch)


def _in_a_copy(folder: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    shutil.copytree(folder, place, dirs_exist_ok=True)
    monkeypatch.chdir(place)
    return place
