"""From an attacker's errors to lower bounds on what a mechanism gives away, with stated confidence.

An attacker sees one release and guesses which of two neighbouring tables it came from. Repeated trials count false
positives and false negatives; exact binomial intervals (Clopper, Pearson 1934) bound the true rates from above; any
mechanism with a smaller mu or epsilon would have larger error rates (Dong, Roth, Su 2022; Kairouz, Oh, Viswanath 2015).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri
from scipy.stats import beta

Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class Errors:
    """Upper bounds on an attacker's error rates that hold together with the given confidence."""

    false_positive: float
    false_negative: float

    def mu(self) -> float:
        """The least mu under which some attacker can do as well: Gaussian differential privacy, at least zero."""
        return float(max(0.0, -ndtri(self.false_positive) - ndtri(self.false_negative)))

    def epsilon(self, delta: float) -> float:
        """The least epsilon at `delta` under which some attacker can do as well, in either direction; at least zero."""
        found = 0.0
        for one, other in (
            (self.false_positive, self.false_negative),
            (self.false_negative, self.false_positive),
        ):
            if 1 - delta - other > 0:
                found = max(found, math.log((1 - delta - other) / one))
        return found


def upper_rate(hits: int, trials: int, risk: float) -> float:
    """An upper bound on a rate that fails with probability at most `risk`: Clopper and Pearson's, one-sided.

    >>> round(upper_rate(0, 100, 0.05), 4)
    0.0295
    """
    return 1.0 if hits >= trials else float(beta.ppf(1 - risk, hits + 1, trials - hits))


def errors(without: Floats, present: Floats, confidence: float) -> Errors:
    """What an attacker's scores prove: scores of releases `without` the target, (trials,), and with it `present`.

    Larger scores speak for presence. The threshold is chosen on the first half of either and judged on the second, so
    that the choice costs no confidence. Raises ValueError for fewer than four trials a side.
    """
    if min(len(without), len(present)) < 4:
        raise ValueError("an audit needs four trials a side or more")
    learn, judged = (without[::2], present[::2]), (without[1::2], present[1::2])
    risk = (1 - confidence) / 2
    threshold = _best_threshold(*learn, risk)
    return errors_at(threshold, *judged, confidence)


def errors_at(threshold: float, without: Floats, present: Floats, confidence: float) -> Errors:
    """What scores prove of an attacker who guesses "present" beyond a `threshold` that was fixed beforehand."""
    risk = (1 - confidence) / 2
    return Errors(
        false_positive=upper_rate(int((without > threshold).sum()), len(without), risk),
        false_negative=upper_rate(int((present <= threshold).sum()), len(present), risk),
    )


def _best_threshold(without: Floats, present: Floats, risk: float) -> float:
    """The threshold whose bounded error rates give the largest mu: rates far in a tail are known too badly to count."""
    places = np.quantile(np.concatenate([without, present]), np.linspace(0.005, 0.995, 199))
    hits = (without[:, None] > places).sum(0), (present[:, None] <= places).sum(0)
    rates = [
        np.where(k < len(side), beta.ppf(1 - risk, k + 1, np.maximum(len(side) - k, 1)), 1 - 1e-12)
        for k, side in zip(hits, (without, present), strict=True)
    ]
    return float(places[np.argmax(-ndtri(rates[0]) - ndtri(rates[1]))])
