"""What products of two and of three columns (`--set products`) give: slopes that nobody declared, and an XOR.

`study` and `clinic` are the simulated studies of `intervals`, with nothing declared. Its figures are the ratios of
estimated to true coefficients, of terms that are not zero: their median and the one farthest from one. `xor` has twelve
columns, of which one is whether two others differ. Its figure is the share of rows for which that holds; .5 is chance.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

import medsynth
from medsynth.fitting.settings import silent
from medsynth.schema import Schema
from tests.benchmarks.common import DELTA, Run, completed, markdown, options, spread, values
from tests.benchmarks.studies import STUDIES, YES_NO, truth

FIELDS = ["table", "rows", "epsilon", "products", "firmness", "run", "median", "farthest", "xor"]
DRAWN = 20_000


def of_xor(rows: int, seed: int) -> tuple[pd.DataFrame, Schema]:
    """Return a table whose `c` is `a` differs from `b`, among nine independent columns, and its schema."""
    rng = np.random.default_rng(seed)
    flags = {name: rng.random(rows) < 0.5 for name in "ab"}
    flags["c"] = flags["a"] ^ flags["b"]
    flags |= {f"x{place}": rng.random(rows) < 0.3 for place in range(4)}
    numbers = {f"n{place}": rng.normal(50, 10, rows).round().clip(0, 100) for place in range(5)}
    frame = pd.DataFrame({name: np.where(own, "yes", "no") for name, own in flags.items()} | numbers)
    number = {"kind": "count", "bounds": [0, 100]}
    columns: dict[str, Any] = dict.fromkeys(flags, YES_NO) | dict.fromkeys(numbers, number)
    return frame, Schema.from_dict({"name": "xor", "columns": columns})


def one(table: str, rows: int, epsilon: float, products: float, firmness: float, run: int) -> Run:
    """Return the figures of one fit."""
    from medsynth.mixture import constants

    study = STUDIES.get(table)
    frame, schema = (study.simulate(rows, 700 + run), study.schema) if study else of_xor(rows, 700 + run)
    kept, constants.CROSSED_FIRMNESS = constants.CROSSED_FIRMNESS, firmness
    try:
        model = medsynth.fit(
            frame, epsilon=epsilon, delta=DELTA, schema=schema, settings={"products": products}, notice=silent
        )
    finally:
        constants.CROSSED_FIRMNESS = kept
    drawn = medsynth.sample(model, DRAWN)
    if not study:
        return {"xor": round(float(((drawn["a"] != drawn["b"]) == (drawn["c"] == "yes")).mean()), 4)}
    true = truth(table)
    true = true[true != 0]
    ratios = study.coefficients(drawn)["estimate"].reindex(true.index) / true
    farthest = ratios[(ratios - 1).abs().idxmax()]
    return {"median": round(float(ratios.median()), 4), "farthest": round(float(farthest), 4)}


def summary(runs: list[Run]) -> str:
    """Return medians with their range, a line per table, rows, epsilon and setting."""
    keys, lines = FIELDS[:5], list[list[Any]]()
    runs = [run | {key: f"{float(run[key]):g}" for key in keys[1:]} for run in runs]
    for key in dict.fromkeys(tuple(run[name] for name in keys) for run in runs):
        own = [run for run in runs if tuple(run[name] for name in keys) == key]
        cells = [spread(values(own, name)) if own[0][name] else "" for name in FIELDS[6:]]
        lines.append([*key, *cells])
    return markdown([*keys, "median slope", "farthest slope", "XOR holds"], lines)


def main(words: list[str]) -> None:
    """Run what is missing and print the table."""
    parser = options("crossed", __doc__, output="crossed.csv")
    parser.add_argument("--tables", nargs="+", default=["xor", *STUDIES], choices=["xor", *STUDIES])
    parser.add_argument("--rows", nargs="+", type=int, default=[4_000])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[3.7, 1.0])
    parser.add_argument("--products", nargs="+", type=float, default=[0.0, 0.05])
    parser.add_argument("--firmness", nargs="+", type=float, default=[5.0], help="weight relative to the noise's")
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args(words)
    jobs: list[Run] = [
        {"table": table, "rows": rows, "epsilon": epsilon, "products": share, "firmness": firmness, "run": number}
        for number in range(given.runs) for table in given.tables for rows in given.rows for epsilon in given.epsilons
        for share in given.products for firmness in (given.firmness if share else [1.0])
    ]  # fmt: skip

    def run(job: Run) -> Run:
        found = one(
            job["table"], int(job["rows"]), float(job["epsilon"]), float(job["products"]), float(job["firmness"]),
            int(job["run"]),
        )  # fmt: skip
        return dict.fromkeys(FIELDS[6:], "") | job | found

    print(summary(completed(given.output, FIELDS, jobs, run)))
