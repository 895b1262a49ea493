"""A finding: what is claimed of something that was attacked, and what the attack proved."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any, Literal

from ..privacy.accounting import accountant
from ..privacy.accounting.events import Event, Gaussian, PublicOrderGaussian

Side = Literal["claimed", "proven"]
DELTA = 1e-5  # at which epsilon is stated
SHOWN_EPSILON = 200.0  # the largest epsilon that is computed
ROUNDING = 1e-6  # relative: a bound so little above its claim is the claim


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Claims and lower bounds of one attack, each bound with `confidence`. None: nothing is claimed or proven of it.

    `mu`: separation of the two neighbouring tables in standard deviations of the noise; with a `rate` below one, of a
    release that the target takes part in, which it does with that chance. `epsilon`: at `delta`. `chance`: of an
    outcome that one of the two tables cannot give. `published`: the claim is a paper's, and medsynth does not make it.
    """

    part: str
    name: str
    worst_case: str
    trials: int
    confidence: float
    claimed_mu: float | None = None
    proven_mu: float | None = None
    rate: float = 1.0
    delta: float = DELTA
    claimed_epsilon: float | None = None
    proven_epsilon: float | None = None
    claimed_chance: float | None = None
    proven_chance: float | None = None
    published: bool = False

    @property
    def pairs(self) -> list[tuple[float, float]]:
        """Claims beside what was proven of them."""
        found = [
            (self.claimed_mu, self.proven_mu),
            (self.claimed_epsilon, self.proven_epsilon),
            (self.claimed_chance, self.proven_chance),
        ]
        return [(claimed, proven) for claimed, proven in found if claimed is not None and proven is not None]

    @property
    def refutes(self) -> bool:
        """Whether a claim is refuted at this confidence."""
        return any(proven > claimed * (1 + ROUNDING) for claimed, proven in self.pairs)

    @property
    def share(self) -> float | None:
        """What was proven, as a share of the claim: of mu, else of epsilon, else of a chance."""
        return next((proven / claimed for claimed, proven in self.pairs if claimed), None)

    def shown(self, side: Side) -> str:
        """The mu or the chance that is claimed or proven, for a person."""
        values = (self.claimed_mu, self.claimed_chance) if side == "claimed" else (self.proven_mu, self.proven_chance)
        return next((f"{value:.3f}" for value in values if value is not None), "")

    def epsilon_shown(self, side: Side) -> str:
        """The epsilon that is claimed or proven, for a person."""
        value = self.claimed_epsilon if side == "claimed" else self.proven_epsilon
        return "" if value is None else f"{value:.2f}"

    def to_json(self) -> dict[str, Any]:
        """Plain data."""
        return {**asdict(self), "share": self.share, "refutes": self.refutes}


def epsilon_of(event: Event, delta: float = DELTA) -> float:
    """The epsilon of one measurement at `delta`: by the exact curve of a plain Gaussian one, else by PRV accounting."""
    if isinstance(event, Gaussian | PublicOrderGaussian):
        return gaussian_epsilon(1 / event.multiplier, delta)
    return accountant.epsilon([(event, 1)], delta)


def gaussian_epsilon(mu: float, delta: float = DELTA) -> float:
    """The epsilon at `delta` of a Gaussian measurement of separation `mu`, exactly.

    >>> round(gaussian_epsilon(1.0, 1e-5), 3)
    4.377
    """
    if mu <= 0 or accountant.gaussian_delta(mu, 0.0) <= delta:
        return 0.0
    top = SHOWN_EPSILON
    if mu**2 / 2 + mu * math.sqrt(2 * math.log(1 / delta)) > top:
        return top
    return accountant.gaussian_epsilon(mu, delta)
