"""The privacy loss of a Gaussian measurement of one of n shards, sampled in secret: for Opacus' PRV accountant.

Let h(e) be the hockey-stick curve, at e >= 0, of (1 - 1/n) N(0, s^2) + N(1, s^2) / n against N(0, s^2). The outputs
under any two tables that differ in one shard lie below h in both directions (Balle, Barthe, Gaboardi 2018, theorem 9:
replacing a record, sampling without replacement). Zhu, Dong, Wang 2022 (proposition 30): a pair of distributions has
exactly that curve, h above zero and its mirror image below, and such pairs compose by adding their losses,
adaptively too. The loss L of that pair has, with x(e) where the likelihood ratio is exp(e),

    Pr[L > e] = (1 - 1/n) Phi(-x(e) / s) + Phi((1 - x(e)) / s) / n     for e >= 0
    Pr[L <= -e] = Phi(-x(e) / s)                                     for e > 0

and an atom at zero holds the rest. It stands between Poisson sampling's curves and theorem 9 of Wang, Balle,
Kasiviswanathan 2019 (`without_replacement`), which loses up to a factor of two in noise
(tests/privacy/test_without_replacement.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

Floats = NDArray[np.float64]
REACH_STDS, MESH_POINTS = 37.0, 4001  # standard deviations and points of the mesh of `rdp`
TAIL_STDS = 9.0  # standard deviations; what lies beyond counts as infinite loss


@dataclass(frozen=True)
class ShardSamplingLoss:
    """The loss of one measurement; `noise_multiplier` over the largest distance of two shards' values, rate 1/n."""

    noise_multiplier: float
    sample_rate: float

    def cdf(self, t: Floats) -> Floats:
        """Pr[L <= t]."""
        t = np.asarray(t, np.float64)
        s, rate, size = self.noise_multiplier, self.sample_rate, np.abs(t)
        # log((exp(e) - 1 + rate) / rate), where neither exp overflows nor its difference from one is lost
        ratio = np.where(size > 30, size - np.log(rate), np.log1p(np.expm1(np.minimum(size, 30.0)) / rate))
        x = s * ratio + 1 / (2 * s)  # in standard deviations
        below = ndtr(-x)
        above = (1 - rate) * below + rate * ndtr(1 / s - x)
        return np.where(t < 0, below, 1 - above)

    def rdp(self, orders: Sequence[float]) -> Floats:
        """Renyi divergences of the pair at `orders`, from above by a mesh; infinite where it does not reach.

        They bound how far sums of losses go, nearly exactly where `without_replacement` is far too careful.
        """
        s, rate = self.noise_multiplier, self.sample_rate
        top = REACH_STDS / s + 0.5 / s**2  # of the loss without sampling; then of this one
        top = top + math.log(rate) if top > 500 else math.log1p(rate * math.expm1(top))
        edges = np.linspace(-top, top, MESH_POINTS)
        mass = np.maximum(np.diff(self.cdf(edges)), 1e-300)
        steps = np.asarray(orders)[:, None] - 1
        values = steps * edges[1:] + np.log(mass)
        most = values.max(1)
        found = (most + np.log(np.exp(values - most[:, None]).sum(1))) / steps[:, 0]
        return np.where(np.asarray(orders) / s < REACH_STDS - 10, found, np.inf)


def independent(multiplier: float, rate: float, mesh: float) -> Any:
    """The same pair as dp-accounting's privacy-loss distribution, from its own curve of the subsampled Gaussian.

    Raises ImportError where dp-accounting is not installed.
    """
    from dp_accounting.pld import pld_pmf, privacy_loss_distribution, privacy_loss_mechanism

    removed = privacy_loss_mechanism.GaussianPrivacyLoss(
        multiplier, sampling_prob=rate, adjacency_type=privacy_loss_mechanism.AdjacencyType.REMOVE
    )
    largest = math.log1p(rate * math.expm1(min(TAIL_STDS / multiplier + 0.5 / multiplier**2, 500.0)))
    steps = np.arange(0, math.ceil(largest / mesh) + 1)
    above = np.asarray(removed.get_delta_for_epsilon(steps * mesh))
    below = -np.expm1(-steps * mesh) + np.exp(-steps * mesh) * above
    both = np.concatenate([below[:0:-1], above])
    pmf = pld_pmf.create_pmf_pessimistic_connect_dots(mesh, np.concatenate([-steps[:0:-1], steps]), both)
    return privacy_loss_distribution.PrivacyLossDistribution(pmf)
