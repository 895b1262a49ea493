"""The privacy loss of a Gaussian measurement of one of n shards, sampled in secret, for Opacus' PRV accountant.

Let h(e) be the hockey-stick curve, at e >= 0, of (1 - 1/n) N(0, s^2) + N(1, s^2) / n against N(0, s^2). The outputs
under any two tables that differ in one shard are below h in both directions (Balle, Barthe, Gaboardi 2018, theorem 9:
replacing a record, sampling without replacement). Zhu, Dong, Wang 2022 (proposition 30): a pair of distributions has
exactly that curve, h above zero and its mirror image below. Such pairs compose by adding their losses, adaptively too.
Let x(e) be where the likelihood ratio is exp(e). The loss L of that pair has

    Pr[L > e] = (1 - 1/n) Phi(-x(e) / s) + Phi((1 - x(e)) / s) / n     for e >= 0
    Pr[L <= -e] = Phi(-x(e) / s)                                     for e > 0

and an atom at zero with the rest. It is between Poisson sampling's curves and theorem 9 of Wang, Balle, Kasiviswanathan
2019 (`rdp`), which loses up to a factor of two in noise (tests/privacy/test_without_replacement.py).

That theorem bounds the Renyi divergence of sampling one record of n without replacement, if one record may be replaced
by any other. Theorem 27 has sharper terms for a Gaussian. Bounds are valid at whole orders. Between them (order - 1)
times the divergence is convex in the order, so its chord is above it (corollary 10).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from scipy.special import ndtr

from ...arrays import Floats

REACH_STDS, MESH_POINTS = 37.0, 4001  # Standard deviations and points of the mesh of `rdp`.
TAIL_STDS = 9.0  # Standard deviations. A loss beyond them counts as infinite.
# Moments up to this order use quadrature. Higher ones use the larger bound 2 exp((j - 1) rdp(j)).
QUADRATURE_ORDERS = 64
# The quadrature, in standard deviations, is exact up to rounding: tests/privacy/test_without_replacement.py.
MESH_STEP, QUADRATURE_STDS = 0.25, 25.0
ROUNDING_ALLOWANCE = 1e-9  # Added to logarithms of moments, so that rounding cannot make them too small.


@dataclass(frozen=True)
class ShardSamplingLoss:
    """The loss of one measurement, by its noise over the largest distance of two shards' values and its rate 1/n."""

    noise_multiplier: float
    sample_rate: float

    def cdf(self, t: Floats) -> Floats:
        """Return Pr[L <= t]."""
        t = np.asarray(t, np.float64)
        s = self.noise_multiplier
        rate = self.sample_rate
        size = np.abs(t)
        # log((exp(e) - 1 + rate) / rate), if neither exp overflows nor its difference from one is lost.
        ratio = np.where(size > 30, size - np.log(rate), np.log1p(np.expm1(np.minimum(size, 30.0)) / rate))
        x = s * ratio + 1 / (2 * s)  # In standard deviations.
        below = ndtr(-x)
        above = (1 - rate) * below + rate * ndtr(1 / s - x)
        return np.where(t < 0, below, 1 - above)

    def rdp(self, orders: Sequence[float]) -> Floats:
        """Return Renyi divergences of the pair at `orders`, from above by a mesh; infinite beyond the mesh.

        They bound sums of losses almost exactly, where `rdp` is far too large.
        """
        s, rate = self.noise_multiplier, self.sample_rate
        top = REACH_STDS / s + 0.5 / s**2  # Of the loss without sampling; below, of this one.
        top = top + math.log(rate) if top > 500 else math.log1p(rate * math.expm1(top))
        edges = np.linspace(-top, top, MESH_POINTS)
        mass = np.maximum(np.diff(self.cdf(edges)), 1e-300)
        steps = np.asarray(orders)[:, None] - 1
        values = steps * edges[1:] + np.log(mass)
        most = values.max(1)
        found = (most + np.log(np.exp(values - most[:, None]).sum(1))) / steps[:, 0]
        return np.where(np.asarray(orders) / s < REACH_STDS - 10, found, np.inf)


