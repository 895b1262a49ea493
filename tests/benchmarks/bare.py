"""Fits of real tables without a schema at epsilon 3.7, and fits with one of those that have a public one.

Tables come from FOLDER, scikit-learn, statsmodels and the simulators. TABLE@ROWS has its training rows cut. A quarter
of the rows, at random but always the same ones, is held out where no publisher split them. Columns are renamed, so that
no bundled schema knows them. AuROC is that of held-out rows; similarity is that of 10,000 synthetic rows to the fitted
ones, in the report's cells. "Changed" counts columns of another dtype, with invented levels, and with other decimals.
"""

from __future__ import annotations

import statistics
from functools import cache
from typing import Any

import pandas as pd

from tests.benchmarks import tables
from tests.benchmarks.common import Run, completed, markdown, options, spread, values
from tests.benchmarks.figures import changed, classified, plain, to_fitted

EPSILON, DRAWN, MANY = 3.7, 10_000, 3000
FIELDS = ["table", "schema", "run", "rows", "columns", "real", "mean", "one_way", "two_way", "dtypes", "invented",
          "decimals"]  # fmt: skip
HEADS = ["table", "schema", "rows", "columns", "AuROC of real rows", "AuROC", "one-way", "two-way", "changed"]
STATSMODELS = {"fair": "affairs", "randhie": "hlthp", "anes96": "vote", "modechoice": "choice", "star98": "NABOVE"}
SKLEARN = {"diabetes": "target", "wine": "target", "iris": "target"}
NAMES = ("thyroid", "diabetes130@20000", "pbc", "cancer", *STATSMODELS, *SKLEARN)
DECLARED = ("thyroid", "diabetes130@20000", "hospital", "clinic-4k", "cancer")
FEW_ROWS = ("thyroid@500", "diabetes130@500", "hospital@500", "clinic-4k@500")
MARK = "_"  # columns of another name have no bundled schema


def table(name: str, data: str | None) -> tuple[pd.DataFrame, pd.DataFrame, str]:
    """Return the rows to fit, the rows held out, and the target."""
    if name in STATSMODELS:
        import statsmodels.api

        frame, target = getattr(statsmodels.api.datasets, name).load_pandas().data, STATSMODELS[name]
        if name in ("fair", "star98"):
            frame[target] = (frame[target] > frame[target].median()).astype(int)
    elif name in SKLEARN:
        from sklearn import datasets

        frame, target = getattr(datasets, f"load_{name}")(as_frame=True).frame, SKLEARN[name]
        if name == "diabetes":
            frame[target] = (frame[target] > frame[target].median()).astype(int)
    elif name == "pbc":
        visits = pd.read_csv(tables.public(data, name) / "pbc2.csv.gz")
        frame, target = visits.drop_duplicates("id").drop(columns=["id", "status2"]), "status"
    else:
        train, test, _, target = tables.load(name, data)
        return train.add_suffix(MARK), test.add_suffix(MARK), target + MARK
    frame = frame.add_suffix(MARK).sample(frac=1, random_state=0).reset_index(drop=True)
    cut = round(0.75 * len(frame))
    return frame[:cut].reset_index(drop=True), frame[cut:].reset_index(drop=True), target + MARK


def scored(rows: pd.DataFrame, test: pd.DataFrame, target: str) -> float:
    """Return the mean AuROC of classifiers that learn from `rows` and predict `test`."""
    learned, asked = (one.assign(**{target: plain(one[[target]], frozenset())[target]}) for one in (rows, test))
    return float(classified(learned, asked, target, DRAWN)["mean"])


@cache
def real_score(name: str, data: str | None) -> float:
    """Return the AuROC of the fitted rows themselves; it is the same in each run."""
    return scored(*table(name, data))


def one(name: str, schema: str, number: int, data: str | None) -> Run:
    """Return the figures of one fit."""
    import medsynth
    from medsynth.fitting.settings import silent

    train, test, target = table(name, data)
    if schema == "declared":
        rows, _, public, own = tables.load(name, data)
        model = medsynth.fit(rows, epsilon=EPSILON, schema=public, target=own, anyway=True, notice=silent)
    else:
        model = medsynth.fit(train, epsilon=EPSILON, target=target, anyway=True, notice=silent)
    drawn = medsynth.sample(model, DRAWN).set_axis(list(train), axis=1)
    scores = real_score(name, data), scored(drawn, test, target)
    figures = [round(figure, 4) for figure in (*scores, *to_fitted(drawn, train)[:2])]
    found = [len(train), train.shape[1], *figures, *changed(drawn, train)]
    return {"table": name, "schema": schema, "run": number, **dict(zip(FIELDS[3:], found, strict=True))}


def summary(runs: list[Run]) -> str:
    """Return a line per table and schema, the losses of large tables, and declared minus bare similarity."""
    lines, losses, apart = list[list[Any]](), list[float](), list[list[Any]]()
    for name, schema in dict.fromkeys((run["table"], run["schema"]) for run in runs):
        own = [run for run in runs if (run["table"], run["schema"]) == (name, schema)]
        rows, real = int(own[0]["rows"]), float(own[0]["real"])
        cells = [spread(values(own, key)) for key in ("mean", "one_way", "two_way")]
        other = [f"{statistics.median(values(own, key)):.0f}" for key in ("dtypes", "invented", "decimals")]
        lines.append([name, schema, rows, own[0]["columns"], f"{real:.3f}", *cells, ", ".join(other)])
        if rows >= MANY and schema == "none" and name in NAMES:
            losses.append(real - statistics.median(values(own, "mean")))
        if schema == "declared":
            bare = [run for run in runs if (run["table"], run["schema"]) == (name, "none")]
            ways = [statistics.median(values(own, key)) - statistics.median(values(bare, key))
                    for key in ("one_way", "two_way")] if bare else []  # fmt: skip
            apart.append([name, rows, *(f"{way:+.4f}" for way in ways)])
    text = markdown(HEADS, lines)
    if losses:
        text += f"\n\nLoss of AuROC at {MANY:,} rows or more: median {statistics.median(losses):.3f}, "
        text += f"largest {max(losses):.3f}."
    if apart:
        text += "\n\nDeclared minus bare:\n\n" + markdown(["table", "rows", "one-way", "two-way"], apart)
    return text


def main(words: list[str]) -> None:
    """Run what is missing and print the table."""
    parser = options("bare", __doc__, data=True, output="bare.csv")
    known = tuple(dict.fromkeys((*NAMES, *DECLARED, *FEW_ROWS)))
    parser.add_argument("--tables", nargs="+", default=known, choices=known)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args(words)
    jobs: list[Run] = [
        {"table": name, "schema": schema, "run": number} for number in range(given.runs) for name in given.tables
        for schema in ("none", "declared") if schema == "none" or name in DECLARED + FEW_ROWS
    ]  # fmt: skip
    runs = completed(given.output, FIELDS, jobs, lambda job: one(job["table"], job["schema"], job["run"], given.data))
    print(summary([run for run in runs if run["table"] in given.tables]))
