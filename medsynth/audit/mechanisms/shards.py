"""Critics of shards on their worst neighbours: the target turns its own shard's critic round.

One number a row and one class, so that a clipped gradient is one bound up or down. Every shard has a row on one side;
the target joins the first shard from far on the other side, and its critic, once trained, slopes the other way, or as a
teacher takes for real what lies there.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from ...privacy.accounting.events import Gaussian, PublicOrderGaussian, ShardSampledGaussian
from ...privacy.shards import CriticConfig, Shards
from ..recorder import Recorder
from .case import LABEL, MU, RATE, SAMPLED_MU, Case

SHARDS = round(1 / RATE)
REAL, GENERATED, TARGET = 10.0, -50.0, -1e4  # where the rows lie: the generated ones between the others and the target
ROWS, BOUND = 4, 0.7  # generated rows of a measurement
CRITIC = CriticConfig(width=8, rate=1e-2)
TEACHER = CriticConfig(width=8, rate=1e-2, loss="cross-entropy")
TRAINING_STEPS = 150


def _trained(present: bool, releases: Recorder, critic: CriticConfig) -> tuple[Shards, torch.Tensor]:
    """Shards with critics, trained once a side, and generated rows: what is released is independent given these."""
    rows = torch.tensor([[REAL, 1.0]] * SHARDS + [[TARGET, 1.0]] * present)
    place = np.append(np.arange(SHARDS), np.zeros(int(present), np.int64))
    shards = Shards(rows, place, SHARDS, 1, critic, releases)
    fakes = torch.tensor([[GENERATED, 1.0]]).repeat(ROWS, 1)
    for _ in range(TRAINING_STEPS):
        shards.train(fakes[None])
    return shards, fakes


def _votes(present: bool, releases: Recorder) -> Callable[[], float]:
    """Where the target lies its own teacher alone votes for real: on each of the rows, a change of one."""
    shards, fakes = _trained(present, releases, TEACHER)
    there = torch.where(fakes == GENERATED, TARGET, fakes)
    return lambda: float(shards.measure_votes(LABEL, there).mean())


def _sum(present: bool, releases: Recorder) -> Callable[[], float]:
    """Each row's sum is minus the bound for every shard, but plus it from the target's critic: a change of one."""
    shards, fakes = _trained(present, releases, CRITIC)
    return lambda: (float(shards.measure_upstream_sum(LABEL, fakes, BOUND).mean()) / BOUND + SHARDS) / 2


def _gradient_votes(present: bool, releases: Recorder) -> Callable[[], float]:
    """The target's teacher moves its vote from the lowest bin to the highest."""
    shards, fakes = _trained(present, releases, CRITIC)
    along = torch.ones(1, 1)

    def score() -> float:
        counts = shards.measure_gradient_votes(LABEL, fakes, along, BOUND, 3)[:, 0]
        return (float((counts[:, 2] - counts[:, 0]).mean()) + SHARDS) / 2

    return score


def _shards(joint: bool, ordered: bool) -> Callable[[bool, Recorder], Callable[[], float]]:
    """The upstream gradient of critics trained once a side."""

    def attack(present: bool, releases: Recorder) -> Callable[[], float]:
        shards, fakes = _trained(present, releases, CRITIC)

        def upstream() -> float:
            """Each row's gradient is minus the bound, or plus the bound from the target's critic: a change of one."""
            found = shards.measure_upstream_gradient(LABEL, fakes, BOUND, joint=joint)
            each = BOUND / (ROWS**0.5 if joint else 1.0)
            return (float(found.mean()) / each + 1) / 2

        def in_order() -> float:
            first, *_ = [upstream() for _ in range(SHARDS)]
            return first

        return in_order if ordered else upstream

    return attack


def _case(name: str, *, joint: bool = False, ordered: bool = False) -> Case:
    kind: type[Any] = PublicOrderGaussian if ordered else ShardSampledGaussian
    mu = MU if ordered else SAMPLED_MU
    return Case(
        name=name, worst_case="a row that turns its shard's critic round", attack=_shards(joint, ordered), mu=mu,
        rate=1.0 if ordered else RATE, event=kind(multiplier=1 / mu, shards=SHARDS),
        releases=SHARDS if ordered else 1,
    )  # fmt: skip


SAMPLED_SHARDS = (
    _case("upstream gradient"),
    _case("upstream gradient, joint", joint=True),
    _case("upstream gradient in order", ordered=True),
    Case(
        name="sum of upstream gradients", worst_case="a row that turns its shard's critic round", attack=_sum,
        event=Gaussian(multiplier=1 / MU),
    ),
    Case(
        name="teachers' votes", worst_case="a row that its teacher alone takes for real", attack=_votes,
        event=Gaussian(multiplier=1 / MU),
    ),
    Case(
        name="teachers' gradient votes", worst_case="a row that turns its teacher round", attack=_gradient_votes,
        event=Gaussian(multiplier=1 / MU),
    ),
)  # fmt: skip
