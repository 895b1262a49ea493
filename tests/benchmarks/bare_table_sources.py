"""Twelve tables of different character, for bare_tables.py: five simulated, seven real. Each is (frame, target)."""

from __future__ import annotations

import io
import os
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

ROOT = Path(__file__).parent.parent.parent
STAYS = 20_000  # rows of diabetes130 that are used: a stay for each patient
Source = Callable[[], tuple[pd.DataFrame, str]]


def shared(name: str) -> Path:
    """The folder of a real table."""
    return Path(os.environ.get("MEDSYNTH_DATA", ROOT.parent / "shared" / "data")) / name


def _text(frame: pd.DataFrame) -> pd.DataFrame:
    """A frame's cells as its CSV file has them, all words."""
    return pd.read_csv(io.StringIO(frame.to_csv(index=False)), dtype=str, keep_default_na=False)


def _falling(count: int, last: float) -> Any:
    weights = np.geomspace(1, last, count)
    return weights / weights.sum()


def thyroid() -> tuple[pd.DataFrame, str]:
    """UCI ann-thyroid, under names that no bundled schema has."""
    rows = np.loadtxt(shared("thyroid") / "ann-train.data"), np.loadtxt(shared("thyroid") / "ann-test.data")
    frame = pd.DataFrame(np.concatenate(rows), columns=[f"v{k}" for k in range(1, 22)] + ["class"])
    whole = [f"v{k}" for k in range(2, 17)] + ["class"]
    return frame.astype(dict.fromkeys(whole, int)), "class"


def all_stays() -> pd.DataFrame:
    """The table as published: `?` for missing, `None` for a test that was not done."""
    with zipfile.ZipFile(shared("diabetes130") / "diabetic_data.zip") as archive:
        name = next(name for name in archive.namelist() if name.endswith("diabetic_data.csv"))
        return pd.read_csv(archive.open(name), dtype=str, keep_default_na=False)


def diabetes130() -> tuple[pd.DataFrame, str]:
    """The first stay of some patients."""
    first = all_stays().drop_duplicates("patient_nbr")
    return first.sample(STAYS, random_state=0).reset_index(drop=True), "readmitted"


def pbc() -> tuple[pd.DataFrame, str]:
    """The visits of the PBC trial, each by itself; holes in cholesterol and platelets."""
    frame = pd.read_csv(shared("pbc") / "pbc2.csv.gz", dtype=str, keep_default_na=False)
    return frame.drop(columns=[name for name in frame.columns if name in ("", "Unnamed: 0", "rownames")]), "status2"


def cancer() -> tuple[pd.DataFrame, str]:
    """scikit-learn's breast cancer."""
    from sklearn.datasets import load_breast_cancer

    frame = load_breast_cancer(as_frame=True).frame
    return frame.rename(columns=lambda name: name.replace(" ", "_")), "target"


def clinic() -> tuple[pd.DataFrame, str]:
    """The simulated thyroid clinic of sample_data, under names that no bundled schema has."""
    from medsynth_sample_data import simulate

    frame = simulate.cohort(8000, 1)
    return frame.rename(columns=lambda name: f"x_{name}"), "x_diagnosis"


def emergency() -> tuple[pd.DataFrame, str]:
    """Ages with decimals below two years alone and with holes; whole counts with holes; few prices; words."""
    draw, n = np.random.default_rng(11), 6000
    small = draw.random(n) < 0.08
    age = np.where(small, np.round(draw.integers(1, 24, n) / 12, 2), np.floor(draw.gamma(6, 6, n) + 2))
    risk = 1 / (1 + np.exp(-(0.05 * (age - 38) + draw.normal(0, 0.7, n))))
    triage = np.clip(np.round(3.4 - 2 * risk + draw.normal(0, 0.6, n)), 1, 5)
    frame = pd.DataFrame({
        "age_years": pd.Series(age).mask(draw.random(n) < 0.15),
        "triage": pd.Series(triage).mask(draw.random(n) < 0.1).astype("Int64"),
        "siblings": draw.poisson(0.6, n),
        "fee": draw.choice([7.25, 7.9, 8.05, 13.0, 26.55], n, p=[0.2, 0.3, 0.2, 0.2, 0.1]),
        "arrival": draw.choice(["walk-in", "ambulance", "referral"], n, p=[0.6, 0.3, 0.1]),
        "died": (draw.random(n) < risk * 0.5).astype(int),
    })  # fmt: skip
    return frame, "died"


