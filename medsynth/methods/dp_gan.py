"""dp-GAN: a Wasserstein GAN with gradient penalty whose critic learns from clipped, noised gradients of pairs of rows.

Source: Zhang, Ji, Wang 2018 ("Differentially private releasing via deep generative model"). docs/methods/dp-gan.md
gives reasons for the differences. k groups of parameters are charged as one Gaussian measurement of sensitivity
sqrt(k). Noise is added once to a lot's sum. Lots are Poisson. Each row is paired with one generated row, with its own
coefficient. Clipping norms follow rows that the user declared public, or charged noisy quantiles (Andrew et al. 2021).

The preset `federated-averaging` treats each row as a client. Source: Augenstein et al. 2020 ("Generative models for
effective ML on private, decentralized datasets", algorithms 1 and 2), after McMahan et al. 2017 and 2018. In each
round, a Poisson sample of clients trains the critic for some steps on its own row. Each client's change of the weights
is clipped as a whole, and the noised sum of changes moves the shared critic with Adam (Reddi et al. 2021).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from pydantic import Field
from torch import Tensor

from ..arrays import Arrays, Codes
from ..privacy.accounting.calibration import Charge, Plan
from ..privacy.clipping import MOST_STEPS, ONE_GRADIENT, Groups, LocalTraining, pair_gradients
from ..privacy.exact_sums import exact_sum
from ..privacy.networks import Mlp
from ..privacy.queries.content import MOST_WIDTH, check_numbers, check_size, require
from ..privacy.queries.measurements import Measurements
from ..rng import torch_stream
from ..schema import Schema
from .adversarial import (
    CRITIC_GRADIENTS,
    AveragedWeights,
    LotConfig,
    TrainingSetup,
    by_class,
    setup_queries,
    step_along,
)
from .registry import Count, Positive, Progress, Share
from .sampler import MixtureMethod

QUANTILES = "clipping quantiles"
Grouping = Literal["global", "weight-bias", "clustered"]
BoundRule = Literal["fixed", "quantile"]
GROUP_COUNTS: dict[str, int] = {"global": 1, "weight-bias": 2, "clustered": 3}
LLOYD_ROUNDS = 20
TARGET_QUANTILE, QUANTILE_STEP = 0.5, 0.3  # targeted share of rows below a clipping norm, and the step towards it
LARGEST_WEIGHT = 2.0**20  # of a class, or of the penalty


class DpGanConfig(LotConfig):
    """Privacy parameters. Shares are of the privacy loss; the critic's gradient sums take the rest."""

    clip: Positive = Field(default=0.5, description="first clipping norm of each group of parameters")
    histogram_share: Share = Field(default=0.15, description="share of the one-way marginals")
    class_share: Share = Field(default=0.05, description="share of the class marginal")
    groups: Grouping = Field(default="global", description="parameters that are clipped together")
    bounds: BoundRule = Field(default="quantile", description="clipping norms: fixed, or from noisy quantiles")
    bound_share: Share = Field(default=0.03, description="share of the clipping quantiles")
    bound_lots: Count = Field(default=50, description="number of lots at which these quantiles are measured")
    critic_steps: Count = Field(default=2, description="lots per generator step")
    local_steps: int = Field(
        default=1, ge=1, le=MOST_STEPS, description="steps of the critic on one row, clipped together"
    )
    local_rate: Positive = Field(default=0.05, description="learning rate of these steps, if there are several")
    public: bool = Field(default=False, description="whether clipping norms follow declared public rows")

    @property
    def local(self) -> LocalTraining:
        """The training on one row, before its change is clipped."""
        return LocalTraining(self.local_steps, self.local_rate)

    @property
    def quantiles(self) -> int:
        """The number of measurements of clipping quantiles."""
        return min(self.bound_lots, self.lots) if self.bounds == "quantile" and not self.public else 0


