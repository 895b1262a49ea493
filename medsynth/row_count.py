"""Estimate the number of rows of a table from the public number and from noisy counts.

The public number costs nothing, but it may be inexact: coins hold rows out, a steward rounds, or rows were removed.
Every noisy table of all rows gives another estimate, at no extra cost. Shares that are fitted to counts of a wrong
total are wrong by the difference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from .arrays import Floats

# Prior probabilities that a declared number is exact, is off because coins held rows out (standard deviation: at most
# half the root of the number), or is rounded and out of date (a fifth of it).
EXACT, BY_COINS, ROUGHLY = 0.5, 0.25, 0.25
COINS_STD, ROUGH_SHARE = 0.5, 0.2
LEAST_STD = 0.5  # rows; least noise assumed of a count
PARTS_OF_A_ROW = 1000  # precision of the row count's standard deviation in model files
MAX_ROWS_PER_PATIENT = 1000  # largest bound on the rows per patient
COUNTED_ROWS = "counted_rows"  # name of the estimated number among a model's tensors


class NoisyTotal(NamedTuple):
    """An estimate of the number of rows from one measurement, and the standard deviation of its noise."""

    rows: float
    std: float

    @classmethod
    def of(cls, counts: Floats, std: float) -> NoisyTotal:
        """Return the total of a noisy table of all rows, of any shape, whose cells have noise of `std`."""
        return cls(float(counts.sum()), std * math.sqrt(counts.size))


def likely_rows(public: int, totals: Sequence[NoisyTotal], std: float | None) -> float:
    """Return the mean number of rows given a public number and `totals` with independent noise.

    `std`: the standard deviation of the public number, zero if it was counted in the table. None if it was declared:
    it may be exact, nearly exact, or rough.

    >>> likely_rows(4000, [], None), likely_rows(4000, [NoisyTotal(3770, 20)], 0.0)
    (4000.0, 4000.0)
    >>> [round(likely_rows(4000, [NoisyTotal(rows, 20)], None)) for rows in (3770, 4010)]
    [3770, 4002]
    """
    if not totals:
        return float(public)
    precision = np.array([max(total.std, LEAST_STD) ** -2 for total in totals])
    off = float(precision @ [total.rows for total in totals] / precision.sum()) - public
    chances = [1.0]
    prior = np.array([std or 0.0]) ** 2
    if std is None:
        chances = [EXACT, BY_COINS, ROUGHLY]
        prior = np.array([0.0, COINS_STD**2 * public, (ROUGH_SHARE * public) ** 2])
    spread = prior + 1 / precision.sum()
    odds = np.log(chances) - (np.log(spread) + off**2 / spread) / 2
    likely = np.exp(odds - odds.max())
    return max(public + off * float(likely @ (prior / spread) / likely.sum()), 1.0)
