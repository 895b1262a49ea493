"""The width of the prior of class ratios, learned over columns and fixed: the same noise, figures side by side.

    python tests/benchmarks/prior_widths.py --tables thyroid clinic --epsilons 1 3.7 --runs 8 --data FOLDER

Development tables, each run another, as in noise_by_measurement.py. Both fits of a run get the same noise from a seed:
THEY MAKE NO PRIVACY CLAIM. Figures of a fit are the mean of two draws of as many rows as were fitted.
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pandas as pd
from noise_by_measurement import Figures, figures_of, tables
from panel_bins import coded, grids
from panel_figures import groups, similarity

import medsynth
from medsynth import rng
from medsynth.methods.shared import conditionals

FIGURES = ("mean", "lr", "mlp", "rf", "hgb", "two_way", "propensity")
WIDTHS = {"fixed": (1.0,), "learned": conditionals.WIDTHS}


def figures(name: str, run: int, data: str | None, epsilon: float, widths: tuple[float, ...]) -> Figures:
    """Of one fit."""
    train, test, schema, target = tables(name, run, data)
    seeded = rng.SeededEntropy(1000 + run)
    with patch.object(rng, "system_entropy", lambda: seeded), patch.object(conditionals, "WIDTHS", widths):
        model = medsynth.fit(train, epsilon=epsilon, delta=1e-5, schema=schema, rows=len(train), seed=run)
    by = grids(schema)
    real = coded(train, by).to_numpy(np.int64)
    found = []
    for seed in (run, run + 77):
        drawn = medsynth.sample(model, len(train), seed=seed)
        two_way = similarity(real, coded(drawn, by).to_numpy(np.int64), groups(len(by), 2))
        found.append({**figures_of(drawn, train, test, schema, target), "two_way": two_way})
    return dict(pd.DataFrame(found).mean())


def main() -> None:
    """Print a markdown table: means over runs, and the mean difference with its standard error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=["thyroid", "clinic", "hospital"], default=["clinic"])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 3.7])
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--data", default=os.environ.get("MEDSYNTH_DATA"), type=lambda text: str(Path(text)))
    given = parser.parse_args()
    print(f"| table | epsilon | width | {' | '.join(FIGURES)} |\n|{' --- |' * (len(FIGURES) + 3)}")
    for name in given.tables:
        for epsilon in given.epsilons:
            made = {
                kind: pd.DataFrame([figures(name, run, given.data, epsilon, w) for run in range(1, given.runs + 1)])
                for kind, w in WIDTHS.items()
            }
            for kind, runs in made.items():
                print(
                    f"| {name} | {epsilon:g} | {kind} | " + " | ".join(f"{runs[f].mean():.4f}" for f in FIGURES) + " |"
                )
            gain = made["learned"] - made["fixed"]
            cells = [f"{gain[f].mean():+.4f} ({gain[f].std() / len(gain) ** 0.5:.4f})" for f in FIGURES]
            print(f"| {name} | {epsilon:g} | difference | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
