"""Decisions on how shares of bins are found, each with and without: the same noise, figures side by side.

    python tests/benchmarks/class_shares.py widths --tables thyroid clinic --epsilons 1 3.7 --runs 8 --data FOLDER
    python tests/benchmarks/class_shares.py runs --tables thyroid clinic --epsilons 1 3.7 --runs 8 --data FOLDER
    python tests/benchmarks/class_shares.py smoothness --tables thyroid clinic --epsilons 1 3.7 --runs 8 --data FOLDER
    python tests/benchmarks/class_shares.py centred --tables thyroid clinic --epsilons 1 3.7 --runs 8 --data FOLDER
    python tests/benchmarks/class_shares.py prior --tables thyroid clinic hospital --epsilons 3.7 --runs 5 --data FOLDER
    python tests/benchmarks/class_shares.py points --tables thyroid hospital --epsilons 3.7 --runs 4 --data FOLDER
    python tests/benchmarks/class_shares.py factors --tables thyroid clinic hospital --runs 4 --data FOLDER
    python tests/benchmarks/class_shares.py again --tables hospital --epsilons 3.7 1 --runs 4 --data FOLDER
    python tests/benchmarks/class_shares.py weights --tables thyroid clinic hospital --runs 4 --data FOLDER
    python tests/benchmarks/class_shares.py levels --tables clinic hospital --epsilons 3.7 1 --runs 4 --data FOLDER

`widths`: the width of the prior of class ratios fixed, and learned over columns (decision 36). `runs`: bins counted by
class alone, with the same prior for each, and runs of bins as well (decision 37). `smoothness`: of a number, bins each
by their own counts, and all fine cells as smooth as their counts say (decision 38). `centred`: levels counted as they
are, and centred, since their sums are known (decision 39). `prior`: the prior of what latent points add in all classes
three times as wide, and as it stands (decision 40). `digits`: preferred digits by the mean of their place, and told
from noise (decision 41). `chosen`: rows chosen by tables of at most 20 bins a column, and by finer ones too
(decision 42). `points`: 128 latent points, and 512 (decision 49). `factors`: the table of two columns that a third is
computed from as the latent points have it, and times factors (decision 50); `computed` is the one-way similarity of
computed columns. `again`: what is measured again is by class, and is all columns' one-way marginals where no column
separates the classes (decision 51). `weights`: all pairs of columns weigh the same in the critic, whose features are as
they are, and among two-way marginals; and weigh by their products and cells, with features centred (decision 52).
`levels`: the critic reads the eight most frequent levels of each column, and up to forty that can be seen beside the
noise (decision 53).
Development tables, each run another, as in noise_by_measurement.py. Both fits of a run get noise from one seed: THEY
MAKE NO PRIVACY CLAIM. Figures of a fit are the mean of two draws of as many rows as were fitted.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from noise_by_measurement import Figures, figures_of, tables
from numpy.typing import NDArray
from panel_bins import grids
from panel_figures import by_order

import medsynth
from medsynth import rng
from medsynth.methods.shared import decoder
from medsynth.methods.shared.bins import Bins
from medsynth.methods.shared.digit_preference import DECIMAL_PLACES, NONZERO_DIGITS
from medsynth.methods.shared.marginals import cleaned
from medsynth.methods.warm_dp_cgan import beginning, generator, method, training
from medsynth.methods.warm_dp_cgan.budget_rule import Allocation, allocate
from medsynth.methods.warm_dp_cgan.critics import column_features, pairs
from medsynth.methods.warm_dp_cgan.marginals import class_marginals, class_ratios, one_way_marginals, smoothness
from medsynth.methods.warm_dp_cgan.marginals.class_ratios import ClassCounts
from medsynth.methods.warm_dp_cgan.marginals.one_way_marginals import OneWayMarginals
from medsynth.sampling import balance

Floats = NDArray[np.float64]
WITH_CLASSES = OneWayMarginals.with_classes


def _bins_alone(
    numbers: OneWayMarginals, name: str, bins: Bins, by_class: Sequence[ClassCounts], rows: float
) -> tuple[Bins, Floats, float]:
    """Shares of bins by their own counts; inside them as a first look has it."""
    if name not in numbers.surveys:
        return WITH_CLASSES(numbers, name, bins, by_class, rows)
    survey, fine, first = numbers.surveys[name], numbers.grids[name], numbers.shares[name]
    inside, rough = first > 0, np.full(len(first), one_way_marginals.EMPTY)
    own = survey.measured(fine, numbers.counts[name], numbers.std[name])
    sums = [one.inside(bins.place).of_all for one in by_class]
    rough[inside] = smoothness.shares_of_levels([one.on(inside) for one in (*own, *sums)], rows)
    whole, before = (np.bincount(bins.place, some, bins.cells) for some in (rough, first))
    _, _, noise = WITH_CLASSES(numbers, name, bins, by_class, rows)
    shares = first * (whole / np.maximum(before, 1e-12))[bins.place]
    return replace(bins, shares=shares), whole / whole.sum(), noise


def _digits_by_place(counts: Floats, std: float, rows: float, *others: object) -> Floats:
    """Shares of kinds of numbers, each place's digits drawn towards their mean (Efron and Morris 1973)."""
    found = counts.copy()
    for k in range(DECIMAL_PLACES):
        some = slice(NONZERO_DIGITS * k, NONZERO_DIGITS * (k + 1))
        deviations = counts[some] - counts[some].mean()
        found[some] -= deviations * min(1.0, (NONZERO_DIGITS - 3) * std**2 / max(float(deviations @ deviations), 1e-12))
    return cleaned(found, rows)


