"""Rules of the schema that no row may break: public knowledge, by which the generator learns what cannot be.

Rows that break a rule are drawn again when a table is sampled. Where the generator makes many of them, what is left has
other shares than were measured. So it is fitted to make few.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....rng import Stream
from ....schema import Schema
from ....schema.definitions import Constraint
from ...shared.bins import Bins
from .derived_columns import POINTS_PER_CELL, drawn_in_cells

Floats = NDArray[np.float64]
MOST_INPUTS, MOST_CELLS = 3, 1 << 14  # of a rule's columns, and of their table: of more, it is met by sampling alone
MOST_DRAWN = 1 << 18  # rows that are held against a rule, beforehand, in all cells together


class BrokenRules:
    """The chance that a generated row breaks a rule, as a function of the mixture's shares; its columns are `read`.

    A rule is left out that reads the target, or so many columns and bins that their table would be too large.
    """

    def __init__(self, schema: Schema, bins: Mapping[str, Bins], rng: Stream, device: torch.device) -> None:
        self._maps = [
            (names, torch.tensor(chance, dtype=torch.float32, device=device))
            for names, chance in chances_of_breaking(schema, bins, rng)
        ]
        self.read = {name for names, _ in self._maps for name in names}

    def chances(self, shares: Mapping[str, Tensor]) -> list[Tensor]:
        """Of each rule, (classes,), from p(bin | latent point, class) of each column, (points, classes, bins)."""
        found = []
        for names, chance in self._maps:
            left = shares[names[0]] @ chance.reshape(len(chance), -1)
            for name in names[1:]:
                own = shares[name]
                left = (own.unsqueeze(-2) @ left.reshape(*own.shape, -1)).squeeze(-2)
            found.append(left[..., 0].mean(0))
        return found


def chances_of_breaking(
    schema: Schema, bins: Mapping[str, Bins], rng: Stream
) -> Iterator[tuple[tuple[str, ...], Floats]]:
    """Yield the columns of each rule that some cells of their table break and others do not, and `chance_of_breaking`.

    Leaves out rules that read the target, and those whose table would be too large.
    """
    for constraint in schema.constraints:
        names = tuple(constraint.inputs)
        small = len(names) <= MOST_INPUTS and math.prod(bins[name].cells for name in names) <= MOST_CELLS
        if small and schema.target not in names:
            chance = chance_of_breaking(constraint, bins, rng)
            if 0 < chance.mean() < 1:
                yield names, chance


def chance_of_breaking(constraint: Constraint, bins: Mapping[str, Bins], rng: Stream) -> Floats:
    """The share of rows that break it in each cell of its inputs' table, values in bins as one-way marginals say."""
    names = tuple(constraint.inputs)
    count = max(1, min(POINTS_PER_CELL, MOST_DRAWN // math.prod(bins[name].cells for name in names)))
    sizes, cell, codes = drawn_in_cells(bins, names, count, rng)
    return np.asarray(np.bincount(cell, constraint.broken(codes), math.prod(sizes)).reshape(sizes) / count)
