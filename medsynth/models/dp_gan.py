"""dp-GAN: a Wasserstein GAN with gradient penalty whose critic learns from clipped, noised gradients of pairs of rows.

Zhang, Ji, Wang 2018 ("Differentially private releasing via deep generative model"), with these differences, whose
reasons stand in docs/methods/dp-gan.md: k groups of parameters are charged as one Gaussian answer of sensitivity
sqrt(k), not as one group; noise is added once to a lot's sum; lots are Poisson; a row meets one generated row with a
coefficient of its own, so that its penalty touches no other row; bounds follow public rows that the user declared, or
noised quantiles that are charged (Andrew et al. 2021).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from ..dp.pairclip import Answer, Groups, pair_gradients
from ..dp.plan import Need, Plan
from ..dp.vault import Codes, Vault
from ..errors import UsageError
from ..nets import Mlp
from ..rng import torch_stream
from ..schema import Schema
from .dp_cgan import GRADIENTS, Arrays, Progress
from .drawing import generate as generate
from .grouping import COUNTS, Kind, check_kind, groups_of, moved
from .stage import Stage, stage_needs

BELOW = "gradients below their bounds"


@dataclass(frozen=True, kw_only=True)
class Config:
    """Privacy parameters. Shares are of the privacy loss; the critic's gradients take the rest."""

    lots: int = 1000
    rate: float = 0.1
    largest_lot: int = 2048  # rows; beyond, the rate falls
    clip: float = 1.0  # of every group, where the bounds begin
    histogram_share: float = 0.15
    class_share: float = 0.05
    groups: Kind = "global"
    bounds: Literal["fixed", "quantile"] = "fixed"
    bound_share: float = 0.03  # of noised quantiles
    bound_lots: int = 50
    critic_steps: int = 4  # lots a generator step
    public: bool = False  # rows were declared public: bounds follow them, and nothing is asked for bounds
    microbatches: int | None = None

    def __post_init__(self) -> None:
        check_kind(self.groups)
        if self.microbatches is not None:
            raise UsageError("--microbatches belongs to --method dp-cgan: this method clips every row.")

    def sampling_rate(self, rows: int) -> float:
        """The Poisson rate at a declared number of rows."""
        return min(self.rate, self.largest_lot / rows)

    @property
    def asks_bounds(self) -> bool:
        """Whether noised quantiles are asked for."""
        return self.bounds == "quantile" and not self.public


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Sizes of the public side: they cost time, not privacy."""

    width: int = 64  # of the critic's hidden layer
    pool: int = 512  # generated rows a lot may meet
    batch: int = 512  # of the generator
    penalty: float = 10.0
    step: float = 2e-3  # Adam(0.002, 0.5, 0.9)
    critic_step: float = 2e-3
    critic_average: float = 0.0
    settle: int = 0
    gen_steps: int = 1
    weigh: float = 0.0
    bundle: int = 1
    even: int = 1
    dual: int = 0
    average: float = 0.98  # of the generator's weights
    warm: int = 400  # lots of public rows before any private one
    goal: float = 0.5  # rows that a bound should leave whole
    speed: float = 0.3  # of bounds


def needs(config: Config, rows: int, columns: int, epsilon: float) -> list[Need]:
    """What a fit asks of the vault: noise weights that give each answer its share of the privacy loss."""
    rate = config.sampling_rate(rows)
    below = config.bound_share if config.asks_bounds else 0.0
    rest = 1 - config.histogram_share - config.class_share - below
    asked = stage_needs(config.histogram_share, config.class_share)
    for label, share, times in ((GRADIENTS, rest, config.lots), (BELOW, below, config.bound_lots)):
        if share:
            asked.append(Need(label=label, weight=rate * math.sqrt(times / share), rate=rate, times=times))
    return asked


def notes(*public: object) -> list[str]:
    """What a person should know of the plan: nothing here."""
    return []


def seconds(config: Config, rows: int) -> float:
    """An estimate of a fit's seconds on one core of a laptop."""
    return 3.0 + (0.006 + 4e-5 * config.sampling_rate(rows) * rows) * config.lots


