"""The generator: a mixture of products of column distributions, over a fixed set of latent points.

Given a class and a latent point the columns are independent, so expected tables of any columns are means over the
latent points of outer products of softmaxes: exact, quick, and free of sampling noise. A latent point adds to the
logarithm of the class's noisy column shares a smooth function of the bin: a few cosine waves along the bins of a
number, a term for each level. All begin at zero, so that the generator starts as those shares.
"""

from __future__ import annotations

import copy
import itertools
import math
from collections.abc import Collection, Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.float64]
COMMON_STD, OWN_STD = 0.5, 0.5  # prior standard deviations of what a point adds in all classes, and in one of them
DECAY = 1.5  # of the prior standard deviation of a wave, as a power of its frequency
TAIL, TAIL_STD = 0.05, 6.0  # where the functions of tails begin, and their prior standard deviation at an end
START_STD = 0.1  # of the coefficients before the first step, in prior standard deviations: points begin apart


def smooth_functions(middles: Floats, bins: int, waves: int, *, tails: bool = False) -> Floats:
    """Functions of a column's bins, (bins, functions): waves along the first ones, the rest each by itself.

    `middles`: where each of the bins in an order lies, from 0 to 1; at most so many `waves` of them. Each function has
    the size that its prior gives it: the higher a frequency, the less. With `tails` two more rise towards the ends.
    """
    ordered = len(middles) if len(middles) > waves else 0
    at = middles[:ordered, None]
    frequencies = np.arange(1, waves + 1) if ordered else np.empty(0)
    along = math.sqrt(2) * np.cos(math.pi * at * frequencies) / frequencies**DECAY
    if tails and ordered:
        along = np.concatenate([along, TAIL_STD * np.maximum(0, 1 - np.abs(at - [0.0, 1.0]) / TAIL)], 1)
    found = np.zeros((bins, along.shape[1] + bins - ordered))
    found[:ordered, : along.shape[1]] = along
    found[ordered:, along.shape[1] :] = np.eye(bins - ordered)
    return found


