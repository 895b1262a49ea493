"""The loss-noise GAN: its noise is inert, and it is never offered with a claim."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from medsynth_cli.main import app
from typer.testing import CliRunner

import medsynth
from medsynth.artifact import claim
from medsynth.errors import UsageError
from medsynth.fitting.planning import plan_fit
from medsynth.fitting.settings import FitSettings
from medsynth.methods import loss_noise
from medsynth.privacy.networks import Mlp
from medsynth.schema import Schema

REFUSAL = "loss-noise gives no guarantee: its noise never reaches the released parameters"


def test_noise_on_the_loss_leaves_the_update_as_it_is_and_clipping_does_not() -> None:
    stream = torch.Generator().manual_seed(0)
    net = Mlp([4, 8, 1], generator=stream)
    first, second = torch.randn(2, 32, 4, generator=stream)

    def update(bound: float, noise: float) -> tuple[float, torch.Tensor]:
        one, other = (torch.nn.functional.softplus(net(x)[:, 0]) for x in (first, second))
        loss = loss_noise.released_loss(one, other, bound, torch.tensor(noise))
        return float(loss.detach()), torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(net.parameters()))])

    (exact, plain), (noisy, noised) = update(1.0, 0.0), update(1.0, 1e3)
    assert abs(noisy - exact) > 10 and torch.equal(plain, noised)
    assert not torch.equal(plain, update(0.7, 0.0)[1])


def test_a_released_model_is_the_same_with_and_without_the_noise(
    quick: None, cohort: pd.DataFrame, clinic: Schema, seeded_entropy: None, other_defaults: Any
) -> None:
    models = []
    for multiplier in (0.0, 1.0, 1e3):
        other_defaults("loss-noise", multiplier=multiplier)
        models.append(medsynth.fit(cohort, no_dp=True, schema=clinic, rows=300, method="loss-noise", seed=1))
    for model in models[1:]:
        assert all(np.array_equal(model.tensors[name], tensor) for name, tensor in models[0].tensors.items())


def test_it_is_refused_with_a_budget(cohort: pd.DataFrame, clinic: Schema, patients: Path) -> None:
    with pytest.raises(UsageError, match=REFUSAL):
        medsynth.fit(cohort, epsilon=3.7, schema=clinic, method="loss-noise")
    with pytest.raises(UsageError, match=REFUSAL):
        plan_fit(300, FitSettings(epsilon=3.7, method="loss-noise"))
    for words in (["fit", "patients.csv"], ["plan", "patients.csv"]):
        done = CliRunner().invoke(app, [*words, "--epsilon", "3.7", "--method", "loss-noise"])
        assert done.exit_code == 2 and "--no-dp alone" in " ".join(done.stderr.split())
    with pytest.raises(UsageError, match="dp-cgan"):
        medsynth.fit(cohort, no_dp=True, schema=clinic, method="loss-noise", microbatches=8)


def test_it_states_what_it_is_and_what_the_paper_would_claim(quick: None, cohort: pd.DataFrame, clinic: Schema) -> None:
    notices: list[str] = []
    model = medsynth.fit(cohort, no_dp=True, schema=clinic, rows=300, method="loss-noise", notice=notices.append)
    assert not model.claims and model.epsilon is None and "NOT DIFFERENTIALLY PRIVATE" in claim(model)
    assert "NOT DIFFERENTIALLY PRIVATE" in model.ledger.random_source
    assert any("No finite epsilon holds" in text for text in notices)
    assert loss_noise.claimed(0.01, 10_000, 1.0, 1e-5) == pytest.approx(6.786, abs=5e-4)
    assert math.isinf(loss_noise.claimed(0.01, 10_000, 0.0, 1e-5))


@pytest.mark.nightly
@pytest.mark.statistical
def test_the_classes_are_learned(seeded_entropy: None) -> None:
    """The seed is fixed: it cannot fail by chance."""
    generator = np.random.default_rng(1)
    y = generator.integers(0, 2, 2000)
    x = np.clip(np.rint(50 + 15 * (2 * y - 1) + 5 * generator.standard_normal(2000)), 0, 100)
    columns = {"x": {"kind": "count", "bounds": [0, 100]}, "y": {"kind": "binary", "levels": [0, 1]}}
    schema = Schema.from_dict({"name": "t", "target": "y", "columns": columns})
    model = medsynth.fit(
        pd.DataFrame({"x": x, "y": y}), no_dp=True, schema=schema, rows=2000, seed=0, method="loss-noise"
    )
    means = medsynth.sample(model, 4000, seed=0).groupby("y")["x"].mean()
    assert abs(means[0] - 35) < 5 and abs(means[1] - 65) < 5
