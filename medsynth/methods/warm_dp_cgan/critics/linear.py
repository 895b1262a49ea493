"""What all critics here are: linear in fixed features of a row, so that one noisy sum holds all that they can tell."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....privacy.networks import Mlp
from ....privacy.queries.gradients import minus_output
from ....privacy.queries.measurements import Measurements
from ....privacy.queries.rows import CellMap, Features
from ..generator import Generator
from ..shrinkage import Alike, chances, shrunk

Floats = NDArray[np.float64]
MOST_ROWS = 1 << 18  # that a critic reads: its time grows with them, and so many say nearly all
CLIPPING_NORM = 1.0  # of a row's features: of all critics but those of moments the largest there is


class Expected(Protocol):
    """A critic's mean features of generated rows."""

    def of(self, shares: Tensor) -> Tensor:
        """Of each class, (classes, features), from p(bin | point, class), (all bins, classes, points)."""


class LinearCritic(Protocol):
    """A critic that is linear in fixed features of a row, in the place of the row's class, clipped at norm one."""

    given: tuple[str, CellMap]

    @property
    def width(self) -> int:
        """Features of a class."""

    @property
    def columns_read(self) -> set[str]:
        """The names of the columns that some feature reads."""

    @property
    def features(self) -> Features:
        """The map from codes to (rows, classes * width), each row's own, whatever rows stand beside it."""

    def expectation(self, generator: Generator) -> Expected:
        """The mean features as a function of the shares of a generator, which has all columns that are read."""


@dataclass(frozen=True, eq=False)
class FeatureSums:
    """Noisy sums of a critic's features over real rows, (classes, width), and their noise's standard deviation.

    `firmness`: how many times more firmly than by its noise the generator is held to each, (classes, width), or to all.
    """

    critic: LinearCritic
    totals: Tensor
    std: float
    firmness: Tensor | float = 1.0

    def beyond(self, expected: Floats) -> Floats:
        """What they say beyond the `expected`: (classes, width)."""
        return np.asarray(self.totals.double().cpu().numpy() - expected)

    def likely(self, expected: Floats, alike: Alike) -> list[Floats]:
        """Of each class, how likely each scale is for what they say beyond the `expected`, (classes, width)."""
        return [chances(one, self.std, alike) for one in self.beyond(expected)]

    def shrunk(self, expected: Floats, likely: Sequence[Floats]) -> FeatureSums:
        """With what they say beyond the `expected`, (classes, width), freed from noise by what `likely` gives."""
        of_classes = zip(self.beyond(expected), likely, strict=True)
        found = expected + np.stack([shrunk(one, self.std, own) for one, own in of_classes])
        return replace(self, totals=torch.tensor(found, dtype=torch.float32))

    def expected(self, generator: Generator, rows: Floats) -> Floats:
        """What a generator expects of them, (classes, width). `rows`: (classes,)."""
        part = generator.part(self.critic.columns_read)
        with torch.no_grad():
            return np.asarray(rows[:, None] * self.critic.expectation(part).of(part.by_bin()).double().cpu().numpy())


def measure_features(critic: LinearCritic, vault: Measurements, label: str, noise: float, rows: int = 0) -> FeatureSums:
    """Measure the gradient sum of a linear critic on real rows: minus it is the sum of their features.

    Where there are more `rows` than MOST_ROWS, so many are read, drawn at random; all, where no number is given. What
    that adds to the noise, at most: the variance of a sum of features whose squares add up to one a row.
    """
    classes, share = critic.given[1].cells, min(1.0, MOST_ROWS / max(rows, 1))
    linear = Mlp([classes * critic.width, 1], bias=False)
    (total,) = vault.measure_gradient_sum(label, linear, minus_output, critic.features, CLIPPING_NORM, share=share)
    std = math.hypot(noise * CLIPPING_NORM / share, math.sqrt(rows * (1 - share) / share / critic.width))
    return FeatureSums(critic, -total.reshape(classes, -1) / share, std)