class DpGan(MixtureMethod):
    """dp-GAN. The sizes below cost time, not privacy."""

    Config = DpGanConfig
    warm = 400  # lots of public rows before the first private lot

    def queries(self, config: DpGanConfig, rows: int, columns: int, epsilon: float) -> list[Charge]:
        """Return what a fit measures, with noise weights that give each query its share of the privacy loss."""
        rate = config.sampling_rate(rows)
        below = config.bound_share if config.quantiles else 0.0
        rest = 1 - config.histogram_share - config.class_share - below
        found = setup_queries(config.histogram_share, config.class_share)
        for label, share, times in ((CRITIC_GRADIENTS, rest, config.lots), (QUANTILES, below, config.quantiles)):
            if share:
                found.append(Charge(label=label, weight=rate * math.sqrt(times / share), rate=rate, times=times))
        return found

    def fit(
        self, config: DpGanConfig, schema: Schema, vault: Measurements, plan: Plan, seed: int | None, device: str,
        progress: Progress, public: Codes | None = None,
    ) -> Arrays:  # fmt: skip
        """Fit the generator. Return its tensors and the noisy marginals that decode its rows.

        `public`: codes of rows that the user declared public, (rows, columns). Critic and generator first train on them
        without noise. Each step's clipping norms are the mean norms of their gradients.
        """
        setup = TrainingSetup.measure(schema, vault, plan, device)
        run = GanTraining(setup, seed)
        shown = None if public is None else setup.encode(public)
        for step in range(0 if shown is None else self.warm):
            run.critic_step(run.public_gradients(shown).mean(0))
            if step % config.critic_steps == 0:
                run.generator_step()
        of = groups_of(config.groups, run.critic, run.public_gradients(shown))
        groups = Groups(of, (config.clip,) * GROUP_COUNTS[config.groups])
        lot = config.sampling_rate(plan.equivalent_rows) * setup.rows
        every = config.lots // max(1, config.quantiles)
        for step in range(config.lots):
            # Clipping norms: from public rows, or from a measured median of the rows' norms.
            if shown is not None:
                norms = groups.norms(run.public_gradients(shown, config.local)).mean(0)
                groups = Groups(of, tuple(norms.clamp(min=1e-6).tolist()))
            elif step % every == 0 and step // every < config.quantiles:
                below = vault.measure_norms_below(
                    QUANTILES, run.critic, run.pair_loss, setup.encode, run.pool(), groups, config.local
                )
                groups = Groups(of, next_bounds(groups.bounds, (below / lot + 0.5).tolist()))
            # Critic step with the noised sum of clipped gradients over a lot. After some lots, a generator step.
            total = vault.measure_pair_gradient_sum(
                CRITIC_GRADIENTS, run.critic, run.pair_loss, setup.encode, run.pool(), groups, config.local
            )
            run.critic_step(torch.cat([t.flatten() for t in total]) / lot)
            if step % config.critic_steps == config.critic_steps - 1:
                run.generator_step()
            progress(step + 1, config.lots)
        run.averaged.copy_to_network()
        return setup.tensors()


@dataclass(frozen=True, eq=False)
class PenalisedPairLoss:
    """A pair's Wasserstein loss with its own penalty, at its own point between its two rows.

    weights: of rows by their class, (classes,). The penalty is one-sided (Petzka, Fischer, Lukovnicov 2018): a critic
    of pure noise need not have slope one. Raises QueryError for a weight or a penalty that is too large.
    """

    weights: Tensor
    penalty: float

    def __post_init__(self) -> None:
        check_size(self.weights.numel(), MOST_WIDTH, what="The classes of pairs")
        check_numbers(self.weights, (self.weights.numel(),), np.float32, LARGEST_WEIGHT, what="Weights of classes")
        require(0 <= self.penalty <= LARGEST_WEIGHT, "The penalty of a pair must be a small number, not below zero.")

    def __call__(self, critic: Callable[[Tensor], Tensor], real: Tensor, fake: Tensor, mix: Tensor) -> Tensor:
        """Return the loss of a pair. `fake`: generated rows of every class, (classes * features,); one is used.

        The used row has the real row's class. Each sum over classes has one nonzero term, so it is exact.
        """
        of_class = real[-(classes := len(self.weights)) :]
        own = (torch.arange(classes, device=real.device) == of_class.argmax()).to(real)
        fake = own @ fake.reshape(classes, -1)

        def placed(row: Tensor) -> Tensor:
            return critic(by_class(row, classes))

        slope: Tensor = torch.func.grad(placed)(mix * real + (1 - mix) * fake)[:-classes]
        steep = ((exact_sum(slope.square()) + 1e-12).sqrt() - 1).clamp(min=0)
        return (own @ self.weights.to(own)) * (placed(fake) - placed(real) + self.penalty * steep.square())


