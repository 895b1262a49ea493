"""The tables of docs/panel.md: medians of the panel's results, with their range.

python tests/benchmarks/panel_table.py results/panel.csv
"""

from __future__ import annotations

import argparse
import csv
import itertools
import statistics
from pathlib import Path
from typing import Any

SHOWN = {"mean": ("mean AuROC", 3), "best": ("best AuROC", 3), "one_way": ("one-way", 4), "two_way": ("two-way", 4),
         "three_way": ("three-way", 4), "one_way_quantile": ("one-way, quantile bins", 4),
         "two_way_quantile": ("two-way, quantile bins", 4), "three_way_quantile": ("three-way, quantile bins", 4),
         "propensity": ("propensity AuROC", 3), "overlap": ("interval overlap", 2)}  # fmt: skip
RANGED = ("mean", "two_way", "two_way_quantile", "propensity")
COST = {"cpu_seconds": ("CPU s", 0), "peak_gib": ("GiB", 2)}
Run = dict[str, Any]


def values(runs: list[Run], figure: str) -> list[float]:
    """A figure of the runs that have it."""
    return [float(run[figure]) for run in runs if run.get(figure) not in (None, "", "None")]


def spread(found: list[float], places: int, ranged: bool) -> str:
    """Median, and the range of more than one run."""
    if not found:
        return "-"
    middle = f"{statistics.median(found):.{places}f}"
    return f"{middle} ({min(found):.{places}f} to {max(found):.{places}f})" if ranged and len(found) > 1 else middle


def row(runs: list[Run]) -> str:
    """One method at one epsilon."""
    method, epsilon = runs[0]["method"], float(runs[0]["epsilon"])
    states = [run["state"] for run in runs if run["state"] != "done"]
    other = "".join(f", {states.count(state)} {state}" for state in sorted(set(states)))
    cells = [method, f"{epsilon:g}" if epsilon else "none", f"{len(runs) - len(states)}{other}"]
    cells += [spread(values(runs, name), places, name in RANGED) for name, (_, places) in SHOWN.items()]
    cells += [spread(values(runs, name), places, False) for name, (_, places) in COST.items()]
    return "| " + " | ".join(cells) + " |"


def tables(runs: list[Run]) -> str:
    """A Markdown table for each table of the panel, in the order in which they first came."""
    heads = ["method", "epsilon", "runs", *(name for name, _ in SHOWN.values()), *(name for name, _ in COST.values())]
    text = []
    for table in dict.fromkeys(run["table"] for run in runs):
        some = [run for run in runs if run["table"] == table]
        some.sort(key=lambda run: (float(run["epsilon"]), run["method"]))
        lines = [f"### {table}", "", "| " + " | ".join(heads) + " |", "|" + " --- |" * len(heads)]
        by = itertools.groupby(some, key=lambda run: (float(run["epsilon"]), run["method"]))
        text.append("\n".join([*lines, *(row(list(group)) for _, group in by)]))
    return "\n\n".join(text) + "\n"


def main() -> None:
    """Read the results and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", nargs="+", type=Path)
    given = parser.parse_args()
    runs: list[Run] = []
    for path in given.results:
        with path.open(newline="") as file:
            runs += csv.DictReader(file)
    print(tables(runs), end="")


if __name__ == "__main__":
    main()
