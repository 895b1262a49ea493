"""What the noise of each measurement costs: the default fitted with that of one of them nearly off.

    python tests/benchmarks/noise_by_measurement.py --tables thyroid clinic --runs 6 --data FOLDER

Development tables, each run another: three quarters of thyroid's training rows, tested on the last quarter; a simulated
clinic of 4,000 rows, tested on 6,000 of another. THESE FITS DO NOT KEEP THEIR EPSILON: they say where a budget would
help, and nothing that they make is to be shared.
"""

from __future__ import annotations

import argparse
import os
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pandas as pd
import panel_data
import panel_figures
from medsynth_sample_data import simulate

import medsynth
from medsynth.fitting import planning
from medsynth.privacy.accounting.calibration import Plan, make_plan
from medsynth.report.data import protocol

QUIETER = 20.0  # times less noise
ONE_WAY = ("one-way marginals", "coarse one-way marginals", "frequent values")
CLASSES = ("class-by-bin marginals", "re-measured marginals")
REST = ("critic gradient sum", "second moments", "two-way marginals")
GROUPS = [(), ONE_WAY, *((name,) for name in (*CLASSES, *REST)), CLASSES]
FIGURES = ("mean", "lr", "mlp", "rf", "hgb", "propensity")
Figures = dict[str, float]


def quieter(*names: str) -> Any:
    """A planner whose plans have hardly any noise in the measurements `names`."""

    def planned(*args: Any, **kwargs: Any) -> Plan:
        plan = make_plan(*args, **kwargs)
        quiet = {
            n: (replace(e, multiplier=e.multiplier / QUIETER), t) for n, (e, t) in plan.events.items() if n in names
        }
        return replace(plan, events=plan.events | quiet)

    return planned


def tables(name: str, run: int, data: str | None) -> tuple[Any, Any, Any, str]:
    """Rows to fit, rows to test, schema and target of a run."""
    train, _, schema, target = panel_data.load("clinic-4k" if name == "clinic" else name, data)
    if name == "clinic":
        return simulate.cohort(4000, 5000 + run), simulate.cohort(6000, 9000 + run), schema, target
    order, some = np.random.default_rng(run).permutation(len(train)), len(train) * 3 // 4
    parts = [train.iloc[rows].reset_index(drop=True) for rows in (order[:some], order[some:])]
    return parts[0], parts[1], schema, target


def figures(name: str, run: int, data: str | None, names: tuple[str, ...], epsilon: float) -> Figures:
    """Of one fit."""
    train, test, schema, target = tables(name, run, data)
    with patch.object(planning, "make_plan", quieter(*names)):
        model = medsynth.fit(train, epsilon=epsilon, delta=1e-5, schema=schema, rows=len(train))
    return figures_of(medsynth.sample(model, len(train)), train, test, schema, target)


def figures_of(drawn: pd.DataFrame, train: pd.DataFrame, test: pd.DataFrame, schema: Any, target: str) -> Figures:
    """Of drawn rows: classifiers' AuROC on the rows to test, and of trees that tell them from the rows to fit."""
    score = protocol.score(drawn, test, target)
    told = panel_figures.propensity(train, drawn, schema)
    return {"mean": score["mean"], **score["macro"], "propensity": told}


def main() -> None:
    """Print a markdown table for each table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=["thyroid", "clinic"], default=["clinic"])
    parser.add_argument("--runs", type=int, default=6)
    parser.add_argument("--epsilon", type=float, default=3.7)
    parser.add_argument("--data", default=os.environ.get("MEDSYNTH_DATA"), type=lambda text: str(Path(text)))
    given = parser.parse_args()
    for name in given.tables:
        print(f"\n{name}\n\n| hardly any noise in | {' | '.join(FIGURES)} |\n|{' --- |' * (len(FIGURES) + 1)}")
        for names in GROUPS:
            runs = [figures(name, run, given.data, names, given.epsilon) for run in range(1, given.runs + 1)]
            middle = [f"{statistics.median(run[figure] for run in runs):.3f}" for figure in FIGURES]
            print(f"| {', '.join(names) or 'none'} | {' | '.join(middle)} |", flush=True)


if __name__ == "__main__":
    main()
