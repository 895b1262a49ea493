"""PATE-GAN: teachers on shards vote whether generated rows are real; their noised counts teach a student.

Source: Jordon, Yoon, van der Schaar 2019 ("PATE-GAN: Generating synthetic data with differential privacy guarantees").
The student sees only generated rows and noised votes, and the generator sees only the student.

docs/methods/pate-gan.md gives reasons for the differences. Votes are charged by their sensitivity, not by a
data-dependent bound. Each row joins a shard by its own draw. The noise is Gaussian. The student is linear. It learns
the share of votes, not its rounding, and also from votes of earlier rounds. Codes, generator and the averaging of its
steps are those of GS-WGAN.
"""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from ..arrays import Arrays
from ..privacy.accounting.calibration import Charge, Plan
from ..privacy.networks import Mlp
from ..privacy.shards import CriticConfig
from ..privacy.vault import Vault
from ..rng import torch_stream
from ..schema import Schema
from .adversarial import ShardConfig, ShardMethod, ShardTraining, TrainingSetup
from .registry import Count, Progress

VOTES = "teachers' votes"


class PateGanConfig(ShardConfig):
    """Privacy parameters. Shares are of the first-order privacy loss; the votes take the rest."""

    rounds: Count = Field(default=50, description="rounds of votes; all teachers train before each")
    votes: Count = Field(default=24, description="generated rows per round")


class PateGan(ShardMethod):
    """PATE-GAN, whose teachers are the critics on shards."""

    Config = PateGanConfig
    critic_steps = 3
    student_steps = 20  # per round
    batch = 512  # generated rows of a generator step
    critic = CriticConfig(width=8, rate=5e-3, loss="cross-entropy")

    def queries(self, config: PateGanConfig, rows: int, columns: int, epsilon: float) -> list[Charge]:
        """Return the one-way marginals, the class marginal and the votes: plain Gaussians over all rows."""
        votes = Charge(label=VOTES, weight=config.weight(config.rounds), times=config.rounds)
        return config.with_setup(votes)

    def notes(self, config: PateGanConfig, rows: int, columns: int, epsilon: float) -> list[str]:
        """Return a note on who votes on what."""
        return [
            f"{config.shard_count(rows)} teachers will vote {config.rounds} times on {config.votes} generated rows. "
            "The cost of votes does not depend on their result: no data-dependent epsilon is computed or shown."
        ]

    def fit(
        self,
        config: PateGanConfig,
        schema: Schema,
        vault: Vault,
        plan: Plan,
        seed: int | None,
        device: str,
        progress: Progress,
    ) -> Arrays:
        """Fit the generator. Return its tensors and the noisy marginals that decode its rows."""
        setup = TrainingSetup.measure(schema, vault, plan, device)
        count = config.shard_count(plan.equivalent_rows)
        shards = vault.split_into_shards(count, setup.encode, setup.classes, self.critic)
        # Algorithm 1, lines 4-10: train every teacher on its own shard, against rows that all of them see.
        training = ShardTraining(self, setup, shards.train, config.rounds, seed)
        student = Student(setup, seed)
        for _ in training.steps(config.rounds, progress):
            # Lines 11-18: noised votes on generated rows; the student learns from these.
            with torch.no_grad():
                rows = setup.fakes(torch.arange(config.votes, device=device) % setup.classes, training.latent)
            votes = shards.measure_votes(VOTES, rows)
            student.learn(rows, (votes / count).clamp(0, 1), self.student_steps)
            # Lines 19-22: the generator follows the student.
            labels = setup.labels(self.batch, training.latent, even=True)
            fake = setup.fakes(labels, training.latent, relaxed=False)
            functional.softplus(-student(fake)).mean().backward()  # type: ignore[no-untyped-call]
            training.averaging.add_gradient()
        return setup.tensors()


class Student:
    """A classifier of generated rows. It learns only from the share of teachers that voted "real"."""

    rate, decay = 1e-2, 0.1  # learning rate of Adam, and decay of the weights

    def __init__(self, setup: TrainingSetup, seed: int | None) -> None:
        self._net = Mlp([setup.classes * setup.width, 1], generator=torch_stream(seed, "student")).to(setup.device)
        self._adam = torch.optim.AdamW(self._net.parameters(), self.rate, weight_decay=self.decay)
        self._setup = setup
        self._rows = list[Tensor]()
        self._shares = list[Tensor]()

    def __call__(self, rows: Tensor) -> Tensor:
        """Return logits of generated rows, (rows, width) to (rows,)."""
        logits: Tensor = self._net(self._setup.by_class(rows))
        return logits[:, 0]

    def learn(self, rows: Tensor, shares: Tensor, steps: int) -> None:
        """Take `steps` on all rows with votes so far. `shares`: of votes for "real", (rows,)."""
        self._rows.append(rows)
        self._shares.append(shares)
        seen, taught = torch.cat(self._rows), torch.cat(self._shares)
        for _ in range(steps):
            loss = functional.binary_cross_entropy_with_logits(self(seen), taught)
            self._adam.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            self._adam.step()
