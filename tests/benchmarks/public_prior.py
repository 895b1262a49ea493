"""Fits with public rows next to the default, as curves over the number of private rows and epsilon.

Private rows are drawn from a table's training rows, others in each run; public rows come from those left, at most
`--public-rows` of them. "same": the same population. "biased": older patients are more likely. "wrong": every other
column is turned round. "alone": the public rows themselves, without a fit. Of diabetes130 the public rows are earlier
stays and the private rows later ones, of other patients. Similarity is that of 10,000 synthetic rows to the private
ones, in ten quantile bins; AuROC is that of held-out rows, for classifiers that learn from 2,000 synthetic ones. All
arms of a run have the same private rows and, by a test entropy, the same noise. With `--bare` no arm has a schema, and
similarity is in the report's cells. AuROC and propensity take most of the time: `--scored 1` computes them in the first
run only.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd

from tests.benchmarks import tables
from tests.benchmarks.bare import DRAWN, MARK, scored
from tests.benchmarks.bins import grids
from tests.benchmarks.common import Run, completed, markdown, options, spread, values
from tests.benchmarks.figures import by_order, propensity, to_fitted

FIELDS = ["table", "rows", "epsilon", "run", "public", "trusted", "misfit", "one_way", "two_way", "three_way", "mean",
          "propensity", "cpu_seconds"]  # fmt: skip
HEADS = ["table", "rows", "epsilon", "public rows", "trusted", "one-way", "two-way", "three-way", "AuROC", "propensity",
         "CPU s"]  # fmt: skip
ARMS = ("none", "same", "biased", "wrong", "alone")
NAMES = ("thyroid", "diabetes130", "clinic-10k", "hospital")
AGE = {"thyroid": "age", "diabetes130": "age", "clinic-10k": "age_years", "hospital": "age_years"}
SCORED = 2_000  # synthetic rows that classifiers see
STEEPEST = 3.0  # of the log odds to be in the biased table, from the youngest to the oldest
BARS = {"same": 0.08, "biased": 0.02, "wrong": -0.005}  # least median difference of two-way similarity, 500 rows at 1
LOWEST = -0.015  # least difference of any table with wrong rows


def parts(
    name: str, rows: int, number: int, most: int, data: str | None
) -> tuple[pd.DataFrame, pd.DataFrame, tables.Loaded]:
    """Return private rows, public rows of the same population, and the whole table."""
    loaded = tables.load(name, data)
    train = loaded[0]
    if name == "diabetes130":
        stays = tables.stays(tables.public(data, name))
        order = stays["encounter_id"].astype(int).argsort(kind="stable")
        kept = stays.iloc[order].drop_duplicates("patient_nbr")[list(loaded[2].names)]
        early, late = kept[: len(kept) // 2], kept[len(kept) // 2 :].sample(frac=1, random_state=0)
        loaded = (late[len(late) // 4 :], late[: len(late) // 4].reset_index(drop=True), *loaded[2:])
        private = loaded[0].sample(rows, random_state=number)
        return private.reset_index(drop=True), early.sample(min(most, len(early)), random_state=number), loaded
    order = np.random.default_rng(number).permutation(len(train))
    if rows > len(train) * 0.8:
        raise SystemExit(f"{name} has too few rows for {rows} private ones and public ones.")
    return train.iloc[order[:rows]].reset_index(drop=True), train.iloc[order[rows:]], loaded


def of_arm(arm: str, public: pd.DataFrame, age: str, most: int) -> pd.DataFrame:
    """Return public rows of an arm."""
    if arm == "biased":
        rank = pd.to_numeric(public[age].astype(str).str.extract(r"(\d+)")[0], errors="coerce").rank(pct=True)
        odds = np.exp(STEEPEST * (rank.fillna(0.5).to_numpy() - 1))
        public = public[np.random.default_rng(0).random(len(public)) < odds]
    public = public.iloc[:most].reset_index(drop=True)
    return turned(public) if arm == "wrong" else public


def turned(frame: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with the values of every other column in the opposite order."""
    found = frame.copy()
    for name in list(frame)[::2]:
        known = np.sort(frame[name].dropna().unique())
        if pd.api.types.is_numeric_dtype(frame[name]) and len(known) > 20:
            found[name] = known[len(known) - 1 - np.searchsorted(known, frame[name].fillna(known[0]))]
            found[name] = found[name].where(frame[name].notna())
        else:
            found[name] = frame[name].map(dict(zip(known, known[::-1], strict=True)))
    return found


