"""Fits of real tables without a schema at epsilon 3.7: fidelity and classifiers compared with those of real rows.

Tables come from FOLDER, scikit-learn and statsmodels. A quarter of the rows, at random but always the same ones, is
held out where no publisher split them. "Ceiling" is what a second sample of real rows scores.
"""

from __future__ import annotations

import statistics
from typing import Any

import numpy as np
import pandas as pd

from tests.benchmarks import tables
from tests.benchmarks.common import Run, completed, markdown, options, spread, values
from tests.benchmarks.figures import classified, of_report

EPSILON, DRAWN = 3.7, 10_000
FIELDS = ["table", "seed", "rows", "columns", "real", "mean", "one_way", "one_way_ceiling", "two_way",
          "two_way_ceiling", "propensity_auroc"]  # fmt: skip
HEADS = ["table", "rows", "columns", "AuROC, real rows", "AuROC", "one-way (ceiling)", "two-way (ceiling)"]
STATSMODELS = {"fair": "affairs", "randhie": "hlthp", "anes96": "vote", "modechoice": "choice", "star98": "NABOVE"}
SKLEARN = {"diabetes": "target", "wine": "target", "iris": "target"}
NAMES = ("thyroid", "diabetes130@20000", "pbc", "cancer", *STATSMODELS, *SKLEARN)


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
        return train, test, target
    frame = frame.sample(frac=1, random_state=0).reset_index(drop=True)
    cut = round(0.75 * len(frame))
    return frame[:cut].reset_index(drop=True), frame[cut:].reset_index(drop=True), target


def one(name: str, seed: int, data: str | None) -> Run:
    """Return the figures of one fit."""
    import medsynth

    train, test, target = table(name, data)
    model = medsynth.fit(train, epsilon=EPSILON, target=target, notice=lambda text: None)
    drawn = medsynth.sample(model, DRAWN)
    found = of_report(drawn, train, test, model.schema, target)
    real = round(float(classified(train, test, target)["mean"]), 4)
    size = {"table": name, "seed": seed, "rows": len(train), "columns": train.shape[1], "real": real}
    return {**size, **{key: found[key] for key in FIELDS if key in found}}


def summary(runs: list[Run]) -> str:
    """Return a line per table, and the losses of tables of 3,000 rows or more."""
    lines, losses = list[list[Any]](), list[float]()
    for name in dict.fromkeys(run["table"] for run in runs):
        own = [run for run in runs if run["table"] == name]
        real = float(own[0]["real"])
        cells = [f"{spread(values(own, key))} ({np.median(values(own, f'{key}_ceiling')):.3f})"
                 for key in ("one_way", "two_way")]  # fmt: skip
        lines.append([name, own[0]["rows"], own[0]["columns"], f"{real:.3f}", spread(values(own, "mean")), *cells])
        if int(own[0]["rows"]) >= 3000:
            losses.append(real - statistics.median(values(own, "mean")))
    text = markdown(HEADS, lines)
    if losses:
        text += f"\n\nLoss of AuROC at 3,000 rows or more: median {statistics.median(losses):.3f}, "
        text += f"largest {max(losses):.3f}."
    return text


def main(words: list[str]) -> None:
    """Run what is missing and print the table."""
    parser = options("bare", __doc__, data=True, output="bare.csv")
    parser.add_argument("--tables", nargs="+", default=NAMES, choices=NAMES)
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args(words)
    jobs: list[Run] = [{"table": name, "seed": seed} for name in given.tables for seed in range(given.runs)]
    runs = completed(given.output, FIELDS, jobs, lambda job: one(job["table"], job["seed"], given.data))
    print(summary([run for run in runs if run["table"] in given.tables]))
