"""Seconds, processor seconds and peak memory of fits of very large tables, beside reading the file alone.

    python tests/benchmarks/large_tables.py --rows 1000000 10000000 100000000 --folder FOLDER
    python tests/benchmarks/large_tables.py --rows 10000000 100000000 --folder FOLDER --workers 1 2

The table is the simulated clinic, 21 columns, in Parquet, with its declared schema. Each figure is of a process of its
own. Tables are made once and kept in FOLDER, which needs 12 bytes a row, and 24 more while a fit runs. With `--workers`
the table lies in files of 500,000 rows, and so many workers of a local Dask cluster read and count them. The processor
seconds are those of all processes; the memory of the largest worker comes after the client's.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pyarrow
import pyarrow.parquet
from medsynth_sample_data import simulate

GROUP = 500_000  # rows that are simulated at once
MEASURED = """
import json, resource, sys, time
start = time.perf_counter()
exec(sys.argv[1])
used = resource.getrusage(resource.RUSAGE_SELF)
children = resource.getrusage(resource.RUSAGE_CHILDREN)
processor = sum(one.ru_utime + one.ru_stime for one in (used, children))
print(json.dumps([wall, processor, used.ru_maxrss / 2**20, children.ru_maxrss / 2**20]))
"""
READ = """
import pyarrow.parquet
for piece in pyarrow.parquet.ParquetFile(sys.argv[2], pre_buffer=False).iter_batches(): pass
wall = time.perf_counter() - start
"""
FIT = """
import medsynth
from medsynth.io import large
if sys.argv[4] == "whole": large.LARGE_CELLS = 1 << 60
model = medsynth.fit(sys.argv[2], epsilon=3.7, schema=sys.argv[3], rows=int(sys.argv[5]), notice=lambda text: None)
model.save(sys.argv[6], force=True)
wall = time.perf_counter() - start
"""
FIT_ON_CLUSTER = """
import os
os.environ |= {"MALLOC_TRIM_THRESHOLD_": "1000000000", "MALLOC_MMAP_THRESHOLD_": "33554432"}  # docs/how-to/cluster.md
import distributed, medsynth
from pathlib import Path
from medsynth.fitting.cluster import parts_of
cluster = distributed.LocalCluster(n_workers=int(sys.argv[4]), threads_per_worker=1, dashboard_address=":0")
start = time.perf_counter()
with parts_of(Path(sys.argv[2]), cluster.scheduler_address) as table:
    model = medsynth.fit(table, epsilon=3.7, schema=sys.argv[3], rows=int(sys.argv[5]), notice=lambda text: None)
model.save(sys.argv[6], force=True)
wall = time.perf_counter() - start
cluster.close()
"""


def written(path: Path, rows: int) -> Path:
    """The table in a file, unless it is there."""
    if not path.exists():
        unfinished, writer = path.with_suffix(".unfinished"), None
        for first in range(0, rows, GROUP):
            frame = simulate.cohort(min(GROUP, rows - first), first)
            piece = pyarrow.Table.from_pandas(frame, preserve_index=False)
            writer = writer or pyarrow.parquet.ParquetWriter(unfinished, piece.schema)
            writer.write_table(piece)
        assert writer is not None
        writer.close()
        unfinished.rename(path)
    return path


def in_parts(folder: Path, rows: int) -> Path:
    """The table in a folder of files, a group of rows each."""
    folder.mkdir(exist_ok=True)
    for k, first in enumerate(range(0, rows, GROUP)):
        path = folder / f"part-{k:04}.parquet"
        if not path.exists():
            frame = simulate.cohort(min(GROUP, rows - first), first)
            frame.to_parquet(unfinished := path.with_suffix(".unfinished"), index=False)
            unfinished.rename(path)
    return folder


def measured(*words: str) -> list[float]:
    """Wall and processor seconds of a piece of Python in a process of its own, its peak GiB and its children's."""
    found = subprocess.run([sys.executable, "-c", MEASURED, *words], check=True, stdout=subprocess.PIPE, text=True)
    numbers: list[float] = json.loads(found.stdout.splitlines()[-1])
    return numbers


def main() -> None:
    """One line a table and way of fitting it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 10_000_000])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--whole", action="store_true", help="fit it in memory too, where it is read in pieces")
    parser.add_argument("--workers", type=int, nargs="*", default=[], help="on local clusters of so many instead")
    given = parser.parse_args()
    schema = given.folder / "clinic.schema.yaml"
    schema.write_text(simulate.schema_text())
    for rows in given.rows:
        tasks = dict[str, list[str]]()
        if given.workers:
            path = in_parts(given.folder / f"clinic-{rows}", rows)
        else:
            path = written(given.folder / f"clinic-{rows}.parquet", rows)
            tasks["read"] = [READ, str(path)]
        fits = {"fit": "pieces", **({"fit in memory": "whole"} if given.whole else {})}
        ways = {f"{count} workers": str(count) for count in given.workers} or fits
        for name, way in ways.items():
            model = given.folder / f"clinic-{rows}-{way}.medsynth"
            tasks[name] = [FIT_ON_CLUSTER if given.workers else FIT, str(path), str(schema), way, str(rows), str(model)]
        for name, words in tasks.items():
            wall, processor, gib, largest = measured(*words)
            when = f"{time.strftime('%H:%M')}, load {os.getloadavg()[0]:.1f}"
            figures = f"{wall:7.1f} s, {processor:7.1f} CPU s, {gib:.2f} GiB"
            figures += f", {largest:.2f} GiB" if given.workers else ""
            print(f"{rows:>11,} rows, {name:13}: {figures}  ({when})", flush=True)


if __name__ == "__main__":
    main()
