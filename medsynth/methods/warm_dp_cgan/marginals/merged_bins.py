"""Bins of a column merged into fewer by a public map."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ....privacy.queries.cells import Regrouped
from ....privacy.queries.rows import Codes
from ...shared.bins import Bins


@dataclass(frozen=True)
class MergedBins:
    """Bins of a column merged by a public map: `part` (bins,) is the coarse bin of each."""

    bins: Bins
    part: NDArray[np.int64]

    @property
    def cells(self) -> int:
        """Number of coarse bins."""
        return int(self.part.max()) + 1

    def cell_of(self, codes: Codes) -> NDArray[np.int64]:
        """The coarse bin of each code."""
        return self.part[self.bins.cell_of(codes)]

    def plain(self) -> Regrouped:
        """The same map without what else is known of the column."""
        return Regrouped(self.bins.grid, self.part[self.bins.place].astype(np.int64), self.cells)

    @classmethod
    def runs(cls, bins: Bins) -> MergedBins:
        """Runs of neighbouring bins of a number, as many bins in each as there are runs; missing values alone.

        How many rows lie in a range of n bins is known to the noise of about the root of n cells by such runs and the
        bins, where by the bins alone it is known to that of n.
        """
        count = math.isqrt(bins.ordered)
        part = np.arange(bins.ordered) * count // bins.ordered
        return cls(bins, np.append(part, count + np.arange(bins.cells - bins.ordered)).astype(np.int64))
