"""dp-GAN: a Wasserstein GAN with gradient penalty whose critic learns from clipped, noised gradients of pairs of rows.

Zhang, Ji, Wang 2018 ("Differentially private releasing via deep generative model"), with these differences, whose
reasons stand in docs/methods/dp-gan.md: k groups of parameters are charged as one Gaussian answer of sensitivity
sqrt(k); noise is added once to a lot's sum; lots are Poisson; a row meets one generated row with a coefficient of its
own; bounds follow rows that the user declared public, or noised quantiles that are charged (Andrew et al. 2021).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from pydantic import Field
from torch import Tensor

from ...privacy.accounting.calibration import Plan, Query
from ...privacy.networks import Averaged, Mlp
from ...privacy.pair_clipping import Answer, Groups, pair_gradients
from ...privacy.vault import Codes, Vault
from ...rng import torch_stream
from ...schema import Schema
from ..dp_cgan.method import GRADIENTS
from ..protocol import Arrays, Progress
from ..settings import Count, MethodConfig, Positive, Rate, Share
from ..shared.sampler import generate as generate
from ..shared.training_loop import Stage, stage_queries
from .grouping import COUNTS, BoundRule, Grouping, groups_of, moved

BELOW = "gradients below their bounds"


class Config(MethodConfig):
    """Privacy parameters. Shares are of the privacy loss; the critic's gradient sums take the rest."""

    lots: Count = Field(default=600, description="noised gradient sums of the critic")
    rate: Rate = Field(default=0.1, description="Poisson sampling rate of a lot")
    largest_lot: Count = Field(default=2048, description="expected rows of a lot beyond which the rate falls")
    clip: Positive = Field(default=0.5, description="clipping norm of every group of parameters, at first")
    histogram_share: Share = Field(default=0.15, description="share of the column histograms")
    class_share: Share = Field(default=0.05, description="share of the class marginal")
    groups: Grouping = Field(default="global", description="which parameters are clipped together")
    bounds: BoundRule = Field(default="quantile", description="whether clipping norms follow noised quantiles")
    bound_share: Share = Field(default=0.03, description="share of the clipping quantiles")
    bound_lots: Count = Field(default=50, description="lots at which clipping quantiles are measured")
    critic_steps: Count = Field(default=2, description="lots a generator step")
    public: bool = Field(default=False, description="rows were declared public: clipping norms follow them")

    def sampling_rate(self, rows: int) -> float:
        """The Poisson rate at a declared number of rows."""
        return min(self.rate, self.largest_lot / rows)

    @property
    def asked_bounds(self) -> int:
        """How often a noised quantile is asked for."""
        return min(self.bound_lots, self.lots) if self.bounds == "quantile" and not self.public else 0


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Sizes of the public side: they cost time, not privacy."""

    width: int = 16  # of the critic's hidden layer
    pool: int = 512  # generated rows that a lot may meet
    batch: int = 512  # of the generator
    penalty: float = 10.0
    step: float = 2e-3  # Adam(0.002, 0.5, 0.9)
    average: float = 0.99  # of the generator's weights
    warm: int = 400  # lots of public rows before any private one
    rarest: float = 0.01  # share below which a class weighs no more


def queries(config: Config, rows: int, columns: int, epsilon: float) -> list[Query]:
    """What a fit asks of the vault: noise weights that give each answer its share of the privacy loss."""
    rate = config.sampling_rate(rows)
    below = config.bound_share if config.asked_bounds else 0.0
    rest = 1 - config.histogram_share - config.class_share - below
    asked = stage_queries(config.histogram_share, config.class_share)
    for label, share, times in ((GRADIENTS, rest, config.lots), (BELOW, below, config.asked_bounds)):
        if share:
            asked.append(Query(label=label, weight=rate * math.sqrt(times / share), rate=rate, times=times))
    return asked


def notes(*public: object) -> list[str]:
    """What a person should know of the plan: nothing here."""
    return []


def seconds(config: Config, rows: int) -> float:
    """An estimate of a fit's seconds on one core of a laptop."""
    return 3.0 + (0.008 + 5e-5 * config.sampling_rate(rows) * rows) * config.lots


