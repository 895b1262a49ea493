"""Nightly: kill -9 of a server and of sites as processes. The chain of kills is the benchmark's, which makes twenty."""

import tempfile
from pathlib import Path

import pytest

from tests.benchmarks import federated_kills


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("method", "trust"), [("mixture", "secure-sum"), ("gs-wgan", "secure-sum"), ("dp-cgan", "none")]
)
def test_killed_processes_go_on_to_the_same_model(method: str, trust: str) -> None:
    with tempfile.TemporaryDirectory() as place:  # whose path is short enough for sockets
        assert federated_kills.trials(Path(place), method, trust, 4, 1) == 4