class Generator:
    """p(row | class) = mean over `points` latent points of the product over columns of softmax(base + residual).

    `base`: log shares, (classes, bins) a column; `functions`, (bins, functions) a column: what residuals are sums of.
    All columns' bins stand side by side; `spans` are their slices. The coefficients of each latent point are `common`
    to all classes, (functions, 1, points), and a class's `own`, (functions, classes, points), in units of their priors.
    """

    def __init__(
        self, base: Mapping[str, Floats], functions: Mapping[str, Floats], points: int, stream: torch.Generator
    ) -> None:
        self._functions = {name: torch.tensor(functions[name], dtype=torch.float32) for name in base}
        self._lay_out(list(base))
        self.base = torch.tensor(np.concatenate(list(base.values()), 1), dtype=torch.float32)
        self.classes, self.points, self._stream = len(self.base), points, stream
        self.common = torch.zeros(self._places[-1], 1, points)
        self.own = torch.zeros(self._places[-1], self.classes, points)

    def _lay_out(self, names: list[str]) -> None:
        self.names, shapes = names, [tuple(self._functions[name].shape) for name in names]
        self.sizes = [bins for bins, _ in shapes]
        stops = np.cumsum(self.sizes).tolist()
        self.spans = {name: slice(a, b) for name, a, b in zip(names, [0, *stops], stops, strict=False)}
        self._places = np.cumsum([0, *(functions for _, functions in shapes)]).tolist()
        runs = [list(run) for _, run in itertools.groupby(names, key=lambda name: self._functions[name].shape)]
        self._stacks = [torch.stack([self._functions[name] for name in run]) for run in runs]

    def to(self, device: str) -> Generator:
        """This generator on another device."""
        self.base, self.common, self.own = (t.to(device) for t in (self.base, self.common, self.own))
        self._functions = {name: table.to(device) for name, table in self._functions.items()}
        self._lay_out(self.names)
        return self

    def on(self, base: Mapping[str, Floats], *, fitted: bool) -> Generator:
        """This generator on other log shares, (classes, bins) a column; unless `fitted`, without coefficients."""
        found = copy.copy(self)
        found.base = torch.tensor(np.concatenate([base[name] for name in self.names], 1), dtype=torch.float32)
        found.common, found.own = (t.clone() if fitted else torch.zeros_like(t) for t in (self.common, self.own))
        return found

    def restore(self, residuals: Mapping[str, NDArray[np.float32]]) -> None:
        """Take the likeliest coefficients that add up to `residuals`, (points, classes, bins) a column."""
        self.common, self.own = self.common.clone(), self.own.clone()
        weight = (COMMON_STD / OWN_STD) ** 2
        for name, first, stop in zip(self.names, self._places, self._places[1:], strict=False):
            if name in residuals:
                added = torch.tensor(residuals[name]).permute(2, 1, 0)
                sums = torch.linalg.pinv(self._functions[name]) @ added.flatten(1)
                sums = sums.reshape(-1, *added.shape[1:])
                common = sums.sum(1, keepdim=True) * weight / (COMMON_STD * (1 + weight * self.classes))
                self.common[first:stop], self.own[first:stop] = common, (sums - COMMON_STD * common) / OWN_STD

    def part(self, names: Collection[str]) -> Generator:
        """The generator of the columns `names` by itself, those with as many bins side by side."""
        part = copy.copy(self)
        part._lay_out(sorted(names, key=lambda name: (*self._functions[name].shape, name)))
        part.base = torch.cat([self.base[:, self.spans[name]] for name in part.names], 1) if names else self.base[:, :0]
        rows = self._rows(part)
        part.common, part.own = self.common[rows], self.own[rows]
        return part

    def begin(self) -> None:
        """Give latent points that were never fitted small coefficients: all alike they would stay so."""
        for coefficients, std in ((self.common, START_STD), (self.own, START_STD * OWN_STD)):
            noise = std * torch.randn(coefficients.shape, generator=self._stream).to(coefficients.device)
            coefficients += torch.where((coefficients == 0).all(-1, keepdim=True), noise, 0.0)

    def take_back(self, part: Generator) -> None:
        """Make the coefficients of a part those of its columns here."""
        rows = self._rows(part)
        self.common[rows], self.own[rows] = part.common.detach(), part.own.detach()

    def _rows(self, part: Generator) -> Tensor:
        """The places of a part's functions among all functions."""
        starts = dict(zip(self.names, self._places, strict=False))
        places = [np.arange(self._functions[name].shape[1]) + starts[name] for name in part.names]
        return torch.from_numpy(np.concatenate([np.empty(0, np.int64), *places])).to(self.base.device)

    def bases(self) -> list[Tensor]:
        """The log shares of columns of one shape, (columns, bins, classes * points): the same for each latent point."""
        parts = torch.split(self.base.T, [stack.shape[0] * stack.shape[1] for stack in self._stacks])
        each = [part[..., None].expand(-1, -1, self.points) for part in parts]
        return [some.reshape(*stack.shape[:2], -1) for some, stack in zip(each, self._stacks, strict=True)]

    def by_bin(self, bases: list[Tensor] | None = None) -> Tensor:
        """p(bin | class, latent point) with the bins first, (all bins, classes, points).

        `bases`: what `bases` gives, for those who call this often.
        """
        coefficients = (COMMON_STD * self.common + OWN_STD * self.own).flatten(1)
        lengths = [stack.shape[0] * stack.shape[2] for stack in self._stacks]
        shares, bases = [], bases or self.bases()
        for stack, some, base in zip(self._stacks, torch.split(coefficients, lengths), bases, strict=True):
            logits = torch.baddbmm(base, stack, some.reshape(len(stack), stack.shape[2], -1))
            shares.append(torch.softmax(logits, 1).flatten(0, 1))
        return torch.cat(shares).reshape(-1, self.classes, self.points)

    def residuals(self) -> dict[str, NDArray[np.float32]]:
        """What latent points add to the base of each column that was fitted: (points, classes, bins)."""
        coefficients = COMMON_STD * self.common + OWN_STD * self.own
        found = {}
        for name, first, stop in zip(self.names, self._places, self._places[1:], strict=False):
            if coefficients[first:stop].any():
                residual = torch.einsum("bf,fcz->zcb", self._functions[name], coefficients[first:stop])
                found[name] = residual.cpu().numpy()
        return found