class _Game:
    """Critic and generator, and one step of each."""

    def __init__(self, stage: Stage, seed: int | None) -> None:
        shape = self.shape = Shape()
        self.stage = stage
        self.critic = Mlp([stage.width, shape.width, 1], "leaky_relu", torch_stream(seed, "critic")).to(stage.device)
        self.latent = torch_stream(seed, "latent", stage.device)
        self.adams = [
            torch.optim.Adam(self.critic.parameters(), shape.critic_step, (0.5, 0.9)),
            torch.optim.Adam(stage.mixture.net.parameters(), shape.step, (0.5, 0.9)),
        ]
        import copy

        self.smooth = copy.deepcopy(self.critic)
        self.averaged = [p.detach().clone() for p in stage.mixture.net.parameters()]

    def penalised(self, answer: Answer, real: Tensor, fake: Tensor, mix: Tensor) -> Tensor:
        """A pair's Wasserstein loss with its own gradient penalty, at its own point between the two rows."""
        hot = real[-self.stage.classes :]
        if self.shape.bundle:
            fake = hot @ fake.reshape(self.stage.classes, -1)
        between = mix * real + (1 - mix) * fake
        slope = torch.func.grad(answer)(between)
        length = (slope.square().sum() + 1e-12).sqrt()
        w = torch.tensor(self.stage.prior, dtype=torch.float32)
        w = (w.min() / w) ** self.shape.weigh
        return (hot @ w) * (answer(fake) - answer(real) + self.shape.penalty * (length - 1).square())

    def rows(self) -> Tensor:
        with torch.no_grad():
            return self.stage.fakes(self.stage.labels(self.shape.pool, self.latent), self.latent)

    def pool(self) -> Tensor:
        """Generated rows that a lot may meet: as many at every step, whatever lot is drawn."""
        if not self.shape.bundle:
            return self.rows()
        n = self.shape.pool // self.stage.classes
        with torch.no_grad():
            return self.stage.fakes(torch.arange(self.stage.classes).repeat(n), self.latent).reshape(n, -1)

    def pairs(self, public: Tensor | None) -> Tensor:
        """Gradients at rows that nobody need hide, public ones or generated, each met by a generated row."""
        fake = self.pool()
        real = self.rows()
        fake = fake[torch.randint(len(fake), (len(real),), generator=self.latent)]
        if public is not None:
            real = public[torch.randint(len(public), (len(fake),), generator=self.latent, device=fake.device)]
        mix = torch.rand(len(fake), generator=self.latent, device=fake.device)
        return pair_gradients(self.critic, self.penalised, real, fake, mix)

    def judge(self, gradient: Tensor) -> None:
        """One step of the critic, down a gradient of its parameters, (parameters,)."""
        sizes = [p.numel() for p in self.critic.parameters()]
        for p, part in zip(self.critic.parameters(), gradient.split(sizes), strict=True):
            p.grad = part.reshape(p.shape)
        self.adams[0].step()
        with torch.no_grad():
            for a, b in zip(self.smooth.parameters(), self.critic.parameters()):
                a.lerp_(b, 1 - self.shape.critic_average)

    def forge(self) -> None:
        """One step of the generator against the critic: public, as the critic is."""
        fake = self.stage.fakes(
            self.stage.labels(self.shape.batch, self.latent, even=bool(self.shape.even)), self.latent
        )
        net = self.stage.mixture.net
        gradients = torch.autograd.grad(-self.smooth(fake).mean(), list(net.parameters()))
        for p, g in zip(net.parameters(), gradients, strict=True):
            p.grad = g
        self.adams[1].step()
        for kept, p in zip(self.averaged, net.parameters(), strict=True):
            kept.lerp_(p.detach(), 1 - self.shape.average)


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
    for step in range(shape.settle):
        game.judge(game.pairs(shown).mean(0))
    for step in range(0 if shown is None else shape.warm):
        game.judge(game.pairs(shown).mean(0))
        if step % config.critic_steps == 0:
            game.forge()
    of = groups_of(config.groups, game.critic, game.pairs(shown))
    groups = Groups(of, (config.clip,) * COUNTS[config.groups])
    lot = config.sampling_rate(plan.rows) * plan.rows
    every = max(1, config.lots // config.bound_lots)
    for step in range(config.lots):
        if shown is not None:
            groups = Groups(of, tuple(groups.norms(game.pairs(shown)).mean(0).clamp(min=1e-6).tolist()))
        elif config.asks_bounds and step % every == 0 and step // every < config.bound_lots:
            below = vault.norms_below(BELOW, game.critic, game.penalised, stage.encode, game.pool(), groups)
            groups = Groups(of, moved(groups.bounds, (below / lot + 0.5).tolist(), shape.goal, shape.speed))
        total = vault.pair_gradient_sum(GRADIENTS, game.critic, game.penalised, stage.encode, game.pool(), groups)
        game.judge(torch.cat([t.flatten() for t in total]) / lot)
        if step % config.critic_steps == config.critic_steps - 1:
            for _ in range(shape.gen_steps):
                game.forge()
        progress(step + 1, config.lots)
    with torch.no_grad():
        for p, kept in zip(stage.mixture.net.parameters(), game.averaged, strict=True):
            p.copy_(kept)
    return stage.tensors()
