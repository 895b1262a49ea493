"""How long things take, beside the most that they should: each figure in a process of its own.

    MEDSYNTH_DATA=FOLDER python tests/benchmarks/speed.py --output results/speed.csv

FOLDER holds thyroid, diabetes130 and mnist. Wall and processor seconds and peak memory are those of one process, which
imports, reads, works and writes; tables are made beforehand. "Old" is what the figure was before it was first looked
at. Processor seconds vary less than wall seconds where other work shares the machine, whose load is on file. A figure
that is on file is not taken again.
"""

from __future__ import annotations

import argparse
import gzip
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import bare_table_sources
import numpy as np
import pandas as pd
import resumable

ROWS = 500_000  # sampled
FIELDS = ["figure", "wall", "cpu", "gib", "load"]
Table = tuple[pd.DataFrame, str]


def diabetes130() -> Table:
    """All stays, as published."""
    return bare_table_sources.all_stays(), "readmitted"


def wide() -> Table:
    """2,000 rows of 2,000 numbers that depend on five, and a label."""
    draw = np.random.default_rng(0)
    factors = draw.normal(size=(2000, 5))
    numbers = (factors @ draw.normal(size=(5, 2000)) + draw.normal(size=(2000, 2000))).round(2)
    frame = pd.DataFrame(numbers, columns=[f"assay_{k}" for k in range(2000)])
    return frame.assign(label=np.where(factors[:, 0] > 0, "yes", "no")), "label"


def mnist() -> Table:
    """Handwritten digits: 784 whole numbers a row."""
    folder = bare_table_sources.shared("mnist")
    pixels = gzip.decompress((folder / "train-images-idx3-ubyte.gz").read_bytes())[16:]
    labels = gzip.decompress((folder / "train-labels-idx1-ubyte.gz").read_bytes())[8:]
    frame = pd.DataFrame(np.frombuffer(pixels, np.uint8).reshape(-1, 784), columns=[f"pixel_{k}" for k in range(784)])
    return frame.assign(digit=np.frombuffer(labels, np.uint8)), "digit"


def clinic(rows: int) -> Table:
    """The simulated clinic under names that no bundled schema has; of many rows, drawn from 50,000."""
    from medsynth_sample_data import simulate

    frame = simulate.cohort(min(rows, 50_000), 1).rename(columns=lambda name: f"x_{name}")
    return frame.sample(rows, replace=rows > len(frame), random_state=0), "x_diagnosis"


TABLES: dict[str, Callable[[], Table]] = {
    "diabetes130": diabetes130, "wide": wide, "mnist": mnist, "thyroid": bare_table_sources.thyroid,
    "clinic-50k": lambda: clinic(50_000), "clinic-1m": lambda: clinic(1_000_000),
}  # fmt: skip


class Figure(NamedTuple):
    """What is measured, of which table, the most seconds that it should take, and what it was before."""

    task: str
    table: str
    bar: float | None
    old: str


FIGURES = {
    "fit, bare, diabetes130, 101,766 x 50": Figure("fit", "diabetes130", 90, "325 s"),
    "fit, bare, 2,000 x 2,001": Figure("fit", "wide", 120, "not done in 300 s"),
    "fit, bare, MNIST, 60,000 x 785": Figure("fit", "mnist", 300, "not done; 783 s of one core"),
    "fit, bare, 1,000,000 x 21": Figure("fit", "clinic-1m", 45, ""),
    "fit, bare, thyroid, 7,200 x 22": Figure("fit", "thyroid", 6, ""),
    f"sample, {ROWS:,} rows to Parquet": Figure("sample.parquet", "clinic-50k", ROWS / 200_000, "13 to 28 s"),
    f"sample, {ROWS:,} rows to CSV": Figure("sample.csv", "clinic-50k", ROWS / 100_000, "13 to 28 s"),
    "sample, 1 row to Parquet, mostly the start": Figure("start.parquet", "clinic-50k", None, ""),
    "plan, 3,772 rows": Figure("plan", "", 2, ""),
    "help": Figure("help", "", 1, ""),
    "report, 50,000 rows": Figure("report", "", 40, ""),
}


def one(task: str, table: str, folder: Path) -> None:
    """Do the task in this process; its cost is measured from outside."""
    path, model = folder / f"{table}.csv", folder / f"{table}.medsynth"
    if task == "make":
        frame, target = TABLES[table]()
        frame.to_csv(path, index=False)
        (folder / f"{table}.target").write_text(target)
    elif task == "fit":
        import medsynth

        target = (folder / f"{table}.target").read_text()
        medsynth.fit(path, epsilon=3.7, target=target).save(model, force=True)
    elif task.startswith(("sample", "start")):
        import medsynth
        from medsynth.sampling import Draw
        from medsynth.sampling.provenance import write_sample

        drawn, rows = folder / f"drawn{Path(task).suffix}", ROWS if task.startswith("sample") else 1
        write_sample(medsynth.load(model), model, drawn, Draw(rows=rows, seed=1), force=True)
    else:
        import report_cost

        report_cost.one(50_000)


def run(words: list[str]) -> dict[str, Any]:
    """Wall and processor seconds and peak memory of a command, and the load when it ended. Raises SystemExit."""
    started = time.perf_counter()
    child = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    if status:
        raise SystemExit(f"failed: {' '.join(words)}")
    cpu = used.ru_utime + used.ru_stime
    return {"wall": round(time.perf_counter() - started, 2), "cpu": round(cpu, 2),
            "gib": round(used.ru_maxrss / 2**20, 2), "load": round(os.getloadavg()[0], 1)}  # fmt: skip


def measured(figure: Figure, folder: Path) -> dict[str, Any]:
    """The cost of one figure. What it needs is made first, if it is not there."""
    commands = {"plan": ["plan", "3772", "--epsilon", "3.7"], "help": ["--help"]}
    if figure.task in commands:
        words = [sys.executable, "-m", "medsynth_cli", *commands[figure.task]]
        run(words)  # the first run of an installation compiles its modules
        return run(words)

    def words_of(task: str) -> list[str]:
        return [sys.executable, __file__, "--one", task, figure.table, "--folder", str(folder)]

    if figure.table and not (folder / f"{figure.table}.target").exists():
        run(words_of("make"))
    if figure.task.startswith(("sample", "start")) and not (folder / f"{figure.table}.medsynth").exists():
        run(words_of("fit"))
    return run(words_of(figure.task))


def main() -> None:
    """Measure what is missing, and print a markdown table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--figures", nargs="+", metavar="WORD", default=[""], help="only those that contain a word")
    parser.add_argument("--output", type=Path, default=Path("results/speed.csv"))
    parser.add_argument("--folder", type=Path, default=Path("results/speed"), help="of tables and models")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.one:
        task, table = given.one
        one(task, table, given.folder)
        return
    given.folder.mkdir(parents=True, exist_ok=True)
    runs = {run["figure"]: run for run in resumable.read(given.output, FIELDS)}
    print("| figure | at most, s | old | wall s | processor s | peak GiB | load |\n|" + " --- |" * 7)
    for name, figure in FIGURES.items():
        if not any(word in name for word in given.figures):
            continue
        if name not in runs:
            runs[name] = {"figure": name} | measured(figure, given.folder)
            resumable.append(given.output, FIELDS, runs[name])
        bar = "" if figure.bar is None else f"{figure.bar:g}"
        cells = [name, bar, figure.old, *(str(runs[name][key]) for key in FIELDS[1:])]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
