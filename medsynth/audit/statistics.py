"""From an attacker's errors to lower bounds on what a mechanism leaks, with stated confidence.

An attacker sees one release and guesses which of two neighbouring tables it came from. Repeated trials count false
positives and false negatives. Exact binomial intervals (Clopper, Pearson 1934) bound the true rates from above. Any
mechanism with a smaller mu or epsilon would have larger error rates (Dong, Roth, Su 2022; Kairouz, Oh, Viswanath 2015).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.special import ndtr, ndtri
from scipy.stats import beta, binom

from ..arrays import Floats
from ..privacy.accounting import accountant

Step = Callable[[int, int], None]  # Steps done, steps in total.
DELTA = 1e-5  # The delta at which epsilon is stated.
MOST_MU, MOST_EPSILON = 20.0, 200.0  # Largest values shown. No feasible number of trials proves more.
ROUNDING = 1e-6  # Relative. A bound that exceeds its claim by less equals the claim.


def silent(done: int, total: int) -> None:
    """Report no progress."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """Claims and lower bounds of one attack, each bound with `confidence`. None: nothing is claimed or proven.

    `mu`: separation of the two neighbouring tables in standard deviations of the noise. With a `rate` below one, the
    target takes part in a release only with that chance, and `mu` is that of a release with it. `epsilon`: at `delta`.
    `chance`: of an outcome that only one of the two tables can produce. `published`: the claim is a paper's and not
    medsynth's. `reached_mu`: the exact separation of the audited pair of tables, without noise and so without chance.
    """

    part: str
    name: str
    worst_case: str
    trials: int
    confidence: float
    claimed_mu: float | None = None
    proven_mu: float | None = None
    reached_mu: float | None = None
    rate: float = 1.0
    delta: float = DELTA
    claimed_epsilon: float | None = None
    proven_epsilon: float | None = None
    claimed_chance: float | None = None
    proven_chance: float | None = None
    published: bool = False

    @property
    def _pairs(self) -> list[tuple[float, float]]:
        """Return the claims, each with what was proven: mu, epsilon and a chance."""
        claimed = self.claimed_mu, self.claimed_epsilon, self.claimed_chance
        proven = self.proven_mu, self.proven_epsilon, self.proven_chance
        return [(a, b) for a, b in zip(claimed, proven, strict=True) if a is not None and b is not None]

    @property
    def refutes(self) -> bool:
        """Return whether a claim is refuted, at this confidence or exactly."""
        pairs = [*self._pairs, (self.claimed_mu or 0.0, self.reached_mu or 0.0)]
        return any(proven > claimed * (1 + ROUNDING) for claimed, proven in pairs)

    @property
    def share(self) -> float | None:
        """Return what was proven as a share of the claim: of mu, else of epsilon, else of a chance."""
        return next((proven / claimed for claimed, proven in self._pairs if claimed), None)

    @property
    def shown(self) -> list[str]:
        """Return as text the claimed and proven mu or chance, then the epsilons."""
        claimed = self.claimed_chance if self.claimed_mu is None else self.claimed_mu
        proven = self.proven_chance if self.proven_mu is None else self.proven_mu
        numbers = [(claimed, 3), (proven, 3), (self.claimed_epsilon, 2), (self.proven_epsilon, 2)]
        return ["" if number is None else f"{number:.{digits}f}" for number, digits in numbers]

    def to_json(self) -> dict[str, Any]:
        """Return plain data."""
        return {**asdict(self), "share": self.share, "refutes": self.refutes}


def gaussian_epsilon(mu: float, delta: float = DELTA) -> float:
    """Return the epsilon at `delta` of a Gaussian measurement of separation `mu`, exactly, at most MOST_EPSILON.

    >>> round(gaussian_epsilon(1.0), 3)
    4.377
    """
    return min(accountant.gaussian_epsilon(mu, delta), MOST_EPSILON) if mu > 0 else 0.0


@dataclass(frozen=True, kw_only=True)
class Errors:
    """Upper bounds on an attacker's error rates that are valid together with the given confidence."""

    false_positive: float
    false_negative: float

    def mu(self, rate: float = 1.0) -> float:
        """Return the least mu, up to MOST_MU, at which an attacker can do as well: Gaussian differential privacy.

        With a `rate` below one the target takes part in the measurement with that chance. The trade-off curve is then a
        mixture of a Gaussian's and of guessing (Dong, Roth, Su 2022, section 4).
        """
        return float(np.clip(_mu(np.array(self.false_positive), np.array(self.false_negative), rate), 0.0, MOST_MU))

    def epsilon(self, delta: float) -> float:
        """Return the least epsilon, at least zero, at `delta` at which an attacker can do as well in some direction."""
        rates = self.false_positive, self.false_negative
        ratios = [(1 - delta - other) / one for one, other in (rates, rates[::-1])]
        return math.log(max(1.0, *ratios))


def upper_rate(hits: int, trials: int, risk: float) -> float:
    """Return an upper bound on a rate that fails with probability at most `risk` (one-sided Clopper-Pearson).

    >>> round(upper_rate(0, 100, 0.05), 4)
    0.0295
    """
    return 1.0 if hits >= trials else float(beta.ppf(1 - risk, hits + 1, trials - hits))


