"""Few simulated patients whose numbers drift: the table on which settings of small tables are chosen, SIMULATED.

Visits are planned at zero, half a year, a year and yearly after it. A patient's marker rises along a line of the
patient's own, steeper where the disease progresses; the patient is then lost earlier. Protein falls and platelets fall
likewise, enzyme and pressure stay. The constants are fitted to no data.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from medsynth.schema import Schema

PATIENTS, MOST_VISITS = 320, 8
PLANNED = np.array([0, 0.5, 1, 2, 3, 4, 5, 6])
PROGRESSES = 0.4  # of patients
#: By whether the disease progresses: mean drift a year; and the deviations of patients' own drifts, of their levels and
#: of a visit.
NUMBERS = {
    "marker": ((0.08, 0.32), 0.10, 0.9, 0.30),  # of its logarithm
    "protein": ((-0.05, -0.16), 0.05, 0.30, 0.30),
    "platelets": ((-6.0, -16.0), 6.0, 80.0, 35.0),
    "enzyme": ((0.0, 0.0), 0.03, 0.5, 0.3),  # of its logarithm
    "pressure": ((0.0, 0.0), 0.5, 12.0, 9.0),
}
LEVEL = {"marker": 0.4, "protein": 3.6, "platelets": 250.0, "enzyme": 4.7, "pressure": 130.0}
LOST = (0.08, 0.22)  # a visit, by whether the disease progresses
SCHEMA = Schema.from_dict({
    "name": "drifts", "target": "progressed", "unit": "id", "max_rows": MOST_VISITS, "order": "year",
    "constant": ["arm", "sex", "age", "progressed"],
    "columns": {
        "id": {"kind": "identifier"},
        "year": {"kind": "continuous", "bounds": [0, 20], "decimals": 2},
        "arm": {"kind": "binary", "levels": ["drug", "placebo"]},
        "sex": {"kind": "binary", "levels": ["F", "M"]},
        "age": {"kind": "count", "bounds": [18, 100]},
        "oedema": {"kind": "ordinal", "levels": ["none", "some", "much"]},
        "spiders": {"kind": "binary", "levels": ["no", "yes"]},
        "stage": {"kind": "ordinal", "levels": ["1", "2", "3", "4"]},
        "marker": {"kind": "continuous", "bounds": [0, 60], "scale": "log", "decimals": 1},
        "protein": {"kind": "continuous", "bounds": [1, 6], "decimals": 2},
        "platelets": {"kind": "count", "bounds": [0, 1000], "missing": True},
        "enzyme": {"kind": "continuous", "bounds": [0, 2000], "scale": "log", "decimals": 1},
        "pressure": {"kind": "count", "bounds": [50, 260]},
        "progressed": {"kind": "binary", "levels": ["no", "yes"]},
    },
})  # fmt: skip


def simulate(seed: int, patients: int = PATIENTS) -> pd.DataFrame:
    """All visits of so many patients, a patient's together and in order; equal arguments, equal rows."""
    rng = np.random.default_rng(seed)
    worse = rng.random(patients) < PROGRESSES
    start = {name: level + NUMBERS[name][2] * rng.standard_normal(patients) for name, level in LEVEL.items()}
    start["marker"] += 0.5 * worse
    slopes = {name: np.where(worse, mean[1], mean[0]) + own * rng.standard_normal(patients)
              for name, (mean, own, _, _) in NUMBERS.items()}  # fmt: skip
    people = {"id": np.arange(patients), "arm": rng.choice(["drug", "placebo"], patients),
              "sex": rng.choice(["F", "M"], patients, p=[0.8, 0.2]),
              "age": np.clip(np.round(50 + 10 * rng.standard_normal(patients)), 25, 80).astype(int)}  # fmt: skip
    oedema, stage = (rng.random(patients) < 0.15).astype(int), 1 + rng.integers(0, 3, patients)
    spiders, comes, rows = rng.random(patients) < 0.3, np.ones(patients, bool), list[pd.DataFrame]()
    for visit, planned in enumerate(PLANNED):
        year = np.maximum(planned + 0.06 * rng.standard_normal(patients), 0.02 * visit) if visit else np.zeros(patients)
        now = {n: start[n] + slopes[n] * year + NUMBERS[n][3] * rng.standard_normal(patients) for n in NUMBERS}
        oedema = np.clip(oedema + (rng.random(patients) < 0.05 + 0.08 * worse) - (rng.random(patients) < 0.05), 0, 2)
        stage = np.minimum(stage + (rng.random(patients) < 0.05 + 0.1 * worse), 4)
        spiders ^= rng.random(patients) < 0.15
        frame = pd.DataFrame({
            **people, "year": np.round(year, 2), "oedema": np.array(["none", "some", "much"])[oedema],
            "spiders": np.where(spiders, "yes", "no"), "stage": stage.astype(str),
            "marker": np.clip(np.round(np.exp(now["marker"]), 1), 0.1, 60),
            "protein": np.clip(np.round(now["protein"], 2), 1, 6),
            "platelets": np.where(rng.random(patients) < 0.05, np.nan, np.clip(np.round(now["platelets"]), 5, 1000)),
            "enzyme": np.clip(np.round(np.exp(now["enzyme"]), 1), 1, 2000),
            "pressure": np.clip(np.round(now["pressure"]), 60, 250).astype(int),
            "progressed": np.where(worse, "yes", "no"),
        })  # fmt: skip
        rows.append(frame[comes])
        comes &= rng.random(patients) >= np.where(worse, LOST[1], LOST[0])
    table = pd.concat(rows).sort_values(["id", "year"], kind="stable").reset_index(drop=True)
    return table[list(SCHEMA.names)]
