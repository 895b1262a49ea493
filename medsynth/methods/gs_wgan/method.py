"""GS-WGAN: critics train without noise on shards of the rows; only the gradient that the generator receives is noised.

Chen, Orekondy, Fritz 2020. Central form: all shards in one process. Mended, each with its reason in
docs/methods/gs-wgan.md: a step's generated rows share one pick and are charged as one answer; every critic trains at
every step and the picks are made afterwards, without which the claimed amplification fails; shards follow from the rows
by a public rule; classes are even in training, and by noised counts in the sample. Codes and generator are the stage's,
as for the other adversarial methods.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from pydantic import Field

from ...privacy import shard_critics as critics
from ...privacy.accounting import accountant
from ...privacy.accounting.calibration import Plan, Query, make_plan
from ...privacy.accounting.events import TurnGaussian
from ...privacy.vault import Vault
from ...rng import torch_stream
from ...schema import Schema
from ..protocol import Arrays, Progress
from ..settings import Count, MethodConfig, Positive, Share
from ..shared.sampler import generate as generate
from ..shared.training_loop import Stage, stage_queries
from .dual_averaging import Quiet

GRADIENTS = "upstream gradients"
LARGE = 100.0  # an epsilon beyond which nobody asks what a federation would see


class Config(MethodConfig):
    """Privacy parameters. Shares are of the first-order privacy loss; the upstream gradients take the rest."""

    shards: int | None = Field(default=None, ge=1, description="shards of the rows; by a rule on rows if not given")
    rows_a_shard: Count = Field(default=25, description="rows that the rule puts in a shard")
    largest: Count = Field(default=150, description="shards at most, by the rule")
    steps: Count = Field(default=150, description="steps of the generator; all critics train at each")
    answers: Count = Field(default=20, description="upstream gradients measured a step, each with its own pick")
    batch: Count = Field(default=12, description="generated rows that share an upstream gradient")
    clip: Positive = Field(default=1.0, description="clipping norm: critics with gradient penalty have slopes near one")
    joint: bool = Field(default=False, description="clip the gradients of a batch together, instead of row by row")
    turns: bool = Field(default=False, description="critics in a public order: no secret pick, no amplification")
    histogram_share: Share = Field(default=0.1, description="share of the column histograms")
    class_share: Share = Field(default=0.02, description="share of the class marginal")

    @property
    def asked(self) -> int:
        """How many answers a fit asks of the critics."""
        return self.steps * self.answers

    def parties(self, rows: int) -> int:
        """How many shards so many rows are put in: as many as still hold a few rows of each class."""
        return max(2, min(self.largest, rows // self.rows_a_shard)) if self.shards is None else self.shards


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Sizes of the public side: they cost time, not privacy."""

    warm: int = 100  # steps of the critics before the first answer, against the generator's start
    pool: int = 32  # generated rows a class that critics choose from
    step: float = 1.5  # of a logit at the end, for each standard deviation that its gradients' sum stands out
    sure: float = 2.0  # standard deviations of noise that do not count
    critic: critics.Shape = critics.Shape()


def queries(config: Config, rows: int, columns: int, epsilon: float) -> list[Query]:
    """Histograms, class counts, and the answers of picked critics."""
    shards, times = config.parties(rows), config.asked
    rest = 1 - config.histogram_share - config.class_share
    asked = stage_queries(config.histogram_share, config.class_share)
    worth = math.sqrt(shards) if config.turns else shards  # by how much shards lower one answer's cost, to first order
    weight = math.sqrt(times / rest) / worth
    return [*asked, Query(label=GRADIENTS, weight=weight, times=times, shards=shards, turns=config.turns)]


def seconds(config: Config, rows: int) -> float:
    """An estimate of a fit's seconds on one core of a laptop."""
    return 4.0 + 0.002 * config.asked + 2e-4 * config.parties(rows) * (config.steps + Shape().warm)


def federated(config: Config, rows: int, columns: int, epsilon: float, delta: float = 1e-5) -> float:
    """Epsilon of the same answers against those who see which shard answers, if shards take turns in public.

    Nothing is picked in secret, so nothing is amplified: a shard's own share of the answers, plain Gaussians, counts,
    and no other shard's (parallel composition).
    """
    plan = make_plan(queries(config, rows, columns, epsilon), epsilon=epsilon, delta=delta, rows=rows)
    turns = TurnGaussian(multiplier=plan.events[GRADIENTS][0].multiplier, shards=config.parties(rows))
    others = [pair for label, pair in plan.events.items() if label != GRADIENTS]
    return accountant.epsilon([*others, (turns, config.asked)], delta)


def notes(config: Config, rows: int, columns: int, epsilon: float) -> list[str]:
    """What a person should know of the plan."""
    schedule = (
        f"{config.parties(rows)} critics give {config.asked} answers, each about {config.batch} generated rows: by a "
        "rule on rows (docs/methods/gs-wgan.md)."
    )
    if epsilon > LARGE:
        return [schedule]
    seen = federated(config, rows, columns, epsilon)
    return [
        schedule,
        f"epsilon {epsilon:g} holds where the pick stays secret, as in this process. In a federation the server sees "
        f"who answers: against it the same noise is worth epsilon {seen:.3g} (delta 1e-5, shards taking turns).",
    ]


def train(
    config: Config, schema: Schema, vault: Vault, plan: Plan, seed: int | None, device: str, progress: Progress
) -> Arrays:
    """Fit the generator. Returns its tensors and the noisy answers that decode its rows."""
    shape = Shape()
    stage = Stage.ask(schema, vault, plan, seed, device)
    latent = torch_stream(seed, "latent", device)
    classes, free = stage.classes, stage.width - stage.classes
    shards = vault.split_into_shards(config.parties(plan.equivalent_rows), stage.encode, classes, shape.critic)
    everyone = torch.arange(classes, device=device).repeat_interleave(shape.pool)
    # What trains are the logits of bins given the class: behind this noise the latent network learns nothing but noise.
    logits = stage.mixture.base.requires_grad_()
    quiet = Quiet(logits, shape.step * config.asked**-0.5, shape.sure)

    def listen() -> None:
        """Every critic trains, on what the generator draws now, which is public."""
        with torch.no_grad():
            pool = stage.fakes(everyone, latent)
        shards.train(pool.reshape(classes, shape.pool, -1))

    for _ in range(shape.warm):  # algorithm 1, warm start: no answer is asked, and the generator stays at its start
        listen()
    for step in range(config.steps):
        listen()  # all critics, whichever is picked next
        for turn in range(config.answers):
            labels = (torch.arange(config.batch, device=device) + turn * config.batch) % classes
            fake = stage.fakes(labels, latent, relaxed=False)
            # Sanitised gradient at generated rows, then plain backpropagation through the generator.
            upstream = shards.measure_upstream_gradient(GRADIENTS, fake.detach(), config.clip, joint=config.joint)
            fake[:, :free].backward(gradient=upstream / config.batch)  # type: ignore[no-untyped-call]
            quiet.hear()
        quiet.step()
        progress(step + 1, config.steps)
    logits.requires_grad_(False)
    trained = logits.double().cpu().numpy()
    stage.base = {name: trained[:, span] for name, span in stage.mixture.spans.items()}
    return stage.tensors()