def survey() -> tuple[pd.DataFrame, str]:
    """Codes of missing values: -9 and 999 among numbers, `?` and `unknown` among words, a dot among decimals."""
    draw, n = np.random.default_rng(12), 5000
    income, years = np.round(np.exp(draw.normal(7.5, 0.6, n))), draw.integers(0, 41, n)
    smoker = draw.random(n) < 0.3
    health = np.clip(np.round(3 + years / 25 - smoker - 0.4 * (income > 2500) + draw.normal(0, 0.8, n)), 1, 5)
    pressure = np.round(draw.normal(125, 14, n) + 8 * smoker, 1)
    frame = pd.DataFrame({
        "income": np.where(draw.random(n) < 0.12, -9, income).astype(int),
        "years_in_job": np.where(draw.random(n) < 0.08, 999, years),
        "pressure": np.where(draw.random(n) < 0.2, ".", pressure.astype(str)),
        "weight": np.where(draw.random(n) < 0.97, "?", draw.integers(45, 120, n).astype(str)),
        "region": np.where(draw.random(n) < 0.07, "unknown", draw.choice(["north", "south", "east", "west"], n)),
        "employment": np.where(draw.random(n) < 0.05, "?", draw.choice(["full", "part", "none"], n)),
        "smoker": np.where(draw.random(n) < 0.1, "N/A", np.where(smoker, "yes", "no")),
        "good_health": (health < 3).astype(int),
    })  # fmt: skip
    return _text(frame), "good_health"


def admissions() -> tuple[pd.DataFrame, str]:
    """Timestamps, dates in two forms, booleans, a patients' key that no two rows share, many wards."""
    draw, n = np.random.default_rng(13), 5000
    start = pd.Timestamp("2019-01-01") + pd.to_timedelta(draw.integers(0, 4 * 365 * 24 * 60, n), unit="min")
    age = np.clip(draw.normal(58, 18, n), 0, 99)
    born = (start - pd.to_timedelta(age * 365.25, unit="D")).normalize()
    urgent = draw.random(n) < 0.35
    stay = np.round(draw.gamma(1.5, 2.5, n) * (1 + urgent) + age / 40).astype(int)
    names = [f"ward {letter}" for letter in "ABCDEFGHIJKLMNOP"]
    frame = pd.DataFrame({
        "patient_id": [f"P{k:06}" for k in draw.permutation(n)],
        "admitted": start,
        "born": born.strftime("%d.%m.%Y"),
        "discharged": (start + pd.to_timedelta(stay, unit="D")).normalize(),
        "urgent": urgent,
        "insured": pd.array(draw.random(n) < 0.9, "boolean"),
        "ward": draw.choice(names, n, p=_falling(16, 0.05)),
        "crp": np.round(np.exp(draw.normal(2 + 0.8 * urgent, 1, n)), 1),
        "long_stay": stay > 7,
    })  # fmt: skip
    return frame, "long_stay"


def registry() -> tuple[pd.DataFrame, str]:
    """A wide screening registry: `None` as the commonest level, half steps, rare levels, whole floats, a rare class."""
    draw, n = np.random.default_rng(14), 12_000
    stage = draw.choice(["I", "II", "III", "IV"], n, p=[0.5, 0.3, 0.15, 0.05])
    level = pd.Series(stage).map({"I": 0, "II": 1, "III": 2, "IV": 3}).to_numpy()
    frame = pd.DataFrame({
        "stage": stage,
        "finding": draw.choice(["None", "mild", "severe"], n, p=[0.93, 0.05, 0.02]),
        "acuity": draw.choice([0.5, 1.0, 1.5, 2.0, 2.5], n),
        "visits": draw.poisson(2 + level).astype(float),
        "code": draw.choice([f"C{k:02}" for k in range(40)], n, p=_falling(40, 0.002)),
        "marker": np.round(np.exp(draw.normal(1 + 0.9 * level, 0.8, n)), 3),
        "size_mm": np.round(draw.gamma(2, 6, n) + 4 * level).astype(int),
        **{f"item_{k}": draw.binomial(1, 0.05 + 0.1 * (level > k % 4), n) for k in range(12)},
        "relapse": np.where(draw.random(n) < 0.02 + 0.1 * level, "yes", "no"),
    })  # fmt: skip
    return frame, "relapse"


def fair() -> tuple[pd.DataFrame, str]:
    """Fair's survey of 1974 (statsmodels): half years and coded levels. No setting was tuned on it."""
    from statsmodels.datasets import fair as source

    frame = source.load_pandas().data
    return frame.assign(affairs=(frame["affairs"] > 0).astype(int)), "affairs"


def randhie() -> tuple[pd.DataFrame, str]:
    """The RAND health insurance experiment (statsmodels): skewed counts, several years of each family. No setting was
    tuned on it.
    """
    from statsmodels.datasets import randhie as source

    frame = source.load_pandas().data
    return frame.assign(visits=(frame.pop("mdvis") > 2).map({True: "many", False: "few"})), "visits"


def anes96() -> tuple[pd.DataFrame, str]:
    """The American National Election Study of 1996 (statsmodels): 944 rows. No setting was tuned on it."""
    from statsmodels.datasets import anes96 as source

    return source.load_pandas().data.drop(columns=["logpopul"]), "vote"


SOURCES: dict[str, Source] = {
    made.__name__: made
    for made in (thyroid, diabetes130, pbc, cancer, clinic, emergency, survey, admissions, registry, fair, randhie,
                 anes96)
}  # fmt: skip
REPEATED = ("randhie",)  # tables of several rows a person, who have no key
UNTUNED = ("fair", "randhie", "anes96")
