"""Critic and generator of dp-GAN, the loss of a pair of rows, and one step of each network."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ...privacy.clipping import ONE_GRADIENT, LocalTraining, pair_gradients
from ...privacy.exact_sums import exact_sum
from ...privacy.networks import Mlp
from ...privacy.queries.content import MOST_WIDTH, check_numbers, check_size, require
from ...rng import torch_stream
from ..shared.adversarial.networks import AveragedWeights
from ..shared.adversarial.training_setup import TrainingSetup, by_class


@dataclass(frozen=True, kw_only=True)
class DpGanSize:
    """Sizes of the networks and their training: they cost time, not privacy."""

    width: int = 16  # of the critic's hidden layer
    pool: int = 512  # generated rows that a lot is paired with
    batch: int = 512  # of the generator
    penalty: float = 10.0
    step: float = 2e-3  # Adam(0.002, 0.5, 0.9)
    average: float = 0.99  # of the generator's weights
    warm: int = 400  # lots of public rows before any private one
    rarest: float = 0.01  # share below which a class weighs no more


LARGEST_WEIGHT = 2.0**20  # of a class, and of the penalty


@dataclass(frozen=True, eq=False)
class PenalisedPairLoss:
    """A pair's Wasserstein loss with its own penalty, at its own point between its two rows.

    weights: (classes,), of rows by their class. The penalty is one-sided (Petzka, Fischer, Lukovnicov 2018): a critic
    of noise alone need not have a slope of one. Raises QueryError for weights and a penalty that are not small numbers.
    """

    weights: Tensor
    penalty: float

    def __post_init__(self) -> None:
        check_size(self.weights.numel(), MOST_WIDTH, what="The classes of pairs")
        check_numbers(self.weights, (self.weights.numel(),), np.float32, LARGEST_WEIGHT, what="Weights of classes")
        require(0 <= self.penalty <= LARGEST_WEIGHT, "The penalty of a pair must be a small number, not below zero.")

    def __call__(self, critic: Callable[[Tensor], Tensor], real: Tensor, fake: Tensor, mix: Tensor) -> Tensor:
        """`fake`: a generated row of every class, (classes * features,), of which the real row's own class is taken.

        The sums over classes have one term that is not zero, whatever the row's numbers, so that they are exact too.
        """
        of_class = real[-(classes := len(self.weights)) :]
        own = (torch.arange(classes, device=real.device) == of_class.argmax()).to(real)
        fake = own @ fake.reshape(classes, -1)

        def placed(row: Tensor) -> Tensor:
            return critic(by_class(row, classes))

        slope: Tensor = torch.func.grad(placed)(mix * real + (1 - mix) * fake)[:-classes]
        steep = ((exact_sum(slope.square()) + 1e-12).sqrt() - 1).clamp(min=0)
        return (own @ self.weights.to(own)) * (placed(fake) - placed(real) + self.penalty * steep.square())


class Training:
    """Critic and generator, and one step of each."""

    def __init__(self, setup: TrainingSetup, size: DpGanSize, seed: int | None) -> None:
        self.size = size
        self.setup, self.net = setup, setup.add_network(seed)
        sizes = [setup.classes * setup.width, size.width, 1]
        self.critic = Mlp(sizes, "leaky_relu", torch_stream(seed, "critic")).to(setup.device)
        self.latent = torch_stream(seed, "latent", setup.device)
        self.adams = [torch.optim.Adam(net.parameters(), size.step, (0.5, 0.9)) for net in (self.critic, self.net)]
        self.averaged = AveragedWeights(self.net, size.average)
        shares = torch.tensor(setup.prior, dtype=torch.float32, device=setup.device).clamp(min=size.rarest)
        self.pair_loss = PenalisedPairLoss((shares.min() / shares).sqrt(), size.penalty)

    def pool(self) -> Tensor:
        """Generated rows to pair a lot with, (pool, classes * features): as many at every step, for every lot."""
        classes = self.setup.classes
        labels = torch.arange(classes, device=self.setup.device).repeat(max(1, self.size.pool // classes))
        with torch.no_grad():
            return self.setup.fakes(labels, self.latent).reshape(-1, classes * self.setup.width)

    def public_gradients(self, public: Tensor | None, local: LocalTraining = ONE_GRADIENT) -> Tensor:
        """Gradients of pairs without private rows, (pairs, parameters): of public rows, or else of generated ones."""
        pool = self.pool()
        if public is None:
            with torch.no_grad():
                real = self.setup.fakes(self.setup.labels(len(pool), self.latent), self.latent)
        else:
            real = public[torch.randint(len(public), (len(pool),), generator=self.latent, device=pool.device)]
        mix = torch.rand(len(pool), generator=self.latent, device=pool.device)
        return pair_gradients(self.critic, self.pair_loss, real, pool, mix, local).float()

    def critic_step(self, gradient: Tensor) -> None:
        """One step of the critic, down a gradient of its parameters, (parameters,)."""
        start = 0
        for p in self.critic.parameters():
            p.grad = gradient[start : start + p.numel()].reshape(p.shape)
            start += p.numel()
        self.adams[0].step()

    def generator_step(self) -> None:
        """One step of the generator against the noised critic, with classes drawn evenly."""
        fake = self.setup.fakes(self.setup.labels(self.size.batch, self.latent, even=True), self.latent)
        gradients = torch.autograd.grad(-self.critic(self.setup.by_class(fake)).mean(), list(self.net.parameters()))
        for p, g in zip(self.net.parameters(), gradients, strict=True):
            p.grad = g
        self.adams[1].step()
        self.averaged.update()
