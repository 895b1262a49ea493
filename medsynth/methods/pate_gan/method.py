"""PATE-GAN: teachers on shards vote whether generated rows are real; their noised counts teach a student.

Jordon, Yoon, van der Schaar 2019 ("PATE-GAN: Generating synthetic data with differential privacy guarantees"). The
student sees generated rows and noised votes alone, and the generator sees the student alone.

Differences, with their reasons in docs/methods/pate-gan.md: votes are charged by their sensitivity, whatever they say,
and not by a data-dependent bound; rows join shards by draws of their own; the noise is Gaussian; the student learns the
share of votes and not its rounding; it is linear, and votes of every earlier round teach it still. Codes, generator
and the averaging of its steps are those of GS-WGAN.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from ...privacy.accounting.calibration import Plan, Query
from ...privacy.networks import Mlp
from ...privacy.shards import CriticConfig
from ...privacy.vault import Vault
from ...rng import torch_stream
from ...schema import Schema
from ..gs_wgan.dual_averaging import DualAveraging
from ..protocol import Arrays, Progress
from ..settings import Count, MethodConfig, Share
from ..shared.adversarial.training_setup import TrainingSetup, setup_queries
from ..shared.sampler import generate as generate

VOTES = "teachers' votes"


@dataclass(frozen=True, kw_only=True)
class PateGanSize:
    """Sizes of the networks and their training: they cost time, not privacy."""

    warm: int = 100  # steps of the teachers before the first votes
    teacher_steps: int = 3  # a round
    student_steps: int = 20  # a round
    pool: int = 32  # generated rows a class that teachers learn from
    rate: float = 1e-2  # of the student's Adam
    decay: float = 0.1  # of the student's weights
    batch: int = 512  # generated rows of a generator step
    step: float = 1.5  # of a logit at the end, for each standard deviation by which its gradients' sum exceeds noise
    noise: float = 1.0  # standard deviations of noise that do not count
    teacher: CriticConfig = CriticConfig(width=8, rate=5e-3, loss="cross-entropy")


class Config(MethodConfig):
    """Privacy parameters. Shares are of the first-order privacy loss; the votes take the rest."""

    size: ClassVar[PateGanSize] = PateGanSize()
    shards: int | None = Field(default=None, ge=1, description="teachers, each with a shard; by a rule if not given")
    rows_a_shard: Count = Field(default=25, description="rows that the rule puts in a shard")
    most_shards: Count = Field(default=300, description="shards at most, by the rule")
    rounds: Count = Field(default=50, description="rounds of votes; all teachers train before each")
    votes: Count = Field(default=24, description="generated rows that teachers vote on in a round")
    histogram_share: Share = Field(default=0.1, description="share of the one-way marginals")
    class_share: Share = Field(default=0.02, description="share of the class marginal")

    def shard_count(self, rows: int) -> int:
        """Return the number of teachers of a table with this number of rows."""
        return max(2, min(self.most_shards, rows // self.rows_a_shard)) if self.shards is None else self.shards


def queries(config: Config, rows: int, columns: int, epsilon: float) -> list[Query]:
    """One-way marginals, the class marginal, and the votes: plain Gaussians, for each of which every row counts."""
    rest = 1 - config.histogram_share - config.class_share
    start = setup_queries(config.histogram_share, config.class_share)
    return [*start, Query(label=VOTES, weight=math.sqrt(config.rounds / rest), times=config.rounds)]


def notes(config: Config, rows: int, columns: int, epsilon: float) -> list[str]:
    """Notes on the plan, for a person."""
    return [
        f"{config.shard_count(rows)} teachers will vote {config.rounds} times on {config.votes} generated rows. What "
        "votes cost does not depend on how they fall: no data-dependent epsilon is computed or shown."
    ]


class Student:
    """A classifier of generated rows by the share of teachers that took them for real. It sees nothing else."""

    def __init__(self, setup: TrainingSetup, size: PateGanSize, seed: int | None) -> None:
        self._net = Mlp([setup.classes * setup.width, 1], generator=torch_stream(seed, "student")).to(setup.device)
        self._adam = torch.optim.AdamW(self._net.parameters(), size.rate, weight_decay=size.decay)
        self._setup, self._size = setup, size
        self._rows, self._shares = list[Tensor](), list[Tensor]()

    def __call__(self, rows: Tensor) -> Tensor:
        """Logits of generated rows, (rows, width) to (rows,)."""
        logits: Tensor = self._net(self._setup.by_class(rows))
        return logits[:, 0]

    def learn(self, rows: Tensor, shares: Tensor) -> None:
        """Some steps on all rows that were voted on so far; `shares`, (rows,), of the votes for real."""
        self._rows.append(rows)
        self._shares.append(shares)
        seen, taught = torch.cat(self._rows), torch.cat(self._shares)
        for _ in range(self._size.student_steps):
            loss = functional.binary_cross_entropy_with_logits(self(seen), taught)
            self._adam.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self._adam.step()


def train(
    config: Config, schema: Schema, vault: Vault, plan: Plan, seed: int | None, device: str, progress: Progress
) -> Arrays:
    """Fit the generator. Returns its tensors and the noisy marginals that decode its rows."""
    size = config.size
    setup = TrainingSetup.measure(schema, vault, plan, device)
    latent, classes = torch_stream(seed, "latent", device), setup.classes
    count = config.shard_count(plan.equivalent_rows)
    shards = vault.split_into_shards(count, setup.encode, classes, size.teacher)
    student = Student(setup, size, seed)
    # As in GS-WGAN the logits are trained: behind this noise a network would learn only noise.
    logits = setup.generator.base.requires_grad_()
    averaging = DualAveraging(logits, size.step * config.rounds**-0.5, size.noise)
    for number in range(config.rounds):
        # Algorithm 1, lines 4-10: every teacher on its own shard, against rows that all of them see.
        for _ in range(size.teacher_steps if number else size.warm):
            shards.train(setup.pool(size.pool, latent))
        # Lines 11-18: noised votes on generated rows; the student learns from these.
        with torch.no_grad():
            rows = setup.fakes(torch.arange(config.votes, device=device) % classes, latent)
        votes = shards.measure_votes(VOTES, rows)
        student.learn(rows, (votes / count).clamp(0, 1))
        # Lines 19-22: the generator follows the student.
        fake = setup.fakes(setup.labels(size.batch, latent, even=True), latent, relaxed=False)
        functional.softplus(-student(fake)).mean().backward()  # type: ignore[no-untyped-call]
        averaging.add_gradient()
        averaging.step()
        progress(number + 1, config.rounds)
    return setup.tensors()