class _Game:
    """Critic and generator, and one step of each."""

    def __init__(self, stage: Stage, seed: int | None) -> None:
        shape = self.shape = Shape()
        self.stage, self.net = stage, stage.mixture.net
        sizes = [stage.classes * stage.width, shape.width, 1]
        self.critic = Mlp(sizes, "leaky_relu", torch_stream(seed, "critic")).to(stage.device)
        self.latent = torch_stream(seed, "latent", stage.device)
        self.adams = [torch.optim.Adam(net.parameters(), shape.step, (0.5, 0.9)) for net in (self.critic, self.net)]
        self.averaged = Averaged(self.net, shape.average)
        shares = torch.tensor(stage.prior, dtype=torch.float32, device=stage.device).clamp(min=shape.rarest)
        self.weights = (shares.min() / shares).sqrt()

    def loss(self, answer: Answer, real: Tensor, fake: Tensor, mix: Tensor) -> Tensor:
        """A pair's Wasserstein loss with its own penalty, at its own point between its two rows.

        `fake` holds a generated row of every class, (classes * features,): the real row meets the one of its own. The
        penalty is one-sided (Petzka, Fischer, Lukovnicov 2018): noise alone must not be drawn to a slope of one.
        """
        own = real[-(classes := self.stage.classes) :]
        fake = own @ fake.reshape(classes, -1)

        def placed(row: Tensor) -> Tensor:
            return answer(self.stage.by_class(row))

        slope: Tensor = torch.func.grad(placed)(mix * real + (1 - mix) * fake)[:-classes]
        steep = ((slope.square().sum() + 1e-12).sqrt() - 1).clamp(min=0)
        return (own @ self.weights) * (placed(fake) - placed(real) + self.shape.penalty * steep.square())

    def pool(self) -> Tensor:
        """What a lot may meet, (pool, classes * features): as many at every step, whatever lot is drawn."""
        classes = self.stage.classes
        labels = torch.arange(classes, device=self.stage.device).repeat(max(1, self.shape.pool // classes))
        with torch.no_grad():
            return self.stage.fakes(labels, self.latent).reshape(-1, classes * self.stage.width)

    def shown(self, public: Tensor | None) -> Tensor:
        """Gradients of pairs that nobody need hide, (pairs, parameters): of public rows, or else of generated ones."""
        pool = self.pool()
        if public is None:
            with torch.no_grad():
                real = self.stage.fakes(self.stage.labels(len(pool), self.latent), self.latent)
        else:
            real = public[torch.randint(len(public), (len(pool),), generator=self.latent, device=pool.device)]
        mix = torch.rand(len(pool), generator=self.latent, device=pool.device)
        return pair_gradients(self.critic, self.loss, real, pool, mix)

    def judge(self, gradient: Tensor) -> None:
        """One step of the critic, down a gradient of its parameters, (parameters,)."""
        place = 0
        for p in self.critic.parameters():
            p.grad = gradient[place : place + p.numel()].reshape(p.shape)
            place += p.numel()
        self.adams[0].step()

    def forge(self) -> None:
        """One step of the generator against the critic: public, as the critic is. Classes come evenly."""
        fake = self.stage.fakes(self.stage.labels(self.shape.batch, self.latent, even=True), self.latent)
        gradients = torch.autograd.grad(-self.critic(self.stage.by_class(fake)).mean(), list(self.net.parameters()))
        for p, g in zip(self.net.parameters(), gradients, strict=True):
            p.grad = g
        self.adams[1].step()
        self.averaged.keep()


def train(
    config: Config, schema: Schema, vault: Vault, plan: Plan, seed: int | None, device: str, progress: Progress,
    public: Codes | None = None,
) -> Arrays:  # fmt: skip
    """Fit the generator. Returns its tensors and the noisy answers that decode its rows.

    `public`: codes of rows that the user declared public, (rows, columns). Critic and generator begin on them without
    noise, and each step's bounds are the mean norms of their gradients.
    """
    stage = Stage.ask(schema, vault, plan, seed, device)
    game, shape = _Game(stage, seed), Shape()
    shown = None if public is None else stage.encode(public)
    for step in range(0 if shown is None else shape.warm):
        game.judge(game.shown(shown).mean(0))
        if step % config.critic_steps == 0:
            game.forge()
    of = groups_of(config.groups, game.critic, game.shown(shown))
    groups = Groups(of, (config.clip,) * COUNTS[config.groups])
    lot = config.sampling_rate(plan.equivalent_rows) * plan.rows
    every = config.lots // max(1, config.asked_bounds)
    for step in range(config.lots):
        if shown is not None:
            groups = Groups(of, tuple(groups.norms(game.shown(shown)).mean(0).clamp(min=1e-6).tolist()))
        elif step % every == 0 and step // every < config.asked_bounds:
            below = vault.measure_norms_below(BELOW, game.critic, game.loss, stage.encode, game.pool(), groups)
            groups = Groups(of, moved(groups.bounds, (below / lot + 0.5).tolist()))
        total = vault.measure_pair_gradient_sum(GRADIENTS, game.critic, game.loss, stage.encode, game.pool(), groups)
        game.judge(torch.cat([t.flatten() for t in total]) / lot)
        if step % config.critic_steps == config.critic_steps - 1:
            game.forge()
        progress(step + 1, config.lots)
    game.averaged.settle()
    return stage.tensors()
