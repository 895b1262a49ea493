"""The tables of the benchmarks: (training rows, held-out rows, schema, target), each with its public declarations.

FOLDER/thyroid, FOLDER/diabetes130, FOLDER/pbc and FOLDER/mnist contain the public files as their publishers provide
them. The other tables are simulated or come with scikit-learn. TABLE@ROWS has its training rows cut to a number of
rows, always the same ones.
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from medsynth.schema import Schema, bundled

NAMES = ("thyroid", "diabetes130", "cancer", "clinic-4k", "clinic-10k", "clinic-50k", "hospital")
PUBLIC = ("thyroid", "diabetes130")  # read from the folder of public files
SCHEMAS = Path(__file__).parent / "schemas"
PIXELS = [f"pixel_{k}" for k in range(784)]
COUNTS = ("time_in_hospital", "num_lab_procedures", "num_procedures", "num_medications", "number_outpatient",
          "number_emergency", "number_inpatient", "number_diagnoses")  # fmt: skip
# Strack et al. 2014, table 2: first three digits of an ICD-9-CM code, from and to, and the group.
ICD9 = [(390, 459, "circulatory"), (785, 785, "circulatory"), (460, 519, "respiratory"), (786, 786, "respiratory"),
        (520, 579, "digestive"), (787, 787, "digestive"), (250, 250, "diabetes"), (800, 999, "injury"),
        (710, 739, "musculoskeletal"), (580, 629, "genitourinary"), (788, 788, "genitourinary"),
        (140, 239, "neoplasms")]  # fmt: skip
# What is open: all levels, all bounds, all kinds, some of each.
PARTS = ("levels", "bounds", "kinds", "half")
Loaded = tuple[pd.DataFrame, pd.DataFrame, Schema, str]


def public(data: str | None, name: str) -> Path:
    """Return the folder of a public table. Raise SystemExit if it is missing."""
    if data is None or not (Path(data) / name).exists():
        raise SystemExit(f"{name} needs the folder of public files: pass --data FOLDER or set MEDSYNTH_DATA.")
    return Path(data) / name


def load(name: str, data: str | None) -> Loaded:
    """Return a table by its name; `data` is the folder of public files."""
    name, _, rows = name.partition("@")
    if name not in NAMES:
        raise SystemExit(f"{name} is not a table. Choose one of {', '.join(NAMES)}.")
    if name == "thyroid":
        train, test, schema, target = thyroid(public(data, name))
    elif name == "diabetes130":
        frame = stays(public(data, name)).sort_values("encounter_id", key=lambda ids: ids.astype(int), kind="stable")
        train, test, schema, target = split(frame.drop_duplicates("patient_nbr"), "diabetes130", "readmitted")
    elif name == "hospital":
        train, test, schema, target = split(hospital(), "hospital_first", "readmitted")
    elif name == "cancer":
        train, test, schema, target = cancer()
    else:
        train, test, schema, target = clinic(1000 * int(name[7:-1]))
    if rows and int(rows) > len(train):
        raise SystemExit(f"{name} has fewer training rows than {rows}.")
    if rows:
        train = train.sample(int(rows), random_state=0).reset_index(drop=True)
    return train, test, schema, target


def split(frame: pd.DataFrame, schema: str, target: str) -> Loaded:
    """Return three quarters of the rows to fit and one quarter held out: random, but always the same rows."""
    declared = Schema.load(SCHEMAS / f"{schema}.yaml")
    frame = frame[list(declared.names)].sample(frac=1, random_state=0).reset_index(drop=True)
    cut = round(0.75 * len(frame))
    return frame[:cut].reset_index(drop=True), frame[cut:].reset_index(drop=True), declared, target


def thyroid(folder: Path) -> Loaded:
    """Return UCI ann-thyroid, split by its publisher."""
    schema = bundled()["thyroid"]
    train, test = (
        pd.read_csv(folder / f"ann-{part}.data", sep=r"\s+", header=None, names=list(schema.names))
        for part in ("train", "test")
    )
    return train, test, schema, "class"


def cancer() -> Loaded:
    """Return scikit-learn's breast cancer table; bounds are one and a half times round figures of the assay."""
    from sklearn.datasets import load_breast_cancer

    frame = load_breast_cancer(as_frame=True).frame
    frame.columns = [column.replace(" ", "_") for column in frame.columns]
    frame = frame.sample(frac=1, random_state=0).reset_index(drop=True)
    bounds = {c: float(f"{1.5 * frame[c].max():.1g}") for c in frame.columns[:-1]}
    columns: dict[str, Any] = {c: {"kind": "continuous", "bounds": [0, top]} for c, top in bounds.items()}
    columns["target"] = {"kind": "binary", "levels": [0, 1]}
    schema = Schema.from_dict({"name": "cancer", "target": "target", "columns": columns})
    return frame[:398].reset_index(drop=True), frame[398:].reset_index(drop=True), schema, "target"


