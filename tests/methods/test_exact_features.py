"""What a critic reads of a row depends on that row alone, bit for bit, in every method that clips gradients."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import medsynth
from medsynth.privacy.vault import Vault
from medsynth.schema import Schema

MEASUREMENTS = ("measure", "split_into_shards")
COLUMNS: dict[str, dict[str, Any]] = {
    "age": {"kind": "count", "bounds": [0, 120]},
    "dose": {"kind": "continuous", "bounds": [0, 100], "decimals": 1, "scale": "log"},
    "sick": {"kind": "binary", "levels": ["no", "yes"]},
    "y": {"kind": "categorical", "levels": ["a", "b", "c"]},
}


@pytest.mark.matrix
@pytest.mark.nightly_for("dp-cgan-thyroid-study")
@pytest.mark.parametrize(
    "options",
    [{"method": "mixture"}, {"method": "dp-cgan"}, {"method": "dp-cgan", "preset": "thyroid-study"},
     {"method": "dp-gan"}, {"method": "gs-wgan"}, {"method": "loss-noise"}],
    ids=lambda options: "-".join(options.values()),
)  # fmt: skip
def test_features_of_a_row_do_not_depend_on_the_rows_beside(
    options: dict[str, Any], quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of each vault that is asked: rows of all codes together, one by one and the other way round."""
    seen = []
    rng = np.random.default_rng(0)
    sizes = (121, 1001, 2, 3)
    codes = np.stack([rng.integers(0, size, 137) for size in sizes], 1).astype(np.int32)
    for name in MEASUREMENTS:
        true = getattr(Vault, name)

        def watched(self: Vault, *arguments: Any, true: Any = true, **more: Any) -> Any:
            features = (
                arguments[1]
                if callable(arguments[1])
                else getattr(arguments[1], "features", getattr(arguments[1], "vectors", None))
            )
            if features is None:
                return true(self, *arguments, **more)
            together = features(codes)
            assert torch.equal(features(codes[::-1].copy()).flip(0), together)
            for k in (0, 1, 70, 136):
                assert torch.equal(features(codes[k : k + 1])[0], together[k])
            seen.append(together.shape)
            return true(self, *arguments, **more)

        monkeypatch.setattr(Vault, name, watched)
    frame = pd.DataFrame({
        "age": rng.integers(0, 90, 60), "dose": rng.integers(0, 90, 60), "sick": rng.choice(["no", "yes"], 60),
        "y": rng.choice(["a", "b", "c"], 60),
    })  # fmt: skip
    schema = Schema.from_dict({"name": "t", "target": "y", "columns": COLUMNS})
    budget: dict[str, Any] = {"no_dp": True} if options["method"] == "loss-noise" else {"epsilon": 3.7}
    declared: dict[str, Any] = {"inference": ["y ~ age + dose"]} if options["method"] == "mixture" else {}
    medsynth.fit(frame, schema=schema, rows=60, **budget, **options, **declared)
    assert seen
