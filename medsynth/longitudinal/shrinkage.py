"""What noisy measurements say beyond what was expected of them, with the noise taken out as far as it can be told.

Most pairs of columns have little to do with one another, so most deviations from what was expected are noise, and a few
are large. How many of which size there are is learned from the noisy deviations themselves: a normal prior whose scale
is one of a few, each with a weight (adaptive shrinkage, Stephens 2017). Deviations of one pair of columns are small or
large together: such a group has one of several profiles of weights, and which one is learned with them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.fft import dct

from ..rng import Stream

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
SCALES = np.concatenate([[0.0], 2.0 ** np.arange(-1, 9)])  # of the prior, in standard deviations of the noise
ROUNDS = 50  # of expectation and maximisation
PROFILES = 6  # of the scales' weights, where deviations come in groups
OWN_SCALE = 0.5  # the weight that a profile begins with on the one scale that is its own
LIKE_ALL = 10.0  # so many deviations of all kinds count with those of a kind
LEAST = 1e-300  # of a weight, of which the logarithm is taken


@dataclass(frozen=True, eq=False)
class Alike:
    """Which of (numbers,) deviations belong together, numbered from zero: `groups` have one profile each, and in a
    profile `kinds` of deviations have weights of their own.
    """

    groups: Whole
    kinds: Whole

    @classmethod
    def all(cls, count: int) -> Alike:
        """So many deviations in one group, of one kind."""
        return cls(np.zeros(count, np.int64), np.zeros(count, np.int64))


def shrunk(deviations: Floats, std: float, likely: Floats | None = None) -> Floats:
    """The posterior means of (numbers,) deviations under noise of `std`.

    `likely`: what `chances` gives; if not given, that of one group.
    """
    likely, spread = chances(deviations, std) if likely is None else likely, 1 + SCALES**2
    return np.asarray(deviations * (likely @ (SCALES**2 / spread)))


def drawn(deviations: Floats, std: float, likely: Floats | None = None, *, rng: Stream) -> Floats:
    """One draw of each of (numbers,) deviations from its posterior, under noise of `std`; `likely` as for `shrunk`."""
    below = np.cumsum(chances(deviations, std) if likely is None else likely, 1)
    chosen = SCALES[(rng.random((len(deviations), 1)) > below).sum(1).clip(max=len(SCALES) - 1)]
    kept = chosen**2 / (1 + chosen**2)
    return np.asarray(kept * deviations + std * np.sqrt(kept) * rng.standard_normal(len(deviations)))


def chances(deviations: Floats, std: float, alike: Alike | None = None) -> Floats:
    """How likely each scale is for each deviation, (numbers, scales); without `alike` they are one group."""
    alike = alike or Alike.all(len(deviations))
    spread = 1 + SCALES**2
    squared = (deviations[:, None] / std) ** 2
    log_likelihood = -0.5 * (squared / spread + np.log(spread))
    likelihood = np.exp(log_likelihood - log_likelihood.max(1, keepdims=True))
    kinds = [np.flatnonzero(alike.kinds == kind) for kind in range(alike.kinds.max(initial=0) + 1)]
    profiles = min(PROFILES, int(alike.groups.max(initial=0)) + 1)
    own = OWN_SCALE if profiles > 1 else 0.0
    start = (1 - own) / len(SCALES) + own * np.eye(profiles, len(SCALES))
    weights, shares = np.tile(start, (len(kinds), 1, 1)), np.full(profiles, 1 / profiles)
    for _ in range(ROUNDS):
        ratio, of_groups = _expected(likelihood, weights, shares, kinds, alike.groups)
        shares = np.maximum(of_groups.mean(0), LEAST)
        counts = weights * np.stack([ratio[one].T @ likelihood[one] for one in kinds])
        every = counts.sum(0) / np.maximum(counts.sum((0, 2))[:, None], LEAST)
        weights = np.maximum((counts + LIKE_ALL * every) / (counts.sum(2, keepdims=True) + LIKE_ALL), LEAST)
    ratio, _ = _expected(likelihood, weights, shares, kinds, alike.groups)
    found = np.empty(likelihood.shape)
    for one, own_weights in zip(kinds, weights, strict=True):
        found[one] = likelihood[one] * (ratio[one] @ own_weights)
    return found


def _expected(
    likelihood: Floats, weights: Floats, shares: Floats, kinds: list[Whole], groups: Whole
) -> tuple[Floats, Floats]:
    """How likely each profile is for each deviation's group, over how likely it makes the deviation, (numbers,
    profiles), and for each group, (groups, profiles).

    `likelihood`: (numbers, scales); `weights`: (kinds, profiles, scales); `shares` of the profiles; `kinds`: the places
    of each kind's deviations.
    """
    made = np.empty((len(likelihood), len(shares)))
    for one, own in zip(kinds, weights, strict=True):
        made[one] = likelihood[one] @ own.T
    logs = np.stack([np.bincount(groups, np.log(column)) for column in made.T], 1) + np.log(shares)
    likely = np.exp(logs - logs.max(1, keepdims=True))
    likely /= likely.sum(1, keepdims=True)
    return likely[groups] / made, likely


def shrunk_table(
    deviations: Floats, std: float, ordered: tuple[int, int], posterior: Callable[[Floats, float], Floats] = shrunk
) -> Floats:
    """The same of a table, (classes, bins of one column, bins of the other), by its waves along bins in an order.

    A relation of two numbers is smooth, and lies in few of its table's waves. `ordered`: how many first bins of each
    column are neighbours in value. Classes have priors of their own. `posterior`: means, or draws.
    """
    one, other = (_waves(bins, count) for bins, count in zip(deviations.shape[1:], ordered, strict=True))
    turned = one @ deviations @ other.T
    return np.asarray(one.T @ np.stack([posterior(part.ravel(), std).reshape(part.shape) for part in turned]) @ other)


def _waves(bins: int, ordered: int) -> Floats:
    """An orthonormal change of coordinates, (bins, bins): cosine waves along the first `ordered` bins."""
    found = np.eye(bins)
    if ordered:
        found[:ordered, :ordered] = dct(np.eye(ordered), axis=0, norm="ortho")
    return found
