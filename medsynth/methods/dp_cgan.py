"""DP-CGAN: a conditional GAN with trained hidden layers, which remembers the noised gradients of all its critics.

Source: Torkzadehmahani, Kairouz, Paten 2019 ("DP-CGAN"). docs/methods/dp-cgan.md measures each difference. A critic
step measures the clipped, noised sum of gradients of the Wasserstein loss at real rows, and moves the critic by Adam.
A released gradient stays public and stays true, also after the critic moved. So the generator does not follow the
last critic's output: it moves until generated rows have the same mean clipped gradients as the real ones, at the
weights of every critic so far. At one untrained critic this would be DP-NTK (Yang et al. 2023, "Differentially private
neural tangent kernels for privacy-preserving data generation"). Training the critic chooses where to look next.
"""

from __future__ import annotations

import copy
import math

import torch
from pydantic import Field
from torch import Tensor

from ..arrays import Arrays
from ..privacy.accounting.calibration import Charge, Plan
from ..privacy.networks import Mlp
from ..privacy.queries.gradients import minus_output
from ..privacy.queries.measurements import Measurements
from ..rng import torch_stream
from ..schema import Schema
from .adversarial import (
    CRITIC_GRADIENTS,
    MOST_BINS,
    AveragedWeights,
    ClippedLotConfig,
    TrainingSetup,
    clipped_mean_of_groups,
    clipped_sum,
    step_along,
)
from .registry import Count, Progress, Rate, Share
from .sampler import MixtureMethod

FEWEST_BINS, ROW_BINS = 3, 2048  # Bins of a number in wide tables: of all columns together about ROW_BINS.


class DpCganConfig(ClippedLotConfig):
    """Privacy parameters. Shares are of the privacy loss; the critic's gradient sums take the rest."""

    lots: Count = Field(default=30, description="noisy gradient sums: steps of the critic")
    rate: Rate = Field(default=1.0, description="sampling rate of a lot")
    largest_lot: Count = Field(default=65536, description="most expected rows per lot: the rate falls in larger tables")
    histogram_share: Share = Field(default=0.1, description="share of the one-way marginals")
    class_share: Share = Field(default=0.02, description="share of the class marginal")
    steps: Count = Field(default=3000, description="generator steps; they cost time, not privacy")


