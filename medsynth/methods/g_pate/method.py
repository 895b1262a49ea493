"""G-PATE: the generator follows a gradient on which teachers on shards vote, direction by direction.

Long, Wang, Yang, Kailkhura, Zhang, Gunter, Li 2021 ("G-PATE: Scalable differentially private data generator via private
aggregation of teacher discriminators"). A teacher's gradient at a generated row is projected on a few random
directions and rounded to bins; for each direction the bin with most noised votes is taken, if it has enough.

Differences, with their reasons in docs/methods/g-pate.md: all bins' counts are one Gaussian measurement, and what is
taken of them is post-processing, so that the charge does not depend on how votes fall; rows join shards by draws of
their own. Codes, generator and the averaging of its steps are those of GS-WGAN.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from ...privacy.accounting.calibration import Plan, Query
from ...privacy.shards import CriticConfig
from ...privacy.vault import Vault
from ...rng import torch_stream
from ...schema import Schema
from ..gs_wgan.dual_averaging import DualAveraging
from ..protocol import Arrays, Progress
from ..settings import Count, MethodConfig, Positive, Rate, Share
from ..shared.adversarial.training_setup import TrainingSetup, setup_queries
from ..shared.sampler import generate as generate

GRADIENT_VOTES = "teachers' gradient votes"


@dataclass(frozen=True, kw_only=True)
class GPateSize:
    """Sizes of the networks and their training: they cost time, not privacy."""

    warm: int = 100  # steps of the teachers before the first votes
    teacher_steps: int = 2  # a step of the generator
    pool: int = 32  # generated rows a class that teachers learn from
    step: float = 1.5  # of a logit at the end, for each standard deviation by which its gradients' sum exceeds noise
    noise: float = 1.0  # standard deviations of noise that do not count
    teacher: CriticConfig = CriticConfig(width=8)


class Config(MethodConfig):
    """Privacy parameters. Shares are of the first-order privacy loss; the votes on gradients take the rest."""

    size: ClassVar[GPateSize] = GPateSize()
    shards: int | None = Field(default=None, ge=1, description="teachers, each with a shard; by a rule if not given")
    rows_a_shard: Count = Field(default=25, description="rows that the rule puts in a shard")
    most_shards: Count = Field(default=300, description="shards at most, by the rule")
    steps: Count = Field(default=60, description="steps of the generator; all teachers train before each")
    batch: Count = Field(default=4, description="generated rows of a step")
    directions: Count = Field(default=4, description="random directions on which a gradient is projected")
    bins: int = Field(default=3, ge=2, description="values that a vote can have, from minus the bound to the bound")
    bound: Positive = Field(default=0.5, description="slope along a direction beyond which it is cut")
    threshold: Rate = Field(default=0.4, description="share of the teachers that the winning bin needs")
    histogram_share: Share = Field(default=0.1, description="share of the one-way marginals")
    class_share: Share = Field(default=0.02, description="share of the class marginal")

    def shard_count(self, rows: int) -> int:
        """Return the number of teachers of a table with this number of rows."""
        return max(2, min(self.most_shards, rows // self.rows_a_shard)) if self.shards is None else self.shards


def queries(config: Config, rows: int, columns: int, epsilon: float) -> list[Query]:
    """One-way marginals, the class marginal, and the votes: plain Gaussians, for each of which every row counts."""
    rest = 1 - config.histogram_share - config.class_share
    start = setup_queries(config.histogram_share, config.class_share)
    return [*start, Query(label=GRADIENT_VOTES, weight=math.sqrt(config.steps / rest), times=config.steps)]


def notes(config: Config, rows: int, columns: int, epsilon: float) -> list[str]:
    """Notes on the plan, for a person."""
    return [
        f"{config.shard_count(rows)} teachers will vote in {config.steps} steps on the slopes at {config.batch} "
        f"generated rows along {config.directions} directions. What votes cost does not depend on how they fall: no "
        "data-dependent epsilon is computed or shown."
    ]


def elected(votes: Tensor, teachers: int, config: Config) -> Tensor:
    """The slope that won in each direction, (rows, directions), of noised votes (rows, directions, bins).

    Zero where the winner has too few of the votes (Confident-GNMax, Papernot et al. 2018). Post-processing.
    """
    most, place = votes.max(-1)
    values = torch.linspace(-config.bound, config.bound, config.bins, device=votes.device, dtype=votes.dtype)
    return torch.where(most >= config.threshold * teachers, values[place], 0.0)


def train(
    config: Config, schema: Schema, vault: Vault, plan: Plan, seed: int | None, device: str, progress: Progress
) -> Arrays:
    """Fit the generator. Returns its tensors and the noisy marginals that decode its rows."""
    size = config.size
    setup = TrainingSetup.measure(schema, vault, plan, device)
    latent, directions = torch_stream(seed, "latent", device), torch_stream(seed, "directions", device)
    classes, free = setup.classes, setup.width - setup.classes
    teachers = config.shard_count(plan.equivalent_rows)
    shards = vault.split_into_shards(teachers, setup.encode, classes, size.teacher)
    # As in GS-WGAN the logits are trained: behind this noise a network would learn only noise.
    logits = setup.generator.base.requires_grad_()
    averaging = DualAveraging(logits, size.step * config.steps**-0.5, size.noise)
    for step in range(config.steps):
        for _ in range(size.teacher_steps if step else size.warm):
            shards.train(setup.pool(size.pool, latent))
        labels = (torch.arange(config.batch, device=device) + step * config.batch) % classes
        fake = setup.fakes(labels, latent, relaxed=False)
        # Algorithm 2: project, round, vote; then the winners, projected back, in place of the gradient.
        projection = torch.randn(free, config.directions, generator=directions, device=device)
        votes = shards.measure_gradient_votes(GRADIENT_VOTES, fake.detach(), projection, config.bound, config.bins)
        upstream = elected(votes, teachers, config) @ projection.T / config.directions
        fake[:, :free].backward(gradient=upstream / config.batch)  # type: ignore[no-untyped-call]
        averaging.add_gradient()
        averaging.step()
        progress(step + 1, config.steps)
    return setup.tensors()
