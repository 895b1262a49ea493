"""A critic of random features of three columns at once, beyond what two-way marginals contain.

A feature is the cosine or sine of a sum of random phases, one for the bin of each of three random columns, beside the
class. Given a latent point columns are independent, so the generator's expected features are products of the
columns' characteristic functions, exactly. The best linear critic under a norm bound is the difference between real and
expected features: one noised gradient sum contains all that its steps would need (MMD-GAN, Li et al. 2017, with the
features of Rahimi and Recht 2007, and measured once as in DP-MERF, Harder et al. 2021).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....privacy.queries.kinds import kind
from ....privacy.queries.rows import CellMap, Codes, column_of
from ...shared.bins import Bins
from ..budget_rule import COLUMNS_READ
from ..generator import Generator

Floats = NDArray[np.float64]
LARGEST_SCALE = 3.0  # standard deviation of the phases of the largest frequencies; the smallest have one over it
TURN = 1 << 16  # phases are whole multiples of so small a part of a turn: their sums are exact, their cosines a table


@kind("triples")
@dataclass(frozen=True, eq=False)
class TripleFeatures:
    """Cosines and sines of sums of phases of a row's bins, in the place of the row's class: of norm one.

    cells: the columns, in whose order `turns`, (all bins, frequencies), are the phases of their bins in parts of a
    turn; chosen: (frequencies, columns read), which columns a frequency reads; given: the target and its classes;
    order: the names of the codes' columns.
    """

    cells: Mapping[str, CellMap]
    order: tuple[str, ...]
    given: tuple[str, CellMap]
    chosen: Tensor
    turns: Tensor

    def __call__(self, codes: Codes) -> Tensor:
        """(rows, classes * 2 * frequencies), zero but for the row's own class.

        By sums of whole numbers and a table: no row's features depend on the rows beside it.
        """
        target, classes = self.given
        labels = torch.from_numpy(np.asarray(classes.cell_of(column_of(codes, self.order, target)), np.int64))
        names, count = list(self.cells), self.turns.shape[1]
        starts = np.cumsum([0, *(cells.cells for cells in self.cells.values())])
        places = torch.zeros(len(codes), len(names), dtype=torch.int64)
        for j in np.unique(self.chosen).tolist():
            place = self.cells[names[j]].cell_of(codes[:, self.order.index(names[j])])
            places[:, j] = torch.from_numpy(place + int(starts[j]))
        turns = torch.zeros(len(codes), count, dtype=torch.int64)
        for column_read in self.chosen.T:
            turns += self.turns[places[:, column_read], torch.arange(count)]
        both = torch.cat(list(_circle(count)[:, turns & (TURN - 1)]), 1)
        hot = torch.nn.functional.one_hot(labels, classes.cells).float()
        return (hot[:, :, None] * both[:, None, :]).flatten(1)


@lru_cache(maxsize=2)
def _circle(count: int) -> Tensor:
    """Cosines and sines of all parts of a turn, (2, TURN), such that `count` pairs have norm one."""
    circle = torch.arange(TURN, dtype=torch.float64) * (math.tau / TURN)
    return (torch.stack([circle.cos(), circle.sin()]) / math.sqrt(count)).float()


class TripleCritic:
    """`count` random frequencies over the columns `names`, each as cosine and sine: a row's features have norm one.

    `bins` are every column's bins, `given` names the target and maps its codes to classes, `order` are the names of
    the codes' columns.
    """

    def __init__(
        self,
        bins: dict[str, Bins],
        names: list[str],
        given: tuple[str, CellMap],
        order: tuple[str, ...],
        count: int,
        stream: torch.Generator,
    ) -> None:
        self.bins, self.names, self.given, self.order, self.count = bins, names, given, order, count
        sizes = [bins[name].cells for name in names]
        self.starts = np.cumsum([0, *sizes])
        reads = min(COLUMNS_READ, len(names))
        self.chosen = torch.rand(count, len(names), generator=stream).argsort(1)[:, :reads]
        wide = LARGEST_SCALE ** (1 - 2 * torch.rand(count, generator=stream))
        # (all bins, frequencies): the phase of each bin of a column that the frequency reads, in parts of a turn.
        self._turns = torch.zeros(int(self.starts[-1]), count, dtype=torch.int32)
        for j, name in enumerate(names):
            phases = torch.randn(sizes[j], count, generator=stream) * wide
            if few := bins[
                name
            ].ordered:  # neighbours in value have like phases: a frequency times the bin's normal score
                phases[:few] = torch.special.ndtri((torch.arange(few) + 0.5) / few)[:, None] * phases[:1]
            here = (self.chosen == j).any(1)
            turns = (phases[:, here].double() * (TURN / math.tau)).round()
            self._turns[int(self.starts[j]) : int(self.starts[j + 1]), here] = turns.int()

    @property
    def features(self) -> TripleFeatures:
        """The map from codes to (rows, classes * 2 * count)."""
        cells = {name: self.bins[name] for name in self.names}
        return TripleFeatures(cells, self.order, self.given, self.chosen, self._turns)

    @property
    def width(self) -> int:
        """Features of a class."""
        return 2 * self.count

    @property
    def columns_read(self) -> set[str]:
        """The names of the columns that some frequency reads."""
        return {self.names[j] for j in np.unique(self.chosen).tolist()}

    def expectation(self, generator: Generator) -> ExpectedFeatures:
        """The mean features as a function of the shares of a generator, which has all columns that are read."""
        entries, device = [], generator.base.device
        for slot, columns in enumerate(self.chosen.T.tolist()):
            for frequency, j in enumerate(columns):
                own = torch.arange(int(self.starts[j]), int(self.starts[j + 1]))
                bins = own - int(self.starts[j]) + generator.spans[self.names[j]].start
                row = torch.full_like(own, slot * self.count + frequency)
                entries.append(torch.stack([row, bins, self._turns[own, frequency].long()]))
        rows, bins, turns = torch.cat(entries, 1)
        size = self.chosen.numel()
        phases = turns * (math.tau / TURN)
        matrix = torch.sparse_coo_tensor(
            torch.stack([torch.cat([rows, rows + size]), bins.repeat(2)]),
            torch.cat([phases.cos(), phases.sin()]),
            (2 * size, generator.base.shape[1]),
            check_invariants=True,
        )
        return ExpectedFeatures(matrix.coalesce().to(device), self.count)


@dataclass(frozen=True, eq=False)
class ExpectedFeatures:
    """The critic's mean features of generated rows. `matrix`, (2 * columns read * frequencies, all bins), sparse: the
    cosine, then the sine, of the phase of each bin that a frequency reads.
    """

    matrix: Tensor
    count: int

    def of(self, shares: Tensor) -> Tensor:
        """Of each class, (classes, 2 * count), from p(bin | point, class), (all bins, classes, points)."""
        parts = torch.sparse.mm(self.matrix, shares.flatten(1)).reshape(2, -1, self.count, *shares.shape[1:])
        (real, *cosines), (imaginary, *sines) = (part.unbind() for part in parts.unbind())
        for c, s in zip(cosines, sines, strict=True):
            real, imaginary = real * c - imaginary * s, real * s + imaginary * c
        return torch.cat([real.mean(-1), imaginary.mean(-1)]).T / math.sqrt(self.count)
