"""What benchmarks share: options, results on file, medians with ranges, Markdown tables, the cost of a process."""

from __future__ import annotations

import argparse
import csv
import io
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "results"
DELTA = 1e-5
Job = tuple[str, str, float, int]  # table, method, epsilon, run
KEYS = ("table", "method", "epsilon", "seed")
Run = dict[str, Any]


def public_folder() -> str | None:
    """Return the folder of public tables: MEDSYNTH_DATA, or ../shared/data if it is there."""
    sibling = ROOT.parent / "shared" / "data"
    return os.environ.get("MEDSYNTH_DATA") or (str(sibling) if sibling.exists() else None)


def options(name: str, text: str | None, *, data: bool = False, output: str = "", minutes: float = 0) -> Any:
    """Return a parser for the benchmark `name` with the options that several benchmarks have."""
    parser = argparse.ArgumentParser(
        prog=f"python -m tests.benchmarks {name}", description=text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    if data:
        parser.add_argument("--data", default=public_folder(), metavar="FOLDER", help="public tables (MEDSYNTH_DATA)")
    if output:
        parser.add_argument("--output", type=Path, default=RESULTS / output, help="results; runs on file are kept")
    if minutes:
        parser.add_argument("--minutes", type=float, default=minutes, help="no run starts later")
    return parser


def read(output: Path, fields: Sequence[str]) -> list[Run]:
    """Return the results on file. Create the file if it is missing."""
    output.parent.mkdir(parents=True, exist_ok=True)
    if not output.exists():
        append(output, fields, dict(zip(fields, fields, strict=True)))
    with output.open(newline="") as file:
        return list(csv.DictReader(file))


def append(output: Path, fields: Sequence[str], run: Run) -> None:
    """Add one line in one write, so that a reader or a kill never sees half of it."""
    line = io.StringIO()
    csv.DictWriter(line, fields).writerow(run)
    file = os.open(output, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, line.getvalue().encode())
    finally:
        os.close(file)


def completed(output: Path, fields: Sequence[str], jobs: Iterable[Run], run: Callable[[Run], Run]) -> list[Run]:
    """Return the results on file, after the jobs that are missing there have run. A job: first fields of a run."""
    runs = read(output, fields)
    for job in jobs:
        if not any(all(str(known[key]) == str(value) for key, value in job.items()) for known in runs):
            runs.append(run(job))
            append(output, fields, runs[-1])
    return runs


def done(runs: list[Run]) -> set[Job]:
    """Return the jobs of the runs on file."""
    return {(run["table"], run["method"], float(run["epsilon"]), int(run["seed"])) for run in runs}


def resume(
    wanted: Iterable[Job], one: Callable[[str, str, float, int], Run], output: Path, fields: Sequence[str],
    minutes: float,
) -> tuple[list[Run], str]:  # fmt: skip
    """Run the jobs that are not on file until `minutes` are over. Return all results and the names of jobs not run."""
    runs = read(output, fields)
    left = [job for job in wanted if job not in done(runs)]
    stop = time.monotonic() + 60 * minutes
    while left and time.monotonic() < stop:
        job = left.pop(0)
        runs.append(dict(zip(KEYS, job, strict=True)) | one(*job))
        append(output, fields, runs[-1])
    return runs, "; ".join(f"{t} {m} epsilon {e:g} run {s}" for t, m, e, s in left)


def report(
    wanted: Iterable[Job], one: Callable[[str, str, float, int], Run], given: Any, fields: Sequence[str],
    summary: Callable[[list[Run]], str],
) -> None:  # fmt: skip
    """Run what is missing, and print the summary of all runs on file and the jobs that were not run."""
    runs, left = resume(wanted, one, given.output, fields, given.minutes)
    print(summary(runs))
    if left:
        print(f"\nNot run: {left}.")


def values(runs: list[Run], figure: str) -> list[float]:
    """Return a figure of the runs that have it."""
    return [float(run[figure]) for run in runs if run.get(figure) not in (None, "", "None")]


def spread(found: Sequence[float], places: int = 3, ranged: bool = True) -> str:
    """Return the median, with the range in brackets if there are several values."""
    if not found:
        return "-"
    middle = f"{statistics.median(found):.{places}f}"
    return f"{middle} ({min(found):.{places}f} to {max(found):.{places}f})" if ranged and len(found) > 1 else middle


def markdown(heads: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    """Return a Markdown table."""
    rows = [list(heads), ["---"] * len(heads), *(list(map(str, line)) for line in lines)]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def again(name: str, *words: str) -> list[str]:
    """Return the command that runs a benchmark in a process of its own."""
    return [sys.executable, "-m", "tests.benchmarks", name, *words]


def measured(words: list[str], tree: Path = ROOT) -> Run:
    """Return wall and processor seconds, peak memory and the load after a command of the sources in `tree`.

    Raises SystemExit if it fails.
    """
    started = time.perf_counter()
    child = subprocess.Popen(words, cwd=tree, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if status:
        raise SystemExit(f"failed: {' '.join(words)}")
    return {"wall": round(time.perf_counter() - started, 2), "cpu": round(used.ru_utime + used.ru_stime, 2),
            "gib": round(used.ru_maxrss / 2**20, 2), "load": round(os.getloadavg()[0], 1)}  # fmt: skip
