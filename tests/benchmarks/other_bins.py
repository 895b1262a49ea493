"""Similarity of one- and two-way tables by how many even bins they have: a tool was told of 20, not of the others.

    python tests/benchmarks/other_bins.py --data FOLDER --tables thyroid clinic-4k --methods medsynth pgm-aim pgm-mst

The panel's one-way and two-way similarity (docs/panel.md) stand in the 20 even bins of the declared scale that AIM and
MST have measured. Here the same rows are counted in other numbers of even bins between the same bounds as well. Ten
bins are each two of those 20; of 15 to 50 most edges lie between theirs. Printed are medians over --runs fits.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import pandas as pd
import panel
import panel_data
from panel_bins import grids
from panel_figures import by_order

BINS = (10, 15, 17, 20, 23, 30, 50)


def similarities(real: pd.DataFrame, drawn: pd.DataFrame, schema: object) -> list[tuple[int, float, float]]:
    """Number of bins, one-way and two-way similarity."""
    found = []
    for bins in BINS:
        one_way, two_way = by_order(real, drawn, grids(schema, bins=bins), (1, 2))
        found.append((bins, one_way, two_way))
    return found


def main() -> None:
    """Print a markdown table for each table and epsilon."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", default=["clinic-4k"], metavar="TABLE[@ROWS]")
    parser.add_argument("--methods", nargs="+", default=["medsynth", "pgm-aim", "pgm-mst"], choices=panel.METHODS)
    parser.add_argument("--epsilons", nargs="+", type=float, default=[3.7])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--cap", type=float, default=1800, help="seconds of a fit")
    parser.add_argument("--data", help="folder of the public tables")
    parser.add_argument("--environments", type=Path, default=Path("results/environments"))
    asked = parser.parse_args()
    for table in asked.tables:
        train, _, schema, _ = panel_data.load(table, asked.data)
        for epsilon in asked.epsilons:
            lines = []
            for method in asked.methods:
                for seed in range(asked.runs):
                    with tempfile.TemporaryDirectory() as name:
                        state, drawn = panel.fitted(method, train, schema, epsilon, asked, Path(name), seed)
                    if drawn is None:
                        print(f"{table}, {method}, epsilon {epsilon:g}, run {seed}: {state}", flush=True)
                        continue
                    lines += [(method, *line) for line in similarities(train, drawn, schema)]
            if not lines:
                continue
            found = pd.DataFrame(lines, columns=["method", "bins", "one-way", "two-way"])
            runs = found["method"].value_counts() // len(BINS)
            shown = found.groupby(["method", "bins"], sort=False).median().unstack().round(4)
            print(f"\n{table}, epsilon {epsilon:g}, medians\n")
            for figure in ("one-way", "two-way"):
                print(f"| {figure} | " + " | ".join(f"{bins} bins" for bins in BINS) + " |")
                print("| --- " * (len(BINS) + 1) + "|")
                for method, values in shown[figure].iterrows():
                    print(f"| {method}, {runs[method]} runs | " + " | ".join(f"{value:.4f}" for value in values) + " |")
                print(flush=True)


if __name__ == "__main__":
    main()
