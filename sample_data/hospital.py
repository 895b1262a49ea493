"""Simulate the extract of a hospital: SIMULATED data. No row describes a real person.

By default 8,000 patients with 20,000 visits, and 40 columns of every kind that a schema can declare. There are keys,
dates that follow one another, codes in hierarchies, counts, measurements, ordered and rare levels, area codes with a
leading zero, and codes of missing values. About 15 % of the cells are missing, mostly because nobody had a reason to
measure. The constants are plausible and fitted to no data: the rows teach nothing medical.

    python -m medsynth_sample_data.hospital --output hospital.csv
    python -m medsynth_sample_data.hospital --patients 2000 --seed 7 --output small.csv

Either command writes the table, and its schema next to it.
"""

import argparse
import shutil
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.random import PCG64, Generator
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
SCHEMA = Path(__file__).parent / "hospital.schema.yaml"
FIRST = date(2018, 1, 1)
DAYS = 6 * 365
AREAS = ["01", "03", "04", "06", "10", "12", "99"]
# condition: its chance at age 50, its rise per year, its codes, its drugs, its ward
CONDITIONS = {
    "diabetes": (0.12, 0.004, ["E11.90", "E11.65", "E11.72"], ["A10BA02", "A10AB05"], "nephrology"),
    "heart": (0.10, 0.006, ["I50.1", "I21.4", "I25.1", "I48.0"], ["C07AB02", "C09AA05", "C03CA01"], "cardiology"),
    "lung": (0.08, 0.002, ["J44.1", "J45.9", "J18.9"], ["R03AC02", "R03BB04"], "pneumology"),
    "kidney": (0.05, 0.003, ["N18.3", "N18.4", "N17.9"], ["B03XA01", "C03CA01"], "nephrology"),
    "injury": (0.10, 0.000, ["S72.0", "S52.5", "S06.0"], ["N02BE01", "N02AA01"], "trauma"),
    "abdomen": (0.09, 0.001, ["K35.8", "K80.2", "K57.3"], ["A02BC01", "J01CR02"], "visceral surgery"),
    "rare": (0.002, 0.000, ["E84.0", "D57.1", "G12.2"], ["R05CB13"], "general medicine"),
}


def _coin(rng: Generator, chance: Floats) -> Flags:
    return np.asarray(rng.random(chance.shape) < chance)


def _near(rng: Generator, centre: Floats, spread: float) -> Floats:
    return np.asarray(centre + spread * rng.standard_normal(centre.shape))


def _lab(rng: Generator, values: Floats, ends: tuple[float, float], places: int, seen: Floats) -> Floats:
    """Return values as a laboratory reports them, within its ends, measured with the chance `seen`, else missing."""
    return np.where(rng.random(values.shape) < seen, np.round(np.clip(values, *ends), places), np.nan)


def _days(offsets: Floats) -> list[str]:
    return [(FIRST + timedelta(days=int(day))).isoformat() for day in offsets]


def _patients(rng: Generator, count: int) -> pd.DataFrame:
    """Return what stays the same over a patient's visits."""
    old = rng.random(count) < 0.6
    age = np.clip(np.where(old, _near(rng, np.full(count, 68.0), 13), rng.uniform(1, 60, count)), 0, 99)
    woman = _coin(rng, np.full(count, 0.52))
    has = {name: _coin(rng, np.clip(p + rise * (age - 50), 0.002, 0.6)) for name, (p, rise, *_) in CONDITIONS.items()}
    height = np.where(age < 18, 50 + 6.6 * age, np.where(woman, 165, 178)) + 6 * rng.standard_normal(count)
    index = np.where(age < 18, 17, 25 + 4 * has["diabetes"]) * np.exp(0.15 * rng.standard_normal(count))
    return pd.DataFrame({
        "patient_id": [f"P-{k:06}" for k in rng.permutation(count)],
        "age": age, "woman": woman, "height": np.clip(height, 45, 205), "index": np.clip(index, 13, 55),
        "area": rng.choice(AREAS, count, p=[0.3, 0.2, 0.15, 0.15, 0.1, 0.08, 0.02]),
        "smoker": _coin(rng, np.where(age > 16, 0.25, 0.0)), "private": _coin(rng, np.full(count, 0.12)),
        "visits": 1 + rng.geometric(0.4, count), **has,
    })  # fmt: skip