def _same_weights(cells: Mapping[str, int]) -> dict[str, float]:
    """One for each table, however large."""
    return dict.fromkeys(cells, 1.0)


def _no_ball(points: Floats) -> tuple[Floats, float]:
    """The centre and radius with which features stay as they are."""
    return np.zeros(points.shape[1]), 1.0


def _few_points(*args: Any, **kwargs: Any) -> Allocation:
    """What the budget rule gives, with as many latent points as small tables had."""
    return replace(allocate(*args, **kwargs), latent_points=128)


FIGURES = ("mean", "lr", "mlp", "rf", "hgb", "one_way", "computed", "two_way", "three_way", "propensity")
SIMILARITIES = ("one_way", "two_way", "three_way")
Changes = Mapping[str, Any]
NONE: Changes = {}
BEFORE: Mapping[str, tuple[str, str, list[tuple[Any, Changes]]]] = {
    "widths": ("fixed", "learned", [(class_ratios, {"WIDTHS": (1.0,)})]),
    "runs": (
        "bins alone",
        "with runs",
        [
            (class_marginals, {"runs_of": lambda bins: {}, "SEPARATION_TO_REMEASURE": 0.7}),
            (class_ratios, {"FEW_BINS": math.inf}),
        ],
    ),
    "centred": (
        "counts",
        "centred",
        [(m, {"centred": lambda cells: {}}) for m in (class_marginals, one_way_marginals)],
    ),
    "prior": ("1.5", "0.5", [(generator, {"COMMON_STD": 1.5})]),
    "again": ("by class", "where classes differ", [(class_marginals, {"LEAST_SEPARATION": 0.0})]),
    "weights": (
        "the same",
        "by products and cells",
        [
            (pairs, {"weights_by_size": _same_weights}),
            (training, {"weights_by_size": _same_weights}),
            (column_features, {"smallest_ball": _no_ball}),
        ],
    ),
    "levels": ("eight", "by rows", [(pairs, {"MOST_LEVELS": (8,), "LEVEL_ROWS": 0.0})]),
    "factors": ("no factors", "factors", [(beginning, {"pair_factors": lambda *known: []})]),
    "points": ("128", "512", [(method, {"allocate": _few_points})]),
    "digits": ("by place", "told from noise", [(decoder, {"kind_shares": _digits_by_place})]),
    "chosen": ("20 bins", "finer ones too", [(balance, {"MOST_FINE": 1})]),
    "smoothness": ("bins alone", "learned", [(one_way_marginals.OneWayMarginals, {"with_classes": _bins_alone})]),
}


def figures(name: str, run: int, data: str | None, epsilon: float, changes: list[tuple[Any, Changes]]) -> Figures:
    """Of one fit."""
    train, test, schema, target = tables(name, run, data)
    seeded = rng.SeededEntropy(1000 + run)
    with ExitStack() as changed:
        changed.enter_context(patch.object(rng, "system_entropy", lambda: seeded))
        for module, values in changes:
            changed.enter_context(patch.multiple(module, **values))
        model = medsynth.fit(train, epsilon=epsilon, delta=1e-5, schema=schema, rows=len(train), seed=run)
        samples = [medsynth.sample(model, len(train), seed=seed) for seed in (run, run + 77)]
    by, computed = grids(schema), set(schema.names) - set(schema.core.names)
    found = []
    for drawn in samples:
        same = dict(zip(SIMILARITIES, by_order(train, drawn, by, (1, 2, 3)), strict=True))
        same["computed"] = by_order(train, drawn, {name: by[name] for name in computed}, (1,))[0]
        found.append({**figures_of(drawn, train, test, schema, target), **same})
    return dict(pd.DataFrame(found).mean())


def main() -> None:
    """Print a markdown table: means over runs, and the mean difference with its standard error."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("decision", choices=BEFORE)
    parser.add_argument("--tables", nargs="+", choices=["thyroid", "clinic", "hospital"], default=["clinic"])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[1.0, 3.7])
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--first", type=int, default=1, help="the number of the first run")
    parser.add_argument("--data", default=os.environ.get("MEDSYNTH_DATA"), type=lambda text: str(Path(text)))
    given = parser.parse_args()
    before, after, changes = BEFORE[given.decision]
    numbers = range(given.first, given.first + given.runs)
    print(f"| table | epsilon | {given.decision} | {' | '.join(FIGURES)} |\n|{' --- |' * (len(FIGURES) + 3)}")
    for name in given.tables:
        for epsilon in given.epsilons:
            made = {
                kind: pd.DataFrame([figures(name, run, given.data, epsilon, c) for run in numbers])
                for kind, c in ((before, changes), (after, []))
            }
            for kind, runs in made.items():
                print(
                    f"| {name} | {epsilon:g} | {kind} | " + " | ".join(f"{runs[f].mean():.4f}" for f in FIGURES) + " |"
                )
            gain = made[after] - made[before]
            cells = [f"{gain[f].mean():+.4f} ({gain[f].std() / len(gain) ** 0.5:.4f})" for f in FIGURES]
            print(f"| {name} | {epsilon:g} | difference | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
