"""What leaves the shards: clipped however steep a critic is, and of a shard that is drawn for this release alone."""

from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from medsynth.privacy.accounting.events import ShardSampledGaussian
from medsynth.privacy.accounting.ledger import Ledger
from medsynth.privacy.release import Releases
from medsynth.privacy.shards import CriticConfig, Critics, Shards
from medsynth.rng import Entropy, NoNoise, SeededEntropy

SHARDS, CLASSES, WIDTH, TIMES = 5, 2, 6, 2000


def build(entropy: Entropy) -> Shards:
    event = ShardSampledGaussian(multiplier=2.0, shards=SHARDS)
    ledger = Ledger(delta=1e-5, accountant="prv", random_source="t", allowance={"u": (event, TIMES)})
    rows = torch.rand(60, WIDTH, generator=torch.Generator().manual_seed(0))
    rows[:, -CLASSES:] = torch.eye(CLASSES)[torch.arange(60) % CLASSES]
    return Shards(rows, np.arange(60) // 2 % SHARDS, SHARDS, CLASSES, CriticConfig(), Releases(ledger, entropy))


def fakes(count: int) -> torch.Tensor:
    made = torch.rand(count, WIDTH, generator=torch.Generator().manual_seed(1))
    made[:, -CLASSES:] = torch.eye(CLASSES)[torch.arange(count) % CLASSES]
    return made


@pytest.mark.parametrize("joint", [False, True])
def test_what_a_steep_critic_releases_is_clipped(joint: bool) -> None:
    shards: Any = build(NoNoise())
    with torch.no_grad():
        for parameter in shards._Shards__critics.parameters:
            parameter.mul_(1e3)
    found = shards.measure_upstream_gradient("u", fakes(8), 0.7, joint=joint).double()
    norm = float(found.norm() if joint else found.norm(dim=1).max())
    assert 0.69 < norm <= 0.7 + 1e-6


@pytest.mark.statistical
def test_each_release_is_of_a_shard_of_its_own_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two releases in a row are of one shard as often as two draws agree. The seed is fixed."""
    sampled: list[int] = []

    def watched(self: Critics, which: torch.Tensor, rows: torch.Tensor) -> torch.Tensor:
        sampled.append(int(which[0]) // CLASSES)
        return 0 * rows

    monkeypatch.setattr(Critics, "generator_gradient", watched)
    shards = build(SeededEntropy(3))
    for _ in range(TIMES):
        shards.measure_upstream_gradient("u", fakes(1), 1.0)
    for lag in (1, 2, SHARDS):
        again = sum(a == b for a, b in zip(sampled, sampled[lag:], strict=False))
        assert stats.binomtest(again, TIMES - lag, 1 / SHARDS).pvalue > 1e-4