def independent(multiplier: float, rate: float, mesh: float) -> Any:
    """Return dp-accounting's privacy-loss distribution of a sampled shard, from its curve of the subsampled Gaussian.

    Raises ImportError if dp-accounting is not installed.
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


def rdp(multiplier: float, shards: int, orders: Sequence[float]) -> Floats:
    """Return Renyi divergence bounds of one measurement at `orders`, each above 1: (orders,).

    `multiplier`: standard deviation of the noise over the largest L2 distance of two shards' values.
    """
    if shards == 1:
        return np.asarray([order / (2 * multiplier**2) for order in orders])
    whole = sorted({k for order in orders for k in (math.floor(order), math.ceil(order)) if k > 1})
    terms = _terms(multiplier, shards, whole[-1])
    known = {1: 0.0} | {order: _log_moment(terms, order) for order in whole}
    found = []
    for order in orders:
        low, high = known[math.floor(order)], known[math.ceil(order)]
        found.append((low + (order - math.floor(order)) * (high - low)) / (order - 1))
    return np.array(found)


def _log_moment(terms: Floats, order: int) -> float:
    """Return log(1 + sum over j of binomial(order, j) exp(terms[j])), a bound of (order - 1) times the divergence."""
    j = np.arange(2, order + 1)
    logs = _log_factorials(order)
    values = terms[2 : order + 1] + logs[order] - logs[j] - logs[order - j]
    top = max(0.0, float(values.max()))
    return top + math.log(math.exp(-top) + float(np.exp(values - top).sum()))


def _terms(multiplier: float, shards: int, highest: int) -> Floats:
    """Return the logarithms of the factors of the binomial coefficients, indexed by j; entries 0 and 1 are unused."""
    j = np.arange(highest + 1, dtype=np.float64)
    plain = math.log(2) + j * (j - 1) / (2 * multiplier**2)  # 2 exp((j - 1) rdp(j)).
    even = _even_moments(multiplier)
    sharp = plain.copy()
    for k in range(2, min(highest, QUADRATURE_ORDERS - 1) + 1):
        # For odd j: Cauchy-Schwarz between the two adjacent even moments.
        sharp[k] = math.log(4) + (even[k // 2 - 1] + even[(k + 1) // 2 - 1]) / 2
    return np.asarray(np.minimum(plain, sharp) - j * math.log(shards))


def _even_moments(multiplier: float) -> Floats:
    """Return logarithms of E_q |p/q - 1|^l for l = 2, 4, ..., QUADRATURE_ORDERS; p = N(1, m^2), q = N(0, m^2).

    All terms are positive, while alternating differences of exponentials would cancel. The trapezoidal rule on an
    entire function with a Gaussian's decay converges faster than any power of its step.
    """
    orders = np.arange(2, QUADRATURE_ORDERS + 1, 2)
    if multiplier < 0.05:  # The two Gaussians are so far apart that `plain` is the smaller bound.
        return np.full(len(orders), np.inf)
    x = np.arange(-QUADRATURE_STDS, QUADRATURE_STDS + QUADRATURE_ORDERS / multiplier, MESH_STEP)
    y = x / multiplier - 1 / (2 * multiplier**2)  # log p/q.
    distance = np.maximum(y, 0) + np.log(np.maximum(-np.expm1(-np.abs(y)), 1e-300))  # log |p/q - 1|.
    values = orders[:, None] * distance - x**2 / 2 + math.log(MESH_STEP / math.sqrt(2 * math.pi))
    top = values.max(1)
    return np.asarray(top + np.log(np.exp(values - top[:, None]).sum(1)) + ROUNDING_ALLOWANCE)


@cache
def _log_factorials(highest: int) -> Floats:
    return np.array([math.lgamma(k + 1) for k in range(highest + 1)])
