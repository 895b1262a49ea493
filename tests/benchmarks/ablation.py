"""What each stage and each prior of the method `mixture` is worth: each left out or set otherwise, one at a time.

Results join --output one by one and are not run again. Prints the mean of each figure of the method as it is. For each
variant it prints the difference from it with its standard error, bold if it is more than three of these.
"""

from __future__ import annotations

import itertools
import time
from typing import Any

import numpy as np
import pandas as pd

from tests.benchmarks import tables
from tests.benchmarks.common import DELTA, Run, markdown, options, report
from tests.benchmarks.figures import of_panel
from tests.benchmarks.panel import typed

AS_IS = "as it is"
# Changed constants of medsynth/mixture/constants.py, and changed settings.
VARIANTS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    AS_IS: ({}, {}),
    "no strongest pairs": ({}, {"strongest_share": 0}),
    "few rows by class": ({}, {"by_class_share": 0.05}),
    "few one-way": ({}, {"one_way_share": 0.05}),
    "pairs as with many rows": ({"FEW_ROWS": 0}, {}),
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
    "products of columns": ({}, {"products": 0.05}),
    "loose products": ({"CROSSED_FIRMNESS": 1.0}, {"products": 0.05}),
}
FIGURES = ["mean", "one_way", "two_way", "three_way", "two_way_quantile", "propensity"]
SHOWN = {"mean": "mean AuROC", "one_way": "one-way", "two_way": "two-way", "propensity": "propensity AuROC"}
FIELDS = ["table", "method", "epsilon", "seed", *FIGURES, "cpu_seconds"]


def one(table: str, variant: str, epsilon: float, seed: int, data: str | None) -> Run:
    """Return the figures of one fit."""
    import medsynth
    from medsynth.mixture import constants

    changed, settings = VARIANTS[variant]
    kept = {name: getattr(constants, name) for name in changed}
    train, test, schema, target = tables.load(table, data)
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
    found = of_panel(drawn, train, test, schema, target)
    return {**{name: found[name] for name in FIGURES}, "cpu_seconds": round(used, 1)}


def summary(runs: list[Run]) -> str:
    """Return the means as it is, and the differences of the variants with their standard errors."""
    text, every = [], pd.DataFrame(runs).astype(dict.fromkeys(["epsilon", *SHOWN], float))
    for (table, epsilon), own in every.groupby(["table", "epsilon"], sort=False):
        base = own[own["method"] == AS_IS]
        if base.empty:
            continue
        lines = [[AS_IS, *(f"{base[name].mean():.4f}" for name in SHOWN)]]
        for variant, some in own[own["method"] != AS_IS].groupby("method", sort=False):
            cells = []
            for name in SHOWN:
                gap = some[name].mean() - base[name].mean()
                error = np.sqrt(some[name].var() / len(some) + base[name].var() / len(base))
                mark = "**" if abs(gap) > 3 * error else ""
                cells.append(f"{mark}{gap:+.4f}{mark} ({error:.4f})")
            lines.append([str(variant), *cells])
        text.append(f"**{table}**, epsilon {epsilon:g}\n\n" + markdown(["", *SHOWN.values()], lines))
    return "\n\n".join(text)


def main(words: list[str]) -> None:
    """Run what is missing in the time given, and print the tables."""
    parser = options("ablation", __doc__, data=True, output="mixture_ablation.csv", minutes=60)
    parser.add_argument("--tables", nargs="+", default=["thyroid", "clinic-4k", "diabetes130@8200", "hospital"])
    parser.add_argument("--variants", nargs="+", choices=list(VARIANTS), default=list(VARIANTS))
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0])
    parser.add_argument("--runs", type=int, default=5)
    given = parser.parse_args(words)
    order = itertools.product(range(given.runs), given.tables, given.epsilons, given.variants)
    wanted = [(table, variant, epsilon, seed) for seed, table, epsilon, variant in order]
    report(wanted, lambda t, v, e, s: one(t, v, e, s, given.data), given, FIELDS, summary)
