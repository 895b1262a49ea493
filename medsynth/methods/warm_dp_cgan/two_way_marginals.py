"""Two-way marginals by class: what the generator expects of them, and fitting it to their noisy tables."""

from __future__ import annotations

from collections.abc import Callable
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
    """Expected tables of pairs, as functions of the mixture's shares."""

    def __init__(self, pairs: list[ColumnPair], totals: Floats, device: torch.device) -> None:
        self.pairs = pairs
        self.totals = torch.tensor(totals, dtype=torch.float32, device=device)
        parts = {p.one: p.part_one for p in pairs} | {p.other: p.part_other for p in pairs}
        self.hot = {
            name: torch.nn.functional.one_hot(torch.from_numpy(part)).float().to(device) for name, part in parts.items()
        }

    def tables(self, shares: dict[str, Tensor]) -> list[Tensor]:
        """(classes, bins, bins) of each pair: class totals times the mean over latent points of outer products."""
        coarse = {name: shares[name] @ hot for name, hot in self.hot.items()}
        made = []
        for p in self.pairs:
            mean = torch.einsum("zka,zkb->kab", coarse[p.one], coarse[p.other]) / len(coarse[p.one])
            made.append(self.totals[:, None, None] * mean)
        return made


def expected_tables(mixture: MixtureOfProducts, totals: Floats, pairs: list[ColumnPair]) -> dict[str, Floats]:
    """What the generator expects of each pair's table."""
    with torch.no_grad():
        tables = _ExpectedTables(pairs, totals, mixture.base.device).tables(mixture.shares(mixture.residual()))
    return {p.key: t.double().cpu().numpy() for p, t in zip(pairs, tables, strict=True)}


def fit(
    mixture: MixtureOfProducts,
    start: ClassMarginals,
    measured: list[TwoWayMarginal],
    steps: int,
    sums: FeatureSums | None,
    derived: ExpectedDerived,
    progress: Callable[[int, int], None],
) -> None:
    """Fit the residual to the noisy measurements, each weighted by its noise; columns keep their shares, by class too.

    A normal prior keeps residuals near zero, so that cells whose rows are few against the noise stay as they were.
    """
    device = mixture.base.device
    expected = _ExpectedTables([m.pair for m in measured], start.totals, device)
    tables = [torch.tensor(m.table, dtype=torch.float32, device=device) for m in measured]
    rows = torch.tensor(start.totals, dtype=torch.float32, device=device)[:, None]
    shares_before = {name: torch.tensor(b, dtype=torch.float32, device=device).exp() for name, b in start.base.items()}
    parameters = list(mixture.net.parameters())
    adam = torch.optim.Adam(parameters, LEARNING_RATE, betas=(0.9, 0.99))
    for step in range(steps):
        adam.param_groups[0]["lr"] = LEARNING_RATE * min(1.0, 1.5 * (1 - step / steps))
        residual = mixture.residual()
        shares = mixture.shares(residual)
        loss = residual.square().mean(0).sum() / (2 * RESIDUAL_PRIOR_STD**2)
        means = {name: share.mean(0) for name, share in shares.items()} | derived.shares(shares)
        for name, share in means.items():
            gap = rows * (share - shares_before[name])
            loss = loss + gap.square().sum() / (2 * start.std[name] ** 2)
            loss = loss + gap.sum(0).square().sum() / (2 * start.whole_std[name] ** 2)
        for m, table, guess in zip(measured, tables, expected.tables(shares), strict=True):
            loss = loss + (table - guess).square().sum() / (2 * m.std**2)
        if sums:
            gap = sums.totals - rows * sums.critic.expected(shares)
            loss = loss + gap.square().sum() / (2 * sums.std**2)
        adam.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        adam.step()
        progress(step + 1, steps)
