"""The critic: linear in fixed random features of three columns at once, beyond what two-way marginals contain.

A feature is the cosine or sine of a sum of random phases, one for the bin of each of three random columns, beside the
class. Given a latent point columns are independent, so the generator's expected features are products of the
columns' characteristic functions, exactly. The best linear critic under a norm bound is the difference between real and
expected features: one noised gradient sum contains all that its steps would need (MMD-GAN, Li et al. 2017, with the
features of Rahimi and Recht 2007, and measured once as in DP-MERF, Harder et al. 2021).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ...privacy.networks import Mlp
from ...privacy.vault import CellMap, Codes, Vault
from ..shared.bins import Bins

COLUMNS_READ = 3  # by a feature
LARGEST_SCALE = 3.0  # standard deviation of the phases of the largest frequencies; the smallest have one over it
TURN = 1 << 16  # phases are whole multiples of so small a part of a turn: their sums are exact, their cosines a table
CLIPPING_NORM = 1.0  # features have norm one, so that clipping changes nothing


class Critic:
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
        chosen = torch.rand(count, len(names), generator=stream).argsort(1)[:, :reads]
        wide = LARGEST_SCALE ** (1 - 2 * torch.rand(count, generator=stream))
        # (columns read, all bins, frequencies): the phase of each bin, and whether the frequency reads its column.
        self.phases = torch.zeros(reads, int(self.starts[-1]), count)
        self.reads = torch.zeros_like(self.phases)
        for j, name in enumerate(names):
            span = slice(int(self.starts[j]), int(self.starts[j + 1]))
            phases = torch.randn(sizes[j], count, generator=stream) * wide
            if few := bins[
                name
            ].ordered:  # neighbours in value have like phases: a frequency times the bin's normal score
                phases[:few] = torch.special.ndtri((torch.arange(few) + 0.5) / few)[:, None] * phases[:1]
            for slot in range(reads):
                here = chosen[:, slot] == j
                self.phases[slot, span, here] = phases[:, here]
                self.reads[slot, span, here] = 1.0
        turns = (self.phases.double() * (TURN / math.tau)).round()
        self.phases = (turns * (math.tau / TURN)).float()
        self._turns = turns.sum(0).long()  # of each bin, over the frequencies that read its column
        circle = torch.arange(TURN, dtype=torch.float64) * (math.tau / TURN)
        self._circle = (torch.stack([circle.cos(), circle.sin()]) / math.sqrt(count)).float()

    def to(self, device: str) -> Critic:
        """This critic on another device; rows are read on the CPU."""
        self._cos, self._sin = ((f(self.phases) * self.reads).to(device) for f in (torch.cos, torch.sin))
        return self

    def features(self, codes: Codes) -> Tensor:
        """(rows, classes * 2 * count): the features in the place of the row's own class, zero elsewhere.

        By sums of whole numbers and a table: no row's features depend on the rows beside it.
        """
        target, cells = self.given
        column = codes[:, self.order.index(target) if target else 0]
        labels = torch.from_numpy(np.asarray(cells.cell_of(column), np.int64))
        turns = torch.zeros(len(codes), self.count, dtype=torch.int64)
        for start, name in zip(self.starts, self.names, strict=False):
            place = self.bins[name].cell_of(codes[:, self.order.index(name)]) + int(start)
            turns += self._turns[torch.from_numpy(place)]
        both = torch.cat(list(self._circle[:, turns & (TURN - 1)]), 1)
        hot = torch.nn.functional.one_hot(labels, cells.cells).float()
        return (hot[:, :, None] * both[:, None, :]).reshape(len(codes), -1)

    def expected(self, shares: dict[str, Tensor]) -> Tensor:
        """The mean features of generated rows of each class, (classes, 2 * count), from p(bin | point, class)."""
        side = torch.cat([shares[name] for name in self.names], -1)
        real, imaginary = torch.ones_like(side[..., :1]), torch.zeros_like(side[..., :1])
        for cos, sin in zip(self._cos, self._sin, strict=True):
            c, s = side @ cos, side @ sin
            real, imaginary = real * c - imaginary * s, real * s + imaginary * c
        return torch.cat([real.mean(0), imaginary.mean(0)], -1) / math.sqrt(self.count)

    def measure(self, vault: Vault, label: str, noise: float) -> FeatureSums:
        """Measure the gradient sum of a linear critic on real rows: minus it is the sum of their features."""
        classes = self.given[1].cells
        linear = Mlp([classes * 2 * self.count, 1], bias=False)
        (total,) = vault.measure_gradient_sum(label, linear, lambda out: -out[:, 0], self.features, CLIPPING_NORM)
        return FeatureSums(self, -total.reshape(classes, -1).to(self._cos.device), noise * CLIPPING_NORM)


@dataclass(frozen=True, eq=False)
class FeatureSums:
    """Noisy sums of a critic's features over real rows, (classes, 2 * count), and their noise's standard deviation."""

    critic: Critic
    totals: Tensor
    std: float
