"""How many rows a table has: the public number, weighed against what the noisy counts say.

The public number costs nothing, but it need not be exact: coins keep rows out of training, a steward rounds, rows are
declared that no longer are there. Every noisy table that all rows are in tells of the number, at no charge. Shares that
are fitted to counts of another total are wrong by the difference.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

# How likely a declared number is, before counts are seen, to be exact, off as coins leave a number of rows (at most
# half the root of it, as a standard deviation), or rounded and out of date (a fifth of it).
EXACT, BY_COINS, ROUGHLY = 0.5, 0.25, 0.25
COINS_STD, ROUGH_SHARE = 0.5, 0.2
LEAST_STD = 0.5  # rows: a count without noise is taken as it is
PARTS_OF_A_ROW = 1000  # to which a plan's standard deviation of its row count is rounded: model files keep it
MAX_ROWS_PER_PATIENT = 1000  # of those that a patient may count with
COUNTED_ROWS = "counted_rows"  # the likely number among a model's tensors


class NoisyTotal(NamedTuple):
    """What one measurement says of the number of rows, and the standard deviation of its noise."""

    rows: float
    std: float

    @classmethod
    def of(cls, counts: NDArray[np.float64], std: float) -> NoisyTotal:
        """Of a noisy table that every row is in, of any shape, whose cells have noise of `std`."""
        return cls(float(counts.sum()), std * math.sqrt(counts.size))


def likely_rows(public: int, totals: Sequence[NoisyTotal], std: float | None) -> float:
    """The mean number of rows by a public number and by `totals` of independent noise.

    `std`: by how much the public number is off, as a standard deviation, none where it is the table's own; None where
    it was declared, by whom nobody knows: it may be exact, nearly so, or rough.

    >>> likely_rows(4000, [], None), likely_rows(4000, [NoisyTotal(3770, 20)], 0.0)
    (4000.0, 4000.0)
    >>> [round(likely_rows(4000, [NoisyTotal(rows, 20)], None)) for rows in (3770, 4010)]
    [3770, 4002]
    """
    if not totals:
        return float(public)
    precision = np.array([max(total.std, LEAST_STD) ** -2 for total in totals])
    off = float(precision @ [total.rows for total in totals] / precision.sum()) - public
    chances, prior = [1.0], np.array([std or 0.0]) ** 2
    if std is None:
        chances = [EXACT, BY_COINS, ROUGHLY]
        prior = np.array([0.0, COINS_STD**2 * public, (ROUGH_SHARE * public) ** 2])
    spread = prior + 1 / precision.sum()
    odds = np.log(chances) - (np.log(spread) + off**2 / spread) / 2
    likely = np.exp(odds - odds.max())
    return max(public + off * float(likely @ (prior / spread) / likely.sum()), 1.0)
