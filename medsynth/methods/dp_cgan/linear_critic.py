"""A critic linear in random features, one row of weights a class: its noised gradient sums and what they average to."""

from __future__ import annotations

import torch
from torch import Tensor

from ...privacy.networks import Mlp
from ...privacy.queries.gradients import minus_output
from ...privacy.queries.measurements import Measurements
from ..shared.labels import CRITIC_GRADIENTS
from .random_features import Embedding


class LinearCritic:
    """Noised sums of the features of real rows by class, over all lots so far.

    `expected`: (classes,) clipped terms of each class in a lot, on average. `noise`: standard deviation of a sum.
    `label`: of its measurement.
    """

    def __init__(
        self,
        embed: Embedding,
        expected: Tensor,
        clip: float,
        microbatches: int | None,
        noise: float,
        label: str = CRITIC_GRADIENTS,
    ) -> None:
        self.embed, self.expected, self.noise, self._label = embed, expected, noise, label
        self._clip, self._microbatches = clip, microbatches
        self._weights = Mlp([len(expected) * embed.width, 1], bias=False).to(expected.device)
        self._total = torch.zeros(len(expected), embed.width, device=expected.device)
        self.lots = 0

    def measure(self, vault: Measurements) -> None:
        """One noised lot. A real row's loss is minus the critic's output: its gradient is minus the row's features."""
        (gradient,) = vault.measure_gradient_sum(
            self._label,
            self._weights,
            minus_output,
            self.embed.by_class,
            self._clip,
            self._microbatches,
        )
        self._total -= gradient.reshape(self._total.shape)
        self.lots += 1

    def generator_loss(self, fake: Tensor, labels: Tensor) -> Tensor:
        """Squared distance between the mean features of real rows and of generated ones, class by class.

        fake: (rows, features); labels: (rows,). The best critic is the difference of these means. A class whose
        average is mostly noise should not steer: it is weighted by signal over signal plus noise.
        """
        real = self._total / (self.lots * self.expected[:, None])
        noise_share = self.noise**2 * self.embed.width / (self.lots * self.expected**2)
        weight = (1 / (1 + noise_share))[:, None]
        hot = torch.nn.functional.one_hot(labels, len(self.expected)).to(fake)
        means = hot.T @ fake / hot.sum(0)[:, None].clamp(min=1)
        return (weight * (means - real).square()).sum()
