"""DP-CGAN: a conditional GAN whose critic is linear in random features of a row.

Torkzadehmahani, Kairouz, Paten 2019 ("DP-CGAN"), with these differences, each measured in docs/methods/dp-cgan.md:
the critic's hidden layer is a public, fixed map to random Fourier features (Rahimi, Recht 2007) and only its output
layer, one row of weights a class, is trained. Its Wasserstein gradient at a real row is then that row's clipped
feature vector whatever the critic's weights are: all noised lots measure the same quantity, and their average is a
far better critic than the last of them (the limit is the mean embedding of DP-MERF; Harder et al. 2021).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from pydantic import Field

from ...privacy.accounting.calibration import Plan, Query
from ...privacy.queries.measurements import Measurements
from ...rng import numpy_stream
from ...row_count import COUNTED_ROWS
from ...schema import Schema
from ..protocol import Arrays, Progress
from ..settings import Count, MethodConfig, Positive, Rate, Share
from ..shared.labels import CLASSES, CRITIC_GRADIENTS, ONE_WAY
from .encoded_rows import EncodedRows
from .generator import class_shares, measured_histograms, train_generator
from .generator import generate as generate
from .linear_critic import LinearCritic
from .random_features import Embedding


@dataclass(frozen=True, kw_only=True)
class DpCganSize:
    """Sizes of the networks and their training: they cost time, not privacy."""

    steps: int = 700  # of the generator
    critic_steps: int = 4  # lots a generator step, until the planned lots are used up
    fall: int = 400  # last steps, over which Adam's rate falls to zero


class Config(MethodConfig):
    """Privacy parameters. Shares are of the privacy loss; the critic's gradient sums take the rest."""

    size: ClassVar[DpCganSize] = DpCganSize()
    lots: Count = Field(default=400, description="noised gradient sums of the critic")
    rate: Rate = Field(default=0.25, description="Poisson sampling rate of a lot")
    largest_lot: Count = Field(default=4096, description="expected rows of a lot beyond which the rate falls")
    clip: Positive = Field(default=1.0, description="clipping norm of a row's gradient")
    histogram_share: Share = Field(default=0.15, description="share of the one-way marginals")
    class_share: Share = Field(default=0.05, description="share of the class marginal")
    microbatches: int | None = Field(default=None, ge=1, description="groups a lot, whose means are clipped; else rows")
    features: Count = Field(default=400, description="random Fourier features, half sines and half cosines")
    phase: Positive = Field(default=2.0, description="radians between two rows, on average")
    spread: Positive = Field(default=0.7, description="range of the frequencies' logarithm, both ways")

    def sampling_rate(self, rows: int) -> float:
        """The Poisson rate at a declared number of rows."""
        return min(self.rate, self.largest_lot / rows)

    def terms(self, lot: float) -> float:
        """How many clipped terms a sum has on average: the rows of a lot, or its microbatches that are not empty."""
        m = self.microbatches
        return max(1.0, lot) if m is None else m * -math.expm1(-lot / m)


def queries(config: Config, rows: int, columns: int, epsilon: float) -> list[Query]:
    """What a fit measures: noise weights that give each query its share of the privacy loss."""
    rate = config.sampling_rate(rows)
    rest = 1 - config.histogram_share - config.class_share
    return [
        Query(label=ONE_WAY, weight=config.histogram_share**-0.5),
        Query(label=CLASSES, weight=config.class_share**-0.5),
        Query(label=CRITIC_GRADIENTS, weight=rate * math.sqrt(config.lots / rest), rate=rate, times=config.lots),
    ]


def notes(config: Config, rows: int, columns: int, epsilon: float) -> list[str]:
    """Notes on the plan, for a person: none."""
    return []


def train(
    config: Config, schema: Schema, vault: Measurements, plan: Plan, seed: int | None, device: str, progress: Progress
) -> Arrays:
    """Fit the generator. Returns its tensors and the noisy histograms that encode and decode its rows."""
    size = config.size
    counts, plan = measured_histograms(schema, vault, plan)
    rows = EncodedRows.of(schema, counts, plan.rows)
    prior = class_shares(schema, rows, vault, plan)
    stream = numpy_stream(seed, "features")
    embed = Embedding(rows, config.features, config.phase, config.spread, config.clip, stream, device)
    lot = config.sampling_rate(plan.equivalent_rows) * plan.rows
    expected = torch.tensor(prior * config.terms(lot), dtype=torch.float32, device=device).clamp(min=1e-3)
    noise = plan.noise(CRITIC_GRADIENTS) * config.clip * (1 if config.microbatches is None else 2)
    critic = LinearCritic(embed, expected, config.clip, config.microbatches, noise)

    def critic_step(step: int) -> None:
        """Noised lots, until the planned ones are used up."""
        for _ in range(min(size.critic_steps, config.lots - critic.lots)):
            critic.measure(vault)

    net = train_generator(rows, critic, seed, size.steps, size.fall, critic_step, progress)
    tensors = {f"generator.{k}": t.cpu().numpy() for k, t in enumerate(net)}
    tensors |= {f"histogram.{name}": count.astype(np.float32) for name, count in counts.items()}
    return {**tensors, "prior": prior.astype(np.float32), COUNTED_ROWS: np.array([plan.rows], np.float32)}
