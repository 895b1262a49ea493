"""The panel's tables: (training rows, held-out rows, schema, target), each with its public declarations.

FOLDER/thyroid, FOLDER/diabetes130 and FOLDER/pbc hold the public files as their publishers give them; the rest is
simulated or comes with scikit-learn. TABLE@ROWS is a table whose training rows are cut to so many, always the same.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import utility

TABLES = ("thyroid", "diabetes130", "pbc", "cancer", "digits", "clinic-4k", "clinic-50k", "hospital")
FILES = ("thyroid", "diabetes130", "pbc")  # read from the folder of public files
SCHEMAS = Path(__file__).parent / "schemas"
# Strack et al. 2014, table 2: first three digits of an ICD-9-CM code, from and to, and the group.
ICD9 = [(390, 459, "circulatory"), (785, 785, "circulatory"), (460, 519, "respiratory"), (786, 786, "respiratory"),
        (520, 579, "digestive"), (787, 787, "digestive"), (250, 250, "diabetes"), (800, 999, "injury"),
        (710, 739, "musculoskeletal"), (580, 629, "genitourinary"), (788, 788, "genitourinary"),
        (140, 239, "neoplasms")]  # fmt: skip


def load(name: str, data: str | None) -> tuple[pd.DataFrame, pd.DataFrame, Any, str]:
    """A table by its name; `data` is the folder of public files."""
    name, _, rows = name.partition("@")
    if name not in TABLES:
        raise SystemExit(f"{name}: no table of the panel. Give one of {', '.join(TABLES)}.")
    if name in FILES and not data:
        raise SystemExit(f"{name} needs --data FOLDER or MEDSYNTH_PANEL_DATA")
    if name == "thyroid":
        train, test, schema, target = utility.load(name, str(Path(str(data)) / "thyroid"))
    elif name == "diabetes130":
        train, test, schema, target = split(diabetes(Path(str(data)) / name), "diabetes130", "readmitted")
    elif name == "pbc":
        train, test, schema, target = split(pbc(Path(str(data)) / name), "pbc", "died")
    elif name == "digits":
        train, test, schema, target = digits()
    elif name == "hospital":
        train, test, schema, target = split(hospital(), "hospital_first", "readmitted")
    else:
        train, test, schema, target = utility.load(name, None)
    if rows and int(rows) > len(train):
        raise SystemExit(f"{name} has fewer training rows than {rows}")
    if rows:
        train = train.sample(int(rows), random_state=0).reset_index(drop=True)
    return train, test, schema, target


def split(frame: pd.DataFrame, schema: str, target: str) -> tuple[pd.DataFrame, pd.DataFrame, Any, str]:
    """Three quarters to fit and a quarter held out, at random but always the same rows."""
    from medsynth.schema import Schema

    declared = Schema.load(SCHEMAS / f"{schema}.yaml")
    frame = frame[list(declared.names)].sample(frac=1, random_state=0).reset_index(drop=True)
    cut = round(0.75 * len(frame))
    return frame[:cut].reset_index(drop=True), frame[cut:].reset_index(drop=True), declared, target


def diabetes(folder: Path) -> pd.DataFrame:
    """Each patient's first stay; the main diagnosis in the nine groups of the table's authors."""
    frame = pd.read_csv(folder / "diabetic_data.zip", na_values="?", keep_default_na=False, dtype=str)
    order = frame["encounter_id"].astype(int).sort_values().index
    frame = frame.loc[order].drop_duplicates("patient_nbr").reset_index(drop=True)
    frame["diagnosis"] = [icd9(code) for code in frame["diag_1"]]
    for name in ("time_in_hospital", "num_lab_procedures", "num_procedures", "num_medications", "number_outpatient",
                 "number_emergency", "number_inpatient", "number_diagnoses"):  # fmt: skip
        frame[name] = frame[name].astype(int)
    return frame


def icd9(code: object) -> str:
    """The group of an ICD-9-CM code."""
    text = str(code)
    if not text[:3].isdigit():
        return "other"
    number = int(text[:3])
    return next((group for low, high, group in ICD9 if low <= number <= high), "other")


def pbc(folder: Path) -> pd.DataFrame:
    """Each patient's first visit."""
    frame = pd.read_csv(folder / "pbc2.csv.gz").drop_duplicates("id").reset_index(drop=True)
    frame["died"] = np.where(frame["status"] == "dead", "yes", "no")
    frame["age"], frame["years"] = frame["age"].round(1), frame["years"].round(2)
    return frame


def digits() -> tuple[pd.DataFrame, pd.DataFrame, Any, str]:
    """scikit-learn's digits: 64 pixels of 0 to 16; the last 500 rows are held out."""
    from sklearn.datasets import load_digits

    from medsynth.schema import Schema

    frame = load_digits(as_frame=True).frame.astype(int).rename(columns={"target": "digit"})
    columns: dict[str, object] = {c: {"kind": "count", "bounds": [0, 16]} for c in frame.columns if c != "digit"}
    columns["digit"] = {"kind": "categorical", "levels": list(range(10))}
    schema = Schema.from_dict({"name": "digits", "target": "digit", "columns": columns})
    frame = frame.sample(frac=1, random_state=0).reset_index(drop=True)
    return frame[:-500].reset_index(drop=True), frame[-500:].reset_index(drop=True), schema, "digit"


def hospital() -> pd.DataFrame:
    """Each patient's first visit of the simulated extract; codes cut to their chapter, codes of missing values read."""
    from medsynth_sample_data import hospital as source

    frame: pd.DataFrame = source.extract()
    frame = frame.loc[frame["admitted"].sort_values(kind="stable").index].drop_duplicates("patient_id")
    frame = frame.replace({"smoker": {"refused": np.nan}, "lactate_mmol_l": {"-9": np.nan, "haemolysed": np.nan}})
    frame["lactate_mmol_l"] = frame["lactate_mmol_l"].astype(float)
    for name in ("main_diagnosis", "second_diagnosis", "drug"):
        frame[name] = frame[name].str[0]
    return frame.reset_index(drop=True)
