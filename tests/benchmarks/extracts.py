"""Hospital extracts in English, French and Spanish, taken from file to rows by the commands that the README names.

Each table is invented: 2,000 stays, some of one patient, with cells as hospitals write them. `draft` asks that number
of questions, `fit` has epsilon 3.7 for a patient with at most 3 rows, and 4,000 rows are sampled. Printed per column:
what the schema declares or leaves open; the share of sampled cells whose form (digits, letters and signs) a real cell
has; the similarity of the values, numbers and dates in ten bins of equal real counts. 100 % is perfect. "left out"
means that sampled rows lack the column. With --yes, the draft takes what header and catalogue decide, and no look.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from tests.benchmarks.common import markdown, options

ROWS, DRAWN = 2000, 4000
Cells = dict[str, Any]
CODES = ("I10", "I50.0", "I21.4", "E11.9", "J44.1", "J18.9", "N18.3", "N17.9", "K80.2", "A41.9", "I63.9", "S72.0")


def stays(seed: int) -> Cells:
    """Return values that all three tables have, each (rows,): patients, times, body measures, laboratory values."""
    rng = np.random.default_rng(seed)
    sick = rng.normal(size=ROWS)
    start = pd.Timestamp("2019-01-01") + pd.to_timedelta(rng.integers(0, 5 * 365, ROWS), unit="D")
    days = np.clip(rng.gamma(1.5, 3 + np.exp(sick / 2)), 0, 80).round()
    woman = rng.random(ROWS) < 0.52
    height = rng.normal(175, 8, ROWS) - 12 * woman
    systolic = np.clip(rng.normal(130, 18, ROWS), 80, 220).round().astype(int)
    return {
        "rng": rng, "patient": rng.integers(0, 1600, ROWS), "start": start, "woman": woman,
        "end": start + pd.to_timedelta(days, unit="D"), "minute": rng.integers(0, 60, ROWS),
        "hour": np.clip(rng.normal(11, 4, ROWS), 0, 23).astype(int), "height": height.round(),
        "age": np.clip(rng.gamma(9, 7, ROWS) + 18, 18, 99).round().astype(int),
        "weight": np.clip(rng.normal(82, 15, ROWS) - 12 * woman, 40, 170).round(1),
        "creatinine": np.exp(rng.normal(4.4, 0.3, ROWS) + np.maximum(sick, 0) / 3), "crp": np.exp(1.2 + 1.5 * sick),
        "systolic": systolic, "hemoglobin": np.clip(rng.normal(13.5, 2, ROWS) - woman, 5, 19),
        "diastolic": np.clip(systolic * 0.5 + rng.normal(13, 8, ROWS), 40, 130).round().astype(int),
        "dead": rng.random(ROWS) < 0.03 + 0.1 * (sick > 1), "saturation": np.clip(97 - np.abs(sick) * 3, 70, 100),
        "code": rng.choice(CODES, ROWS, p=np.arange(12, 0, -1) / 78),
    }  # fmt: skip


def english() -> tuple[pd.DataFrame, str, str]:
    """Return an American extract, its delimiter, and the column of the patient."""
    t = stays(1)
    rng = t["rng"]
    clock = [
        f"{(h - 1) % 12 + 1}:{m:02} {'AM' if h < 12 else 'PM'}" for h, m in zip(t["hour"], t["minute"], strict=True)
    ]
    frame = pd.DataFrame({
        "MRN": [f"{800000 + 7 * p}" for p in t["patient"]], "Admit Date": t["start"].strftime("%m/%d/%Y"),
        "Admit Time": clock, "Discharge Date": t["end"].strftime("%m/%d/%Y"), "Age": t["age"],
        "Sex": np.where(t["woman"], "F", "M"), "Unit": rng.choice(["Med/Surg", "ICU", "Telemetry", "ED"], ROWS,
        p=[0.5, 0.08, 0.3, 0.12]), "Primary Dx (ICD-10)": t["code"],
        "Creatinine (mg/dL)": (t["creatinine"] / 88.4).round(2),
        "CRP (mg/L)": ["<0.3" if c < 0.3 else f"{c:.1f}" for c in t["crp"]], "Hgb (g/dL)": t["hemoglobin"].round(1),
        "Weight (lb)": (t["weight"] * 2.2046).round(1), "Height (in)": (t["height"] / 2.54).round(),
        "BP": [f"{s}/{d}" for s, d in zip(t["systolic"], t["diastolic"], strict=True)],
        "Temp (F)": rng.normal(98.4, 0.9, ROWS).round(1), "SpO2": [f"{s:.0f}%" for s in t["saturation"]],
        "Pain Score": rng.choice(11, ROWS, p=np.arange(11, 0, -1) / 66), "Smoking Status": rng.choice(
        ["Never", "Former", "Current", ""], ROWS, p=[0.5, 0.25, 0.2, 0.05]),
        "Total Charges": [f"${c:,.2f}" for c in np.exp(rng.normal(9, 1, ROWS))],
        "Comments": [f"pt states pain since {k} days, call back {rng.integers(10**6)}"
        for k in rng.integers(1, 9, ROWS)],
        "Expired": np.where(t["dead"], "Y", "N"),
    })  # fmt: skip
    return frame, ",", "MRN"


def french() -> tuple[pd.DataFrame, str, str]:
    """Return a French extract, its delimiter, and the column of the patient."""
    t = stays(2)
    rng = t["rng"]
    minutes = np.clip(rng.gamma(3, 25, ROWS), 10, 400).astype(int)
    frame = pd.DataFrame({
        "N° séjour": np.arange(500001, 500001 + ROWS), "IPP": [f"{90000 + p}" for p in t["patient"]],
        "Date d'entrée": t["start"].strftime("%d/%m/%Y"), "Date de sortie": t["end"].strftime("%d/%m/%Y"),
        "Âge": [f"{a} ans" for a in t["age"]], "Sexe": np.where(t["woman"], "F", "H"), "Service": rng.choice(
        ["Médecine", "Chirurgie", "Cardiologie", "Réanimation", "Gériatrie"], ROWS, p=[0.4, 0.25, 0.2, 0.06, 0.09]),
        "Diagnostic principal (CIM-10)": t["code"], "Créatinine (µmol/l)": t["creatinine"].round().astype(int),
        "CRP (mg/l)": ["< 1" if c < 1 else f"{c:.0f}" for c in t["crp"]],
        "Hémoglobine (g/dl)": [f"{h:.1f}".replace(".", ",") for h in t["hemoglobin"]],
        "Poids (kg)": [f"{w:.1f}".replace(".", ",") for w in t["weight"]], "Taille (cm)": t["height"].astype(int),
        "Tension": [f"{s}/{d}" for s, d in zip(t["systolic"], t["diastolic"], strict=True)],
        "Durée d'intervention": [f"{m // 60}h{m % 60:02}" if rng.random() > 0.4 else "" for m in minutes],
        "Tabac": rng.choice(["non", "sevré", "oui"], ROWS, p=[0.6, 0.15, 0.25]),
        "Albumine urinaire": rng.choice(["0", "+", "++", "+++"], ROWS, p=[0.7, 0.15, 0.1, 0.05]),
        "Commentaire": [f"patient adressé pour douleur depuis {k} jours, tél {rng.integers(10**8)}"
        for k in rng.integers(1, 9, ROWS)], "Décès": np.where(t["dead"], "oui", "non"),
    })  # fmt: skip
    return frame, ";", "IPP"


def spanish() -> tuple[pd.DataFrame, str, str]:
    """Return a Spanish extract, its delimiter, and the column of the patient."""
    t = stays(3)
    rng = t["rng"]
    moment = [f"{d:%d-%m-%Y} {h:02}:{m:02}" for d, h, m in zip(t["start"], t["hour"], t["minute"], strict=True)]
    frame = pd.DataFrame({
        "NHC": [f"H{1000 + p}" for p in t["patient"]], "Fecha de ingreso": moment,
        "Fecha de alta": t["end"].strftime("%d-%m-%Y"), "Edad": t["age"],
        "Sexo": np.where(t["woman"], "Mujer", "Hombre"), "Servicio": rng.choice(
        ["Medicina Interna", "Cirugía", "UCI", "Urgencias"], ROWS, p=[0.45, 0.3, 0.07, 0.18]),
        "Diagnóstico (CIE-10)": t["code"], "Glucosa (mg/dL)": np.exp(rng.normal(4.7, 0.3, ROWS)).round().astype(int),
        "Creatinina (mg/dL)": [f"{c / 88.4:.2f}".replace(".", ",") for c in t["creatinine"]],
        "PCR (mg/L)": [f"{c:.1f}".replace(".", ",") if c < 150 else ">150" for c in t["crp"]],
        "Plaquetas": [f"{1000 * p:,}".replace(",", ".")
        for p in np.clip(rng.normal(250, 70, ROWS), 20, 800).astype(int)],
        "Peso": [f"{w:.1f} kg".replace(".", ",") for w in t["weight"]], "Talla (m)": [
        f"{h / 100:.2f}".replace(".", ",") for h in t["height"]], "TA": [
        f"{s} / {d}" for s, d in zip(t["systolic"], t["diastolic"], strict=True)],
        "SatO2": [f"{s:.0f} %" for s in t["saturation"]],
        "Fumador": rng.choice(["Sí", "No", "Ex"], ROWS, p=[0.25, 0.6, 0.15]),
        "Síntomas": [", ".join(w for w, u in zip(("disnea", "fiebre", "tos"), rng.random(3), strict=True) if u < 0.4)
        for _ in range(ROWS)], "Observaciones": [f"refiere dolor desde hace {k} días, tel {rng.integers(10**8)}"
        for k in rng.integers(1, 9, ROWS)], "Éxitus": np.where(t["dead"], "Sí", "No"),
    })  # fmt: skip
    return frame, ";", "NHC"


MADE = {"english": english, "french": french, "spanish": spanish}


def form(cell: str) -> str:
    """Return a cell's form: a 9 for digits, an a for letters, and its signs.

    >>> form("27/02/2020"), form("1.234,5 mg")
    ('9/9/9', '9.9,9 a')
    """
    return re.sub(r"[^\W\d_]+", "a", re.sub("[0-9]+", "9", cell))


def number(cells: pd.Series) -> pd.Series:
    """Return the numbers of cells without their signs, days of dates; NaN for others."""
    dates = cells.str.extract(r"(\d{2})[-/](\d{2})[-/](\d{4})")
    if dates.notna().all(axis=1).mean() > 0.5:
        return pd.to_numeric(dates[2], errors="coerce") + pd.to_numeric(dates.max(axis=1), errors="coerce") / 400
    return pd.to_numeric(cells.str.replace(",", ".").str.extract(r"([0-9.]+)")[0], errors="coerce")


def alike(real: pd.Series, made: pd.Series) -> float:
    """Return one less the total variation distance of levels, or of numbers in ten bins of equal real counts."""
    if real.nunique() > 20:
        values = [number(real), number(made)]
        edges = np.unique(np.nanquantile(values[0], np.linspace(0, 1, 11))) if values[0].notna().any() else np.zeros(1)
        real, made = (pd.Series(np.searchsorted(edges[1:-1], v.fillna(-1e9))).where(v.notna(), -1) for v in values)
    shares = [side.value_counts(normalize=True) for side in (real, made)]
    return float(1 - shares[0].sub(shares[1], fill_value=0).abs().sum() / 2)


def command(folder: Path, *words: str) -> str:
    """Run a command of medsynth in a folder. Return what it wrote, messages last."""
    done = subprocess.run(
        [sys.executable, "-m", "medsynth_cli", *words], cwd=folder, capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise SystemExit(f"medsynth {' '.join(words)}: {done.stderr}")
    return done.stdout + done.stderr


def one(language: str, folder: Path, *, looks: bool, show: bool) -> str:
    """Draft, fit and sample. Return the table of columns and a line of counts."""
    from medsynth.schema import Schema

    frame, delimiter, patient = MADE[language]()
    frame.astype(str).to_csv(folder / "stays.csv", sep=delimiter, index=False)
    real = pd.read_csv(folder / "stays.csv", sep=delimiter, dtype=str, keep_default_na=False)
    command(folder, "schema", "draft", "stays.csv", "--accept-looks" if looks else "--yes")
    schema = Schema.load(folder / "stays.schema.yaml")
    said = command(folder, "fit", "stays.csv", "--epsilon", "3.7", "--unit", patient, "--max-rows", "3")
    command(folder, "sample", "-n", str(DRAWN))
    made = pd.read_csv(folder / "stays.synthetic.csv", sep=delimiter, dtype=str, keep_default_na=False)
    lines = []
    for name in real:
        left = f"open: {schema.open[name].in_words}" if name in schema.open else "declared"
        if name not in made:
            lines.append([name, left, "left out", ""])
            continue
        forms = set(map(form, real[name]))
        kept = made[name].map(lambda cell, forms=forms: form(cell) in forms).mean()
        lines.append([name, left, f"{kept:.1%}", f"{alike(real[name], made[name]):.1%}"])
    text = f"### {language}, {'with looks' if looks else 'header and catalogue alone'}\n\n"
    text += markdown(["column", "schema", "form kept", "alike"], lines)
    text += f"\n\n{schema.seen} of {len(real.columns)} columns and rules taken after a look; {len(schema.open)} open."
    return text + (f"\n\n{said}" if show else "")


def main(words: list[str]) -> None:
    """Print the tables of the languages."""
    parser = options("extracts", __doc__)
    parser.add_argument("--languages", nargs="+", default=[*MADE], choices=[*MADE])
    parser.add_argument("--yes", action="store_true", help="header and catalogue alone")
    parser.add_argument("--show", action="store_true", help="print what `fit` says, too")
    given = parser.parse_args(words)
    for language in given.languages:
        with tempfile.TemporaryDirectory() as folder:
            print(one(language, Path(folder), looks=not given.yes, show=given.show), end="\n\n")
