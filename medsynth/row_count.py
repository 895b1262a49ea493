"""How many rows a table has: the declared number, weighed against what the noisy counts say.

The declared number is public and costs nothing, but it need not be exact: coins keep rows out of training, a steward
rounds, rows are declared that no longer are there. Every noisy table that all rows are in tells of the number, at no
charge. Shares that are fitted to counts of another total are wrong by the difference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# How likely the declared number is, before counts are seen, to be exact, off as coins leave a number of rows (at most
# half the root of it, as a standard deviation), or rounded and out of date (a fifth of it).
EXACT, BY_COINS, ROUGHLY = 0.5, 0.25, 0.25
COINS_STD, ROUGH_SHARE = 0.5, 0.2
LEAST_STD = 0.5  # rows: a count without noise is taken as it is
PARTS_OF_A_ROW = 1000  # to which a plan's standard deviation of its row count is rounded: model files keep it
COUNTED_ROWS = "counted_rows"  # the likely number among a model's tensors


class NoisyTotal(NamedTuple):
    """What one measurement says of the number of rows, and the standard deviation of its noise."""

    rows: float
    std: float

    @classmethod
    def of(cls, counts: NDArray[np.float64], std: float) -> NoisyTotal:
        """Of a noisy table that every row is in, of any shape, whose cells have noise of `std`."""
        return cls(float(counts.sum()), std * math.sqrt(counts.size))


def likely_rows(declared: int, totals: Sequence[NoisyTotal], std: float = 0.0) -> float:
    """The mean number of rows by `totals` of independent noise, where a declared number is exact, nearly so or rough.

    `std`: by how much it is known to be off, as a standard deviation; then it is not exact.

    >>> likely_rows(4000, [])
    4000.0
    >>> round(likely_rows(4000, [NoisyTotal(3770, 20)])), round(likely_rows(4000, [NoisyTotal(4010, 20)]))
    (3771, 4002)
    """
    if not totals:
        return float(declared)
    precision = np.array([max(total.std, LEAST_STD) ** -2 for total in totals])
    off = float(precision @ [total.rows for total in totals] / precision.sum()) - declared
    prior = std**2 + np.array([0.0, COINS_STD**2 * declared, (ROUGH_SHARE * declared) ** 2])
    spread = prior + 1 / precision.sum()
    odds = np.log([EXACT, BY_COINS, ROUGHLY]) - (np.log(spread) + off**2 / spread) / 2
    likely = np.exp(odds - odds.max())
    return max(declared + off * float(likely @ (prior / spread) / likely.sum()), 1.0)
