"""Fixtures: a federation of three sites."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from quick_methods import with_few_priors
from three_sites import SITES, Federation, table


@pytest.fixture
def federation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Federation]:
    monkeypatch.setattr("medsynth.federated.server.PAUSE", 0.0)
    with_few_priors(monkeypatch)  # which the server and each site compute

    def make(tables: dict[str, pd.DataFrame] | None = None, **study: Any) -> Federation:
        default = {name: table(100, seed) for seed, name in enumerate(SITES)}
        return Federation(tmp_path, tables or default, **study)

    return make
