"""Fixtures: trusts that are withdrawn, let in again in this process; a federation of three sites."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from three_sites import SITES, Federation, table


@pytest.fixture
def lifted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let in the trusts that are withdrawn: their machinery comes back, and is tested until then."""
    monkeypatch.setattr("medsynth.federated.study.WITHDRAWN", {})


@pytest.fixture
def federation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, lifted: None) -> Callable[..., Federation]:
    monkeypatch.setattr("medsynth.federated.server.PAUSE", 0.0)

    def make(tables: dict[str, pd.DataFrame] | None = None, **study: Any) -> Federation:
        default = {name: table(100, seed) for seed, name in enumerate(SITES)}
        return Federation(tmp_path, tables or default, **study)

    return make
