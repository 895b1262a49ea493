"""Small tables fitted bare: how many columns of numbers are read as such, within bounds that hold their values.

python tests/benchmarks/small_bare_tables.py --fits 20
"""

from __future__ import annotations

import argparse
import logging
import warnings
from collections import Counter
from collections.abc import Iterator

import pandas as pd
from sklearn.datasets import load_breast_cancer, load_diabetes, load_wine

import medsynth
from medsynth.errors import BudgetError, SchemaError
from medsynth.schema.columns.number import Continuous, Count

CLIPPED = 0.1  # share of a column's values outside the learned bounds from which it counts as cut off
WIDE = 20  # times the largest value, from which linear bounds leave nothing of a column to be seen


def tables() -> Iterator[tuple[str, pd.DataFrame]]:
    """Three tables that scikit-learn brings, the last column the target."""
    yield "wine, 178 rows", load_wine(as_frame=True).frame
    yield "diabetes, 442 rows", load_diabetes(as_frame=True, scaled=False).frame
    yield "breast cancer, 569 rows", load_breast_cancer(as_frame=True).frame


def faults(values: pd.Series, column: object) -> str:
    """What is wrong with how a column of numbers was read; "" where nothing is."""
    if not isinstance(column, Continuous | Count):
        return "another kind"
    low, high = column.bounds
    if ((values < low) | (values > high)).mean() > CLIPPED:
        return "cut off"
    wide = column.scale == "linear" and max(abs(low), abs(high)) > WIDE * values.abs().max()
    return "too wide" if wide else ""


def numbers(table: pd.DataFrame) -> list[str]:
    """The columns beside the target that have too many values to be levels."""
    return [str(name) for name in table.columns[:-1] if table[name].nunique() > 20]


def counted(table: pd.DataFrame, epsilon: float, fits: int) -> Counter[str]:
    """Faults of all its columns of numbers over so many fits."""
    found: Counter[str] = Counter()
    for _ in range(fits):
        try:
            columns = medsynth.fit(table, epsilon=epsilon).schema.columns
        except SchemaError:  # no class of the target is left
            found["another kind"] += len(numbers(table))
            continue
        found.update(faults(table[name], columns[name]) for name in numbers(table))
    return found


def main() -> None:
    """Print a line a table and epsilon: parts of a hundred columns."""
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--fits", type=int, default=20)
    arguments.add_argument("--epsilons", type=float, nargs="+", default=[1.0, 3.7, 10.0])
    given = arguments.parse_args()
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    print("| table | epsilon | columns of numbers | another kind | cut off | too wide |\n|---|---|---|---|---|---|")
    for name, table in tables():
        for epsilon in given.epsilons:
            columns = len(numbers(table))
            try:
                found = counted(table, epsilon, given.fits)
            except BudgetError:
                print(f"| {name} | {epsilon:g} | {columns} | refused: too few rows | | |", flush=True)
                continue
            shares = [100 * found[fault] / found.total() for fault in ("another kind", "cut off", "too wide")]
            print(f"| {name} | {epsilon:g} | {columns} |", " | ".join(f"{s:.1f} %" for s in shares), "|", flush=True)


if __name__ == "__main__":
    main()