def extract(patients: int = 8000, visits: int = 20_000, seed: int = 0) -> pd.DataFrame:
    """Return the visits of this number of patients, (visits, 40); equal arguments give equal rows."""
    rng = Generator(PCG64(seed))
    people = _patients(rng, patients)
    # Every patient comes once; patients who are ill more often get the other visits.
    weight = people["visits"] * (1 + people[list(CONDITIONS)].sum(axis=1))
    more = rng.choice(patients, max(0, visits - patients), p=weight / weight.sum())
    who = np.sort(np.concatenate([np.arange(patients)[:visits], more]))
    p, n = people.iloc[who].reset_index(drop=True), len(who)
    names = list(CONDITIONS)
    cause = np.argmax(
        p[names].to_numpy() * rng.uniform(0.2, 1, (n, len(names))) + 0.01 * rng.random((n, len(names))), 1
    )
    woman, ill = p["woman"].to_numpy(), p[names].sum(axis=1).to_numpy().astype(float)
    arrived = np.floor(rng.uniform(0, DAYS, n))
    born = np.floor(-365.25 * p["age"].to_numpy() - 20)
    age = (arrived - born) / 365.25
    child = age < 16
    pregnant = _coin(rng, np.where(woman & (age > 17) & (age < 45), 0.08, 0.0))
    urgent = _coin(rng, 0.35 + 0.05 * ill)
    severe = np.clip(_near(rng, 0.8 * urgent + 0.25 * ill + 0.01 * (age - 50), 0.8), -2, 4)
    stay = np.clip(np.floor(np.exp(_near(rng, 0.9 + 0.35 * severe, 0.7))), 0, 90)
    intensive = _coin(rng, 1 / (1 + np.exp(4.2 - 1.3 * severe)))
    hours = np.where(intensive, np.clip(np.floor(np.exp(_near(rng, 3 + 0.4 * severe, 0.8))), 1, 900), 0)
    systolic = np.clip(2 * np.round(_near(rng, 128 + 0.2 * (age - 50) - 8 * severe, 16) / 2), 60, 240)
    diastolic = np.clip(np.round(0.58 * systolic + 8 * rng.standard_normal(n)), 30, systolic - 5)
    height = np.round(p["height"].to_numpy(), 0)
    weight_kg = np.round(np.clip(p["index"] * (height / 100) ** 2 * np.exp(0.05 * rng.standard_normal(n)), 3, 250), 1)
    weighed = rng.random(n) < np.where(intensive, 0.35, 0.7)
    kidney, heart, diabetes = (p[name].to_numpy() for name in ("kidney", "heart", "diabetes"))
    creatinine = np.round(np.exp(_near(rng, 4.3 + 0.9 * kidney + 0.002 * (age - 50), 0.25)), 0).clip(15, 1500)
    seen = rng.random(n) < np.where(urgent | kidney, 0.92, 0.5)
    troponin = np.where(heart & (cause == 1), np.exp(_near(rng, np.full(n, 3.5), 1.5)), rng.exponential(3, n))
    troponin = np.where(troponin < 3, 0, np.round(troponin, 0)).clip(0, 50_000)
    lactate = np.round(np.exp(_near(rng, 0.2 + 0.35 * severe, 0.4)), 1).clip(0.2, 25).astype(str).astype(object)
    drawn = rng.random(n) < np.where(severe > 1.2, 0.75, 0.12)
    lactate = np.where(drawn, np.where(rng.random(n) < 0.03, "haemolysed", lactate), "-9")
    smoker = np.where(p["smoker"], "yes", "no").astype(object)
    reply = rng.random(n)
    smoker = np.where(reply < np.where(p["smoker"], 0.25, 0.1), "refused", np.where(reply > 0.9, None, smoker))
    code = np.array([rng.choice(CONDITIONS[names[k]][2], p=_falling(len(CONDITIONS[names[k]][2]))) for k in cause])
    second = np.array([rng.choice(CONDITIONS[names[k]][2]) for k in rng.integers(0, len(names), n)], dtype=object)
    drug = np.array([rng.choice(CONDITIONS[names[k]][3]) for k in cause], dtype=object)
    ward = np.where(child, "paediatrics", [CONDITIONS[names[k]][4] for k in cause]).astype(object)
    ward = np.where(pregnant, "obstetrics", np.where(rng.random(n) < 0.08, "general medicine", ward))
    again = _coin(rng, 1 / (1 + np.exp(3.2 - 0.5 * ill - 0.5 * severe - 0.8 * (kidney & heart) - 0.15 * (stay > 14))))
    triage = np.array(["resuscitation", "urgent", "standard", "minor"])[np.digitize(-severe, [-2.2, -0.9, 0.3])]
    # Values that look normal are seldom measured: missing, and not at random.
    routine, worried = np.where(urgent, 0.97, 0.62), np.where(severe > 0.5, 0.9, 0.4)
    labs = {
        "breaths_per_min": (_near(rng, 16 + 2 * severe, 3), (6, 60), 0, np.where(severe > 1, 0.9, 0.55)),
        "hba1c_percent": (_near(rng, 5.5 + 1.9 * diabetes, 0.7), (3.5, 16), 1, np.where(diabetes, 0.8, 0.15)),
        "crp_mg_l": (np.exp(_near(rng, 1.5 + 0.8 * severe, 1.0)), (0.1, 600), 1, worried),
        "haemoglobin_g_l": (_near(rng, 140 - 12 * woman - 9 * kidney - 4 * severe, 14), (40, 210), 0, routine),
        "sodium_mmol_l": (_near(rng, 139 - 1.5 * heart, 3), (110, 170), 0, routine),
        "potassium_mmol_l": (_near(rng, 4.1 + 0.4 * kidney, 0.45), (2, 8), 1, routine),
        "troponin_ng_l": (troponin, (0, 50_000), 0, np.where(heart, 0.7, 0.1)),
    }
    columns = {
        "visit_id": [f"V{k:07}" for k in rng.permutation(n)],
        "patient_id": p["patient_id"],
        "date_of_birth": _days(born),
        "admitted": _days(arrived),
        "discharged": _days(arrived + stay),
        "stay_days": stay.astype(int),
        "age_years": np.round(age, 1),
        "sex": np.where(woman, "F", "M"),
        "pregnant": pregnant.astype(int),
        "area_code": p["area"],
        "insurance": np.where(rng.random(n) < 0.04, None, np.where(p["private"], "private", "statutory")),
        "admission": np.where(urgent, "emergency", np.where(rng.random(n) < 0.1, "transfer", "elective")),
        "triage": triage,
        "ward": ward,
        "main_diagnosis": code,
        "second_diagnosis": np.where(rng.random(n) < 0.25 + 0.15 * ill, second, None),
        "drug": np.where(rng.random(n) < np.where(urgent, 0.9, 0.65), drug, None),
        "previous_admissions": np.clip(rng.poisson(0.4 + 0.8 * ill), 0, 30),
        "smoker": smoker,
        "height_cm": np.where(weighed, height, np.nan),
        "weight_kg": np.where(weighed, weight_kg, np.nan),
        "bmi": np.where(weighed, np.round(weight_kg / (height / 100) ** 2, 1), np.nan),
        "systolic_mmhg": systolic.astype(int),
        "diastolic_mmhg": diastolic.astype(int),
        "pulse_bpm": np.clip(np.round(_near(rng, 80 + 9 * severe + 30 * child, 11)), 30, 220).astype(int),
        "temperature_c": np.round(np.clip(_near(rng, 36.8 + 0.25 * severe, 0.5), 33, 42), 1),
        "oxygen_percent": np.clip(np.round(_near(rng, 97 - 1.2 * severe - 2 * p["lung"], 1.6)), 60, 100).astype(int),
        "creatinine_umol_l": np.where(seen, creatinine, np.nan),
        "egfr": np.where(seen, np.round(np.clip(9000 / creatinine - 0.3 * (age - 50), 3, 140)), np.nan),
        "lactate_mmol_l": lactate,
        "intensive_care": np.where(intensive, "true", "false"),
        "intensive_hours": hours.astype(int),
        **{name: _lab(rng, *measured) for name, measured in labs.items()},
        "readmitted": np.where(again, "yes", "no"),
    }
    return pd.DataFrame(columns)


def _falling(count: int) -> Floats:
    """Return shares of codes, each half of the one before."""
    share = 0.5 ** np.arange(count)
    return np.asarray(share / share.sum())


def main(argv: list[str] | None = None) -> None:
    """Write an extract and its schema."""
    parser = argparse.ArgumentParser(description="Simulate a hospital's extract; no row describes a real person.")
    parser.add_argument("--patients", type=int, default=8000)
    parser.add_argument("--visits", type=int, help="visits in all [default: two and a half a patient]")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--output", type=Path, required=True, help="CSV file to write")
    chosen = parser.parse_args(argv)
    visits = chosen.visits or round(2.5 * chosen.patients)
    extract(chosen.patients, visits, chosen.seed).to_csv(chosen.output, index=False, lineterminator="\n")
    shutil.copyfile(SCHEMA, chosen.output.with_suffix(".schema.yaml"))


if __name__ == "__main__":
    main()
