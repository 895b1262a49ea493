"""Fits over sites compared with pooled rows and one site alone: mean AuROC, two-way similarity, bytes, seconds.

Sites are parts of a table's training rows, in this process: `same` at random; `classes`: the rarest class at the first
site only; `sizes`: sites of growing size, the last ten times the first; or --by COLUMN, a site for each of its values,
the largest last. Each run joins --output, so a run that was stopped continues. Prints medians with their range.

`federation-cost` prints what one more part costs: milliseconds per measurement and site, and of the server, by trust
and number of sites. It fits `independent`, one site after another. Reading the table and making the plan, once per
site, are separate. With more rows than thyroid has, rows are drawn from it with replacement.
"""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import medsynth
from medsynth.federated.masks import write_key
from medsynth.federated.server import federated_fit
from medsynth.federated.site import Site
from medsynth.federated.study import study_of
from medsynth.federated.transport import unpacked
from tests.benchmarks import tables
from tests.benchmarks.bins import grids
from tests.benchmarks.common import append, markdown, options, read, spread
from tests.benchmarks.figures import by_order, classified
from tests.support.in_process import InProcess

FIELDS = ("table", "trust", "sites", "split", "epsilon", "method", "run", "mean", "two_way", "megabytes", "seconds")
PRESETS = {"gs-wgan": "all-critics", "dp-gan": "federated-averaging"}  # Used for pooled rows and at one site, too.
ALONE, POOLED = "one site alone", "pooled"


def parts(train: pd.DataFrame, target: str, sites: int, split: str) -> list[pd.DataFrame]:
    """Return the training rows of each site, always the same."""
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
    """Return the training rows of each value of a column, the most frequent last."""
    order = train[column].value_counts(ascending=True).index
    return [train[train[column] == value].reset_index(drop=True) for value in order]


def federated(trust: str, frames: list[pd.DataFrame], schema: Any, rows: int, epsilon: float, method: str) -> Any:
    """Return a model of all sites' rows, and the bytes of all messages."""
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
    """Return a model by one of the arms, and the bytes of its messages."""
    if arm in (ALONE, POOLED):
        own = frames[-1] if arm == ALONE else pd.concat(frames, ignore_index=True)
        return medsynth.fit(own, epsilon=epsilon, schema=schema, rows=len(own), method=method,
                            preset=PRESETS.get(method)), 0  # fmt: skip
    return federated(arm, frames, schema, rows, epsilon, method)


def figures(drawn: pd.DataFrame, train: pd.DataFrame, test: pd.DataFrame, schema: Any, target: str) -> list[float]:
    """Return mean AuROC and two-way similarity, as the panel computes them."""
    return [float(classified(drawn, test, target)["mean"]), by_order(train, drawn, grids(schema), (2,))[0]]


def main(words: list[str]) -> None:
    """Run what is not on file, and print medians."""
    parser = options("federation", __doc__, data=True, output="federation.csv")
    parser.add_argument("--table", choices=["thyroid", "diabetes130"], default="thyroid")
    parser.add_argument("--by", metavar="COLUMN", help="a site for each value of this column")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--epsilon", type=float, default=3.7)
    parser.add_argument("--sites", type=int, default=3)
    parser.add_argument("--split", choices=["same", "classes", "sizes"], default="same")
    parser.add_argument("--method", default="mixture")
    parser.add_argument("--arms", nargs="+", default=[POOLED, "server", "secure-sum", "none", ALONE])
    given = parser.parse_args(words)
    train, test, schema, target = tables.load(given.table, given.data)
    frames = parts_by(train, given.by) if given.by else parts(train, target, given.sites, given.split)
    split = f"by {given.by}" if given.by else given.split
    case = {"table": given.table, "sites": str(len(frames)), "split": split, "epsilon": str(given.epsilon)}
    case["method"] = given.method
    runs = read(given.output, FIELDS)
    for run in range(given.runs):
        for arm in given.arms:
            key = {"trust": arm, **case, "run": str(run)}
            if any(all(row[name] == value for name, value in key.items()) for row in runs):
                continue
            started = time.perf_counter()
            model, size = fitted(arm, frames, schema, len(train), given.epsilon, given.method)
            seconds = time.perf_counter() - started
            found = figures(medsynth.sample(model, len(train)), train, test, schema, target)
            more = [round(found[0], 4), round(found[1], 4), round(size / 1e6, 2), round(seconds, 1)]
            runs.append(key | dict(zip(FIELDS[-4:], map(str, more), strict=True)))
            append(given.output, FIELDS, runs[-1])
    lines, mine = [], [row for row in runs if all(row[name] == value for name, value in case.items())]
    for arm in dict.fromkeys(row["trust"] for row in mine):
        own = [row for row in mine if row["trust"] == arm]
        cells = [
            spread([float(row[name]) for row in own], places)
            for name, places in zip(FIELDS[-4:], (3, 3, 0, 0), strict=True)
        ]
        lines.append([*case.values(), arm, len(own), *cells])
    print(markdown([*case, "trust", "runs", "mean AuROC", "two-way", "MB", "seconds"], lines))


def cost(trust: str, frames: list[Any], schema: Any) -> dict[str, float]:
    """Return milliseconds: per site to begin and to answer, and of the server per measurement; and kB per answer."""
    spent, asked, total = 0.0, list[float](), sum(map(len, frames))
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        keys = {f"site-{k}": write_key(folder / f"key-{k}") for k in range(len(frames))}
        study = study_of({
            "name": "cost", "schema": schema.to_dict(), "epsilon": 3.7, "rows": total, "trust": trust,
            "method": "independent", "sites": {name: key.public for name, key in keys.items()},
        })  # fmt: skip
        transport = InProcess({})
        for (name, key), frame in zip(keys.items(), frames, strict=True):
            (folder / name).mkdir()
            frame.to_parquet(folder / name / "t.parquet")
            started = time.perf_counter()
            site = Site(study, name, folder / name / "t.parquet", folder / name, key=key)
            spent += time.perf_counter() - started

            def answer(message: bytes, site: Site = site) -> bytes:
                started = time.perf_counter()
                found = site.answer(message)
                if unpacked(message)[0]["kind"] == "measure":
                    asked.append(time.perf_counter() - started)
                return found

            transport.sites[name] = answer
        started = time.perf_counter()
        _, end = federated_fit(study, transport, folder / "checkpoint")
        whole = time.perf_counter() - started
        end()
    count = len(frames)
    each = {"begin": 1e3 * spent / count, "answer": 1e3 * sum(asked) / len(asked)}
    rest = 1e3 * (whole - sum(asked)) * count / len(asked)
    return {**each, "server": rest, "kB": transport.received / len(asked) / 1e3}


def of_cost(words: list[str]) -> None:
    """Print a line per trust and number of sites."""
    parser = options("federation-cost", __doc__, data=True)
    parser.add_argument("--sites", type=int, nargs="+", default=[2, 3, 10, 30])
    parser.add_argument("--rows", type=int)
    given = parser.parse_args(words)
    train, _, schema, target = tables.load("thyroid", given.data)
    if given.rows:
        train = train.sample(given.rows, replace=True, random_state=0).reset_index(drop=True)
    lines = []
    for trust in ("none", "server", "secure-sum"):
        for count in given.sites:
            found = cost(trust, parts(train, target, count, "same"), schema)
            lines.append([trust, count, *(f"{found[name]:.1f}" for name in ("begin", "answer", "server", "kB"))])
    print(f"{len(train)} rows; milliseconds\n")
    print(markdown(["trust", "sites", "a site begins", "a site answers", "the server", "kB per answer"], lines))
