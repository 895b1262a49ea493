"""How often do attacks on several tables find a leak, if their verdicts allow for all pages together?

Each run simulates patients of a ward in four tables (tests/linked/conftest.py): fitted ones and held-out ones. The
synthetic patients are fresh ones of the same process, some replaced by copies of fitted patients with all their rows.
`share` is the copied share of the fitted patients. A leak is found if a page reads BEYOND: `alone` without, and
`together` with the allowance for all pages, as in a report.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from medsynth.report import several_tables
from medsynth.report.data import tables as inputs
from medsynth.report.data.columns import cells_of
from medsynth.report.data.over_time import sequences
from medsynth.report.data.verdict import Thresholds
from medsynth.report.sections.attacks import ATTACKED, attacks
from medsynth.rng import numpy_stream
from medsynth.schema.linked import LinkedTables, joint
from tests.benchmarks.common import markdown, options
from tests.linked.conftest import TABLES, simulated

PAGES = ("", "stays", "tests")  # The page on patients, and one for each table with an order.
Frames = dict[str, pd.DataFrame]


def cells(frames: Frames) -> Frames:
    """Return tables as a report reads them: texts, dates in ISO form, nothing for a missing value."""
    return {
        name: pd.DataFrame({
            column: values.dt.strftime("%Y-%m-%d") if pd.api.types.is_datetime64_any_dtype(values) else values
            for column, values in frame.items()
        }).astype(object).where(frame.notna(), "").astype(str).reset_index(drop=True)
        for name, frame in frames.items()
    }  # fmt: skip


def marked(frames: Frames, keys: list[str], mark: str) -> Frames:
    """Return all rows of the patients `keys`. `mark` before each key makes them other patients."""
    found = {}
    for name, frame in frames.items():
        mine = frame[frame["patient"].isin(keys)]
        named = {key: mark + mine[key].where(mine[key] != "") for key in ("patient", "stay") if key in mine}
        found[name] = mine.assign(**named).fillna("")
    return found


def outcomes(tables: LinkedTables, sides: dict[str, Frames], page: str, seed: int) -> dict[str, bool]:
    """Return whether a page reads BEYOND alone, and together with the others."""
    if page:
        schema = tables.view(page).with_target(several_tables.target_of(tables, page))
        rows = {name: several_tables.rows_beside_patients(tables, page, side, name) for name, side in sides.items()}
    else:
        whole = joint(tables)
        schema = whole.model_copy(update={"columns": {n: c for n, c in whole.columns.items() if n != tables.key}})
        rows = {name: several_tables._patients(tables, schema, side, name) for name, side in sides.items()}
    real, synthetic, train = (cells_of(rows[name], name) for name in ("real", "synthetic", "train"))
    made = sequences(real, synthetic, train, schema)
    gathered = inputs.gather(
        real, synthetic, train, schema.target, schema, numpy_stream(seed, "rows"), disjoint=True, learned=False
    )
    found = {}
    for name, looks in (("alone", 1), ("together", len(PAGES))):
        record = attacks(gathered, [], numpy_stream(seed, page), made, looks)
        assert ATTACKED.verdicts is not None
        found[name] = ATTACKED.verdicts(record, Thresholds())[0].outcome == "beyond"
    return found


def one(patients: int, held_out: int, share: float, run: int) -> dict[str, bool]:
    """Return whether the leak of one run is found."""
    tables, rng = LinkedTables.from_yaml(TABLES), np.random.default_rng(run)
    everyone, fresh = cells(simulated(patients + held_out, 1000 + run)), cells(simulated(patients, 5000 + run))
    keys, others = (list(rng.permutation(sorted(side["patients"]["patient"]))) for side in (everyone, fresh))
    copied = round(share * patients)
    parts = [marked(fresh, others[copied:], "C"), marked(everyone, keys[:copied], "D")]
    sides = {
        "train": marked(everyone, keys[:patients], "A"),
        "real": marked(everyone, keys[patients:], "B"),
        "synthetic": {name: pd.concat([part[name] for part in parts], ignore_index=True) for name in tables.tables},
    }
    found = [outcomes(tables, sides, page, run) for page in PAGES]
    return {name: any(one[name] for one in found) for name in ("alone", "together")}


def main(words: list[str]) -> None:
    """Print the number of runs in which a leak is found."""
    parser = options("leak-power", __doc__)
    parser.add_argument("--patients", type=int, nargs="+", default=[1000])
    parser.add_argument("--held-out", type=int, nargs="+", default=[500], help="for each of --patients")
    parser.add_argument("--shares", type=float, nargs="+", default=[0.0, 0.1])
    parser.add_argument("--runs", type=int, default=20)
    given = parser.parse_args(words)
    lines = list[list[Any]]()
    for patients, held_out in zip(given.patients, given.held_out, strict=True):
        for share in given.shares:
            found = [one(patients, held_out, share, run) for run in range(given.runs)]
            counts = [sum(each[name] for each in found) for name in ("alone", "together")]
            lines.append([f"{patients:,}", f"{held_out:,}", f"{share:.0%}", *(f"{n} of {given.runs}" for n in counts)])
    print(markdown(["fitted patients", "held out", "copied", "found, alone", "found, together"], lines))
