"""Several tables of which most rows have no visit: rows a person, persons without rows, dates, pairs of codes.

Simulates persons of whom a third have visits, with 200 codes of conditions and of drugs. Twelve pairs of conditions go
together, and four drugs follow a condition. Both tables name `latest` visits. Fits them once and draws as many persons.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

import medsynth
from tests.benchmarks.common import DELTA, markdown, options

CODES, PAIRS, DRUGS, MOST_ROWS = 200, 12, 4, 20
EVENTS = {"condition": (4_000_000, 17), "drug": (5_000_000, 9)}  # the first code, and the mean number of other rows
CHANCES = (0.55, 0.15)  # a correlation of 0.17, or 0.12 in the first 20 rows; with 0.75 and 0.05 there 0.42
BOUNDS = ["1909-01-01", "2025-12-31"]
KEY: dict[str, Any] = {"kind": "identifier", "shape": "#", "dtype": "Int64"}
Frames = dict[str, pd.DataFrame]


def simulate(persons: int, seed: int, chances: tuple[float, float] = CHANCES) -> Frames:
    """Return four tables. `chances`: of a code of a pair, for persons with what the pair has in common and without."""
    rng = np.random.default_rng(seed)
    who, born = np.arange(1, persons + 1), rng.integers(1915, 1990, persons)
    person = pd.DataFrame({"person_id": who, "sex": rng.choice(["F", "M"], persons), "year_of_birth": born})
    life = np.datetime64("2019-06-30") - np.array([f"{year + 1}-01-01" for year in born], "datetime64[D]")

    def table(name: str, rows: list[tuple[int, Any]]) -> pd.DataFrame:
        place, code = np.array([k for k, _ in rows], np.int64), [one for _, one in rows]
        ago = rng.random(len(rows)) * life[place].astype(np.float64)
        day = np.datetime64("2019-06-30") - ago.astype("timedelta64[D]")
        made = pd.DataFrame({"person_id": who[place], f"{name}_code": code, f"{name}_date": day.astype(str)})
        made["visit_id"] = "" if name != "visit" else np.arange(len(rows))
        return made.sort_values(["person_id", f"{name}_date"]).reset_index(drop=True)

    counts = np.where(rng.random(persons) < 0.35, 1 + rng.geometric(0.6, persons), 0)
    visits = [(k, "stay") for k in range(persons) for _ in range(min(counts[k], 5))]
    latent = rng.random((persons, PAIRS)) < 0.3
    weight = 1 / (1 + np.arange(2 * PAIRS, CODES))
    found: dict[str, list[tuple[int, Any]]] = {name: [] for name in EVENTS}
    for k in range(persons):
        chance = np.repeat(np.where(latent[k], *chances), 2)
        has = rng.random(2 * PAIRS) < chance
        follows = has[: 2 * DRUGS : 2] != (rng.random(DRUGS) < 0.15)
        own = {"condition": np.flatnonzero(has), "drug": 2 * np.flatnonzero(follows)}
        for name, (first, mean) in EVENTS.items():
            others = 2 * PAIRS + rng.choice(CODES - 2 * PAIRS, rng.poisson(mean), p=weight / weight.sum())
            found[name] += [(k, first + int(code)) for code in (*own[name], *others)]
    return {"person": person, "visit": table("visit", visits), **{name: table(name, found[name]) for name in EVENTS}}


def declared() -> dict[str, Any]:
    """Return the file of tables."""

    def table(name: str, levels: list[Any]) -> dict[str, Any]:
        columns = {
            "person_id": KEY, f"{name}_code": {"kind": "categorical", "levels": levels},
            f"{name}_date": {"kind": "date", "bounds": BOUNDS}, "visit_id": {**KEY, "missing": name != "visit"},
        }  # fmt: skip
        rules = [f"{name}_date >= 365.2425 * (year_of_birth - 1)"]
        return {"order": f"{name}_date", "max_rows": MOST_ROWS, "columns": columns, "rules": rules}

    person = {"person_id": KEY, "sex": {"kind": "binary", "levels": ["F", "M"]},
              "year_of_birth": {"kind": "count", "bounds": [1900, 2025]}}  # fmt: skip
    events = {name: table(name, [first + code for code in range(CODES)]) for name, (first, _) in EVENTS.items()}
    for own in events.values():
        own["latest"] = {"visit_id": "visit"}
    visit = table("visit", ["stay", "other"])
    return {"name": "sparse", "key": "person_id",
            "tables": {"person": {"target": "sex", "columns": person}, "visit": visit, **events}}  # fmt: skip


def figures(tables: Frames) -> dict[str, float]:
    """Return figures of tables."""
    persons, found, has = len(tables["person"]), dict[str, float](), dict[str, pd.DataFrame]()
    ids = tables["person"]["person_id"].astype(int)
    for name, (first, _) in EVENTS.items():
        rows = tables[name].assign(person_id=tables[name]["person_id"].astype(int))
        rows = rows.sort_values(["person_id", f"{name}_date"]).groupby("person_id").head(MOST_ROWS)
        found[f"{name}: rows a person"] = len(rows) / persons
        found[f"{name}: persons without rows, %"] = 100 * (1 - rows["person_id"].nunique() / persons)
        years = pd.to_datetime(rows[f"{name}_date"]).dt.year
        found |= {f"{name}: year, {q:.0%} quantile": float(years.quantile(q)) for q in (0.1, 0.5, 0.9)}
        table = pd.crosstab(rows["person_id"], rows[f"{name}_code"].astype(int) - first) > 0
        has[name] = table.reindex(index=ids, columns=range(2 * PAIRS), fill_value=False).astype(float)
    one, other = has["condition"], has["drug"]
    pairs = [related(one[2 * k], one[2 * k + 1]) for k in range(PAIRS)]
    found["mean correlation of pairs of conditions"] = float(np.mean(pairs))
    across = [related(one[2 * k], other[2 * k]) for k in range(DRUGS)]
    found["mean correlation of a drug with its condition"] = float(np.mean(across))
    return found


def related(one: pd.Series, other: pd.Series) -> float:
    """Return the correlation of two codes over persons, (persons,) each; zero for a code that nobody has."""
    return float(np.nan_to_num(one.corr(other)))


def main(words: list[str]) -> None:
    """Fit, draw, print."""
    parser = options("sparse-visits", __doc__)
    parser.add_argument("--patients", type=int, default=2700)
    parser.add_argument("--drawn", type=int, default=2700)
    parser.add_argument("--epsilons", type=float, nargs="+", default=[3.7])
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--chances", type=float, nargs=2, default=CHANCES)
    given = parser.parse_args(words)
    true = simulate(given.patients, 0, tuple(given.chances))
    real, made = figures(true), dict[float, list[dict[str, float]]]()
    with tempfile.TemporaryDirectory() as folder:
        for name, frame in true.items():
            frame.to_csv(Path(folder) / f"{name}.csv", index=False)
        (Path(folder) / "sparse.tables.yaml").write_text(yaml.safe_dump(declared(), sort_keys=False))
        for run in range(given.runs):
            for epsilon in given.epsilons:
                began = time.process_time()
                model = medsynth.fit(folder, epsilon=epsilon, delta=DELTA, rows=given.patients)
                fitted = time.process_time()
                found = figures(medsynth.sample_tables(model, given.drawn, seed=run))
                seconds = {"seconds of a fit": fitted - began, "seconds of a draw": time.process_time() - fitted}
                made.setdefault(epsilon, []).append(found | seconds)
                print(f"epsilon {epsilon:g}, run {run + 1}: {made[epsilon][-1]}", flush=True)
    rows = [[name, f"{real[name]:.3g}" if name in real else ""] for name in made[given.epsilons[0]][0]]
    for row in rows:
        for runs in made.values():
            own = sorted(one[row[0]] for one in runs)
            row.append(f"{float(np.median(own)):.3g} ({own[0]:.3g} to {own[-1]:.3g})")
    print(markdown(["figure", "real", *(f"epsilon {epsilon:g}" for epsilon in made)], rows))
