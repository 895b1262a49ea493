"""How much better a model looks beside the rows that it was fitted to than beside rows that were held out.

    python tests/benchmarks/fitted_rows.py --data DATA --fits 10

Rows are halved at random for each fit; the model is fitted to one half, and both are compared with its rows.
"""

from __future__ import annotations

import argparse
import logging
import warnings

import numpy as np
import pandas as pd
import panel_data
import torch
from panel_bins import grids
from panel_figures import by_order

import medsynth
from medsynth.report.data import protocol

TABLES = ("thyroid", "clinic-4k", "hospital", "diabetes130@8200")
FIGURES = ("mean AuROC", "one-way similarity", "two-way similarity")


def figures(half: pd.DataFrame, drawn: pd.DataFrame, schema: medsynth.Schema, target: str) -> list[float]:
    """AuROC after training on synthetic rows, mean of four classifiers, and similarities, on one half."""
    macro = protocol.score(drawn, half, target)["macro"]
    return [float(np.mean(list(macro.values()))), *by_order(half, drawn, grids(schema), (1, 2))]


def gained(rows: pd.DataFrame, schema: medsynth.Schema, target: str, epsilon: float | None, seed: int) -> list[float]:
    """The figures on the fitted half less those on the other."""
    order = np.random.default_rng(seed).permutation(len(rows))
    fitted, held = (rows.iloc[part].reset_index(drop=True) for part in np.array_split(order, 2))
    budget = {"no_dp": True} if epsilon is None else {"epsilon": epsilon, "delta": 1e-5}
    drawn = medsynth.fit(fitted, schema=schema, **budget).sample(len(fitted), seed=seed)
    sides = [figures(half, drawn, schema, target) for half in (fitted, held)]
    return [one - other for one, other in zip(*sides, strict=True)]


def main() -> None:
    """Print a line a table and epsilon: means over the fits, their standard errors in brackets."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--data")
    arguments.add_argument("--fits", type=int, default=10)
    arguments.add_argument("--tables", nargs="+", default=TABLES)
    arguments.add_argument("--epsilons", nargs="+", default=["3.7"], help="numbers, or none for a fit without noise")
    given = arguments.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    torch.set_num_threads(1)
    print(f"| table | epsilon | {' | '.join(FIGURES)} |\n|---|---|---|---|---|")
    for name in given.tables:
        train, _, schema, target = panel_data.load(name, given.data)
        for word in given.epsilons:
            epsilon = None if word == "none" else float(word)
            found = np.array([gained(train, schema, target, epsilon, seed) for seed in range(given.fits)])
            means, errors = found.mean(0), found.std(0, ddof=1) / np.sqrt(given.fits)
            shown = " | ".join(f"{mean:+.4f} ({error:.4f})" for mean, error in zip(means, errors, strict=True))
            print(f"| {name} | {word} | {shown} |", flush=True)


if __name__ == "__main__":
    main()
