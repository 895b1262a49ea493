"""A benchmark that can be stopped: results join a CSV one by one, and what stands there is not run again."""

from __future__ import annotations

import csv
import io
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

Job = tuple[str, str, float, int]  # table, method, epsilon, run


def read(output: Path, fields: list[str]) -> list[dict[str, Any]]:
    """The results so far, in a file that is made where it is missing."""
    output.parent.mkdir(parents=True, exist_ok=True)
    if not output.exists():
        append(output, fields, dict(zip(fields, fields, strict=True)))
    with output.open(newline="") as file:
        return list(csv.DictReader(file))


def append(output: Path, fields: list[str], run: dict[str, Any]) -> None:
    """Add one whole line in one write: whoever reads or is killed meanwhile sees all of it or none."""
    line = io.StringIO()
    csv.DictWriter(line, fields).writerow(run)
    file = os.open(output, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        os.write(file, line.getvalue().encode())
    finally:
        os.close(file)


def done(runs: list[dict[str, Any]]) -> set[Job]:
    """What was run."""
    return {(run["table"], run["method"], float(run["epsilon"]), int(run["seed"])) for run in runs}


def run(
    wanted: Iterable[Job], one: Callable[[str, str, float, int], dict[str, Any]], output: Path, fields: list[str],
    minutes: float,
) -> tuple[list[dict[str, Any]], str]:  # fmt: skip
    """Run what is missing of `wanted` until `minutes` are over. Returns all results, and a line of what was not run."""
    runs = read(output, fields)
    left = [job for job in wanted if job not in done(runs)]
    stop = time.monotonic() + 60 * minutes
    while left and time.monotonic() < stop:
        table, method, epsilon, seed = left.pop(0)
        found = {"table": table, "method": method, "epsilon": epsilon, "seed": seed}
        runs.append(found | one(table, method, epsilon, seed))
        append(output, fields, runs[-1])
    return runs, "; ".join(f"{t} {m} epsilon {e:g} run {s}" for t, m, e, s in left)
