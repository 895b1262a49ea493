"""GS-WGAN: critics train without noise on shards of the rows; only the gradient that the generator receives is noised.

Chen, Orekondy, Fritz 2020. Central form: all shards in one process. Mended, each with its reason in
docs/methods/gs-wgan.md: a step's generated rows share one pick and are charged as one answer; every critic trains at
every step and the picks are made afterwards, without which the claimed amplification fails; the number of shards and
steps follow from the budget by a public rule; labels come from noised counts. Codes and generator are the stage's, as
for the other adversarial methods.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

from ..dp import critics
from ..dp.plan import Need, Plan
from ..dp.vault import Vault
from ..errors import UsageError
from ..rng import torch_stream
from ..schema import Schema
from .dp_cgan import Arrays, Progress
from .drawing import generate as generate
from .quiet import Quiet
from .stage import Stage, stage_needs

GRADIENTS = "upstream gradients"


@dataclass(frozen=True, kw_only=True)
class Config:
    """Privacy parameters. Shares are of the first-order privacy loss; the upstream gradients take the rest."""

    shards: int | None = None  # None, and for steps: by the rule of `schedule`
    steps: int | None = None  # of the generator
    answers: int = 4  # a step, each with a pick of its own
    batch: int = 12  # generated rows an answer
    clip: float = 1.0  # a critic with gradient penalty has slopes of norm near one
    joint: bool = False  # clip an answer's rows together, instead of each
    histogram_share: float = 0.1
    class_share: float = 0.02
    microbatches: int | None = None

    def __post_init__(self) -> None:
        if self.microbatches is not None:
            raise UsageError("--microbatches belongs to --method dp-cgan: this method sums no gradients over rows.")

    def schedule(self, rows: int, epsilon: float) -> tuple[int, int]:
        """(shards, steps) for so many rows."""
        shards = max(2, min(200, rows // 20)) if self.shards is None else self.shards
        return shards, shards * 5 if self.steps is None else self.steps


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Sizes of the public side: they cost time, not privacy."""

    warm: int = 100  # steps of the critics before the first answer, against the generator's start
    critic_steps: int = 1  # a generator step
    pool: int = 32  # generated rows a class that critics choose from
    step: float = 0.02  # of the generator
    sure: float = 1.0
    net: float = 0.0
    critic: critics.Shape = critics.Shape()


def needs(config: Config, rows: int, columns: int, epsilon: float) -> list[Need]:
    """Histograms, class counts, and one answer of a picked critic a generator step."""
    shards, steps = config.schedule(rows, epsilon)
    rest = 1 - config.histogram_share - config.class_share
    asked = stage_needs(config.histogram_share, config.class_share)
    times = steps * config.answers
    return [*asked, Need(label=GRADIENTS, weight=math.sqrt(times / rest) / shards, times=times, shards=shards)]


def seconds(config: Config, rows: int) -> float:
    """An estimate of a fit's seconds on one core of a laptop."""
    shards, steps = config.schedule(rows, 1.0)
    return 3.0 + steps * (0.004 + 8e-5 * shards)


def notes(config: Config, rows: int, columns: int, epsilon: float) -> list[str]:
    """What a person should know of the plan."""
    shards, steps = config.schedule(rows, epsilon)
    return [f"{shards} critics, {steps} generator steps: by a rule on rows (docs/methods/gs-wgan.md)."]


def train(
    config: Config, schema: Schema, vault: Vault, plan: Plan, seed: int | None, device: str, progress: Progress
) -> Arrays:
    """Fit the generator. Returns its tensors and the noisy answers that decode its rows."""
    shape = Shape()
    count, steps = config.schedule(plan.equivalent_rows, plan.epsilon_asked)
    stage = Stage.ask(schema, vault, plan, seed, device)
    latent = torch_stream(seed, "latent", device)
    # Critics look at all classes of their shard alike, rare ones too: a class's weight is one over its noised share.
    weights = 1 / torch.tensor(stage.prior, dtype=torch.float32).clamp(min=1e-4)
    shards = vault.shards(count, stage.encode, weights, shape.critic)
    classes, free = stage.classes, stage.width - stage.classes
    everyone = torch.arange(classes, device=device).repeat_interleave(shape.pool)
    base, net = stage.mixture.base.requires_grad_(), list(stage.mixture.net.parameters())
    quiet = [Quiet(base, shape.step, shape.sure), *([Quiet(p, shape.net, shape.sure) for p in net] if shape.net else [])]

    def listen(times: int) -> None:
        """Critics train on what the generator draws now, which is public."""
        for _ in range(times):
            with torch.no_grad():
                pool = stage.fakes(everyone, latent)
            shards.train(pool.reshape(classes, shape.pool, -1))

    listen(shape.warm)  # algorithm 1, warm start: no answer is asked, and the generator stays at its start
    for step in range(steps):
        listen(shape.critic_steps)  # every critic, whichever is picked next
        for turn in range(config.answers):
            labels = (torch.arange(config.batch, device=device) + turn * config.batch) % classes
            fake = stage.fakes(labels, latent, relaxed=False)
            # Sanitised gradient at generated rows, then plain backpropagation through the generator.
            upstream = shards.upstream(GRADIENTS, fake.detach(), config.clip, joint=config.joint)
            fake[:, :free].backward(gradient=upstream / config.batch)  # type: ignore[no-untyped-call]
            for part in quiet:
                part.hear()
        for part in quiet:
            part.step()
        progress(step + 1, steps)
    trained = base.detach().double().cpu().numpy()
    stage.base = {name: trained[:, span] for name, span in stage.mixture.spans.items()}
    base.requires_grad_(False)
    return stage.tensors()
