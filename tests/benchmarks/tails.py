"""Shares of rows that a fit cuts off at either end of number columns: simulated columns, by one-way marginals alone.

    python tests/benchmarks/tails.py --rows 400 1000 4000 --fits 6

Ten columns (ages, weights, log-normal laboratory values, heavy tails, a change around zero, two groups) at epsilon 3.7,
without a schema and with wide declared bounds. A fit stops once its one-way marginals stand: values below the first
and above the last cell that has any share can never be sampled. Printed are means over the fits, the largest share of
any fit, and the standard deviation beside that of the rows (median).
"""

from __future__ import annotations

import argparse
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd

import medsynth
from medsynth.methods.warm_dp_cgan.marginals.one_way_marginals import OneWayMarginals
from medsynth.schema import Schema

EPSILON = 3.7
WIDE = {
    "age_years": (0, 120, 0), "weight_kg": (20, 300, 1), "lab_mild": (0, 100, 2), "lab_wide": (0, 1000, 1),
    "student_3": (0, 500, 1), "pareto": (0, 1000, 1), "stay_days": (0, 365, 0), "change": (-50, 50, 1),
    "uniform": (0, 120, 0), "two_groups": (0, 100, 1),
}  # fmt: skip


class Measured(Exception):
    """Ends a fit once its one-way marginals stand."""

    def __init__(self, numbers: OneWayMarginals, schema: Schema) -> None:
        super().__init__()
        self.numbers, self.schema = numbers, schema


def simulated(rows: int, draw: np.random.Generator) -> pd.DataFrame:
    """The columns of WIDE, within its bounds, and a target."""
    found = {
        "age_years": draw.normal(50, 16, rows),
        "weight_kg": draw.normal(78, 15, rows),
        "lab_mild": np.exp(draw.normal(1.6, 0.4, rows)),
        "lab_wide": np.exp(draw.normal(2.0, 1.0, rows)),
        "student_3": 100 + 10 * draw.standard_t(3, rows),
        "pareto": 10 * draw.pareto(2.5, rows),
        "stay_days": np.floor(draw.gamma(1.5, 3, rows)),
        "change": draw.normal(0, 3, rows),
        "uniform": draw.integers(18, 91, rows),
        "two_groups": np.where(draw.random(rows) < 0.9, draw.normal(5, 1, rows), draw.normal(20, 2, rows)),
    }
    frame = pd.DataFrame({name: np.clip(np.round(found[name], WIDE[name][2]), *WIDE[name][:2]) for name in WIDE})
    frame = frame.astype({name: int for name, (*_, decimals) in WIDE.items() if not decimals})
    chance = 1 / (1 + np.exp(-(frame["age_years"] - 50) / 10))
    return frame.assign(case=np.where(draw.random(rows) < chance, "yes", "no"))


def declared() -> Schema:
    """The wide bounds."""
    columns: dict[str, Any] = {
        name: {"kind": "continuous", "bounds": [low, high], "decimals": decimals}
        if decimals else {"kind": "count", "bounds": [low, high]}
        for name, (low, high, decimals) in WIDE.items()
    }  # fmt: skip
    columns["case"] = {"kind": "binary", "levels": ["no", "yes"]}
    return Schema.from_dict({"name": "tails", "target": "case", "columns": columns})


def marginals(frame: pd.DataFrame, schema: Schema | None) -> Measured:
    """The one-way marginals of a fit, and the schema that it used."""
    measure = OneWayMarginals.measure

    def stop(vault: Any, schema: Schema, plan: Any, bins: int) -> OneWayMarginals:
        raise Measured(measure(vault, schema, plan, bins), schema)

    try:
        with mock.patch.object(OneWayMarginals, "measure", stop):
            medsynth.fit(frame, epsilon=EPSILON, schema=schema, target="case", rows=len(frame))
    except Measured as found:
        return found
    raise AssertionError


def lost(frame: pd.DataFrame, found: Measured) -> dict[str, tuple[float, float, float]]:
    """Of each column the share of rows below and above all that can be sampled, and the ratio of the spreads."""
    result = {}
    for name in WIDE:
        values, column = frame[name].to_numpy(np.float64), found.schema.columns[name]
        if column.categorical:
            continue
        first, last, ratio = *column.units, np.nan
        unit = 10.0 ** -getattr(column, "decimals", 0)
        if name in found.numbers.grids:
            edges = found.numbers.grids[name].edges
            shares = found.numbers.shares[name][: len(edges) - 1] / found.numbers.shares[name][: len(edges) - 1].sum()
            inside = np.flatnonzero(shares > 1e-7)
            middles = ((edges[:-1] + edges[1:] - 1) / 2 + column.units[0]) * unit
            ratio = float(np.sqrt(shares @ (middles - shares @ middles) ** 2) / values.std())
            first, last = (int(edges[k]) + column.units[0] for k in (inside[0], inside[-1] + 1))
            last -= 1
        half = unit / 2
        result[name] = (values < first * unit - half).mean(), (values > last * unit + half).mean(), ratio
    return result


def main() -> None:
    """A markdown table for each number of rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[400, 1000, 4000])
    parser.add_argument("--fits", type=int, default=6)
    given = parser.parse_args()
    print("| rows | schema | column | below, mean (largest) | above, mean (largest) | spread |\n|" + " --- |" * 6)
    for rows in given.rows:
        for schema in (None, declared()):
            draw = np.random.default_rng(rows)
            frames = [simulated(rows, draw) for _ in range(given.fits)]
            runs = [lost(frame, marginals(frame, schema)) for frame in frames]
            for name in WIDE:
                low, high, ratio = np.array([run[name] for run in runs if name in run]).T
                print(
                    f"| {rows} | {'none' if schema is None else 'wide'} | {name} | {low.mean():.3f} ({low.max():.3f}) "
                    f"| {high.mean():.3f} ({high.max():.3f}) | {np.nanmedian(ratio):.2f} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
