"""Of the sampling error of sums and tables of several columns, the part that is that of the columns' own shares."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ..beginning import Beginning
from ..critics.linear import FeatureSums
from ..generator import Generator
from ..two_way_marginals import ColumnPair, expected_tables
from .perturbed import Population

Floats = NDArray[np.float64]


class MainEffects:
    """The part of the sampling error of sums and tables that is that of the columns' own shares, of one replicate.

    It comes with the marginals of the replicate already.
    """

    def __init__(self, beginning: Beginning, blank: Generator, population: Population, replicate: int) -> None:
        self._beginning, self._blank, self._population, self._replicate = beginning, blank, population, replicate

    def _generator(self, k: int) -> tuple[Generator, Floats]:
        own, rows = self._beginning, self._population.rows[k]
        order, (target, cells) = own.schema.names, own.given
        labels = np.asarray(cells.cell_of(rows[:, order.index(target) if target else 0]), np.int64)
        base = {}
        for name in own.columns:
            bins = own.start.bins[name]
            place = bins.cell_of(rows[:, order.index(name)])
            table = np.bincount(labels * bins.cells + place, minlength=cells.cells * bins.cells) + 1e-9
            table = table.reshape(cells.cells, bins.cells)
            base[name] = np.log(table / table.sum(1, keepdims=True))
        totals = np.bincount(labels, minlength=cells.cells).astype(np.float64)
        return self._blank.on(base, fitted=False), totals

    def of_sums(self, sums: FeatureSums) -> Floats:
        """Of a critic's sums, (classes, width)."""

        def expected() -> list[Floats]:
            return [sums.expected(*self._generator(k)) for k in range(len(self._population.rows))]

        every = self._population.answered(("expected sums", 0), expected)
        return np.asarray(self._population.scale * (every[self._replicate] - np.mean(every, axis=0)))

    def of_tables(self, pairs: list[ColumnPair]) -> dict[str, Floats]:
        """Of each pair's table."""

        def expected() -> list[dict[str, Floats]]:
            return [expected_tables(*self._generator(k), pairs) for k in range(len(self._population.rows))]

        every, scale = self._population.answered(("expected tables", 0), expected), self._population.scale
        means = {pair.key: np.mean([one[pair.key] for one in every], axis=0) for pair in pairs}
        return {key: scale * (every[self._replicate][key] - mean) for key, mean in means.items()}
