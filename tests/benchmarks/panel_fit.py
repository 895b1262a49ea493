"""Fit medsynth's default to FOLDER/train.parquet in a process of its own: what panel.py runs.

python panel_fit.py FOLDER medsynth EPSILON DELTA [TIMES]
"""

import json
import resource
import sys
import time
from pathlib import Path

import pandas as pd

import medsynth
from medsynth.schema import Schema


def main() -> None:
    """Write as many rows as were given, or TIMES as many, and what they cost."""
    folder, epsilon, delta = Path(sys.argv[1]), float(sys.argv[3]), float(sys.argv[4])
    times = int(sys.argv[5]) if len(sys.argv) > 5 else 1
    train = pd.read_parquet(folder / "train.parquet")
    schema = Schema.from_dict(json.loads((folder / "schema.json").read_text()))
    clock, used = time.perf_counter(), time.process_time()
    model = medsynth.fit(train, epsilon=epsilon, delta=delta, schema=schema)  # its own row count
    made = medsynth.sample(model, len(train) * times)
    cost = {"seconds": time.perf_counter() - clock, "cpu_seconds": time.process_time() - used}
    cost["peak_gib"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    made.to_parquet(folder / "made.parquet")
    (folder / "cost.json").write_text(json.dumps(cost))


if __name__ == "__main__":
    main()
