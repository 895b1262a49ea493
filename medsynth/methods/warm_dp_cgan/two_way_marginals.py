"""Two-way marginals by class: what the generator expects of them, and fitting it to their noisy tables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...privacy.vault import Axes, CellMap, Codes
from ..shared.bins import Bins
from ..shared.mixture import MixtureOfProducts
from .class_marginals import ClassMarginals
from .critic import FeatureSums
from .derived_columns import ExpectedDerived

Floats = NDArray[np.float64]
STEPS_PER_ROUND = 200  # of Adam, after each round but the last
LEARNING_RATE = 4e-3
RESIDUAL_PRIOR_STD = 1.0


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


@dataclass(frozen=True, eq=False)
class ColumnPair:
    """Two columns, and the coarse bin of each of their bins."""

    one: str
    other: str
    part_one: NDArray[np.int64]
    part_other: NDArray[np.int64]

    @property
    def key(self) -> str:
        """A name for the pair's measurements."""
        return f"{self.one} x {self.other}"

    def axes(self, given: tuple[str, CellMap], bins: dict[str, Bins]) -> Axes:
        """The axes of its table: class, coarse bin of the one, coarse bin of the other."""
        return [
            given,
            (self.one, MergedBins(bins[self.one], self.part_one)),
            (self.other, MergedBins(bins[self.other], self.part_other)),
        ]


@dataclass(frozen=True, eq=False)
class TwoWayMarginal:
    """A pair's noisy table, (classes, coarse bins, coarse bins), and its noise's standard deviation."""

    pair: ColumnPair
    table: Floats
    std: float


class _ExpectedTables:
    """Expected tables of pairs, as functions of the shares of a mixture, which has their columns.

    Tables of one shape are computed at once: `groups` are the places of their pairs in the list.
    """

    def __init__(self, pairs: Sequence[ColumnPair], totals: Floats, mixture: MixtureOfProducts) -> None:
        device = mixture.base.device
        self._totals = torch.tensor(totals, dtype=torch.float32, device=device)[:, None, None]
        parts = {p.one: p.part_one for p in pairs} | {p.other: p.part_other for p in pairs}
        sizes = {name: int(part.max()) + 1 for name, part in parts.items()}
        first = dict(zip(sizes, np.cumsum([0, *sizes.values()]).tolist(), strict=False))
        self._coarse_bins = sum(sizes.values())
        place = np.full(mixture.base.shape[1], self._coarse_bins)  # of a column that is in no pair: in none
        for name, part in parts.items():
            place[mixture.spans[name]] = first[name] + part
        self._place = torch.from_numpy(place).to(device)
        shapes: dict[tuple[int, int], list[int]] = {}
        for k, p in enumerate(pairs):
            shapes.setdefault((sizes[p.one], sizes[p.other]), []).append(k)
        self.groups = list(shapes.values())
        self._shapes = [(len(group), size) for shape, group in shapes.items() for size in shape]
        sides = [name for group in self.groups for name in (*(pairs[k].one for k in group), *(pairs[k].other for k in group))]
        rows = [np.arange(first[name], first[name] + sizes[name]) for name in sides]
        self._rows = torch.from_numpy(np.concatenate(rows or [np.empty(0, np.int64)])).to(device)

    def tables(self, shares: Tensor) -> list[Tensor]:
        """(pairs, classes, bins, bins) of each group, from (all bins, classes, points): class totals times the mean
        over latent points of outer products.
        """
        coarse = shares.new_zeros(self._coarse_bins + 1, *shares.shape[1:]).index_add(0, self._place, shares)
        parts = coarse.index_select(0, self._rows).split([count * size for count, size in self._shapes])
        sides = [part.unflatten(0, shape) for part, shape in zip(parts, self._shapes, strict=True)]
        scale = self._totals / shares.shape[-1]
        return [
            scale * torch.einsum("nakz,nbkz->nkab", one, other)
            for one, other in zip(sides[::2], sides[1::2], strict=True)
        ]


def expected_tables(mixture: MixtureOfProducts, totals: Floats, pairs: Sequence[ColumnPair]) -> dict[str, Floats]:
    """What the generator expects of each pair's table."""
    part = mixture.part({name for pair in pairs for name in (pair.one, pair.other)})
    expected = _ExpectedTables(pairs, totals, part)
    with torch.no_grad():
        groups = expected.tables(part.by_bin()[1])
    found = {
        k: table
        for group, tables in zip(expected.groups, groups, strict=True)
        for k, table in zip(group, tables.double().cpu().numpy(), strict=True)
    }
    return {pair.key: found[k] for k, pair in enumerate(pairs)}


