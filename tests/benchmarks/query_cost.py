"""What queries cost: CPU seconds of a vault of many rows, and bytes and seconds to write and read each kind of query.

OMP_NUM_THREADS=1 python tests/benchmarks/query_cost.py --rows 1000000
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import torch

from medsynth.privacy.accounting.calibration import Query, make_plan
from medsynth.privacy.networks import Mlp
from medsynth.privacy.queries.gradients import minus_output
from medsynth.privacy.queries.parts import RowsInMemory
from medsynth.privacy.queries.query import RowQuery
from medsynth.privacy.queries.tables import Distances, Marginals
from medsynth.privacy.queries.wire import Columns, read, write
from medsynth.privacy.release import Releases
from medsynth.privacy.vault import Vault
from medsynth.rng import system_entropy
from medsynth.transforms.grid import Grid

COLUMNS, CODES = 21, 1000
NAMES = tuple(f"c{k}" for k in range(COLUMNS))
GRID = Grid(np.arange(0, CODES + 1, 10), 0)


def scaled(codes: Any) -> torch.Tensor:
    """A critic's input: the codes from 0 to 1."""
    return torch.from_numpy(codes / CODES).float()


def timed(what: str, act: Callable[[], Any], times: int = 1) -> Any:
    """Print the CPU seconds of an act, done so many times; returns what it gave."""
    start = time.process_time()
    for _ in range(times):
        found = act()
    print(f"{what}: {time.process_time() - start:.3f} s")
    return found


def vault(rows: int, parts: int) -> Vault:
    """Random codes in so many parts, and a plan of what is timed."""
    codes = np.random.default_rng(0).integers(0, CODES, (rows, COLUMNS)).astype(np.int32)
    queries = [
        Query(label="tables", weight=1.0, times=10),
        Query(label="sums", weight=1.0, times=3),
        Query(label="lots", weight=1.0, rate=0.01, times=100),
    ]
    plan = make_plan(queries, epsilon=3, delta=1e-6, rows=rows)
    entropy = system_entropy()
    held = [RowsInMemory(part, NAMES) for part in np.array_split(codes, parts)]
    return Vault(held, NAMES, Releases(plan.ledger(entropy.source), entropy))


def measure(rows: int, parts: int) -> None:
    """CPU seconds of measurements over rows in so many parts."""
    room, critic = vault(rows, parts), Mlp([COLUMNS, 16, 1])
    print(f"{rows:,} rows in {parts} parts")
    tables = partial(room.measure_histograms, "tables", dict.fromkeys(NAMES, GRID))
    timed("10 x 21 histograms", tables, 10)
    for label, times in (("sums", 3), ("lots", 100)):
        gradients = partial(room.measure_gradient_sum, label, critic, minus_output, scaled, 1.0)
        timed(f"{times} gradient {label}", gradients, times)


def wire() -> None:
    """Bytes and CPU seconds to write, and to read and try, tables of the size that a fit asks for."""
    columns = Columns(dict.fromkeys(NAMES, CODES))
    pairs = {f"{a} x {b}": [(a, GRID), (b, GRID)] for k, a in enumerate(NAMES) for b in NAMES[:k]}
    each: dict[str, RowQuery[Any]] = {
        "21 histograms": Marginals({name: [(name, GRID)] for name in NAMES}),
        "210 two-way tables": Marginals(pairs),
        "210 distances": Distances(pairs, dict.fromkeys(pairs, np.zeros((100, 100)))),
    }
    for name, query in each.items():
        content = timed(f"write {name}", partial(write, query, columns))
        print(f"  {len(content):,} bytes")
        timed(f"read {name}", partial(read, content, columns))


def main() -> None:
    """Print all."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    rows = parser.parse_args().rows
    torch.set_num_threads(1)
    for parts in (1, 10):
        measure(rows, parts)
    wire()
    print(f"peak memory: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024} MiB")


if __name__ == "__main__":
    main()
