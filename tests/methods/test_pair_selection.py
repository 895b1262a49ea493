"""Two-way marginals are measured where the generator is wrong."""

from typing import Any

import numpy as np
import pandas as pd
import pytest

import medsynth
from medsynth.methods.shared.labels import TWO_WAY
from medsynth.privacy.vault import Vault
from medsynth.schema import Schema


@pytest.mark.statistical
def test_the_pair_that_is_fitted_worst_is_measured(
    quick: None, seeded_entropy: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of four columns two are equal and the others independent: without noise these two are the first pair.

    The seed is fixed: it cannot fail by chance.
    """
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.choice(["u", "v", "w"], 600) for name in ("a", "b", "c", "d")})
    frame["d"] = frame["b"]
    frame["y"] = rng.choice(["no", "yes"], 600)
    columns: dict[str, Any] = {name: {"kind": "categorical", "levels": ["u", "v", "w"]} for name in "abcd"}
    schema = Schema.from_dict({"name": "t", "target": "y", "columns": columns | {
        "y": {"kind": "binary", "levels": ["no", "yes"]}}})  # fmt: skip
    measured: list[list[str]] = []
    true = Vault.measure_marginals

    def watched(self: Vault, label: str, tables: Any, weights: Any = None) -> Any:
        if label == TWO_WAY:
            measured.append(list(tables))
        return true(self, label, tables, weights)

    monkeypatch.setattr(Vault, "measure_marginals", watched)
    medsynth.fit(frame, no_dp=True, schema=schema, rows=600, seed=0)
    assert measured[0] == ["b x d"]
