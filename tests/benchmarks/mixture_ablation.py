"""What each stage and each prior of the method `mixture` is worth: each left out, or set otherwise, one at a time.

    python tests/benchmarks/mixture_ablation.py --data FOLDER --tables thyroid clinic-4k --epsilons 1 3.7 --minutes 60

FOLDER (or MEDSYNTH_PANEL_DATA) holds the public files, see panel_data.py. Results join OUTPUT one by one and are not
run again. Prints the mean of each figure of the method as it is, and for each variant the difference from it with its
standard error, bold where it is more than three of these. Runs have their own noise.
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import panel_data
import resumable

AS_IS = "as it is"
# Constants of medsynth/mixture/constants.py and settings of the method, by what they leave out.
VARIANTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    AS_IS: ({}, {}),
    "no strongest pairs": ({}, {"strongest_share": 0}),
    "few rows by class": ({}, {"by_class_share": 0.05}),
    "few one-way": ({}, {"one_way_share": 0.05}),
    "8 bins in pairs": ({"FEWEST_BINS": 8, "PAIR_NOISE": 0.0}, {}),
    "no latent points": ({"POINTS": 1, "FEWEST_POINTS": 1}, {}),
    "32 latent points": ({"POINTS": 32}, {}),
    "covariance not learned": ({"LEARN_EVERY": 1 << 30}, {}),
    "weak latent prior": ({"LATENT_WEIGHT": 16.0}, {}),
    "strong latent prior": ({"LATENT_WEIGHT": 256.0}, {}),
    "no waves prior": ({"DECAY": 0.0}, {}),
    "classes nearly alike": ({"CLASS_STD": 0.5}, {}),
    "classes free": ({"CLASS_STD": 10.0}, {}),
    "100 steps": ({}, {"steps": 100}),
}
FIGURES = ["mean", "one_way", "two_way", "three_way", "two_way_quantile", "propensity"]
SHOWN = {"mean": "mean AuROC", "one_way": "one-way", "two_way": "two-way", "propensity": "propensity AuROC"}
FIELDS = ["table", "method", "epsilon", "seed", *FIGURES, "cpu_seconds"]


def one(table: str, variant: str, epsilon: float, seed: int, data: str | None) -> dict[str, Any]:
    """One fit and its figures."""
    from panel import DELTA, typed
    from panel_figures import figures

    import medsynth
    from medsynth.mixture import constants

    changed, settings = VARIANTS[variant]
    kept = {name: getattr(constants, name) for name in changed}
    train, test, schema, target = panel_data.load(table, data)
    try:
        for name, value in changed.items():
            setattr(constants, name, value)
        used = time.process_time()
        model = medsynth.fit(train, epsilon=epsilon, delta=DELTA, schema=schema, method="mixture", settings=settings)
        drawn = typed(medsynth.sample(model, len(train)), train)
        used = time.process_time() - used
    finally:
        for name, value in kept.items():
            setattr(constants, name, value)
    found = figures(drawn, train, test, schema, target)
    return {**{name: found[name] for name in FIGURES}, "cpu_seconds": round(used, 1)}


def show(path: Path) -> None:
    """Print the means as it is, and the differences of the variants with their standard errors."""
    frame = pd.read_csv(path)
    for (table, epsilon), own in frame.groupby(["table", "epsilon"], sort=False):
        base = own[own["method"] == AS_IS]
        if base.empty:
            continue
        print(f"\n**{table}**, epsilon {epsilon:g}\n")
        print("| | " + " | ".join(SHOWN.values()) + " |\n|---" + "|---" * len(SHOWN) + "|")
        print(f"| {AS_IS} | " + " | ".join(f"{base[name].mean():.4f}" for name in SHOWN) + " |")
        for variant, some in own[own["method"] != AS_IS].groupby("method", sort=False):
            cells = []
            for name in SHOWN:
                gap = some[name].mean() - base[name].mean()
                error = np.sqrt(some[name].var() / len(some) + base[name].var() / len(base))
                mark = "**" if abs(gap) > 3 * error else ""
                cells.append(f"{mark}{gap:+.4f}{mark} ({error:.4f})")
            print(f"| {variant} | " + " | ".join(cells) + " |")


def main() -> None:
    """Run what is missing within the time given, then print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=["thyroid", "clinic-4k", "diabetes130@8200", "hospital"])
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0])
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--data", default=os.environ.get("MEDSYNTH_PANEL_DATA"))
    parser.add_argument("--output", type=Path, default=Path("results/mixture_ablation.csv"))
    given = parser.parse_args()
    jobs = [
        (table, variant, epsilon, seed)
        for seed, table, epsilon, variant in itertools.product(
            range(given.runs), given.tables, given.epsilons, given.variants
        )
    ]
    _, left = resumable.run(jobs, lambda t, v, e, s: one(t, v, e, s, given.data), given.output, FIELDS, given.minutes)
    show(given.output)
    if left:
        print("\nNot run: " + left)


if __name__ == "__main__":
    main()