class GanTraining:
    """The training of critic and generator, step by step."""

    width = 16  # of the critic's hidden layer
    pairs = 512  # generated rows to pair a lot with
    batch = 512  # of the generator
    penalty = 10.0
    rate = 2e-3  # of Adam
    average = 0.99  # of the generator's weights
    rarest = 0.01  # smallest class share that raises a class's weight

    def __init__(self, setup: TrainingSetup, seed: int | None) -> None:
        self.setup = setup
        self.net = setup.add_network(seed)
        sizes = [setup.classes * setup.width, self.width, 1]
        self.critic = Mlp(sizes, "leaky_relu", torch_stream(seed, "critic")).to(setup.device)
        self.latent = torch_stream(seed, "latent", setup.device)
        self.adams = [torch.optim.Adam(net.parameters(), self.rate, (0.5, 0.9)) for net in (self.critic, self.net)]
        self.averaged = AveragedWeights(self.net, self.average)
        shares = torch.tensor(setup.prior, dtype=torch.float32, device=setup.device).clamp(min=self.rarest)
        self.pair_loss = PenalisedPairLoss((shares.min() / shares).sqrt(), self.penalty)

    def pool(self) -> Tensor:
        """Generate rows to pair a lot with, (pool, classes * features). Their number never depends on the lot."""
        classes = self.setup.classes
        labels = torch.arange(classes, device=self.setup.device).repeat(max(1, self.pairs // classes))
        with torch.no_grad():
            return self.setup.fakes(labels, self.latent).reshape(-1, classes * self.setup.width)

    def public_gradients(self, public: Tensor | None, local: LocalTraining = ONE_GRADIENT) -> Tensor:
        """Return gradients of pairs without private rows, (pairs, parameters): of public or else of generated rows."""
        pool = self.pool()
        if public is None:
            with torch.no_grad():
                real = self.setup.fakes(self.setup.labels(len(pool), self.latent), self.latent)
        else:
            real = public[torch.randint(len(public), (len(pool),), generator=self.latent, device=pool.device)]
        mix = torch.rand(len(pool), generator=self.latent, device=pool.device)
        return pair_gradients(self.critic, self.pair_loss, real, pool, mix, local).float()

    def critic_step(self, gradient: Tensor) -> None:
        """Move the critic one step down a gradient of its parameters, (parameters,)."""
        parameters = list(self.critic.parameters())
        parts = torch.split(gradient, [p.numel() for p in parameters])
        step_along(self.adams[0], self.critic, [g.reshape(p.shape) for p, g in zip(parameters, parts, strict=True)])

    def generator_step(self) -> None:
        """Move the generator one step against the noised critic, with classes drawn evenly."""
        fake = self.setup.fakes(self.setup.labels(self.batch, self.latent, even=True), self.latent)
        loss = -self.critic(self.setup.by_class(fake)).mean()
        step_along(self.adams[1], self.net, torch.autograd.grad(loss, list(self.net.parameters())))
        self.averaged.update()


def groups_of(kind: Grouping, critic: Mlp, gradients: Tensor) -> Tensor:
    """Return the group of each parameter, (parameters,). A group is clipped together (Zhang, Ji, Wang 2018, section 4).

    Groups separate weights from biases, or join parameters with similar gradients. `gradients`, (rows, parameters),
    come from public or generated rows.
    """
    if kind == "clustered":
        return _clusters(gradients.square().mean(0).sqrt().clamp(min=1e-12).log(), GROUP_COUNTS[kind])
    parts = [torch.full((p.numel(),), int(kind == "weight-bias" and p.dim() == 1)) for p in critic.parameters()]
    return torch.cat(parts).to(gradients.device)


def _clusters(values: Tensor, count: int) -> Tensor:
    """Return the cluster of each value, by Lloyd's algorithm on a line from evenly spaced quantiles."""
    centres = values.quantile((torch.arange(count).to(values) + 0.5) / count)
    for _ in range(LLOYD_ROUNDS):
        own = (values[:, None] - centres).abs().argmin(1)
        for j in range(count):
            if (own == j).any():
                centres[j] = values[own == j].mean()
    return (values[:, None] - centres).abs().argmin(1)


def next_bounds(bounds: tuple[float, ...], below: list[float]) -> tuple[float, ...]:
    """Return the clipping norms after a measured quantile, by a geometric step (Andrew et al. 2021, algorithm 1).

    `below`: the noisy share of rows whose norm is below each bound.
    """
    return tuple(
        bound * math.exp(-QUANTILE_STEP * (min(1.0, max(0.0, share)) - TARGET_QUANTILE))
        for bound, share in zip(bounds, below, strict=True)
    )
