"""What a CUDA device must do as a CPU does. Skipped, saying so, where there is none."""

from typing import Any

import pandas as pd
import pytest
import torch

import medsynth
from medsynth.fitting.environment import choose_device
from medsynth.methods.registry import CLAIMING
from medsynth.privacy.clipping import clipped_gradient_sum
from medsynth.privacy.networks import Mlp
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


@pytest.mark.parametrize("method", CLAIMING)
def test_a_fit_on_the_gpu_is_a_fit(method: Any, cohort: pd.DataFrame, clinic: Schema, quick: None) -> None:
    model = medsynth.fit(cohort, epsilon=3.7, schema=clinic, rows=300, method=method, device="cuda")
    assert model.device == "cuda" and model.ledger.complete
    assert len(medsynth.sample(model, 50)) == 50
