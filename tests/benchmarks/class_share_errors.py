"""How far classes' shares are from the rows', by what a fit knows before its generator is fitted: settings tried.

    python tests/benchmarks/class_share_errors.py --tables thyroid clinic --epsilons 3.7 1 --runs 16 --data FOLDER
    python tests/benchmarks/class_share_errors.py --settings "levels not centred" --data FOLDER

Total variation, on the mean over columns beside the target, of the whole table, of all classes and of the rarest,
numbers in twelve runs of their bins; and naive Bayes by these shares on held-out rows. Development tables, each run
another, as in noise_by_measurement.py, all settings with noise from the same seeds: THESE FITS MAKE NO PRIVACY CLAIM.
Differences from the settings as they stand, with their standard errors; and naive Bayes in the worst run of each.
"""

from __future__ import annotations

import argparse
import math
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
from noise_by_measurement import Figures, tables
from sklearn.metrics import roc_auc_score

import medsynth
from medsynth import rng
from medsynth.io.table import from_frame
from medsynth.methods.shared.bins import Bins
from medsynth.methods.warm_dp_cgan.beginning import Beginning
from medsynth.methods.warm_dp_cgan.marginals import (
    adaptive_grids,
    class_marginals,
    class_ratios,
    one_way_marginals,
    smoothness,
)
from medsynth.methods.warm_dp_cgan.marginals.merged_bins import MergedBins
from medsynth.transforms.table_codec import encode

PARTS = 12  # of a number's bins, in which shares are compared
FIGURES = ("whole table", "all classes", "rarest class", "naive Bayes AuROC", "columns again")
MODULES = (class_marginals, class_ratios, one_way_marginals, adaptive_grids, smoothness)


class MeasuredError(Exception):
    """What a fit knows before its generator is fitted."""

    def __init__(self, beginning: Beginning) -> None:
        super().__init__()
        self.beginning = beginning


def _none(bins: Mapping[str, Bins]) -> dict[str, MergedBins]:
    return {}


def _runs(times: float) -> Any:
    """Runs of bins, so many times as many as there are."""

    def found(bins: Mapping[str, Bins]) -> dict[str, MergedBins]:
        made = {}
        for name, own in bins.items():
            count = max(1, round(math.sqrt(own.ordered) * times))
            part = np.arange(own.ordered) * count // max(own.ordered, 1)
            made[name] = MergedBins(own, np.append(part, count + np.arange(own.cells - own.ordered)).astype(np.int64))
        return made

    return found


SETTINGS: dict[str, dict[str, Any]] = {
    "as it stands": {},
    "before": {"runs_of": _none, "FEW_BINS": math.inf, "SEPARATION_TO_REMEASURE": 0.7},
    "runs alone": {"FEW_BINS": math.inf, "SEPARATION_TO_REMEASURE": 0.7},
    "runs and prior": {"SEPARATION_TO_REMEASURE": 0.7},
    "measured again from 0.3 on": {"SEPARATION_TO_REMEASURE": 0.3},
    "separation without regard to noise": {"SEPARATION_NOISE": 0.0},
    "separation: ten standard deviations": {"SEPARATION_NOISE": 10.0},
    "runs weigh as much as bins": {"RUNS_WEIGHT": 1.0},
    "runs weigh half": {"RUNS_WEIGHT": 0.5},
    "half as many runs": {"runs_of": _runs(0.5)},
    "twice as many runs": {"runs_of": _runs(2.0)},
    "firmer between neighbours, 0.7": {"NEIGHBOUR_STD": 0.7},
    "looser, 1.5": {"NEIGHBOUR_STD": 1.5},
    "thirty finer bins": {"FINER_BINS": 30},
    "levels not centred": {"centred": lambda cells: {}},
    "classes alone weigh 1": {"ALONE_WEIGHT": 1.0},
    "classes alone weigh 4": {"ALONE_WEIGHT": 4.0},
}


def beginning(name: str, run: int, data: str | None, epsilon: float, changes: dict[str, Any]) -> tuple[Any, ...]:
    """What a fit knows before its generator is fitted, rows fitted and to test, and the target."""
    train, test, schema, target = tables(name, run, data)
    seeded, measure = rng.SeededEntropy(7000 + run), Beginning.measure

    def stopped(*args: Any) -> Beginning:
        raise MeasuredError(measure(*args))

    with ExitStack() as changed:
        changed.enter_context(patch.object(rng, "system_entropy", lambda: seeded))
        changed.enter_context(patch.object(Beginning, "measure", stopped))
        for key, value in changes.items():
            for module in MODULES:
                if hasattr(module, key):
                    changed.enter_context(patch.object(module, key, value))
        try:
            medsynth.fit(train, epsilon=epsilon, delta=1e-5, schema=schema, rows=len(train), seed=run)
        except MeasuredError as found:
            return found.beginning, train, test, target
    raise AssertionError("the fit measured nothing")


