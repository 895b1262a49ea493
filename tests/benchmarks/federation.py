"""Figures of fits over sites: pooled, each trust, one site alone; mean AuROC, two-way similarity, bytes, seconds.

python federation.py --data FOLDER [--runs 5] [--epsilon 3.7] [--sites 3] [--split same|classes|sizes] [--output CSV]
python federation.py --data FOLDER --table diabetes130 --by diagnosis

FOLDER/thyroid holds the ann-thyroid files. Sites are parts of its training rows, in this process: `same` at random;
`classes`: the rarest class at the first site alone; `sizes`: sites of growing size, the last ten times the first; or,
by a column, a site for each of its values, the largest last.
One line a run is added to the CSV, so that a run that was stopped goes on; medians and ranges are printed.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import panel_data
from panel_bins import grids
from panel_figures import LEARNED, by_order
from threadpoolctl import threadpool_limits

import medsynth
from medsynth.federated.masks import write_key
from medsynth.federated.server import federated_fit
from medsynth.federated.site import Site
from medsynth.federated.study import study_of
from medsynth.federated.transport import InProcess
from medsynth.report.data import protocol

FIELDS = ("table", "trust", "sites", "split", "epsilon", "method", "run", "mean", "two_way", "megabytes", "seconds")
PRESETS = {
    "gs-wgan": "all-critics",
    "dp-gan": "federated-averaging",
}  # by which a method is fitted, everywhere
ALONE, POOLED = "one site alone", "pooled"


def parts(train: pd.DataFrame, target: str, sites: int, split: str) -> list[pd.DataFrame]:
    """The training rows of each site, always the same."""
    rng = np.random.default_rng(0)
    order = rng.permutation(len(train))
    if split == "sizes":
        sizes = np.geomspace(1, 10, sites)
        cuts = np.cumsum(sizes / sizes.sum() * len(train)).astype(int)[:-1]
        return [train.iloc[np.sort(rows)].reset_index(drop=True) for rows in np.split(order, cuts)]
    place = np.empty(len(train), int)
    place[order] = np.arange(len(train)) % sites
    if split == "classes":
        place[(train[target] == train[target].value_counts().index[-1]).to_numpy()] = 0
    return [train[place == k].reset_index(drop=True) for k in range(sites)]


def parts_by(train: pd.DataFrame, column: str) -> list[pd.DataFrame]:
    """The training rows of each value of a column, the most frequent last."""
    order = train[column].value_counts(ascending=True).index
    return [train[train[column] == value].reset_index(drop=True) for value in order]


def federated(trust: str, frames: list[pd.DataFrame], schema: Any, rows: int, epsilon: float, method: str) -> Any:
    """A model of all sites' rows, and the bytes of all messages."""
    with tempfile.TemporaryDirectory() as place:
        folder, keys, sites = Path(place), {}, {}
        for k in range(len(frames)):
            keys[f"site-{k}"] = write_key(folder / f"key-{k}")
        content = {
            "name": "figures", "schema": schema.to_dict(), "epsilon": epsilon, "rows": rows, "trust": trust,
            "method": method, "preset": PRESETS.get(method), "sites": {name: key.public for name, key in keys.items()},
        }  # fmt: skip
        study = study_of(content)
        for (name, key), frame in zip(keys.items(), frames, strict=True):
            (folder / name).mkdir()
            frame.to_csv(folder / name / "t.csv", index=False)
            sites[name] = Site(study, name, folder / name / "t.csv", folder / name, key=key)
        transport = InProcess({name: site.answer for name, site in sites.items()})
        model, end = federated_fit(study, transport, folder / "checkpoint")
        end()
    return model, transport.sent + transport.received


def fitted(arm: str, frames: list[pd.DataFrame], schema: Any, rows: int, epsilon: float, method: str) -> Any:
    """A model by one of the arms, and the bytes of its messages."""
    if arm in (ALONE, POOLED):
        own = frames[-1] if arm == ALONE else pd.concat(frames, ignore_index=True)
        return medsynth.fit(own, epsilon=epsilon, schema=schema, rows=len(own), method=method,
                            preset=PRESETS.get(method)), 0  # fmt: skip
    return federated(arm, frames, schema, rows, epsilon, method)


def figures(
    drawn: pd.DataFrame, train: pd.DataFrame, test: pd.DataFrame, schema: Any, target: str
) -> tuple[float, float]:
    """Mean AuROC and two-way similarity, as the panel computes them."""
    with threadpool_limits(1):
        score: Any = protocol.score(drawn[:LEARNED].reset_index(drop=True), test, target)
    return float(score["mean"]), by_order(train, drawn, grids(schema), (2,))[0]


def main() -> None:
    """Run what is missing in the CSV, and print medians."""
    given = argparse.ArgumentParser()
    given.add_argument("--data", default=os.environ.get("MEDSYNTH_DATA"))
    given.add_argument("--table", choices=["thyroid", "diabetes130"], default="thyroid")
    given.add_argument("--by", metavar="COLUMN", help="a site for each value of this column")
    given.add_argument("--runs", type=int, default=5)
    given.add_argument("--epsilon", type=float, default=3.7)
    given.add_argument("--sites", type=int, default=3)
    given.add_argument("--split", choices=["same", "classes", "sizes"], default="same")
    given.add_argument("--method", default="mixture")
    given.add_argument("--arms", nargs="+", default=[POOLED, "server", "secure-sum", "none", ALONE])
    given.add_argument("--output", type=Path, default=Path("federation.csv"))
    asked = given.parse_args()
    train, test, schema, target = panel_data.load(asked.table, asked.data)
    frames = parts_by(train, asked.by) if asked.by else parts(train, target, asked.sites, asked.split)
    split = f"by {asked.by}" if asked.by else asked.split
    if not asked.output.exists():
        asked.output.write_text(",".join(FIELDS) + "\n")
    case = {"table": asked.table, "sites": str(len(frames)), "split": split, "epsilon": str(asked.epsilon)}
    case["method"] = asked.method
    for run in range(asked.runs):
        for arm in asked.arms:
            key = {"trust": arm, **case, "run": str(run)}
            key = {name: key[name] for name in FIELDS if name in key}
            with asked.output.open(newline="") as file:
                if any(all(row[name] == value for name, value in key.items()) for row in csv.DictReader(file)):
                    continue
            started = time.perf_counter()
            model, size = fitted(arm, frames, schema, len(train), asked.epsilon, asked.method)
            seconds = time.perf_counter() - started
            mean, two_way = figures(medsynth.sample(model, len(train)), train, test, schema, target)
            line = [*key.values(), round(mean, 4), round(two_way, 4), round(size / 1e6, 2), round(seconds, 1)]
            with asked.output.open("a", newline="") as file:
                csv.writer(file).writerow(line)
    table = pd.read_csv(asked.output, dtype=dict.fromkeys(case, str))
    for name, value in case.items():
        table = table[table[name] == value]
    for arm, own in table.groupby("trust", sort=False):
        numbers = {name: own[name] for name in ("mean", "two_way", "megabytes", "seconds")}
        shown = {name: [float(x) for x in (c.median(), c.min(), c.max())] for name, c in numbers.items()}
        print(json.dumps({"arm": arm, **case, "runs": len(own), **shown}))


if __name__ == "__main__":
    main()
