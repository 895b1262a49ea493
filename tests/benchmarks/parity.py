"""Tables made to defeat low-order measurements: the XOR stress test of Tab-PE (Tran et al. 2026) and a table of theirs.

In `xor-K`, K numbers are uniform between -10 and 10, and the target is 1 if an odd number of them is positive for an
odd K, an even number for an even K. With K features no K of the K + 1 columns are related. The rows are simulated as
theirs are: 36,000 to fit, epsilon 1. `characters` is the artificial-characters table, seven numbers and ten classes;
--characters names a folder with its train.csv and test.csv.

"Holds" is the share of synthetic rows for which the rule holds; .5 is chance. AuROC is that of the panel's classifiers.
`products` is the default with `--set products=0.05`. AIM gets 20 even bins, and all triples as its workload.
"""

from __future__ import annotations

import itertools
import json
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import medsynth
from medsynth.fitting.settings import silent
from medsynth.schema import Schema
from tests.benchmarks import bins, other_tools
from tests.benchmarks.common import DELTA, KEYS, Run, markdown, options, report, spread, values
from tests.benchmarks.figures import classified

FIELDS = ["table", "method", "epsilon", "seed", "holds", "best", "mean", "state"]
METHODS = {"real": None, "medsynth": {}, "products": {"products": 0.05}, "pgm-aim": None}
SIZES = {"characters": 7, **{f"xor-{k}": k for k in range(1, 8)}}


def xor(features: int, rows: int, seed: int) -> pd.DataFrame:
    """Return a table of features and their parity."""
    numbers = np.random.default_rng(seed).uniform(-10, 10, (rows, features)).round(3)
    frame = pd.DataFrame(numbers, columns=[f"x{k}" for k in range(features)])
    return frame.assign(target=np.where(parity(frame), "1", "0"))


def parity(frame: pd.DataFrame) -> Any:
    """Return whether the rule makes a row's target 1: (rows,)."""
    features = frame.drop(columns="target", errors="ignore")
    return ((features > 0).sum(axis=1) - features.shape[1]) % 2 == 0


def load(table: str, seed: int, given: Any) -> tuple[pd.DataFrame, pd.DataFrame, Schema]:
    """Return rows to fit, rows to test, and the schema."""
    if table.startswith("xor"):
        train, test = (xor(SIZES[table], rows, 10 * seed + k) for k, rows in enumerate((given.rows, 5_000)))
        number = {"kind": "continuous", "bounds": [-10, 10], "decimals": 3}
        levels = ["0", "1"]
    else:
        train, test = (pd.read_csv(given.characters / f"{part}.csv") for part in ("train", "test"))
        train, test = (f.rename(columns={"Class": "target"}).astype({"target": str}) for f in (train, test))
        number = {"kind": "continuous", "bounds": [0, 100], "decimals": 2}
        levels = [str(k) for k in range(1, 11)]
    kind = "binary" if len(levels) == 2 else "categorical"
    columns: dict[str, Any] = {str(name): number for name in train if name != "target"}
    whole = {"V1": [0, 10], **{f"V{k}": [-10, 70] for k in range(2, 6)}}
    columns |= {name: {"kind": "count", "bounds": bounds} for name, bounds in whole.items() if name in columns}
    columns["target"] = {"kind": kind, "levels": levels}
    return train, test, Schema.from_dict({"name": "parity", "target": "target", "columns": columns})


def drawn_by(
    method: str, train: pd.DataFrame, schema: Schema, epsilon: float, seed: int, given: Any
) -> tuple[str, pd.DataFrame | None]:
    """Return the state and as many synthetic rows as there are to fit."""
    if method == "real":
        return "done", train
    if method != "pgm-aim":
        model = medsynth.fit(
            train, epsilon=epsilon, delta=DELTA, schema=schema, settings=METHODS[method] or {}, notice=silent
        )
        return "done", medsynth.sample(model, len(train))
    by = bins.grids(schema)
    with tempfile.TemporaryDirectory() as name:
        triples = list(itertools.combinations(by, min(3, len(by))))
        (Path(name) / "pairs.json").write_text(json.dumps(triples))
        sizes = {column: grid.size for column, grid in by.items()}
        codes = bins.coded(train, by)
        state, made = other_tools.fitted(method, Path(name), codes, sizes, epsilon, len(train), given)
    return state, None if made is None else bins.decoded(made, by, np.random.default_rng(seed))


def one(table: str, method: str, epsilon: float, seed: int, given: Any) -> Run:
    """Return the figures of one fit; none if it did not finish."""
    train, test, schema = load(table, seed, given)
    state, drawn = drawn_by(method, train, schema, epsilon, seed, given)
    if drawn is None:
        return {"state": state}
    found = classified(drawn.astype({"target": str}), test, "target", given.learned)
    holds = float((parity(drawn) == (drawn["target"].astype(str) == "1")).mean())
    return {"holds": round(holds, 4) if table.startswith("xor") else None, "best": round(found["best"], 4),
            "mean": round(found["mean"], 4), "state": state}  # fmt: skip


def summary(runs: list[Run]) -> str:
    """Return a line per table, method and epsilon: medians with ranges."""
    lines = []
    for key in sorted({tuple(str(run[name]) for name in KEYS[:3]) for run in runs}):
        own = [run for run in runs if tuple(str(run[name]) for name in KEYS[:3]) == key]
        late = sum(run["state"] != "done" for run in own)
        cells = [spread(values(own, name)) for name in ("holds", "best", "mean")]
        lines.append([*key, f"{len(own) - late}{f', {late} not done' if late else ''}", *cells])
    return markdown(["table", "method", "epsilon", "runs", "holds", "best AuROC", "mean AuROC"], lines)


def main(words: list[str]) -> None:
    """Run what is missing and print the table."""
    parser = options("parity", __doc__, output="parity.csv", minutes=60)
    parser.add_argument("--tables", nargs="+", choices=SIZES, default=[name for name in SIZES if name != "characters"])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rows", type=int, default=36_000)
    parser.add_argument("--learned", type=int, default=10_000, help="rows that classifiers learn from")
    parser.add_argument("--characters", type=Path, default=Path("artificial-characters"), metavar="FOLDER")
    other_tools.add_options(parser, 900)
    given = parser.parse_args(words)
    wanted = []
    for seed, table, epsilon, method in itertools.product(
        range(given.runs), given.tables, given.epsilons, given.methods
    ):
        job = (table, method, 0.0 if method == "real" else epsilon, seed)
        if job not in wanted:
            wanted.append(job)
    report(wanted, lambda t, m, e, s: one(t, m, e, s, given), given, FIELDS, summary)