class _Loss:
    """Squared errors of what the columns of a mixture expect, in variances of the noise of what was measured."""

    def __init__(
        self, mixture: MixtureOfProducts, start: ClassMarginals, measured: Sequence[TwoWayMarginal],
        sums: FeatureSums | None, derived: ExpectedDerived,
    ) -> None:  # fmt: skip
        def tensor(values: Floats) -> Tensor:
            return torch.tensor(values, dtype=torch.float32, device=mixture.base.device)

        self._sizes, self._names, self._derived = mixture.sizes, mixture.names, derived
        self._rows = tensor(start.totals)
        self._features = (sums, sums.critic.expectation(mixture)) if sums else None
        self._own = [self._marginals(start, self._names, tensor)]
        self._own += [self._marginals(start, [name], tensor) for name in derived.inputs]
        self._expected = _ExpectedTables([m.pair for m in measured], start.totals, mixture)
        self._tables = [
            (tensor(np.stack([measured[k].table for k in group])), tensor(np.array([measured[k].std for k in group])))
            for group in self._expected.groups
        ]

    @staticmethod
    def _marginals(
        start: ClassMarginals, names: Sequence[str], tensor: Callable[[Floats], Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Of columns side by side: shares by class, (bins, classes), and the noise of a cell and of a bin."""
        sizes = [start.base[name].shape[1] for name in names]
        noise = [np.repeat([std[name] for name in names], sizes) for std in (start.std, start.whole_std)]
        shares = np.exp(np.concatenate([start.base[name] for name in names], 1)).T
        return tensor(shares), tensor(noise[0]), tensor(noise[1])

    def of(self, shares: Tensor) -> Tensor:
        """From p(bin | point, class), (all bins, classes, points)."""
        each = dict(zip(self._names, shares.permute(2, 1, 0).split(self._sizes, -1), strict=True))
        means = [shares.mean(-1), *(share.T for share in self._derived.shares(each).values())]
        loss = shares.new_zeros(())
        for mean, (before, std, whole_std) in zip(means, self._own, strict=True):
            gap = self._rows * (mean - before)
            loss = loss + ((gap / std[:, None]).square().sum() + (gap.sum(1) / whole_std).square().sum()) / 2
        for guess, (table, std) in zip(self._expected.tables(shares), self._tables, strict=True):
            loss = loss + ((table - guess) / std[:, None, None, None]).square().sum() / 2
        if self._features:
            sums, expected = self._features
            gap = sums.totals - self._rows[:, None] * expected.of(shares)
            loss = loss + gap.square().sum() / (2 * sums.std**2)
        return loss


def fit(
    mixture: MixtureOfProducts,
    start: ClassMarginals,
    measured: Sequence[TwoWayMarginal],
    steps: int,
    sums: FeatureSums | None,
    derived: ExpectedDerived,
    progress: Callable[[int, int], None],
) -> None:
    """Fit the residual to the noisy measurements, each weighted by its noise; columns keep their shares, by class too.

    A normal prior keeps residuals near zero, so that cells whose rows are few against the noise stay as they were.
    Columns that are in no measurement but their own have no residual, and cost nothing.
    """
    read = {name for m in measured for name in (m.pair.one, m.pair.other)}
    read |= {name for inputs in derived.inputs.values() for name in inputs}
    part = mixture.part(read | (sums.critic.columns_read if sums else set()))
    loss = _Loss(part, start, measured, sums, derived)
    adam = torch.optim.Adam(part.net.parameters(), LEARNING_RATE, betas=(0.9, 0.99))
    for step in range(steps):
        adam.param_groups[0]["lr"] = LEARNING_RATE * min(1.0, 1.5 * (1 - step / steps))
        residual, shares = part.by_bin()
        total = loss.of(shares) + residual.square().mean(-1).sum() / (2 * RESIDUAL_PRIOR_STD**2)
        adam.zero_grad()
        total.backward()  # type: ignore[no-untyped-call]
        adam.step()
        progress(step + 1, steps)
    mixture.take_back(part)