class DpCgan(MixtureMethod):
    """DP-CGAN."""

    Config = DpCganConfig

    def queries(self, config: DpCganConfig, rows: int, columns: int, epsilon: float) -> list[Charge]:
        """Return what a fit measures, with noise weights that give each query its share of the privacy loss."""
        return config.queries(rows)

    def fit(
        self, config: DpCganConfig, schema: Schema, vault: Measurements, plan: Plan, seed: int | None, device: str,
        progress: Progress,
    ) -> Arrays:  # fmt: skip
        """Fit the generator. Return its tensors and the noisy marginals that decode its rows."""
        fewer = max(FEWEST_BINS, ROW_BINS // len(schema.columns))
        setup = TrainingSetup.measure(schema, vault, plan, device, min(MOST_BINS, fewer))
        run = CriticTraining(config, setup, plan, seed)
        # Half of the generator's steps are between the critic's steps, half after the last one.
        between = config.steps // (2 * config.lots)
        last = config.steps - between * config.lots
        for step in range(config.lots):
            # Critic step: at the weights that it has now, real rows are measured once, with noise.
            run.measure(vault)
            for _ in range(between):
                run.generator_step(1.0)
            if step < config.lots - 1:
                run.critic_step()
            progress((step + 1) * between, config.steps)
        for step in range(last):
            run.generator_step(min(1.0, 2 * (last - step) / last))
            progress(config.steps - last + step + 1, config.steps)
        run.averaged.copy_to_network()
        return setup.tensors()


class CriticTraining:
    """The training of critic and generator, step by step. `remembered`: each critic with its measured mean gradient.

    The critic reads indicators of bins in the block of the row's class, so it has first weights for each class.
    """

    width = 32  # of the critic's hidden layer
    batch = 512  # generated rows per step
    gain = 1.5  # standard deviation of hidden units before the activation, at the start
    critic_rate, critic_betas = 0.1, (0.9, 0.99)  # of Adam
    most_move = 2.2  # of a hidden unit in a critic step: Adam moves all weights alike, and a row has a one per column
    rate, betas = 2e-3, (0.5, 0.99)  # of the generator's Adam
    average = 0.995  # of the generator's weights
    rarest = 0.005  # smallest share of a class that still raises its weight

    def __init__(self, config: DpCganConfig, setup: TrainingSetup, plan: Plan, seed: int | None) -> None:
        self.config = config
        self.setup = setup
        self.net = setup.add_network(seed)
        self.lot = config.sampling_rate(plan.equivalent_rows) * setup.rows
        self.critic = self._critic(torch_stream(seed, "critic")).to(setup.device)
        self.remembered = list[tuple[Mlp, list[Tensor]]]()
        self.latent, self.choices = torch_stream(seed, "latent", setup.device), torch_stream(seed, "remembered")
        rate = min(self.critic_rate, self.most_move / self.ones)
        self.of_critic = torch.optim.Adam(self.critic.parameters(), rate, self.critic_betas)
        self.of_net = torch.optim.Adam(self.net.parameters(), self.rate, self.betas)
        self.averaged = AveragedWeights(self.net, self.average)
        self.shares = torch.tensor(setup.prior, dtype=torch.float32, device=setup.device)
        # The squared errors of counts are proportional to shares. As in a chi-squared statistic, squares are divided by
        # the shares of their classes.
        common = self.shares.clamp(min=self.rarest)
        self.weights = (common.min() / common).repeat_interleave(setup.width)

    @property
    def ones(self) -> int:
        """The number of ones in a row that the critic reads: one for each column."""
        return len(self.setup.spans) + 1

    def _critic(self, stream: torch.Generator) -> Mlp:
        """Return a critic whose hidden units differ from row to row at the start: a row has few ones in many places."""
        wide = self.setup.classes * self.setup.width
        critic = Mlp([wide, self.width, 1], "tanh", stream)
        first, _, last, _ = critic.parameters()
        with torch.no_grad():
            first.mul_(self.gain * math.sqrt(3 * wide / self.ones))
            last.mul_(math.sqrt(3))
        return critic

    def measure(self, vault: Measurements) -> None:
        """Measure the mean clipped gradient of real rows at the critic's weights, and remember it with the critic."""
        setup, config = self.setup, self.config
        total = vault.measure_gradient_sum(
            CRITIC_GRADIENTS, self.critic, minus_output, setup.encode, config.clip, config.microbatches, setup.given
        )
        terms = config.terms(self.lot)
        self.remembered.append((copy.deepcopy(self.critic), [part / terms for part in total]))

    def made(self, critic: Mlp, times: int = 1) -> list[Tensor]:
        """Return the mean clipped gradient of generated rows at a critic's weights, one tensor per parameter."""
        setup, classes, m = self.setup, self.setup.classes, self.config.microbatches
        if m is not None:
            rows = setup.by_class(setup.fakes(setup.labels(times * self.batch, self.latent), self.latent))
            count = max(1, round(len(rows) * m / max(self.lot, m)))
            groups = torch.randint(count, (len(rows),), generator=self.latent, device=setup.device)
            return clipped_mean_of_groups(critic, minus_output, rows, self.config.clip, groups, count)
        each = -(-times * self.batch // classes)
        labels = torch.arange(classes, device=setup.device).repeat_interleave(each)
        rows = setup.fakes(labels, self.latent)
        weights = self.shares[labels] / each
        return clipped_sum(critic, minus_output, rows.reshape(classes, each, -1), self.config.clip, weights)

    def generator_step(self, part: float) -> None:
        """Move the generator towards the real gradient at one of the critics so far, by a `part` of the learning rate.

        It matches the gradient of the first weights, in which each class has its own block.
        """
        critic, real = self.remembered[int(torch.randint(len(self.remembered), (), generator=self.choices))]
        loss = (self.weights * (self.made(critic)[0] - real[0]).square()).sum()
        self.of_net.param_groups[0]["lr"] = self.rate * part
        step_along(self.of_net, self.net, torch.autograd.grad(loss, list(self.net.parameters())))
        self.averaged.update()

    def critic_step(self) -> None:
        """Move the critic one step along the difference of the two mean gradients at its weights."""
        critic, real = self.remembered[-1]
        with torch.no_grad():
            made = self.made(critic, times=4)
        step_along(self.of_critic, self.critic, [true - other for true, other in zip(real, made, strict=True)])
