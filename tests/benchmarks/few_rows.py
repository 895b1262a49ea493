"""Fits of small tables without a schema at epsilon 3.7: what the plan expects, what the model says, and what is true.

Rows are drawn from real tables, others in each run, and no bundled schema knows their columns. Similarity is that of
10,000 sampled rows to the fitted ones, in the report's cells. Levels are those of columns with at most 20 values:
"kept" of those that the plan expects to survive, "rarer" of the others.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from tests.benchmarks import bare, tables
from tests.benchmarks.common import Run, completed, markdown, options, spread, values

EPSILON, DRAWN, FEW = 3.7, 10_000, 20
FIELDS = ["table", "rows", "run", "columns", "expected", "said", "one_way", "two_way", "common", "rare"]
HEADS = ["table", "columns", "rows", "expected", "the model says", "measured", "levels kept", "rarer"]
NAMES = ("thyroid", "diabetes130", "pbc-visits", "cancer", "fair", "randhie", "anes96", "modechoice")
SIZES = (200, 400, 800)


def whole(name: str, data: str | None) -> tuple[pd.DataFrame, str]:
    """Return all rows of a table, and its target."""
    if name == "pbc-visits":
        frame, target = pd.read_csv(tables.public(data, "pbc") / "pbc2.csv.gz"), "status"
        return frame.drop(columns=["id", "status2"]), target
    train, test, target = bare.table(name, data)
    mark = "_"  # columns of another name have no bundled schema
    return pd.concat([train, test], ignore_index=True).add_suffix(mark), target + mark


def plain(frame: pd.DataFrame, numbers: frozenset[str]) -> pd.DataFrame:
    """Return numbers as floats, and other cells as text: 1.0 is 1."""
    made: dict[str, Any] = {}
    for name in map(str, frame):
        number = pd.to_numeric(frame[name], errors="coerce")
        words = frame[name].astype(object).where(number.isna(), number.map("{:g}".format))
        made[name] = number.astype(float) if name in numbers else words.mask(frame[name].isna())
    return pd.DataFrame(made)


def compared(train: pd.DataFrame, drawn: pd.DataFrame, level: float) -> tuple[float, float, float | None, float | None]:
    """Return one- and two-way similarity, and the shares of levels above and below `level` that were kept."""
    from medsynth.report.data.tables import Cells
    from medsynth.report.sections.fidelity import two_way
    from medsynth.similarity import similarity

    wide = [name for name in train if pd.api.types.is_numeric_dtype(train[name]) and train[name].nunique() > FEW]
    numbers = frozenset(map(str, wide))
    one, other = (plain(frame, numbers) for frame in (train, drawn))
    cells = Cells.of(one, [other], numbers)
    real, made = cells.table(one), cells.table(other)
    counts = [cells.count(name) for name in map(str, one)]
    kept: dict[bool, list[bool]] = {True: [], False: []}
    for name in one:
        if name not in numbers:
            shares = one[name].value_counts(normalize=True)
            for word, share in shares.items() if len(shares) <= FEW else ():
                kept[share >= level].append(bool((other[name] == word).any()))
    found = [float(np.mean([similarity(real[:, k], made[:, k], n) for k, n in enumerate(counts)]))]
    found.append(two_way(real, made, counts).value)
    common, rare = (float(np.mean(kept[above])) if kept[above] else None for above in (True, False))
    return found[0], found[1], common, rare


def one(name: str, rows: int, number: int, data: str | None) -> Run:
    """Return the figures of one fit."""
    import medsynth
    from medsynth.fitting.planning import plan_fit
    from medsynth.fitting.private_table import open_table
    from medsynth.fitting.settings import FitSettings, silent

    frame, target = whole(name, data)
    train = frame.sample(rows, random_state=number).reset_index(drop=True)
    settings = FitSettings(epsilon=EPSILON, target=target)
    expected = open_table(train, settings, silent).expected(plan_fit(train, settings)[0])
    assert expected is not None and expected.level is not None
    model = medsynth.fit(train, epsilon=EPSILON, target=target, anyway=True, notice=silent)
    ways = compared(train, medsynth.sample(model, DRAWN), expected.level)
    said = float(np.mean(list(model.quality.values())))
    figures = zip(FIELDS[4:], (expected.one_way, said, *ways), strict=True)
    run: Run = {"table": name, "rows": rows, "run": number, "columns": train.shape[1]}
    return run | {key: value and round(value, 4) for key, value in figures}


def summary(runs: list[Run]) -> str:
    """Return a line per table and size, and how far measured similarity was from what was expected and said."""
    lines = list[list[Any]]()
    for name, rows in dict.fromkeys((run["table"], int(run["rows"])) for run in runs):
        own = [run for run in runs if run["table"] == name and int(run["rows"]) == rows]
        kept = [spread(values(own, key), 2, ranged=False) for key in ("common", "rare")]
        expected = f"{np.median(values(own, 'expected')):.2f}"
        said, measured = (spread(values(own, key), 2) for key in ("said", "one_way"))
        lines.append([name, own[0]["columns"], rows, expected, said, measured, *kept])
    lines.sort(key=lambda line: (NAMES.index(line[0]), line[2]))
    text = markdown(HEADS, lines)
    for key, words in (("expected", "the plan expected"), ("said", "the model says")):
        off = np.array(values(runs, "one_way")) - np.array(values(runs, key))
        low, middle, high = np.quantile(off, [0.1, 0.5, 0.9])
        text += f"\n\nMeasured minus what {words}: median {middle:+.3f}, eight of ten from {low:+.3f} to {high:+.3f}."
    return text


def main(words: list[str]) -> None:
    """Run what is missing and print the table."""
    parser = options("few-rows", __doc__, data=True, output="few_rows.csv")
    parser.add_argument("--tables", nargs="+", default=NAMES, choices=NAMES)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args(words)
    size = {name: len(whole(name, given.data)[0]) for name in given.tables}
    jobs: list[Run] = [
        {"table": name, "rows": rows, "run": number}
        for number in range(given.runs) for name in given.tables for rows in SIZES if size[name] >= rows
    ]  # fmt: skip
    runs = completed(given.output, FIELDS, jobs, lambda job: one(job["table"], job["rows"], job["run"], given.data))
    print(summary([run for run in runs if run["table"] in given.tables]))
