"""Seconds, peak memory and page size of a report on simulated tables of growing size.

    python tests/benchmarks/report_cost.py --rows 4000 50000

Training, held-out and synthetic rows are three simulated cohorts of that size, 21 columns each. A process of its own
each, so that the peak is that report's.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time


def one(rows: int) -> None:
    """Build one report in this process and print its cost."""
    from medsynth_sample_data import simulate

    from medsynth.report.build import build
    from medsynth.report.page.render import page

    train, real, synthetic = (simulate.cohort(rows, seed) for seed in (1, 2, 3))
    started = time.perf_counter()
    report = build(synthetic=synthetic, real=real, train=train, target="diagnosis")
    size = len(page(report).encode())
    seconds, peak = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"| {rows:,} x {synthetic.shape[1]} | {seconds:.0f} | {peak / 2**20:.2f} | {size / 2**20:.2f} |", flush=True)


def main() -> None:
    """A row a size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[4_000, 50_000])
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        one(given.one)
        return
    print("| rows of each table | seconds | peak memory, GiB | page, MiB |\n| --- | --- | --- | --- |", flush=True)
    for rows in given.rows:
        subprocess.run([sys.executable, __file__, "--one", str(rows)], check=True)


if __name__ == "__main__":
    main()
