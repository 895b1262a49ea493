"""MNIST as a table, and synthetic tables of it: fitted once, kept, and shared by the benchmarks that read them.

Files: the four of the original distribution, under MEDSYNTH_DATA/mnist or ../shared/data/mnist.

    python tests/benchmarks/mnist_data.py METHOD EPSILON SEED

fits a method (with +NAME=VALUE for settings) to the 60,000 training images at delta 1e-5, draws 60,000 rows, and keeps
them in results/mnist with what the fit cost. A method without privacy is written as METHOD+no_dp=1.
"""

from __future__ import annotations

import gzip
import json
import resource
import subprocess
import sys
import time
from typing import Any

import bare_table_sources
import numpy as np
import pandas as pd

PIXELS = [f"pixel_{k}" for k in range(784)]
ROWS, DELTA = 60_000, 1e-5
KEPT = bare_table_sources.ROOT / "results" / "mnist"


def real(part: str) -> tuple[Any, Any]:
    """Images, (images, 784) of 0 to 255, and digits, (images,): of `part` "train" or "t10k"."""
    folder = bare_table_sources.shared("mnist")
    pixels = gzip.decompress((folder / f"{part}-images-idx3-ubyte.gz").read_bytes())[16:]
    digits = gzip.decompress((folder / f"{part}-labels-idx1-ubyte.gz").read_bytes())[8:]
    return np.frombuffer(pixels, np.uint8).reshape(-1, 784), np.frombuffer(digits, np.uint8)


def schema() -> Any:
    """What is public of an image: 784 whole numbers from 0 to 255 and one of ten digits. No pixel's place is told."""
    from medsynth.schema import Schema

    columns: dict[str, Any] = {name: {"kind": "count", "bounds": [0, 255]} for name in PIXELS}
    columns["digit"] = {"kind": "categorical", "levels": [str(k) for k in range(10)]}
    return Schema.from_dict({"name": "mnist", "target": "digit", "columns": columns})


def synthetic(method: str, epsilon: float, seed: int) -> tuple[Any, Any, dict[str, Any]]:
    """Synthetic images and digits, as `real` gives them, and what they cost; fitted in a process of its own, once."""
    path = KEPT / f"{method}-{epsilon:g}-{seed}.npz"
    if not path.exists():
        subprocess.run([sys.executable, __file__, method, str(epsilon), str(seed)], check=True, stdout=sys.stderr)
    with np.load(path) as kept:
        return kept["pixels"], kept["digits"], json.loads(str(kept["cost"]))


def main() -> None:
    """Fit, draw and keep."""
    import medsynth

    name, epsilon, seed = sys.argv[1], float(sys.argv[2]), int(sys.argv[3])
    method, *changes = name.split("+")
    settings = dict(change.split("=") for change in changes)
    no_dp = settings.pop("no_dp", None) is not None
    pixels, digits = real("train")
    frame = pd.DataFrame(pixels, columns=PIXELS).assign(digit=digits.astype(str))
    clock, used = time.perf_counter(), time.process_time()
    model = medsynth.fit(
        frame, epsilon=None if no_dp else epsilon, delta=DELTA, no_dp=no_dp, schema=schema(), rows=ROWS,
        method=method, settings=settings,
    )  # fmt: skip
    cost: dict[str, Any] = {
        "cpu_seconds": round(time.process_time() - used),
        "seconds": round(time.perf_counter() - clock),
    }
    cost |= {"peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2)}
    cost |= {"spent": "no limit" if model.epsilon is None else round(model.epsilon, 4)}
    made = medsynth.sample(model, ROWS)
    KEPT.mkdir(parents=True, exist_ok=True)
    part = KEPT / f"{name}-{epsilon:g}-{seed}.part.npz"
    np.savez_compressed(
        part, pixels=made[PIXELS].to_numpy(np.uint8), digits=made["digit"].to_numpy(np.uint8), cost=json.dumps(cost)
    )
    part.replace(KEPT / f"{name}-{epsilon:g}-{seed}.npz")


if __name__ == "__main__":
    main()
