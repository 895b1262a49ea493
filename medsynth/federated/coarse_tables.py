"""Distances of tables where no one sees exact sums: by coarse noisy tables, which add up over sites.

A distance is no sum over sites, but a table is. Each table of a row's columns is merged to a few cells, measured with
the noise that its distance would have had, and compared with its guess afterwards, at no further cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ..privacy.noise import MEAN_SIZE
from ..privacy.queries.cells import Regrouped
from ..privacy.queries.rows import Axes, CellMap, Floats
from ..privacy.queries.tables import Distances, Marginals
from ..transforms.grid import Grid

PARTS = 4  # of an axis, at most: more cells have more noise in their sum


def _merged(cells: CellMap) -> tuple[CellMap, NDArray[np.int64]]:
    """A map to at most `PARTS` neighbouring parts of the cells, and the first cell of each part."""
    plain = cells.plain() if hasattr(cells, "plain") else cells
    if plain.cells <= PARTS or not isinstance(plain, Grid | Regrouped):
        return plain, np.arange(plain.cells)
    part = np.arange(plain.cells) * PARTS // plain.cells
    first = np.searchsorted(part, np.arange(PARTS))
    if isinstance(plain, Grid):
        return Regrouped(plain, part, PARTS), first
    return Regrouped(plain.grid, part[plain.place], PARTS), first


@dataclass(frozen=True, eq=False)
class CoarseTables:
    """What is asked in place of distances: `query`; and the `guesses` of its tables."""

    query: Marginals
    guesses: Mapping[str, Floats]

    @classmethod
    def of(cls, distances: Distances) -> CoarseTables:
        """Of some tables and their guesses. Each map is merged once, so that tables share their cells."""
        known: dict[int, tuple[CellMap, NDArray[np.int64]]] = {}
        tables: dict[str, Axes] = {}
        guesses: dict[str, Floats] = {}
        for key, axes in distances.tables.items():
            merged = [known.setdefault(id(cells), _merged(cells)) for _, cells in axes]
            tables[key] = [(name, cells) for (name, _), (cells, _) in zip(axes, merged, strict=True)]
            guess = distances.guesses[key]
            for axis, (_, first) in enumerate(merged):
                guess = np.add.reduceat(guess, first, axis=axis)
            guesses[key] = guess
        return cls(Marginals(tables, averaged=distances.averaged), guesses)

    def distances(self, noisy: Mapping[str, Floats], std: float) -> dict[str, float]:
        """L1 distances by name, less what noise of `std` adds to those of equal tables in the mean."""
        noise = MEAN_SIZE * std
        return {key: float((np.abs(noisy[key] - guess) - noise).sum()) for key, guess in self.guesses.items()}
