"""What the critics of a fit measure, in order, and what the generator is to expect of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from ....privacy.accounting.calibration import Plan
from ....privacy.queries.measurements import Measurements
from ....privacy.queries.rows import CellMap
from ....rng import torch_stream
from ...regressions import Regression
from ...shared.labels import CRITIC_GRADIENTS, DECLARED, MOMENTS
from ..budget_rule import DECLARED_FIRMNESS, MOMENTS_FIRMNESS, MOST_MOMENTS, Allocation
from ..generator import Generator
from ..marginals.class_marginals import ClassMarginals
from .declared import DeclaredCritic
from .linear import FeatureSums, measure_features
from .moments import MomentCritic
from .pairs import PairCritic
from .triples import TripleCritic

Floats = NDArray[np.float64]
# The generator's prior draws every relation towards none. Slopes are to come back whole.
FIRMNESS = {MOMENTS: MOMENTS_FIRMNESS, DECLARED: DECLARED_FIRMNESS}


@dataclass(kw_only=True)
class MeasuredCritics:
    """The noisy sums of a fit's critics, by label, as they were measured.

    `expected`: what the generator expected of a critic of pairs before it was fitted; `sizes`: how far from
    independence such a critic found each two columns.
    """

    raw: dict[str, FeatureSums] = field(default_factory=dict)
    expected: Floats | None = None
    sizes: dict[tuple[str, str], float] = field(default_factory=dict)

    @classmethod
    def measure(
        cls, vault: Measurements, plan: Plan, allocation: Allocation, generator: Generator, start: ClassMarginals, *,
        columns: list[str], given: tuple[str, CellMap], order: tuple[str, ...], regressions: Sequence[Regression],
        seed: int | None,
    ) -> MeasuredCritics:  # fmt: skip
        """The gradient sums of the critics that have a share, those of declared regressions first."""
        found = cls()

        def measured(label: str, critic: DeclaredCritic | TripleCritic | PairCritic | MomentCritic) -> FeatureSums:
            rows = plan.rows if label == CRITIC_GRADIENTS else 0  # of few relations' moments every row counts
            found.raw[label] = measure_features(critic, vault, label, plan.noise(label), rows)
            return found.raw[label]

        if DECLARED in plan.events:
            measured(DECLARED, DeclaredCritic(regressions, start.bins, given, order, plan.noise(DECLARED), plan.rows))
        if CRITIC_GRADIENTS not in plan.events:
            return found
        stream = torch_stream(seed, "critic")
        if allocation.critic == "triples":
            measured(
                CRITIC_GRADIENTS, TripleCritic(start.bins, columns, given, order, allocation.critic_features, stream)
            )
            return found
        critic = PairCritic(start.bins, start.mass, columns, given, order, stream)
        sums = measured(CRITIC_GRADIENTS, critic)
        found.expected = sums.expected(generator, start.totals)
        beyond = sums.shrunk(found.expected).totals.double().cpu().numpy() - found.expected
        found.sizes = critic.by_columns(beyond)
        if MOMENTS in plan.events:
            measured(MOMENTS, MomentCritic(critic, critic.strongest(beyond, MOST_MOMENTS)))
        return found

    def targets(self) -> list[FeatureSums]:
        """What the generator is fitted to: of a critic of pairs freed from noise, of moments held more firmly."""
        found = []
        for label, sums in self.raw.items():
            own = sums if self.expected is None or label != CRITIC_GRADIENTS else sums.shrunk(self.expected)
            own = sums.critic.corrected(own) if isinstance(sums.critic, DeclaredCritic) else own
            found.append(replace(own, std=own.std / FIRMNESS.get(label, 1.0)))
        return found