def gaussian_mu(without: Floats, present: Floats, confidence: float) -> float:
    """Return the least mu at which an attacker can guess as well who says "present" for scores above zero.

    Both error rates are bounded together. At any threshold a Gaussian trade-off curve adds up to at least twice the
    normal tail below -mu / 2 (Dong, Roth, Su 2022). With as many trials on both sides, the number of wrong guesses
    varies at most as a binomial one with their mean rate (Hoeffding 1956, theorem 5). So one interval bounds this mean.
    Raises ValueError for unequal numbers of trials.

    >>> round(gaussian_mu(np.arange(-99.0, 1.0), np.arange(1.0, 101.0), 0.95), 1)
    4.3
    """
    if len(without) != len(present):
        raise ValueError("both sides need as many trials")
    wrong = int((without > 0).sum()) + int((present <= 0).sum())
    mean = upper_rate(wrong, 2 * len(without), 1 - confidence)
    return float(np.clip(-2 * ndtri(mean), 0.0, MOST_MU))


def errors(without: Floats, present: Floats, confidence: float, rate: float = 1.0) -> Errors:
    """Return what an attacker's scores prove, from releases `without` the target, (trials,), and with it, `present`.

    Larger scores indicate presence. The threshold is chosen on the first half of both and applied to the second, so
    that the choice costs no confidence. Raises ValueError for fewer than four trials per side.
    """
    if min(len(without), len(present)) < 4:
        raise ValueError("an audit needs at least four trials per side")
    learn, judged = (without[::2], present[::2]), (without[1::2], present[1::2])
    places = np.quantile(np.concatenate(learn), np.linspace(0.005, 0.995, 199))
    hits = (learn[0][:, None] > places).mean(0), (learn[1][:, None] <= places).mean(0)
    threshold = _most_telling(places, *hits, len(learn[0]), (1 - confidence) / 2, rate)
    return errors_at(threshold, *judged, confidence)


def errors_at(threshold: float, without: Floats, present: Floats, confidence: float) -> Errors:
    """Return what scores prove if the attacker guesses "present" above a `threshold` that was fixed in advance."""
    risk = (1 - confidence) / 2
    return Errors(
        false_positive=upper_rate(int((without > threshold).sum()), len(without), risk),
        false_negative=upper_rate(int((present <= threshold).sum()), len(present), risk),
    )


def best_threshold(mu: float, rate: float, trials: int, risk: float) -> float:
    """Return the threshold at which this number of trials should prove most of a claimed `mu` at a `rate`.

    >>> 0.9 < best_threshold(2.0, 1.0, 1000, 1e-3) < 1.1
    True
    """
    places = np.linspace(0, 1.2, 121) * mu
    false_positive = ndtr(-places)
    return _most_telling(places, false_positive, 1 - rate * ndtr(mu - places) - (1 - rate) * false_positive,
                         trials, risk, rate)  # fmt: skip


def _most_telling(
    places: Floats, false_positive: Floats, false_negative: Floats, trials: int, risk: float, rate: float
) -> float:
    """Return the threshold whose bounded error rates give the largest mu. Rates far in a tail are too uncertain."""
    hits = [trials * share for share in (false_positive, false_negative)]
    upper = [np.where(k < trials, beta.ppf(1 - risk, k + 1, np.maximum(trials - k, 1)), 1 - 1e-12) for k in hits]
    return float(places[np.argmax(_mu(upper[0], upper[1], rate))])


def _mu(false_positive: Floats, false_negative: Floats, rate: float) -> Floats:
    """Return the mu of a Gaussian measurement at these error rates; the target takes part with the chance `rate`."""
    power = (1 - false_negative - (1 - rate) * false_positive) / rate  # For releases with the target.
    return np.asarray(ndtri(np.clip(power, 0.0, 1.0)) - ndtri(false_positive))


def one_run_epsilon(right: int, guesses: int, canaries: int, delta: float, risk: float) -> float:
    """Return a lower bound on epsilon from one fit with many independent canaries; it fails with at most `risk`.

    A fair coin included each of `canaries`. The attacker made `guesses` and skipped the rest; `right` of them were
    right. Under (epsilon, delta)-privacy the number of right guesses is below a binomial one, plus a term of delta. Its
    success probability is exp(epsilon) / (1 + exp(epsilon)). Source: Steinke, Nasr, Jagielski 2023, theorem 5.2.
    """

    def by_chance(epsilon: float) -> float:
        """Return an upper bound on the chance of at least `right` right guesses."""
        chance = 1 / (1 + math.exp(-epsilon))
        upto = np.arange(1, right + 1)
        # The delta term: 2 m delta times the largest mean of the last i point masses below `right`.
        worst = float(np.max(np.cumsum(binom.pmf(right - upto, guesses, chance)) / upto))
        return float(binom.sf(right - 1, guesses, chance)) + 2 * canaries * delta * worst

    if not right or by_chance(0.0) > risk:
        return 0.0
    low, high = 0.0, 50.0
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (middle, high) if by_chance(middle) <= risk else (low, middle)
    return low