def clinic(rows: int) -> Loaded:
    """Return the simulated thyroid clinic of sample_data."""
    from medsynth_sample_data import simulate

    schema = Schema.from_yaml(simulate.schema_text())
    return simulate.cohort(rows, 1), simulate.cohort(4000, 2), schema, "diagnosis"


def raw_stays(folder: Path) -> pd.DataFrame:
    """Return all stays of diabetes130 as published: `?` for missing, `None` for a test that was not done."""
    return pd.read_csv(folder / "diabetic_data.zip", keep_default_na=False, dtype=str)


def stays(folder: Path) -> pd.DataFrame:
    """Return all stays of diabetes130; the main diagnosis is in the nine groups of the table's authors."""
    frame = raw_stays(folder).replace("?", np.nan)
    frame["diagnosis"] = [icd9(code) for code in frame["diag_1"]]
    return frame.astype(dict.fromkeys(COUNTS, int))


def icd9(code: object) -> str:
    """Return the group of an ICD-9-CM code."""
    text = str(code)
    if not text[:3].isdigit():
        return "other"
    number = int(text[:3])
    return next((group for low, high, group in ICD9 if low <= number <= high), "other")


def hospital() -> pd.DataFrame:
    """Return each patient's first visit of the simulated extract, with codes cut to their chapter."""
    from medsynth_sample_data import hospital as source

    frame: pd.DataFrame = source.extract()
    frame = frame.loc[frame["admitted"].sort_values(kind="stable").index].drop_duplicates("patient_id")
    frame = frame.replace({"smoker": {"refused": np.nan}, "lactate_mmol_l": {"-9": np.nan, "haemolysed": np.nan}})
    frame["lactate_mmol_l"] = frame["lactate_mmol_l"].astype(float)
    for name in ("main_diagnosis", "second_diagnosis", "drug"):
        frame[name] = frame[name].str[0]
    return frame.reset_index(drop=True)


def mnist(data: str | None, part: str) -> tuple[Any, Any]:
    """Return images (images, 784) of 0 to 255 and digits (images,) of `part`, "train" or "t10k"."""
    folder = public(data, "mnist")
    pixels = gzip.decompress((folder / f"{part}-images-idx3-ubyte.gz").read_bytes())[16:]
    digits = gzip.decompress((folder / f"{part}-labels-idx1-ubyte.gz").read_bytes())[8:]
    return np.frombuffer(pixels, np.uint8).reshape(-1, 784), np.frombuffer(digits, np.uint8)


def opened(schema: Schema, part: str) -> Schema:
    """A schema of which a part is open, without rules. Dates that others follow, and these, stay declared."""
    content: dict[str, Any] = schema.to_dict()
    content.pop("rules", None)
    tied = {one for name, column in schema.columns.items() if column.depends_on for one in (name, *column.depends_on)}
    free = [name for name, column in schema.columns.items() if column.modelled and name not in tied]
    for k, name in enumerate(free):
        own = content["columns"][name]
        what = ("levels", "bounds", "kinds", "nothing")[k % 4] if part == "half" else part
        if what == "kinds":
            content["columns"][name] = {}
        elif what in own:
            kept = ("kind", "missing", "label", "unit", "format", "resolution")
            content["columns"][name] = {key: value for key, value in own.items() if key in kept}
    return Schema.from_dict(content)
