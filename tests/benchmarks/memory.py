"""Seconds and peak memory of a large fit and a large sample, each command in a process of its own.

    python tests/benchmarks/memory.py --rows 1000000 --sample 5000000

The table is the simulated clinic with a key: 22 columns. Nothing else should run on the machine.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from medsynth_sample_data import simulate

KEY = '  record: {kind: identifier, shape: "R-#########"}\n'


def written(folder: Path, rows: int) -> None:
    """big.csv and its schema."""
    frame = simulate.cohort(rows, 1)
    frame.insert(0, "record", [f"R-{k:09}" for k in range(rows)])
    frame.to_csv(folder / "big.csv", index=False)
    text = simulate.schema_text()
    (folder / "big.schema.yaml").write_text(text.replace("columns:\n", "columns:\n" + KEY, 1))


def measured(folder: Path, *words: str) -> None:
    """Run a command and print what it took."""
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "medsynth_cli", *words, "--json"], cwd=folder, check=True, capture_output=True
    )
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    print(
        f"{time.perf_counter() - start:6.0f} s, at most {peak:.2f} GiB so far: medsynth {' '.join(words)}", flush=True
    )


def main() -> None:
    """Sample first: the peak that children report is that of the largest so far."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--sample", type=int, default=5_000_000)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        written(folder, 4000)
        measured(folder, "fit", "big.csv", "--epsilon", "3.7", "--rows", "4000")
        measured(folder, "sample", "-n", str(given.sample), "--output", "big.synthetic.csv")
        measured(folder, "sample", "-n", str(given.sample), "--output", "big.synthetic.parquet")
        written(folder, given.rows)
        measured(folder, "fit", "big.csv", "--epsilon", "3.7", "--rows", str(given.rows), "--force")


if __name__ == "__main__":
    main()
