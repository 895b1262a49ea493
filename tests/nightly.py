"""Run everything that is too slow for each push, and print at the end what failed and how long each part took.

    python tests/nightly.py                   # all parts
    python tests/nightly.py faults kills      # some of them

A part that fails does not stop the others. Ends with exit code 1 if one failed.
"""

from __future__ import annotations

import argparse
import os
import shlex
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
TESTS = "python -m pytest -n auto --dist worksteal --hypothesis-profile night"
PARTS = {  # in this order: each is one or more commands, run until one fails
    "types of tests": ["python -m mypy --num-workers auto"],
    "faults": ["python tests/faults/run.py --processes {cores}"],
    "statistical": [f"{TESTS} --durations=30 -m statistical"],
    "nightly tests": [f"{TESTS} --durations=30 -m 'nightly and not statistical'"],
    # Of the tests of each push, which reach nearly every line. Nightly tests repeat these lines; tracing slows them.
    "coverage": [
        f"{TESTS} -m 'not nightly' --cov --cov-report=",
        "python -m coverage report --fail-under=95",
        "python -m coverage report --include=medsynth/privacy/* --fail-under=100",
    ],
    "fits at once": ["python -m tests.benchmarks fits-at-once --fits 50 --commands 10"],
    "kills": ["python -m tests.benchmarks kills --kills 50"],
    "kills of sites": ["python -m tests.benchmarks federated-kills --kills 20"],
}


def run(commands: list[str]) -> bool:
    """Run a part's commands in order. Return whether all of them succeeded."""
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    for command in commands:
        words = shlex.split(command.format(cores=os.cpu_count()))
        print(f"\n== {command}", flush=True)
        if subprocess.run([sys.executable, *words[1:]], cwd=ROOT, env=environment).returncode != 0:
            return False
    return True


def main() -> int:
    """Run the parts that were named, or all of them, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], help="parts to run; all, if none is named")
    names = parser.parse_args().parts or list(PARTS)
    results = []
    for name in names:
        started = time.monotonic()
        passed = run(PARTS[name])
        results.append((name, passed, time.monotonic() - started))
    print(f"\n{'part':<16}{'result':<8}{'minutes':>8}")
    for name, passed, seconds in results:
        print(f"{name:<16}{'passed' if passed else 'FAILED':<8}{seconds / 60:>8.1f}")
    return 0 if all(passed for _, passed, _ in results) else 1


if __name__ == "__main__":
    sys.exit(main())
