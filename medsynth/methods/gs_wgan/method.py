"""GS-WGAN: critics train without noise on shards of the rows; only the gradient that the generator receives is noised.

Chen, Orekondy, Fritz 2020. Central form: all shards in one process. Corrected, each with its reason in
docs/methods/gs-wgan.md: a step's generated rows share one draw of a shard and are charged as one measurement; every
critic trains at every step and the shard is drawn afterwards, without which the claimed amplification fails; shards
follow from the rows by a public rule; classes are even in training, and by the noised marginal in the sample. Codes
and generator are those of the other adversarial methods.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor

from ...privacy.accounting import accountant
from ...privacy.accounting.calibration import Plan, Query, make_plan
from ...privacy.accounting.events import PublicOrderGaussian
from ...privacy.shards import CriticConfig
from ...privacy.vault import Vault
from ...rng import torch_stream
from ...schema import Schema
from ..protocol import Arrays, Progress
from ..settings import Count, MethodConfig, Positive, Share
from ..shared.adversarial.training_setup import TrainingSetup, setup_queries
from ..shared.sampler import generate as generate
from .dual_averaging import DualAveraging

GRADIENTS = "upstream gradients"
LARGEST_EPSILON_NOTED = 100.0  # beyond it the epsilon against a server is not noted


@dataclass(frozen=True, kw_only=True)
class GsWganSize:
    """Sizes of the networks and their training: they cost time, not privacy."""

    warm: int = 100  # steps of the critics before the first measurement, against the generator's start
    pool: int = 32  # generated rows a class that critics choose from
    step: float = 1.5  # of a logit at the end, for each standard deviation by which its gradients' sum exceeds noise
    threshold: float = 2.0  # standard deviations of noise that do not count
    critic: CriticConfig = CriticConfig()


class SharedConfig(MethodConfig):
    """Privacy parameters of both forms: those of one sampled critic's gradients, and of all critics' sums."""

    size: ClassVar[GsWganSize] = GsWganSize()
    shards: int | None = Field(default=None, ge=1, description="shards of the rows; by a rule on rows if not given")
    rows_a_shard: Count = Field(default=25, description="rows that the rule puts in a shard")
    most_shards: Count = Field(default=150, description="shards at most, by the rule")
    steps: Count = Field(default=150, description="steps of the generator; all critics train at each")
    clip: Positive = Field(default=1.0, description="clipping norm: critics with gradient penalty have slopes near one")
    joint: bool = Field(default=False, description="clip the gradients of a batch together, instead of row by row")
    histogram_share: Share = Field(default=0.1, description="share of the one-way marginals")
    class_share: Share = Field(default=0.02, description="share of the class marginal")

    def shard_count(self, rows: int) -> int:
        """How many shards so many rows are put in: as many as still have a few rows of each class."""
        return max(2, min(self.most_shards, rows // self.rows_a_shard)) if self.shards is None else self.shards


class Config(SharedConfig):
    """Privacy parameters. Shares are of the first-order privacy loss; the upstream gradients take the rest."""

    gradients: Count = Field(
        default=20, description="upstream gradients measured a step, each at a shard of its own draw"
    )
    batch: Count = Field(default=12, description="generated rows that share an upstream gradient")
    public_order: bool = Field(
        default=False, description="critics in a public order: no secret sampling of shards, no amplification"
    )

    @property
    def measurements(self) -> int:
        """How many upstream gradients a fit measures."""
        return self.steps * self.gradients


def queries(config: Config, rows: int, columns: int, epsilon: float) -> list[Query]:
    """One-way marginals, the class marginal, and the upstream gradients of sampled critics."""
    shards, times = config.shard_count(rows), config.measurements
    rest = 1 - config.histogram_share - config.class_share
    start = setup_queries(config.histogram_share, config.class_share)
    # To first order, shards lower the cost of one measurement by their number, or by its root in a public order.
    factor = math.sqrt(shards) if config.public_order else shards
    weight = math.sqrt(times / rest) / factor
    return [*start, Query(label=GRADIENTS, weight=weight, times=times, shards=shards, public_order=config.public_order)]


def epsilon_against_server(config: Config, rows: int, columns: int, epsilon: float, delta: float = 1e-5) -> float:
    """Epsilon of the same measurements against those who see which shard is used, in a public order of the shards.

    Without secret sampling there is no amplification: a shard's own measurements, plain Gaussians, count, and no other
    shard's (parallel composition).
    """
    plan = make_plan(queries(config, rows, columns, epsilon), epsilon=epsilon, delta=delta, rows=rows)
    event = PublicOrderGaussian(multiplier=plan.events[GRADIENTS][0].multiplier, shards=config.shard_count(rows))
    others = [pair for label, pair in plan.events.items() if label != GRADIENTS]
    return accountant.epsilon([*others, (event, config.measurements)], delta)


def notes(config: Config, rows: int, columns: int, epsilon: float) -> list[str]:
    """Notes on the plan, for a person."""
    schedule = (
        f"{config.measurements} gradients of {config.shard_count(rows)} critics will be measured, each at "
        f"{config.batch} generated rows: by a rule on rows (docs/methods/gs-wgan.md)."
    )
    if epsilon > LARGEST_EPSILON_NOTED:
        return [schedule]
    seen = epsilon_against_server(config, rows, columns, epsilon)
    return [
        schedule,
        f"epsilon {epsilon:g} holds where nobody sees which critic is sampled, as in this process. The server "
        f"of a federation sees it: against it the same noise gives epsilon {seen:.3g} (delta 1e-5, critics in a public "
        "order).",
    ]


def train(
    config: Config, schema: Schema, vault: Vault, plan: Plan, seed: int | None, device: str, progress: Progress
) -> Arrays:
    """Fit the generator. Returns its tensors and the noisy marginals that decode its rows."""
    setup = TrainingSetup.measure(schema, vault, plan, device)
    count, critic = config.shard_count(plan.equivalent_rows), config.size.critic
    shards = vault.split_into_shards(count, setup.encode, setup.classes, critic)

    def measure(fake: Tensor) -> Tensor:
        return shards.measure_upstream_gradient(GRADIENTS, fake, config.clip, joint=config.joint)

    schedule = Schedule(size=config.size, steps=config.steps, gradients=config.gradients, batch=config.batch)
    schedule.follow(setup, shards.train, measure, torch_stream(seed, "latent", device), progress)
    return setup.tensors()


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """The steps of a generator, the upstream gradients measured at each, and the generated rows of one of these."""

    size: GsWganSize
    steps: int
    gradients: int
    batch: int

    def follow(
        self,
        setup: TrainingSetup,
        train_critics: Callable[[Tensor], None],
        measure: Callable[[Tensor], Tensor],
        latent: torch.Generator,
        progress: Progress,
    ) -> None:
        """Train the setup's generator: critics by `train_critics`, on rows that it draws now, which are public."""
        size, free = self.size, setup.width - setup.classes
        # The logits of bins given the class are trained: behind this noise a network would learn only noise.
        logits = setup.generator.base.requires_grad_()
        averaging = DualAveraging(logits, size.step * (self.steps * self.gradients) ** -0.5, size.threshold)
        for _ in range(size.warm):  # algorithm 1, warm start: nothing is measured, the generator stays at its start
            train_critics(setup.pool(size.pool, latent))
        for step in range(self.steps):
            train_critics(setup.pool(size.pool, latent))  # all critics, whichever is sampled next
            for number in range(self.gradients):
                labels = (torch.arange(self.batch, device=setup.device) + number * self.batch) % setup.classes
                fake = setup.fakes(labels, latent, relaxed=False)
                # Sanitised gradient at generated rows, then plain backpropagation through the generator.
                upstream = measure(fake.detach())
                fake[:, :free].backward(gradient=upstream / self.batch)  # type: ignore[no-untyped-call]
                averaging.add_gradient()
            averaging.step()
            progress(step + 1, self.steps)
