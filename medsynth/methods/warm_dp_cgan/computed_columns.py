"""Factors of two columns' table by what was measured of a column that a rule computes from both.

A few smooth functions of either input follow a narrow computed column only roughly: an index of small weights by small
heights. The factors are the likeliest under the noise of the three columns' measurements and a normal prior of their
logarithms: an exponential tilt of the table that the generator expects (Csiszar 1975), which keeps the inputs' shares.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.optimize import minimize
from torch import Tensor

from ...rng import Stream
from ...transforms.grid import Grid
from ..shared.pair_factors import PairFactor
from .generator import Generator
from .marginals.class_marginals import ClassMarginals
from .rules.derived_columns import DerivedColumn

Floats = NDArray[np.float64]
PRIOR_STD = 1.0  # of the logarithm of a factor
MOST_STEPS = 200  # of L-BFGS
MOST_CELLS = 1 << 23  # points by classes by bins of both: for a larger table there is no factor


def pair_factors(
    generator: Generator, start: ClassMarginals, derived: Mapping[str, DerivedColumn], rng: Stream
) -> list[PairFactor]:
    """Of the fitted `generator`, for each derived column; a column that is an input of two, for the first of these."""
    found, taken = list[PairFactor](), set[str]()
    for name, column in derived.items():
        one, other = column.inputs
        sizes = [start.bins[some].cells for some in column.inputs]
        if taken & {one, other} or generator.points * generator.classes * sizes[0] * sizes[1] > MOST_CELLS:
            continue
        taken |= {one, other}
        part = generator.part([one, other])
        shares = part.by_bin().detach().double().cpu().numpy()
        first, second = shares[part.spans[one]], shares[part.spans[other]]
        joint = np.einsum("akz,bkz->kab", first, second, optimize=True) / generator.points
        inside = column.of_inputs(start.bins, rng)
        table, factors = likeliest_factors(joint, inside, (one, other, name), start)
        largest = np.stack([np.where(inside > 0, own, 0.0).max(-1) for own in factors])
        starts = np.searchsorted(column.bins.place, np.arange(column.bins.ordered + 1))
        bins = Grid(column.bins.grid.ends[starts], column.bins.column.gaps)
        found.append(PairFactor(one=one, other=other, computed=name, table=table, factors=factors,
                                largest=largest, bins=bins))  # fmt: skip
    return found


def likeliest_factors(
    joint: Floats, inside: Floats, names: tuple[str, str, str], known: ClassMarginals
) -> tuple[Floats, Floats]:
    """The factors of `joint`, the table of two columns by class, (classes, bins of the one, of the other), whose sums
    stay one; and those of the computed column's bins, (classes, bins).

    `inside`: the share of each of its bins in the table's cells, (bins of the one, of the other, its own); `names`: of
    the two and of the computed one; `known`: what was measured of them.
    """
    before, bins = torch.tensor(joint), torch.tensor(inside)
    wanted = [torch.tensor(np.exp(known.base[name])) for name in names]
    rows, sizes = torch.tensor(known.totals)[:, None], [shares.numel() for shares in wanted]
    noise = [(known.std[name], torch.as_tensor(known.whole_std[name])) for name in names]

    def factors(logs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Of the table, without and with those of the computed column, and these."""
        parts = zip(torch.split(logs, sizes), wanted, strict=True)
        one, other, own = (torch.exp(part.reshape(shares.shape)) for part, shares in parts)
        inputs = one[:, :, None] * other[:, None, :]
        both = inputs * torch.einsum("abc,kc->kab", bins, own)
        total = (before * both).sum((1, 2), keepdim=True)
        return inputs / total, both / total, own

    def loss(values: Floats) -> tuple[float, Floats]:
        logs = torch.tensor(values, requires_grad=True)
        inputs, both, own = factors(logs)
        table = before * both
        computed = own * torch.einsum("kab,abc->kc", before * inputs, bins)
        found = logs.square().sum() / (2 * PRIOR_STD**2)
        for shares, expected, (std, whole_std) in zip(
            wanted, (table.sum(2), table.sum(1), computed), noise, strict=True
        ):
            gap = rows * (expected - shares)
            found = found + ((gap / std).square().sum() + (gap.sum(0) / whole_std).square().sum()) / 2
        (gradient,) = torch.autograd.grad(found, logs)
        return float(found.detach()), gradient.numpy()

    best = minimize(loss, np.zeros(sum(sizes)), jac=True, method="L-BFGS-B", options={"maxiter": MOST_STEPS}).x
    _, both, own = factors(torch.tensor(best))
    return both.numpy(), own.numpy()
