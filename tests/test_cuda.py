"""What a CUDA device must do as a CPU does. Skipped, saying so, where there is none."""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import medsynth
from medsynth.fitting.planning import choose_device
from medsynth.methods.registry import CLAIMING
from medsynth.privacy import noise
from medsynth.privacy.accounting.events import SubsampledGaussian
from medsynth.privacy.accounting.ledger import Ledger
from medsynth.privacy.chacha import keystream
from medsynth.privacy.clipping import clipped_gradient_sum
from medsynth.privacy.device_noise import noised_tensors, rounded_normal_on
from medsynth.privacy.networks import Mlp
from medsynth.privacy.queries import gradients
from medsynth.privacy.queries.gradients import GradientSum, minus_output
from medsynth.privacy.release import Releases
from medsynth.privacy.vault import Vault
from medsynth.rng import SeededEntropy
from medsynth.schema import Schema

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device here"),
]


def test_auto_takes_the_gpu() -> None:
    assert choose_device("auto") == choose_device("cuda") == "cuda"


def test_clipped_gradient_sums_are_those_of_the_cpu() -> None:
    net = Mlp([24, 128, 1], "relu", torch.Generator().manual_seed(0))
    rows = torch.randn(512, 24, generator=torch.Generator().manual_seed(1))
    here = clipped_gradient_sum(net, lambda a: -a[:, 0], rows, 1.1).whole
    there = clipped_gradient_sum(net.to("cuda"), lambda a: -a[:, 0], rows.to("cuda"), 1.1).whole
    for one, other in zip(here, there, strict=True):
        assert torch.equal(one, other.cpu())  # whole numbers: exactly


CPU, CUDA = torch.device("cpu"), torch.device("cuda")


def test_random_bits_are_those_of_the_cpu() -> None:
    """And so those of RFC 8439, which the CPU's are tested against."""
    secret = SeededEntropy(0).bytes(44)
    for counter in (0, 2**31 - 2000, 2**32 - 5000):
        here, there = (keystream(secret[:32], 5000, device, secret[32:], counter) for device in (CPU, CUDA))
        assert torch.equal(here, there.cpu())


@pytest.mark.parametrize("scale", [1, 3, 65_537, 2**34 + 5, 2**56 - 12345])
@pytest.mark.parametrize("clear", [noise.CLEAR, 2.0**-10])
def test_draws_are_those_of_the_cpu(scale: int, clear: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the wider margin, the CPU finishes some hundred of them."""
    monkeypatch.setattr(noise, "CLEAR", clear)
    here, there = (rounded_normal_on(device, 50_000, scale, SeededEntropy(2)) for device in (CPU, CUDA))
    assert torch.equal(here, there.cpu())


def test_a_draw_waits_for_the_device_only_once() -> None:
    values = [torch.zeros(300, 200, dtype=torch.int64, device=CUDA), torch.zeros(200, dtype=torch.int64, device=CUDA)]
    noised_tensors(values, 2.0**34, SeededEntropy(1))  # The table of constants is copied once.
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as waited:
            warnings.simplefilter("always")
            noised_tensors(values, 2.0**34, SeededEntropy(2))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert len([warning for warning in waited if "synchroniz" in str(warning.message)]) <= 1


@pytest.mark.parametrize("microbatches", [None, 5])
def test_a_release_of_gradients_is_that_of_the_cpu(microbatches: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise included, if the CPU is treated as a device. The tensors stay where they are."""
    codes = np.random.default_rng(0).integers(0, 3, (500, 8)).astype(np.int32)
    found: list[Any] = []
    for device in (CPU, CUDA):
        critic = Mlp([8, 64, 1], "relu", torch.Generator().manual_seed(0)).to(device)

        def features(some: Any, device: torch.device = device) -> torch.Tensor:
            return torch.from_numpy(some.astype(np.float32) - 1).to(device)

        event = SubsampledGaussian(multiplier=1.5, rate=0.3)
        ledger = Ledger(delta=1e-5, accountant="prv", random_source="TEST", allowance={"m": (event, 1)})
        vault = Vault(codes, tuple("abcdefgh"), Releases(ledger, SeededEntropy(3)))
        with monkeypatch.context() as patch:
            patch.setattr(gradients, "where_computed", list)
            found.append(vault.measure("m", GradientSum(critic, minus_output, features, 0.4, microbatches)))
    assert all(own.is_cuda for own in found[1])
    assert all(torch.equal(one, other.cpu()) for one, other in zip(*found, strict=True))


@pytest.mark.parametrize("method", CLAIMING)
def test_a_fit_on_the_gpu_is_a_fit(method: Any, cohort: pd.DataFrame, clinic: Schema, quick: None) -> None:
    model = medsynth.fit(cohort, epsilon=3.7, schema=clinic, rows=300, method=method, device="cuda")
    assert model.device == "cuda" and model.ledger.complete
    assert len(medsynth.sample(model, 50)) == 50
