"""Published tools on the splits, budgets and figures of utility.py, each in an environment of its own.

    python tests/benchmarks/peers.py --tables thyroid cancer clinic-4k --seeds 3

Environments are made under results/peers, where the machine can reach a package index; results join utility.py's CSV,
under methods named like dpmm-mst. A fit that passes --cap seconds counts as a time-out, with the cap as its seconds.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import resumable
import utility
from environments import python_of

PEERS = ["dpmm-mst", "dpmm-privbayes", "dpmm-aim", "smartnoise-mst", "smartnoise-dpctgan", "smartnoise-patectgan"]


def domain(schema: Any, train: pd.DataFrame) -> dict[str, dict[str, Any]]:
    """What the schema declares of each column, as plain data."""
    declared: dict[str, dict[str, Any]] = {}
    for name, column in schema.columns.items():
        if hasattr(column, "levels"):
            declared[name] = {"levels": [str(level) for level in column.levels]}
        else:
            step = 10.0**-column.places
            low, high = column.bounds
            scale = getattr(column, "scale", "linear")
            declared[name] = {"bounds": [low, high], "scale": scale, "step": step, "missing": column.missing}
    return declared


def one(peer: str, table: str, epsilon: float, data: str | None, cap: float, folder: Path) -> dict[str, object]:
    """One fit of a peer and its figures; AuROC is empty where it did not finish."""
    train, test, schema, target = utility.load(table, data)
    python = python_of(peer, folder)
    with tempfile.TemporaryDirectory() as place:
        train.to_csv(Path(place) / "train.csv", index=False)
        (Path(place) / "domain.json").write_text(json.dumps(domain(schema, train)))
        script = str(Path(__file__).with_name("peer_fit.py"))
        words = [str(python), script, place, peer, str(epsilon), "1e-5"]
        started = time.perf_counter()
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=cap, check=False)
        except subprocess.TimeoutExpired:
            return {"fit_seconds": cap, "spent": "time-out"}
        seconds = time.perf_counter() - started
        if done.returncode:
            print(f"{peer} on {table}: {done.stderr.strip().splitlines()[-1][:200]}", file=sys.stderr)
            return {"fit_seconds": round(seconds, 1), "spent": "failed"}
        drawn = pd.read_csv(Path(place) / "synthetic.csv")[test.columns]
    for name, column in schema.columns.items():
        if hasattr(column, "levels"):
            kinds = {str(level): level for level in column.levels}
            drawn[name] = drawn[name].map(
                lambda v, kinds=kinds: kinds.get(str(v), kinds.get(str(v).split(".")[0], np.nan))
            )
    # A row with a hole where the schema knows none is no row of the table: what is left of a peer's rows is measured.
    drawn = drawn.dropna(subset=[name for name, c in schema.columns.items() if not c.missing]).reset_index(drop=True)
    drawn = drawn.astype({name: train[name].dtype for name, c in schema.columns.items() if not c.missing})
    return {**utility.figures(drawn, train, test, schema, target), "fit_seconds": round(seconds, 1), "spent": epsilon}


def main() -> None:
    """Run what is missing within the time given, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=PEERS)
    parser.add_argument("--tables", nargs="+", choices=utility.TABLES, default=["thyroid", "cancer", "clinic-4k"])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[3.7])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--cap", type=float, default=600.0)
    parser.add_argument("--data", default=os.environ.get("MEDSYNTH_THYROID"))
    parser.add_argument("--output", type=Path, default=Path("results/utility.csv"))
    parser.add_argument("--environments", type=Path, default=Path("results/peers"))
    given = parser.parse_args()

    def fitted(table: str, peer: str, epsilon: float, seed: int) -> dict[str, Any]:
        return one(peer, table, epsilon, given.data, given.cap, given.environments.absolute())

    wanted = [
        (table, peer, epsilon, seed)
        for seed, table, peer, epsilon in itertools.product(
            range(given.seeds), given.tables, given.peers, given.epsilons
        )
    ]
    runs, left = resumable.run(wanted, fitted, given.output, utility.FIELDS, given.minutes)
    print(utility.summary(runs))
    if left:
        print("\nNot run: " + left)


if __name__ == "__main__":
    main()