def figures(name: str, run: int, data: str | None, epsilon: float, changes: dict[str, Any]) -> Figures:
    """Of one fit's beginning."""
    return compared(*beginning(name, run, data, epsilon, changes))


def compared(known: Beginning, train: pd.DataFrame, test: pd.DataFrame, target: str) -> Figures:
    """Its shares beside those of the rows, and what they say of held-out rows."""
    start, names = known.start, list(known.schema.columns)
    fitted, held_out = (encode(from_frame(frame[names]), known.schema) for frame in (train, test))
    classes = [known.given[1].cell_of(codes[:, names.index(target)]) for codes in (fitted, held_out)]
    prior, far, whole = start.totals / start.totals.sum(), [], []
    odds = np.tile(np.log(prior + 1e-9), (len(held_out), 1))
    for column in known.columns:
        bins, shares, place = start.bins[column], np.exp(start.base[column]), names.index(column)
        at = bins.cell_of(fitted[:, place])
        true = np.stack([np.bincount(at[classes[0] == c], minlength=bins.cells) for c in range(len(shares))])
        true = true / true.sum(1, keepdims=True).clip(1)
        cells = np.arange(bins.cells)
        part = cells * PARTS // bins.cells if bins.ordered > PARTS else cells
        gaps = [np.bincount(part, ours - own) for ours, own in zip(shares, true, strict=True)]
        far.append(np.abs(gaps).sum(1) / 2)
        rows = np.bincount(at, minlength=bins.cells) / len(at)
        whole.append(np.abs(np.bincount(part, prior @ shares - rows)).sum() / 2)
        odds += np.log(shares[:, bins.cell_of(held_out[:, place])] + 1e-6).T
    chances = np.exp(odds - odds.max(1, keepdims=True))
    chances /= chances.sum(1, keepdims=True)
    there = [c for c in range(chances.shape[1]) if 0 < (classes[1] == c).sum() < len(held_out)]
    by_class = [roc_auc_score(classes[1] == c, chances[:, c]) for c in there]
    error = np.mean(far, axis=0)
    some = (np.mean(whole), error.mean(), error[int(np.argmin(start.totals))], np.mean(by_class), len(start.again))
    return dict(zip(FIGURES, map(float, some), strict=True))


def print_settings(
    description: str | None,
    settings: dict[str, dict[str, Any]],
    names: Sequence[str],
    of: Callable[..., Figures],
    runs: int,
    lowest: str = "",
) -> None:
    """A markdown table of the figures `names`: by the first of the settings, and differences of the others from that
    with their standard errors; for the tables, epsilons and runs of the command line. Of the figure `lowest` that of
    the worst run too.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=["thyroid", "clinic", "hospital"], default=["clinic"])
    parser.add_argument("--epsilons", nargs="+", type=float, default=[3.7, 1.0])
    parser.add_argument("--runs", type=int, default=runs)
    parser.add_argument("--data", default=os.environ.get("MEDSYNTH_DATA"), type=lambda text: str(Path(text)))
    first, *others = settings
    parser.add_argument("--settings", nargs="+", choices=others, default=others)
    given = parser.parse_args()
    heads = ["table", "epsilon", "setting", *names, *([f"{lowest}, worst run"] if lowest else [])]
    print(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}")
    for name in given.tables:
        for epsilon in given.epsilons:
            base = pd.DataFrame()
            for setting in (first, *given.settings):
                of_runs = [of(name, run, given.data, epsilon, settings[setting]) for run in range(1, given.runs + 1)]
                made = pd.DataFrame(of_runs)
                cells = [f"{made[f].mean():.4f}" for f in names]
                if len(base):
                    gap = made - base
                    cells = [f"{gap[f].mean():+.4f} ({gap[f].std() / len(gap) ** 0.5:.4f})" for f in names]
                if lowest:
                    cells.append(f"{made[lowest].min():.4f}")
                base = base if len(base) else made
                print(f"| {name} | {epsilon:g} | {setting} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    print_settings(__doc__, SETTINGS, FIGURES, figures, 16, FIGURES[3])
