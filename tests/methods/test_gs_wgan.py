"""GS-WGAN whole: the warm start moves critics alone, all critics train at every step, both epsilons are noted."""

from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
import torch

import medsynth
from medsynth.errors import UsageError
from medsynth.methods import gs_wgan
from medsynth.methods.adversarial import DualAveraging, TrainingSetup
from medsynth.methods.registry import configured, load
from medsynth.privacy.accounting import accountant
from medsynth.privacy.accounting.calibration import make_plan
from medsynth.privacy.shards import Shards
from medsynth.schema import Schema

pytestmark = pytest.mark.usefixtures("quick")
COLUMNS = {
    "age": {"kind": "count", "bounds": [0, 120]},
    "sick": {"kind": "binary", "levels": ["no", "yes"]},
    "y": {"kind": "categorical", "levels": ["a", "b", "c"]},
}


def fit(rows: int = 90, **options: Any) -> Any:
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(0, 90, rows), "sick": rng.choice(["no", "yes"], rows),
                          "y": rng.choice(["a", "b", "c"], rows)})  # fmt: skip
    schema = Schema.from_dict({"name": "t", "target": "y", "columns": COLUMNS})
    return medsynth.fit(frame, epsilon=3.7, schema=schema, rows=rows, method="gs-wgan", seed=1, **options)


@pytest.mark.statistical
def test_the_warm_start_moves_no_generator_and_every_step_moves_every_critic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Six of the twelve critics, of 90 rows, are without a row with a chance below 1e-20: the false-alarm rate."""
    kept: dict[str, Any] = {}
    weights: list[list[torch.Tensor]] = []
    measure, upstream = TrainingSetup.measure, Shards.measure_upstream_gradient

    def measured(cls: Any, *args: Any) -> Any:
        kept["setup"] = measure(*args)
        kept["start"] = kept["setup"].base.clone()
        return kept["setup"]

    def zero(self: Any, label: Any, fakes: Any, bound: Any, **options: Any) -> Any:
        weights.append([p.detach().clone() for p in self._Shards__critics.parameters])
        if len(weights) == 1:
            assert torch.equal(kept["setup"].base, kept["start"])
        kept["with rows"] = self._Shards__sizes > 0
        return 0 * upstream(self, label, fakes, bound, **options)

    monkeypatch.setattr(TrainingSetup, "measure", classmethod(measured))
    monkeypatch.setattr(Shards, "measure_upstream_gradient", zero)
    model = fit()
    base = np.concatenate([model.tensors[f"base.{name}"] for name in ("age", "sick")], 1)
    assert np.allclose(base, kept["start"], atol=1e-6)  # gradients of zero leave the generator at its start
    assert len(weights) == 6 and kept["with rows"].sum() > 6
    for before, after in ((1, 2), (3, 4)):  # two gradients a step
        for was, now in zip(weights[before], weights[after], strict=True):
            assert ((was != now).flatten(1).any(1) == kept["with rows"]).all()
    for was, now in zip(weights[0], weights[1], strict=True):
        assert torch.equal(was, now)  # within a step no critic moves, sampled or not


def test_both_epsilons_are_noted() -> None:
    notices: list[str] = []
    fit(notice=notices.append)
    assert any("federation" in line and "epsilon" in line for line in notices)
    config = cast(gs_wgan.SampledConfig, load("gs-wgan").Config())
    plan = make_plan(gs_wgan.GsWgan().queries(config, 90, 3, 3.7), epsilon=3.7, delta=1e-5, rows=90)
    assert accountant.epsilon(plan.events.values(), 1e-5) == plan.epsilon
    pytest.importorskip("dp_accounting")
    assert accountant.cross_check(plan.events.values(), 1e-5) <= 3.7 * 1.005


def test_the_number_of_shards_is_a_public_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    config = gs_wgan.SampledConfig()
    assert [config.shard_count(rows) for rows in (2, 100, 3772, 10**6)] == [2, 4, 150, 150]
    assert gs_wgan.SampledConfig(shards=7).shard_count(10**6) == 7


@pytest.mark.parametrize(
    "wrong", [{"microbatches": 4}, {"shards": 0}, {"steps": 0}, {"gradients": 0}, {"batch": 0}], ids=str
)
def test_settings_are_checked(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError):
        configured("gs-wgan", load("gs-wgan"), wrong)


@pytest.mark.statistical
def test_dual_averaging_follows_gradients_that_exceed_their_noise() -> None:
    """Of 1000 parameters one has a gradient: it moves far, of the others about one in twenty, and a little.

    The seed is fixed: it cannot fail by chance.
    """
    rng = torch.Generator().manual_seed(0)
    place = torch.zeros(1000, requires_grad=True)
    averaging = DualAveraging(place, 400**-0.5, 2.0)
    for _ in range(400):
        gradient = torch.randn(1000, generator=rng)
        gradient[0] += 0.5
        place.grad = gradient
        averaging.add_gradient()
    averaging.step()
    moved = place.detach()
    assert moved[0] < -4 and 0.02 < (moved[1:] != 0).float().mean() < 0.08 and moved[1:].abs().max() < 3
