"""Fitting the generator to the noisy measurements: of the columns that some measurement reads beside others."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..shared.adam import Adam
from .critics.linear import FeatureSums
from .generator import Generator
from .marginals.class_marginals import ClassMarginals
from .rules.constraints import BrokenRules
from .rules.derived_columns import ExpectedDerived
from .two_way_marginals import ExpectedTables, TwoWayMarginal

Floats = NDArray[np.float64]
LEARNING_RATE = 6e-2  # in prior standard deviations; it falls to zero over the second half of the steps


class _Loss:
    """Squared errors of what a generator's columns expect, in variances of the noise of what was measured."""

    def __init__(
        self, generator: Generator, start: ClassMarginals, measured: Sequence[TwoWayMarginal],
        sums: Sequence[FeatureSums], derived: ExpectedDerived, rules: BrokenRules,
    ) -> None:  # fmt: skip
        device = generator.base.device

        def tensor(values: Floats) -> Tensor:
            return torch.tensor(values, dtype=torch.float32, device=device)

        self._sizes, self._names, self._derived, self._rules = generator.sizes, generator.names, derived, rules
        self._least_std = min(start.std.values())
        self._rows = tensor(start.totals)
        weights = [torch.as_tensor(one.firmness / one.std).to(device) for one in sums]
        self._features = [
            (one.totals.to(device), weight, one.critic.expectation(generator))
            for one, weight in zip(sums, weights, strict=True)
        ]
        self._own = [self._marginals(start, self._names, tensor)]
        self._own += [self._marginals(start, [name], tensor) for name in derived.inputs]
        self._expected = ExpectedTables([m.pair for m in measured], start.totals, generator)
        known = [measured[k] for group in self._expected.groups for k in group]
        noise = [np.full(m.table.size, m.std) for m in known]
        self._cells = tensor(np.concatenate([np.empty(0), *(m.table.ravel() for m in known)]))
        self._cells_std = tensor(np.concatenate([np.empty(0), *noise]))

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
        each: dict[str, Tensor] = {}
        if self._derived.inputs or self._rules.read:
            each = dict(zip(self._names, torch.split(shares.permute(2, 1, 0), self._sizes, -1), strict=True))
        means = [shares.mean(-1), *(share.T for share in self._derived.shares(each).values())]
        loss = shares.new_zeros(())
        for mean, (before, std, whole_std) in zip(means, self._own, strict=True):
            gap = self._rows * (mean - before)
            loss = loss + ((gap / std[:, None]).square().sum() + (gap.sum(1) / whole_std).square().sum()) / 2
        for chance in self._rules.chances(each):
            loss = loss + (self._rows * chance / self._least_std).square().sum() / 2
        if len(self._cells):
            loss = loss + ((self._cells - self._expected.cells(shares)) / self._cells_std).square().sum() / 2
        for totals, weight, expected in self._features:
            found = self._rows[:, None] * expected.of(shares)
            gap = weight * (totals - (found if len(totals) > 1 else found.sum(0, keepdim=True)))
            loss = loss + gap.square().sum() / 2
        return loss


def fit(
    generator: Generator,
    start: ClassMarginals,
    measured: Sequence[TwoWayMarginal],
    steps: int,
    sums: Sequence[FeatureSums],
    derived: ExpectedDerived,
    rules: BrokenRules,
    progress: Callable[[int, int], None],
) -> None:
    """Fit the residual to the noisy measurements, each weighted by its noise; columns keep their shares, by class too.

    A normal prior keeps residuals small and smooth, so that cells whose rows are few against the noise stay as they
    were. Rows that break a rule count as a cell known to be empty, by the least noise of any. Columns that are in no
    measurement but their own, and in no rule, have no residual, and cost nothing.
    """
    read = {name for m in measured for name in (m.pair.one, m.pair.other)}
    read |= {name for inputs in derived.inputs.values() for name in inputs}
    read |= rules.read
    read |= {name for one in sums for name in one.critic.columns_read}
    if not read:
        return
    part = generator.part(read)
    part.begin()
    loss = _Loss(part, start, measured, sums, derived, rules)
    adam = Adam([part.common.requires_grad_(), part.own.requires_grad_()])
    bases = part.bases()
    for step in range(steps):
        # The coefficients' prior is standard normal: minus the logarithm of its density, one latent point's on average.
        adam.step(loss.of(part.by_bin(bases)), LEARNING_RATE * min(1.0, 2 * (1 - step / steps)), 1 / part.points)
        progress(step + 1, steps)
    generator.take_back(part)
