"""The tables of patients_over_time.py: (training rows, held-out rows or None, schema), divided by patient.

FOLDER/diabetes130 and FOLDER/pbc hold the public files as their publishers give them; `visits` is simulated, each run
its own patients.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from panel_data import SCHEMAS, icd9

from medsynth.report.data.columns import cells_of
from medsynth.report.data.over_time import Sequences, compared, ordered
from medsynth.report.data.tables import patient_numbers
from medsynth.schema import Schema

TABLES = ("visits", "diabetes130", "pbc")
FILES = {"diabetes130": "diabetic_data.zip", "pbc": "pbc2.csv.gz"}
PATIENTS, HELD_OUT = 8_000, 0.25
COUNTS = ("time_in_hospital", "num_lab_procedures", "num_procedures", "num_medications", "number_outpatient",
          "number_emergency", "number_inpatient", "number_diagnoses")  # fmt: skip


def load(name: str, data: Path | None, run: int) -> tuple[pd.DataFrame, pd.DataFrame | None, Schema]:
    """A table by its name; `data` is the folder of public files, `run` the number of the run."""
    if name == "visits":
        from medsynth_sample_data import visits

        return visits.simulate(PATIENTS, 1000 + run), None, Schema.load(visits.SCHEMA)
    if data is None or not (data / name / FILES[name]).exists():
        raise SystemExit(f"{name} needs the folder of public files: give --data FOLDER or MEDSYNTH_DATA.")
    if name == "pbc":
        return pbc(data / name / FILES[name]), None, Schema.load(SCHEMAS / "pbc_visits.yaml")
    frame = diabetes(data / name / FILES[name])
    train, held = parted(frame, "patient_nbr", HELD_OUT, 0)
    return train, held, Schema.load(SCHEMAS / "diabetes130_stays.yaml")


def parted(frame: pd.DataFrame, unit: str, share: float, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The rows of most patients and those of a `share` of them, always the same for equal arguments."""
    patients = frame[unit].unique()
    held = np.random.default_rng(seed).choice(patients, round(share * len(patients)), replace=False)
    out = frame[unit].isin(held).to_numpy()
    return frame[~out].reset_index(drop=True), frame[out].reset_index(drop=True)


def diabetes(path: Path) -> pd.DataFrame:
    """All stays; the main diagnosis in the nine groups of the table's authors."""
    frame = pd.read_csv(path, na_values="?", keep_default_na=False, dtype=str)
    frame["diagnosis"] = [icd9(code) for code in frame["diag_1"]]
    frame = frame.astype(dict.fromkeys(COUNTS, int))
    return frame[list(Schema.load(SCHEMAS / "diabetes130_stays.yaml").names)]


def pbc(path: Path) -> pd.DataFrame:
    """All visits."""
    frame = pd.read_csv(path)
    frame["died"] = np.where(frame["status"] == "dead", "yes", "no")
    frame["age"], frame["years"], frame["year"] = (
        frame[n].round(k) for n, k in (("age", 1), ("years", 2), ("year", 2))
    )
    return frame[list(Schema.load(SCHEMAS / "pbc_visits.yaml").names)]


def sequences_of(frame: pd.DataFrame, schema: Schema) -> Sequences:
    """A table's patients in order: all of them, as the report compares them."""
    cells = cells_of(frame)
    return ordered(cells, patient_numbers([cells], schema)[0], schema, compared(schema))


def without_order(schema: Schema) -> Schema:
    """The schema without order and rules across rows: a patient's later rows are independent of the earlier ones."""
    content: dict[str, Any] = {name: value for name, value in schema.to_dict().items() if name != "order"}
    alone = [rule.text for rule in schema.parsed_rules if not rule.across]
    return Schema.from_dict({**content, "rules": alone})
