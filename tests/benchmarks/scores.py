"""Other people's attacks and scores on rows of the default: anonymeter, SynthEval, sdmetrics and Synth-MIA.

Each tool runs in an environment of its own (inside_scores.py). It gets 1,000 training rows, 1,000 synthetic rows and
1,000 real rows that were not fitted, with missing numbers as medians. Two references show what a number can mean:
`copies` are these training rows, drawn with replacement, instead of synthetic ones, and `strangers` are other real rows
that were not fitted. A score that does not separate these two says nothing about privacy.
"""

from __future__ import annotations

import itertools
import json
import statistics
import tempfile
from pathlib import Path
from typing import Any

import pandas as pd

import medsynth
from medsynth.fitting.settings import silent
from tests.benchmarks import other_tools, tables
from tests.benchmarks.common import DELTA, Run, append, markdown, options, read

FIELDS = ["table", "rows of", "epsilon", "seed", "tool", "score", "value"]
TOOLS = ["anonymeter", "syntheval", "sdmetrics", "synthmia"]
REFERENCES = ["copies", "strangers"]


def filled(frame: pd.DataFrame, train: pd.DataFrame, schema: Any) -> pd.DataFrame:
    """Return a table without missing values, levels as text: SynthEval and the attacks of Synth-MIA take no others."""
    made = {}
    for name, column in schema.columns.items():
        if column.levels:
            made[name] = "=" + frame[name].astype(object).where(frame[name].notna(), "missing").astype(str)
        else:
            middle = float(train[name].astype(float).median())
            made[name] = frame[name].astype(float).fillna(middle)
    return pd.DataFrame(made)


def rows_of(
    source: str, train: pd.DataFrame, attacked: pd.DataFrame, test: pd.DataFrame, schema: Any, epsilon: float, seed: int
) -> Any:
    """Return the rows in which the `attacked` rows are looked for."""
    if source == "copies":
        return attacked.sample(len(attacked), replace=True, random_state=seed + 1)
    if source == "strangers":
        return test[len(test) // 2 :]
    model = medsynth.fit(train, epsilon=epsilon, delta=DELTA, schema=schema, notice=silent)
    return medsynth.sample(model, len(train))


def one(table: str, source: str, epsilon: float, seed: int, given: Any) -> list[Run]:
    """Return the scores of all tools for one set of rows."""
    train, test, schema, target = tables.load(table, given.data)
    # The rows of ann-test differ from those of ann-train, and attacks would take that for membership.
    mixed = pd.concat([train, test]).sample(frac=1, random_state=seed).reset_index(drop=True)
    train, test = mixed[: len(train)], mixed[len(train) :]
    attacked = train.sample(min(given.rows, len(train)), random_state=seed)
    drawn = rows_of(source, train, attacked, test, schema, epsilon, seed)
    half = test[: len(test) // 2] if source == "strangers" else test
    found = []
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        for part, frame in {"train": attacked, "test": half, "made": drawn}.items():
            some = frame.sample(min(given.rows, len(frame)), random_state=seed)
            filled(some, train, schema).to_csv(place / f"{part}.csv", index=False)
        for tool in given.tools:
            (place / "scores.json").unlink(missing_ok=True)
            more = {"MEDSYNTH_SYNTH_MIA": other_tools.synth_mia(given.environments)} if tool == "synthmia" else {}
            script = str(Path(__file__).with_name("inside_scores.py"))
            words = [str(other_tools.python_of(tool, given.environments)), script, str(place), tool, target]
            state = other_tools.child(words, given.cap, more)
            scores = json.loads((place / "scores.json").read_text()) if state == "done" else {state: None}
            key = {"table": table, "rows of": source, "epsilon": epsilon, "seed": seed, "tool": tool}
            found += [key | {"score": score, "value": value} for score, value in scores.items()]
    return found


def summary(runs: list[Run]) -> str:
    """Return a line per tool and score, a column per table and kind of rows: medians."""
    kinds = sorted({(run["table"], str(run["rows of"]), float(run["epsilon"])) for run in runs})
    heads = [f"{t}: {s}{f' {e:g}' if e else ''}" for t, s, e in kinds]
    lines = []
    for tool, score in dict.fromkeys((run["tool"], run["score"]) for run in runs):
        cells = []
        for kind in kinds:
            own = [
                float(run["value"]) for run in runs
                if (run["table"], run["rows of"], float(run["epsilon"])) == kind and run["value"] not in ("", None)
                and (run["tool"], run["score"]) == (tool, score)
            ]  # fmt: skip
            cells.append(f"{statistics.median(own):.3f}" if own else "-")
        lines.append([tool, score, *cells])
    return markdown(["tool", "score", *heads], lines)


def main(words: list[str]) -> None:
    """Run what is missing and print the table."""
    parser = options("scores", __doc__, data=True, output="scores.csv")
    parser.add_argument("--tables", nargs="+", metavar="TABLE[@ROWS]", default=["thyroid", "clinic-4k"])
    parser.add_argument("--tools", nargs="*", choices=TOOLS, default=TOOLS)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 3.7])
    parser.add_argument("--runs", type=int, default=1)
    parser.add_argument("--rows", type=int, default=1_000, help="of each table that tools get")
    other_tools.add_options(parser, 900)
    given = parser.parse_args(words)
    runs = read(given.output, FIELDS)
    kinds = [(source, 0.0) for source in REFERENCES] + [("medsynth", epsilon) for epsilon in given.epsilons]
    for seed, table, (source, epsilon) in itertools.product(range(given.runs), given.tables, kinds):
        key = (table, source, epsilon, seed)
        if key not in {(r["table"], r["rows of"], float(r["epsilon"]), int(r["seed"])) for r in runs}:
            for line in one(*key, given):
                runs.append(line)
                append(given.output, FIELDS, line)
    print(summary(runs))
