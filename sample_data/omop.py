"""Simulate a subset of the OMOP Common Data Model: SIMULATED data. No row describes a real person.

The patients are those of `medsynth_sample_data.visits`, whose processes are known: chronic kidney disease never goes
back, laboratory values are AR(1), a high creatinine stops a drug. Here each visit is a row of visit_occurrence, and its
findings are rows of condition_occurrence, drug_exposure and measurement. Whoever dies does so on the day of the last
visit, on which stay and drugs end.

    python -m medsynth_sample_data.omop --output cdm
    python -m medsynth_sample_data.omop --patients 2000 --seed 7 --parquet --output small

Either command writes these five tables and person into a folder.
"""

import argparse
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.random import PCG64, Generator

from .visits import simulate as visits_of

INPATIENT, OUTPATIENT, EMERGENCY = 9201, 9202, 9203
GENDER = {"F": 8532, "M": 8507}
RACES, RACE_SHARES = (8527, 8516, 8515, 0), (0.7, 0.15, 0.1, 0.05)
KIDNEY_DISEASE, ARTHRITIS, HYPERTENSION = 46271022, 80809, 320128
METFORMIN, LISINOPRIL, PREDNISONE = 1503297, 1308216, 1551099
#: For a visit's column: the concept, and the factor to the usual unit of the vocabulary.
MEASUREMENTS = {
    "creatinine_umol_l": (3016723, 1 / 88.4),
    "haemoglobin_g_l": (3000963, 0.1),
    "weight_kg": (3025315, 1.0),
}
LONGEST_STAY, SUPPLY = 60, (30, 90)  # days
CODED = 0.8  # the chance that a condition is coded at a visit


def simulate(patients: int = 8000, seed: int = 0) -> dict[str, pd.DataFrame]:
    """Return six tables by name, of `patients`; equal arguments, equal rows. Raise ValueError for fewer than one."""
    rng = Generator(PCG64([seed, 1]))
    visits = visits_of(patients, seed)
    person_id = pd.factorize(visits["patient_id"])[0] + 1
    start = pd.to_datetime(visits["visit_date"])
    old = (visits["birth_year"] < 1960).to_numpy()
    pressure = (rng.random(patients) < 0.5)[person_id - 1] & old
    visits = visits.assign(person_id=person_id, start=start, pressure=pressure)
    visits["visit_occurrence_id"] = np.arange(1, len(visits) + 1)
    return {
        "person": _person(visits, rng),
        "visit_occurrence": _visits(visits, rng),
        "condition_occurrence": _conditions(visits, rng),
        "drug_exposure": _drugs(visits, rng),
        "measurement": _measurements(visits),
        "death": _deaths(visits),
    }


def _person(visits: pd.DataFrame, rng: Generator) -> pd.DataFrame:
    first = visits.drop_duplicates("person_id")
    return pd.DataFrame({
        "person_id": first["person_id"].to_numpy(),
        "gender_concept_id": first["sex"].map(GENDER).to_numpy(),
        "year_of_birth": first["birth_year"].to_numpy(),
        "race_concept_id": rng.choice(RACES, len(first), p=RACE_SHARES),
    })  # fmt: skip


def _visits(visits: pd.DataFrame, rng: Generator) -> pd.DataFrame:
    """Return visits: severe ones are stays, and end before the next one starts."""
    severity = visits["severity"]
    kind = np.where(severity == "severe", INPATIENT, np.where(severity == "moderate", EMERGENCY, OUTPATIENT))
    until = visits["start"].shift(-1).where(visits["person_id"].shift(-1) == visits["person_id"])
    free = (until - visits["start"]).dt.days.fillna(LONGEST_STAY).to_numpy()
    stay = np.where(kind == INPATIENT, np.minimum(rng.geometric(0.2, len(visits)), LONGEST_STAY), 0)
    stay = np.where(visits["died"] == "yes", 0, stay)
    end = visits["start"] + pd.to_timedelta(np.minimum(stay, np.maximum(free - 1, 0)), unit="D")
    return pd.DataFrame({
        "visit_occurrence_id": visits["visit_occurrence_id"], "person_id": visits["person_id"],
        "visit_concept_id": kind, "visit_start_date": _days(visits["start"]), "visit_end_date": _days(end),
    })  # fmt: skip


