"""Seconds, processor time, peak memory and page size of a report on simulated tables of growing size.

    python tests/benchmarks/report_cost.py --rows 4000 50000

Training, held-out and synthetic rows are three simulated cohorts of that size, 21 columns each. A process of its own
each, so that the peak is that report's. Seconds depend on what else the machine does; the processor time is therefore
also given in yardsticks, the processor time of one random forest on fixed rows, measured in the same process.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time


def yardstick() -> float:
    """Processor seconds of a random forest of 100 trees on 20,000 fixed rows."""
    import numpy as np
    from sklearn.ensemble import RandomForestClassifier

    x = np.random.default_rng(0).normal(size=(20_000, 20))
    started = time.process_time()
    RandomForestClassifier(100, random_state=0, n_jobs=1).fit(x, x[:, 0] > x[:, 1])
    return time.process_time() - started


def one(rows: int) -> None:
    """Build one report in this process and print its cost."""
    from medsynth_sample_data import simulate

    from medsynth.report.build import build
    from medsynth.report.page.render import page

    train, real, synthetic = (simulate.cohort(rows, seed) for seed in (1, 2, 3))
    started, processor = time.perf_counter(), time.process_time()
    report = build(synthetic=synthetic, real=real, train=train, target="diagnosis", disjoint=True)
    size = len(page(report).encode())
    seconds, processor = time.perf_counter() - started, time.process_time() - processor
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    cells = [f"{rows:,} x {synthetic.shape[1]}", f"{seconds:.0f}", f"{processor:.0f}", f"{processor / yardstick():.1f}",
             f"{peak / 2**20:.2f}", f"{size / 2**20:.2f}"]  # fmt: skip
    print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    """A row a size."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[4_000, 50_000])
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        one(given.one)
        return
    heads = ("rows of each table", "seconds", "processor seconds", "in yardsticks", "peak memory, GiB", "page, MiB")
    print(f"| {' | '.join(heads)} |\n|{' --- |' * len(heads)}", flush=True)
    for rows in given.rows:
        subprocess.run([sys.executable, __file__, "--one", str(rows)], check=True)


if __name__ == "__main__":
    main()
