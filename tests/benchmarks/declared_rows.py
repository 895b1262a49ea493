"""What a declared number of rows costs that is not the table's: coins kept rows out of training, or a steward rounds.

    OMP_NUM_THREADS=1 python tests/benchmarks/declared_rows.py --tables thyroid clinic --runs 6 --data FOLDER

Fits on the development tables of noise_by_measurement.py with so many times the true number declared, and the same
noise: with the declared number taken for exact; weighed against noisy counts as `likely_rows` does; and weighed as that
of a part that coins left of a table, a quarter of which is held out. Similarity is in the panel's even bins. Noise is
seeded: THESE FITS MAKE NO PRIVACY CLAIM.
"""

from __future__ import annotations

import argparse
import math
import os
from contextlib import ExitStack
from unittest.mock import patch

import numpy as np
import pandas as pd
import panel_figures
from noise_by_measurement import Figures, figures_of, tables
from panel_bins import grids

import medsynth
from medsynth import rng
from medsynth.methods.warm_dp_cgan.marginals import class_marginals, one_way_marginals
from medsynth.row_count import likely_rows

FIGURES = ("one-way", "two-way", "propensity", "mean AuROC")
EXACT, WEIGHED, PART = "taken for exact", "weighed", "weighed, of a part"
HELD_OUT, COINS = 0.25, 0.05  # coins leave a number that is off by a per cent or so, not by more than this


def figures(name: str, run: int, data: str | None, epsilon: float, times: float, way: str) -> Figures:
    """Of one fit, of which `times` as many rows are declared as it has."""
    train, test, schema, target = tables(name, run, data)
    seeded = rng.SeededEntropy(1000 + run)
    coins = math.sqrt(HELD_OUT * times * len(train))  # of a table of which this is what is left
    likely = {EXACT: lambda declared, *_: float(declared), PART: lambda n, totals, _: likely_rows(n, totals, coins)}
    with ExitStack() as patches:
        patches.enter_context(patch.object(rng, "system_entropy", lambda: seeded))
        for module in (one_way_marginals, class_marginals) if way in likely else ():
            patches.enter_context(patch.object(module, "likely_rows", likely[way]))
        rows = round(times * len(train))
        model = medsynth.fit(train, epsilon=epsilon, delta=1e-5, schema=schema, rows=rows, seed=run)
    drawn = medsynth.sample(model, len(train), seed=run)
    found = figures_of(drawn, train, test, schema, target)
    similar = panel_figures.by_order(train, drawn[train.columns], grids(schema), (1, 2))
    return dict(zip(FIGURES, (*similar, found["propensity"], found["mean"]), strict=True))


def main() -> None:
    """Print a markdown table: the right number's figures, then differences from these and their standard errors."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=["clinic"])
    parser.add_argument("--epsilons", type=float, nargs="+", default=[3.7])
    parser.add_argument("--times", type=float, nargs="+", default=[0.8, 0.99, 1.01, 1.25])
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--data", default=os.environ.get("MEDSYNTH_PANEL_DATA"))
    args = parser.parse_args()
    print(f"| table | epsilon | declared | the number is | {' | '.join(FIGURES)} |")
    print("| --- " * (4 + len(FIGURES)) + "|")
    for name in args.tables:
        for epsilon in args.epsilons:
            runs = range(1, args.runs + 1)

            def of(
                times: float, way: str, name: str = name, epsilon: float = epsilon, runs: range = runs
            ) -> pd.DataFrame:
                return pd.DataFrame([figures(name, run, args.data, epsilon, times, way) for run in runs])

            right = of(1.0, EXACT)
            cells = [f"{right[f].mean():.4f}" for f in FIGURES]
            print(f"| {name} | {epsilon:g} | x 1 | {EXACT} | {' | '.join(cells)} |", flush=True)
            tried = [(times, way) for times in args.times for way in (EXACT, WEIGHED)]
            tried += [(times, PART) for times in args.times if abs(times - 1) <= COINS]
            for times, way in [(1.0, WEIGHED), *sorted(tried, key=lambda one: args.times.index(one[0]))]:
                off = of(times, way) - right
                cells = [f"{off[f].mean():+.4f} ({off[f].std() / np.sqrt(args.runs):.4f})" for f in FIGURES]
                print(f"| {name} | {epsilon:g} | x {times:g} | {way} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
