"""G-PATE: teachers on shards vote on the gradient that the generator follows, direction by direction.

Source: Long, Wang, Yang, Kailkhura, Zhang, Gunter, Li 2021 ("G-PATE: Scalable differentially private data generator via
private aggregation of teacher discriminators"). A teacher's gradient at a generated row is projected on a few random
directions and rounded to bins. In each direction the bin with most noised votes wins, if it has enough votes.

docs/methods/g-pate.md gives reasons for the differences. All bins' counts are one Gaussian measurement, and choosing
the winner is post-processing, so the charge does not depend on the votes. Each row joins a shard by its own draw.
Codes, generator and the averaging of its steps are those of GS-WGAN.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from ..arrays import Arrays
from ..privacy.accounting.calibration import Charge, Plan
from ..privacy.vault import Vault
from ..rng import torch_stream
from ..schema import Schema
from .adversarial import ShardConfig, ShardMethod, ShardTraining, TrainingSetup
from .registry import Count, Positive, Progress, Rate

GRADIENT_VOTES = "teachers' gradient votes"


class GPateConfig(ShardConfig):
    """Privacy parameters. Shares are of the first-order privacy loss; the votes on gradients take the rest."""

    steps: Count = Field(default=60, description="generator steps; all teachers train before each")
    batch: Count = Field(default=4, description="generated rows per step")
    directions: Count = Field(default=4, description="random directions for projecting a gradient")
    bins: int = Field(default=3, ge=2, description="values that a vote can have, from minus the bound to the bound")
    bound: Positive = Field(default=0.5, description="largest slope along a direction")
    threshold: Rate = Field(default=0.4, description="part of the teachers that the winning bin needs")


class GPate(ShardMethod):
    """G-PATE, whose teachers are the critics on shards."""

    Config = GPateConfig
    critic_steps = 2

    def queries(self, config: GPateConfig, rows: int, columns: int, epsilon: float) -> list[Charge]:
        """Return the one-way marginals, the class marginal and the votes: plain Gaussians over all rows."""
        votes = Charge(label=GRADIENT_VOTES, weight=config.weight(config.steps), times=config.steps)
        return config.with_setup(votes)

    def notes(self, config: GPateConfig, rows: int, columns: int, epsilon: float) -> list[str]:
        """Return a note on who votes on what."""
        return [
            f"{config.shard_count(rows)} teachers will vote in {config.steps} steps on the slopes at {config.batch} "
            f"generated rows along {config.directions} directions. The cost of votes does not depend on their result: "
            "no data-dependent epsilon is computed or shown."
        ]

    def fit(
        self,
        config: GPateConfig,
        schema: Schema,
        vault: Vault,
        plan: Plan,
        seed: int | None,
        device: str,
        progress: Progress,
    ) -> Arrays:
        """Fit the generator. Return its tensors and the noisy marginals that decode its rows."""
        setup = TrainingSetup.measure(schema, vault, plan, device)
        directions = torch_stream(seed, "directions", device)
        teachers = config.shard_count(plan.equivalent_rows)
        shards = vault.split_into_shards(teachers, setup.encode, setup.classes, self.critic)
        training = ShardTraining(self, setup, shards.train, config.steps, seed)

        def upstream(fake: Tensor) -> Tensor:
            """Algorithm 2: project, round and vote. Return the winners, projected back, in place of the gradient."""
            width = fake.shape[1] - setup.classes
            projection = torch.randn(width, config.directions, generator=directions, device=device)
            votes = shards.measure_gradient_votes(GRADIENT_VOTES, fake, projection, config.bound, config.bins)
            return elected(votes, teachers, config) @ projection.T / config.directions

        for step in training.steps(config.steps, progress):
            training.follow(config.batch, step, upstream)
        return setup.tensors()


def elected(votes: Tensor, teachers: int, config: GPateConfig) -> Tensor:
    """Return the slope that won in each direction, (rows, directions), by noised votes, (rows, directions, bins).

    It is zero if the winner has too few votes (Confident-GNMax, Papernot et al. 2018). This is post-processing.
    """
    most, place = votes.max(-1)
    values = torch.linspace(-config.bound, config.bound, config.bins, device=votes.device, dtype=votes.dtype)
    return torch.where(most >= config.threshold * teachers, values[place], 0.0)
