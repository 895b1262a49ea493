"""Renyi DP of a Gaussian measurement of one of n shards, sampled evenly and in secret.

Sampling without replacement of one record of n, where one record may be replaced by any other: Wang, Balle and
Kasiviswanathan 2019, theorem 9, with theorem 27's sharper terms for a Gaussian. Bounds hold at whole orders; between
them (order - 1) times the divergence is convex in the order, so that its chord lies above it (their corollary 10).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
# Moments up to this order are found by quadrature; beyond, by the bound 2 exp((j - 1) rdp(j)), which lies above.
QUADRATURE_ORDERS = 64
# Of the quadrature, in standard deviations. It is exact to rounding: tests/privacy/test_without_replacement.py.
MESH_STEP, TAIL_STDS = 0.25, 25.0
ROUNDING_ALLOWANCE = 1e-9  # added to logarithms of moments: their rounding must not fall below the truth


def rdp(multiplier: float, shards: int, orders: Sequence[float]) -> Floats:
    """Renyi divergence bounds of one measurement at `orders`, each above 1: shape (orders,).

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
    """log(1 + sum over j of binomial(order, j) exp(terms[j])): an upper bound of (order - 1) times the divergence."""
    j = np.arange(2, order + 1)
    logs = _LogFactorial.upto(order)
    values = terms[2 : order + 1] + logs[order] - logs[j] - logs[order - j]
    top = max(0.0, float(values.max()))
    return top + math.log(math.exp(-top) + float(np.exp(values - top).sum()))


def _terms(multiplier: float, shards: int, highest: int) -> Floats:
    """Logarithms of what stands beside each binomial coefficient, indexed by j; entries 0 and 1 are unused."""
    j = np.arange(highest + 1, dtype=np.float64)
    plain = math.log(2) + j * (j - 1) / (2 * multiplier**2)  # 2 exp((j - 1) rdp(j))
    even = _even_moments(multiplier)
    sharp = plain.copy()
    for k in range(2, min(highest, QUADRATURE_ORDERS - 1) + 1):
        # For odd j, Cauchy and Schwarz between the even moments beside it.
        sharp[k] = math.log(4) + (even[k // 2 - 1] + even[(k + 1) // 2 - 1]) / 2
    return np.asarray(np.minimum(plain, sharp) - j * math.log(shards))


def _even_moments(multiplier: float) -> Floats:
    """Logarithms of E_q |p/q - 1|^l for l = 2, 4, ..., QUADRATURE_ORDERS; p = N(1, m^2), q = N(0, m^2).

    A sum of positive terms, where alternating differences of exponentials would cancel. The trapezoidal rule on an
    entire function with a Gaussian's decay converges faster than any power of its step.
    """
    orders = np.arange(2, QUADRATURE_ORDERS + 1, 2)
    if multiplier < 0.05:  # two Gaussians so far apart that `plain` is the smaller bound
        return np.full(len(orders), np.inf)
    x = np.arange(-TAIL_STDS, TAIL_STDS + QUADRATURE_ORDERS / multiplier, MESH_STEP)
    y = x / multiplier - 1 / (2 * multiplier**2)  # log p/q
    distance = np.maximum(y, 0) + np.log(np.maximum(-np.expm1(-np.abs(y)), 1e-300))  # log |p/q - 1|
    values = orders[:, None] * distance - x**2 / 2 + math.log(MESH_STEP / math.sqrt(2 * math.pi))
    top = values.max(1)
    return np.asarray(top + np.log(np.exp(values - top[:, None]).sum(1)) + ROUNDING_ALLOWANCE)


class _LogFactorial:
    """Logarithms of factorials, computed once."""

    _known: Floats = np.zeros(1)

    @classmethod
    def upto(cls, highest: int) -> Floats:
        """Logarithms of k! for k = 0 to `highest` at least."""
        if len(cls._known) <= highest:
            cls._known = np.array([math.lgamma(k + 1) for k in range(highest + 1)])
        return cls._known
