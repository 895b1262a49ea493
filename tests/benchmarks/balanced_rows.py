"""What balancing does to drawn rows: from one model a table, samples drawn by strata alone and chosen among candidates.

    python tests/benchmarks/balanced_rows.py --tables clinic-4k thyroid --seeds 3

As many rows as were fitted, judged by the report's own figures on real test rows. Medians, with ranges of mean AuROC.
"""

from __future__ import annotations

import argparse
import os
import statistics
from typing import Any
from unittest.mock import patch

import utility

FIGURES = ("one_way", "two_way", "propensity_auroc", "mean", "best")


def samples(table: str, epsilon: float, seeds: int, data: str | None) -> dict[str, list[dict[str, Any]]]:
    """The figures of each sample, by how its rows were drawn."""
    import medsynth
    from medsynth.sampling.balance import halvings

    train, test, schema, target = utility.load(table, data)
    model = medsynth.fit(train, epsilon=epsilon, schema=schema, rows=len(train))
    found: dict[str, list[dict[str, Any]]] = {"by strata alone": [], "balanced": []}
    for seed in range(seeds):
        for way, runs in found.items():
            with patch(
                "medsynth.sampling.pipeline.halvings", halvings if way == "balanced" else lambda count, columns: 0
            ):
                drawn = medsynth.sample(model, len(train), seed=seed)[test.columns]
            runs.append(utility.figures(drawn, train, test, schema, target))
    return found


def main() -> None:
    """Print a markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tables", nargs="+", choices=utility.TABLES, default=["clinic-4k", "thyroid"])
    parser.add_argument("--epsilon", type=float, default=3.7)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--data", default=os.environ.get("MEDSYNTH_THYROID"))
    given = parser.parse_args()
    print("| table | rows | one-way | two-way | propensity AuROC | mean AuROC | best AuROC |\n|" + " --- |" * 7)
    for table in given.tables:
        for way, runs in samples(table, given.epsilon, given.seeds, given.data).items():
            medians = [f"{statistics.median(run[name] for run in runs):.3f}" for name in FIGURES]
            means = [run["mean"] for run in runs]
            medians[3] += f" ({min(means):.3f} to {max(means):.3f})"
            print("| " + " | ".join([table, way, *medians]) + " |", flush=True)


if __name__ == "__main__":
    main()
