"""Mutated artifacts and schemas, in a process of their own: its audit hook and alarm are for good."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.nightly
def test_whatever_is_mutated_is_read_or_refused() -> None:
    """1,500 cases of the 10,000 that the benchmark runs."""
    words = [sys.executable, "-m", "tests.benchmarks", "fuzz", "--cases", "1500", "--seed", "7"]
    done = subprocess.run(words, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "1500 cases" in done.stdout and "artifact: ArtifactError" in done.stdout
