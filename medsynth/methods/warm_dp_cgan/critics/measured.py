"""What the critics of a fit measure, in order, and what the generator is to expect of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....privacy.accounting.calibration import Plan
from ....privacy.queries.measurements import Measurements
from ....privacy.queries.rows import CellMap
from ....rng import torch_stream
from ...regressions import Regression
from ...shared.labels import CRITIC_GRADIENTS, DECLARED, MOMENTS
from ..budget_rule import DECLARED_FIRMNESS, MOMENTS_FIRMNESS, MOST_MOMENTS
from ..generator import Generator
from ..marginals.class_marginals import ClassMarginals
from .declared import DeclaredMoments
from .linear import FeatureSums, measure_features
from .moments import MomentCritic
from .pairs import PairCritic

Floats = NDArray[np.float64]


@dataclass(kw_only=True)
class MeasuredCritics:
    """The noisy sums of a fit's critics, by label, as they were measured.

    `expected`: what the generator expected of a critic of pairs, and of the moments, before it was fitted. Of a critic
    of pairs `likely`: of each class, how likely each scale is for each product; `freed`: its sums, freed from noise by
    that; `sizes`: how far from independence it found each two columns.
    """

    raw: dict[str, FeatureSums] = field(default_factory=dict)
    expected: dict[str, Floats] = field(default_factory=dict)
    likely: list[Floats] = field(default_factory=list)
    freed: FeatureSums | None = None
    sizes: dict[tuple[str, str], float] = field(default_factory=dict)

    @classmethod
    def measure(
        cls, vault: Measurements, plan: Plan, generator: Generator, start: ClassMarginals, *,
        columns: list[str], given: tuple[str, CellMap], order: tuple[str, ...], regressions: Sequence[Regression],
        seed: int | None,
    ) -> MeasuredCritics:  # fmt: skip
        """The gradient sums of the critics that have a share, those of declared regressions first."""
        found = cls()

        def measured(label: str, critic: DeclaredMoments | PairCritic | MomentCritic) -> FeatureSums:
            rows = plan.rows if label == CRITIC_GRADIENTS else 0  # of few relations' moments every row counts
            found.raw[label] = measure_features(critic, vault, label, plan.noise(label), rows)
            return found.raw[label]

        if DECLARED in plan.events:
            measured(DECLARED, DeclaredMoments(regressions, start.bins, given, order, plan.noise(DECLARED), plan.rows))
        if CRITIC_GRADIENTS not in plan.events:
            return found
        stream, noise = torch_stream(seed, "critic"), plan.noise(CRITIC_GRADIENTS)
        critic = PairCritic(start.bins, start.mass, columns, given, order, stream, noise)
        sums = measured(CRITIC_GRADIENTS, critic)
        expected = sums.expected(generator, start.totals)
        found.likely = sums.likely(expected, critic.alike())
        found.freed = sums.shrunk(expected, found.likely)
        beyond = found.freed.beyond(expected)
        found.sizes, found.expected = critic.by_columns(beyond), {CRITIC_GRADIENTS: expected}
        if MOMENTS in plan.events:
            pairs = critic.strongest(beyond, MOST_MOMENTS)
            sums = measured(MOMENTS, MomentCritic(critic, pairs, plan.noise(MOMENTS), plan.rows))
            found.expected[MOMENTS] = sums.expected(generator, start.totals).sum(0, keepdims=True)
        return found

    def firmness(self, label: str) -> Tensor | float:
        """How many times more firmly than by its noise the generator is held to what was measured under `label`.

        Its prior draws every relation towards none, and slopes are to come back whole: a second moment that is so many
        times its noise away from what columns without relation have is held so many times as firmly.
        """
        if label != MOMENTS:
            return DECLARED_FIRMNESS if label == DECLARED else 1.0
        sums = self.raw[label]
        beyond = sums.totals - torch.tensor(self.expected[label], dtype=torch.float32)
        return (beyond.abs() / max(sums.std, 1e-12)).clip(*MOMENTS_FIRMNESS)

    def targets(self) -> list[FeatureSums]:
        """What the generator is fitted to: of a critic of pairs freed from noise, of moments held more firmly."""
        found = []
        for label, sums in self.raw.items():
            own = self.freed if label == CRITIC_GRADIENTS and self.freed else sums
            own = sums.critic.corrected(own) if isinstance(sums.critic, DeclaredMoments) else own
            found.append(replace(own, firmness=self.firmness(label)))
        return found