def one(job: Run, most: int, data: str | None, *, bare: bool, with_scores: bool) -> Run:
    """Return the figures of one arm. A bare fit whose target is lost stops there and has none."""
    import medsynth
    from medsynth import rng
    from medsynth.errors import TRUSTED, TargetError
    from medsynth.fitting.settings import silent
    from medsynth.mixture.constants import TRUST

    name, arm, number = job["table"], job["public"], int(job["run"])
    private, same, (_, test, schema, target) = parts(name, int(job["rows"]), number, most, data)
    public = of_arm(arm, same, AGE[name], most)
    given: dict[str, Any] = {"schema": schema, "target": target}
    if bare:
        private, public, test = (frame.add_suffix(MARK) for frame in (private, public, test))
        given = {"target": (target := target + MARK)}
    run: Run = dict(job)
    if arm == "alone":
        drawn = public.sample(DRAWN, replace=True, random_state=number).reset_index(drop=True)
    else:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "public.csv"
            public.to_csv(path, index=False)
            more: dict[str, Any] = {} if arm == "none" else {"public": path, "citation": f"benchmark, {arm}"}
            start = time.process_time()
            with patch.object(rng, "system_entropy", lambda: rng.SeededEntropy(number)):
                try:
                    model = medsynth.fit(
                        private, epsilon=float(job["epsilon"]), anyway=True, notice=silent, seed=number, **given, **more
                    )
                except TargetError:
                    return run
            run["cpu_seconds"] = round(time.process_time() - start, 1)
        if arm != "none":
            run |= {"trusted": model.ledger.about(TRUSTED)[0].about.entry, "misfit": float(model.tensors[TRUST][1])}
        drawn = medsynth.sample(model, DRAWN)[list(private)]
    if bare:
        own = dict(zip(("one_way", "two_way"), to_fitted(drawn, private), strict=False))
        return run | {
            key: round(float(value), 4) for key, value in (own | {"mean": scored(drawn, test, target)}).items()
        }
    by = grids(schema, private)
    figures = [*by_order(drawn, private, by, (1, 2, 3))]
    if with_scores:
        figures += [scored(drawn[:SCORED], test, target), propensity(private, drawn[:SCORED], schema)]
    return run | dict(zip(FIELDS[7:12], [round(float(figure), 4) for figure in figures], strict=False))


def summary(runs: list[Run]) -> str:
    """Return a line per table, rows, epsilon and arm, and the differences of two-way similarity to the default."""
    lines, gains = list[list[Any]](), dict[tuple[Any, ...], list[float]]()

    def key_of(run: Run) -> tuple[str, ...]:
        return tuple(str(run[field]) for field in ("table", "rows", "epsilon", "public"))

    for key in dict.fromkeys(map(key_of, runs)):
        own = [run for run in runs if key_of(run) == key]
        trusted = [str(run.get("trusted") or "") for run in own]
        words = ", ".join(f"{trusted.count(word)} {word}" for word in dict.fromkeys(trusted) if word)
        cells = [spread(values(own, field)) for field in FIELDS[7:12]]
        lines.append([*key, words, *cells, spread(values(own, "cpu_seconds"), 1, ranged=False)])
        plain = [run for run in runs if key_of(run) == (*key[:3], "none")]
        if plain and key[3] != "none":
            gain = np.mean(values(own, "two_way")) - np.mean(values(plain, "two_way"))
            gains.setdefault((int(key[1]), float(key[2]), key[3]), []).append(float(gain))
    text = markdown(HEADS, lines) + "\n"
    for (rows, epsilon, arm), found in sorted(gains.items()):
        text += f"\n{rows} rows at {epsilon:g}, {arm}: two-way {np.median(found):+.3f} in the median of tables"
        text += f", {min(found):+.3f} at least." if len(found) > 1 else "."
        if (rows, epsilon) == (500, 1.0) and arm in BARS:
            met = np.median(found) >= BARS[arm] and (arm != "wrong" or min(found) >= LOWEST)
            text += f" Bar {BARS[arm]:+.3f}: {'met' if met else 'not met'}."
    return text


def main(words: list[str]) -> None:
    """Run what is missing and print the table."""
    parser = options("public-prior", __doc__, data=True, output="public_prior.csv")
    parser.add_argument("--tables", nargs="+", default=NAMES, choices=NAMES)
    parser.add_argument("--rows", nargs="+", type=int, default=(200, 500, 1000, 3000, 10_000))
    parser.add_argument("--epsilons", nargs="+", type=float, default=(0.2, 0.5, 1.0, 3.7))
    parser.add_argument("--arms", nargs="+", default=ARMS, choices=ARMS)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--public-rows", type=int, default=3000)
    parser.add_argument("--scored", type=int, default=5, help="runs with AuROC and propensity")
    parser.add_argument("--bare", action="store_true", help="fits without a schema")
    given = parser.parse_args(words)
    fewest = {name: 0.8 * len(tables.load(name, given.data)[0]) for name in given.tables}
    jobs: list[Run] = [
        {"table": name, "rows": rows, "epsilon": epsilon, "run": number, "public": arm}
        for number in range(given.runs) for name in given.tables for rows in given.rows if rows <= fewest[name]
        for epsilon in given.epsilons for arm in given.arms
    ]  # fmt: skip

    def done(job: Run) -> Run:
        scores = int(job["run"]) < given.scored
        return one(job, given.public_rows, given.data, bare=given.bare, with_scores=scores)

    print(summary(completed(given.output, FIELDS, jobs, done)))