def _deaths(visits: pd.DataFrame) -> pd.DataFrame:
    died = visits[visits["died"] == "yes"]
    cause = np.where(died["kidney_disease"] == "yes", KIDNEY_DISEASE, 0)
    return pd.DataFrame({"person_id": died["person_id"], "death_date": _days(died["start"]), "cause_concept_id": cause})


def _rows(visits: pd.DataFrame, concepts: Mapping[int, pd.Series]) -> pd.DataFrame:
    """Return one row for each visit and concept found at it, by visit."""
    found = [visits[np.asarray(at, bool)].assign(concept=concept) for concept, at in concepts.items()]
    return pd.concat(found).sort_values(["visit_occurrence_id", "concept"]).reset_index(drop=True)


def _conditions(visits: pd.DataFrame, rng: Generator) -> pd.DataFrame:
    found = {
        KIDNEY_DISEASE: visits["kidney_disease"] == "yes",
        ARTHRITIS: visits["flare"] == "yes",
        HYPERTENSION: visits["pressure"],
    }
    rows = _rows(visits, {one: at & (rng.random(len(visits)) < CODED) for one, at in found.items()})
    return pd.DataFrame({
        "condition_occurrence_id": np.arange(1, len(rows) + 1), "person_id": rows["person_id"],
        "condition_concept_id": rows["concept"], "condition_start_date": _days(rows["start"]),
        "visit_occurrence_id": rows["visit_occurrence_id"],
    })  # fmt: skip


def _drugs(visits: pd.DataFrame, rng: Generator) -> pd.DataFrame:
    found = {
        METFORMIN: visits["metformin"] == "yes",
        PREDNISONE: visits["flare"] == "yes",
        LISINOPRIL: visits["pressure"],
    }
    rows = _rows(visits, found)
    died = visits[visits["died"] == "yes"].set_index("person_id")["start"]
    end = rows["start"] + pd.to_timedelta(rng.choice(SUPPLY, len(rows)), unit="D")
    end = end.where(~(end > rows["person_id"].map(died)), rows["person_id"].map(died))
    return pd.DataFrame({
        "drug_exposure_id": np.arange(1, len(rows) + 1), "person_id": rows["person_id"],
        "drug_concept_id": rows["concept"], "drug_exposure_start_date": _days(rows["start"]),
        "drug_exposure_end_date": _days(end),
        "visit_occurrence_id": rows["visit_occurrence_id"],
    })  # fmt: skip


def _measurements(visits: pd.DataFrame) -> pd.DataFrame:
    parts = [
        visits.assign(concept=concept, value=(visits[name] * factor).round(2))
        for name, (concept, factor) in MEASUREMENTS.items()
    ]
    rows = pd.concat(parts).sort_values(["visit_occurrence_id", "concept"]).reset_index(drop=True)
    return pd.DataFrame({
        "measurement_id": np.arange(1, len(rows) + 1), "person_id": rows["person_id"],
        "measurement_concept_id": rows["concept"], "measurement_date": _days(rows["start"]),
        "value_as_number": rows["value"], "visit_occurrence_id": rows["visit_occurrence_id"],
    })  # fmt: skip


def _days(dates: pd.Series) -> pd.Series:
    found: pd.Series = dates.dt.strftime("%Y-%m-%d")
    return found


def main(argv: list[str] | None = None) -> None:
    """Write the tables into a folder."""
    parser = argparse.ArgumentParser(description="Simulate OMOP tables; no row describes a real person.")
    parser.add_argument("--patients", type=int, default=8000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--parquet", action="store_true", help="write Parquet files, not CSV")
    parser.add_argument("--output", type=Path, required=True, help="folder to write into")
    chosen = parser.parse_args(argv)
    chosen.output.mkdir(parents=True, exist_ok=True)
    for name, table in simulate(chosen.patients, chosen.seed).items():
        if chosen.parquet:
            table.to_parquet(chosen.output / f"{name}.parquet", index=False)
        else:
            table.to_csv(chosen.output / f"{name}.csv", index=False, lineterminator="\n")


if __name__ == "__main__":
    main()
