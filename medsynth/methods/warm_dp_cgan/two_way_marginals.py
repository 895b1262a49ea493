"""Pairs of columns: what the generator expects of them, and fitting it to their noisy tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ...privacy.vault import Axes, CellMap, Codes
from ..shared.bins import Bins
from ..shared.mixture import Mixture
from .class_marginals import Counts
from .critic import Heard

Floats = NDArray[np.float64]
STEPS = 200  # of Adam, after each round but the last
RATE = 4e-3
STAY = 1.0  # prior standard deviation of a residual


@dataclass(frozen=True)
class Coarse:
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
class Pair:
    """Two columns, and the coarse bin of each of their bins."""

    one: str
    other: str
    part_one: NDArray[np.int64]
    part_other: NDArray[np.int64]

    @property
    def key(self) -> str:
        """A name for the pair's answers."""
        return f"{self.one} x {self.other}"

    def axes(self, given: tuple[str, CellMap], bins: dict[str, Bins]) -> Axes:
        """The axes of its table: class, coarse bin of the one, coarse bin of the other."""
        return [
            given,
            (self.one, Coarse(bins[self.one], self.part_one)),
            (self.other, Coarse(bins[self.other], self.part_other)),
        ]


@dataclass(frozen=True, eq=False)
class Measured:
    """A pair's noisy table, (classes, coarse bins, coarse bins), and its noise's standard deviation."""

    pair: Pair
    table: Floats
    std: float


class _Expected:
    """Expected tables of pairs, as functions of the mixture's shares."""

    def __init__(self, pairs: list[Pair], totals: Floats, device: torch.device) -> None:
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


def guesses(mixture: Mixture, totals: Floats, pairs: list[Pair]) -> dict[str, Floats]:
    """What the generator expects of each pair's table."""
    with torch.no_grad():
        tables = _Expected(pairs, totals, mixture.base.device).tables(mixture.shares(mixture.residual()))
    return {p.key: t.double().cpu().numpy() for p, t in zip(pairs, tables, strict=True)}


def fit(
    mixture: Mixture,
    counts: Counts,
    measured: list[Measured],
    steps: int,
    heard: Heard | None,
    progress: Callable[[int, int], None],
) -> None:
    """Fit the residual to the noisy answers, each weighted by its noise; the class shares of each column are kept.

    A normal prior holds residuals near zero, so that cells in which the noise drowns the rows stay as they were.
    """
    device = mixture.base.device
    expected = _Expected([m.pair for m in measured], counts.totals, device)
    seen = [torch.tensor(m.table, dtype=torch.float32, device=device) for m in measured]
    rows = torch.tensor(counts.totals, dtype=torch.float32, device=device)[:, None]
    start = {name: torch.tensor(b, dtype=torch.float32, device=device).exp() for name, b in counts.base.items()}
    parameters = list(mixture.net.parameters())
    adam = torch.optim.Adam(parameters, RATE, betas=(0.9, 0.99))
    for step in range(steps):
        adam.param_groups[0]["lr"] = RATE * min(1.0, 1.5 * (1 - step / steps))
        residual = mixture.residual()
        shares = mixture.shares(residual)
        loss = residual.square().mean(0).sum() / (2 * STAY**2)
        for name, share in shares.items():
            loss = loss + (rows * (share.mean(0) - start[name])).square().sum() / (2 * counts.std[name] ** 2)
        for m, truth, guess in zip(measured, seen, expected.tables(shares), strict=True):
            loss = loss + (truth - guess).square().sum() / (2 * m.std**2)
        if heard:
            gap = heard.sums - rows * heard.critic.expected(shares)
            loss = loss + gap.square().sum() / (2 * heard.std**2)
        adam.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        adam.step()
        progress(step + 1, steps)
