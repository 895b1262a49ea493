"""Bins of a column merged into fewer by a public map."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..methods.shared.bins import Bins
from ..privacy.queries.cells import Regrouped
from ..privacy.queries.rows import Codes


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
