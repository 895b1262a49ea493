"""Everything that needs a CUDA device, in one script for a GPU that is borrowed for minutes.

Parts run in order, the most important first. A part that is still running after --minutes is stopped, and the table at
the end names the parts that were not run or not finished. Results join those on file, so another run continues there.
Without a CUDA device nothing is run. Ends with an error if a part failed.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import NamedTuple

import torch

from tests.benchmarks.common import RESULTS, ROOT, again, markdown, options, public_folder

LEAST_SECONDS = 20.0  # No part starts with less time: it would only be imported.
MNIST_ROWS = "6000"
OVERHEAD = str(RESULTS / "gpu-overhead.csv")


class Part(NamedTuple):
    """A command, and whether it reads the public tables."""

    name: str
    words: Sequence[str]
    needs_data: bool = False


PARTS = (
    Part("CUDA tests", [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/test_cuda.py"]),
    Part("steps", again("overhead", "--output", OVERHEAD)),
    Part("MNIST", again("mnist", "--methods", "dp-cgan", "--epsilons", "10", "--seeds", "1", "--rows", MNIST_ROWS,
                        "--output", str(RESULTS / "gpu-mnist.csv"), "--folder", str(RESULTS / "gpu-mnist")),
         needs_data=True),
    Part("fits", again("overhead", "--output", OVERHEAD, "--fits", "--methods", "dp-cgan", "gs-wgan")),
)  # fmt: skip


def outcome(part: Part, seconds: float) -> str:
    """Run a part for at most this long. Return what became of it."""
    if seconds < LEAST_SECONDS:
        return "NOT RUN: no time left"
    if part.needs_data and public_folder() is None:
        return "NOT RUN: set MEDSYNTH_DATA to the folder of public tables"
    print(f"\n== {part.name}: {' '.join(part.words)}", flush=True)
    child = subprocess.Popen(part.words, cwd=ROOT, start_new_session=True)
    try:
        return "done" if child.wait(seconds) == 0 else "FAILED"
    except subprocess.TimeoutExpired:
        os.killpg(child.pid, signal.SIGKILL)  # With the processes that it started.
        child.wait()
        return "NOT FINISHED: stopped"


def main(words: list[str]) -> None:
    """Run the parts in the time given, and print what became of each."""
    parser = options("gpu-check", __doc__)
    parser.add_argument("--minutes", type=float, default=8.0, help="for all parts together")
    stop = time.monotonic() + 60 * parser.parse_args(words).minutes
    if not torch.cuda.is_available():
        print(f"There is no CUDA device here. Not run: {', '.join(part.name for part in PARTS)}.")
        return
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name()}", flush=True)
    lines = list[tuple[str, str, str]]()
    for part in PARTS:
        started = time.monotonic()
        found = outcome(part, stop - started)
        lines.append((part.name, found, f"{time.monotonic() - started:.0f}"))
    print("\n" + markdown(["part", "outcome", "seconds"], lines))
    if any(found == "FAILED" for _, found, _ in lines):
        raise SystemExit(1)
