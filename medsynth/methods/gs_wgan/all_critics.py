"""GS-WGAN with the gradients of all critics: each step measures their sum, clipped shard by shard and noised once.

Nothing is sampled, so nothing has to be kept secret: the claim holds against whoever sees which shards answer, such as
the server of a federation. One row is in one shard and changes one term of the sum, by at most 2 C sqrt(B), or 2 C. To
first order the noise on the mean gradient is that of critics sampled in secret; a public order's is the root of the
number of critics larger. The sum is the aggregation of G-PATE (Long et al. 2021), of gradients and not of votes.
"""

from __future__ import annotations

import math

from pydantic import Field
from torch import Tensor

from ...privacy.accounting.calibration import Plan, Query
from ...privacy.queries.measurements import ShardedMeasurements
from ...rng import torch_stream
from ...schema import Schema
from ..protocol import Arrays, Progress
from ..settings import Count
from ..shared.adversarial.training_setup import TrainingSetup, setup_queries
from . import method as gs_wgan

generate = gs_wgan.generate


class Config(gs_wgan.SharedConfig):
    """Privacy parameters. Shares are of the first-order privacy loss; the sums of gradients take the rest."""

    batch: Count = Field(default=24, description="generated rows at which a step's gradients are added up")


def queries(config: Config, rows: int, columns: int, epsilon: float) -> list[Query]:
    """One-way marginals, the class marginal, and a sum of all critics' upstream gradients for each step."""
    start = setup_queries(config.histogram_share, config.class_share)
    weight = math.sqrt(config.steps / (1 - config.histogram_share - config.class_share))
    return [*start, Query(label=gs_wgan.GRADIENTS, weight=weight, times=config.steps)]


def notes(config: Config, rows: int, columns: int, epsilon: float) -> list[str]:
    """Notes on the plan, for a person."""
    return [
        f"{config.steps} sums of the gradients of {config.shard_count(rows)} critics will be measured, each at "
        f"{config.batch} generated rows: by a rule on rows (docs/methods/gs-wgan.md). No critic is sampled: the claim "
        "holds against whoever sees which shards answer."
    ]


def train(
    config: Config,
    schema: Schema,
    vault: ShardedMeasurements,
    plan: Plan,
    seed: int | None,
    device: str,
    progress: Progress,
) -> Arrays:
    """Fit the generator. Returns its tensors and the noisy marginals that decode its rows."""
    setup = TrainingSetup.measure(schema, vault, plan, device)
    count, critic = config.shard_count(plan.equivalent_rows), config.size.critic
    shards = vault.split_into_shards(count, setup.encode, setup.classes, critic)

    def measure(fake: Tensor) -> Tensor:
        """The mean over all critics."""
        return shards.measure_upstream_sum(gs_wgan.GRADIENTS, fake, config.clip, joint=config.joint) / count

    schedule = gs_wgan.Schedule(size=config.size, steps=config.steps, gradients=1, batch=config.batch)
    schedule.follow(setup, shards.train, measure, torch_stream(seed, "latent", device), progress)
    return setup.tensors()
