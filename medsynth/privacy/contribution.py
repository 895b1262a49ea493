"""Whose privacy is kept: one row's, or one patient's with at most so many rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..rng import Entropy


@dataclass(frozen=True)
class Units:
    """The patient of each row, (rows,), numbered from zero, and how many rows a patient may have at most."""

    of: NDArray[np.int64]
    most: int

    @property
    def count(self) -> int:
        """How many patients there are."""
        return int(self.of.max()) + 1 if len(self.of) else 0


def capped(keys: pd.Series, most: int, entropy: Entropy) -> tuple[NDArray[np.int64], Units]:
    """Which rows stay, in their order, when each patient keeps at most `most`, and their patients.

    The rows that stay are drawn by numbers of their own: one patient's rows decide nothing about another's.
    """
    patient = pd.factorize(keys)[0].astype(np.int64)
    draw = np.frombuffer(entropy.bytes(8 * len(patient)), dtype=np.uint64)
    order = np.lexsort((draw, patient))
    first = np.searchsorted(patient[order], patient[order])
    stay = np.sort(order[np.arange(len(order)) - first < most])
    return stay, Units(pd.factorize(patient[stay])[0].astype(np.int64), most)
