"""Clipped gradient sums for losses of a pair, a real row and a generated one, with the critic's parameters in groups.

A gradient penalty uses each layer twice, so that the closed form of `clipping` does not hold: per-pair gradients are
formed by `torch.func`, in parts of bounded memory. The parameters lie in k groups, each with a bound c_j of its own.
Divided by the bounds, what one row adds has norm 1 at most in each group and sqrt(k) in all: noise of
multiplier * sqrt(k) * c_j in group j is one Gaussian mechanism of that multiplier. The groups share the rows, so that
nothing composes in parallel.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import functional_call, grad, vmap

from ..errors import BudgetError
from .clipping import factors
from .networks import Mlp

RowCritic = Callable[[Tensor], Tensor]  # the critic as a function of one row, (features,), to a number
PairLoss = Callable[[RowCritic, Tensor, Tensor, Tensor], Tensor]  # of a real row, a generated one and a coefficient
CHUNK_NUMBERS = 1 << 22  # in the gradients that are in memory at once


@dataclass(frozen=True, eq=False)
class Groups:
    """The group of each of a critic's parameters, (parameters,) numbers from zero, and the groups' clipping norms.

    Raises BudgetError unless every bound is a positive number and every parameter has one.
    """

    of: Tensor
    bounds: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.bounds or not all(0 < bound < math.inf for bound in self.bounds):
            raise BudgetError("The clipping norms must be positive numbers.")
        if self.of.min() < 0 or self.of.max() >= len(self.bounds):
            raise BudgetError("Every parameter needs a group with a clipping norm.")

    @property
    def sensitivity(self) -> float:
        """L2, of the sum with each group divided by its bound."""
        return math.sqrt(len(self.bounds))

    def norms(self, gradients: Tensor) -> Tensor:
        """The norm of each group's part: (rows, parameters) to (rows, groups)."""
        member = torch.nn.functional.one_hot(self.of, len(self.bounds)).to(gradients)
        return (gradients.square() @ member).sqrt()


def pair_gradients(critic: Mlp, loss: PairLoss, real: Tensor, fake: Tensor, mix: Tensor) -> Tensor:
    """The gradient of each pair's own loss, (rows, parameters), in the order of `critic.parameters()`.

    real, fake: (rows, features); mix: (rows,). A pair whose gradient is not finite counts as zero.
    """
    weights = {name: p.detach() for name, p in critic.named_parameters()}
    if not len(real):
        return real.new_zeros(0, sum(p.numel() for p in weights.values()))

    def one(weights: dict[str, Tensor], real: Tensor, fake: Tensor, mix: Tensor) -> Tensor:
        def output(row: Tensor) -> Tensor:
            found: Tensor = functional_call(critic, weights, (row[None],))
            return found[0, 0]

        return loss(output, real, fake, mix)

    found = vmap(grad(one), in_dims=(None, 0, 0, 0))(weights, real, fake, mix)
    flat = torch.cat([found[name].flatten(1) for name in weights], 1)
    return torch.where(torch.isfinite(flat).all(1, keepdim=True), flat, 0.0)


def clipped_pair_sum(critic: Mlp, loss: PairLoss, real: Tensor, fake: Tensor, mix: Tensor, groups: Groups) -> Tensor:
    """The sum over pairs of their gradients, each group's part clipped to its bound: (parameters,).

    One pair more or less changes group j by at most `groups.bounds[j]`.
    """
    total = torch.zeros(len(groups.of), device=real.device)
    own = torch.arange(len(groups.of), device=real.device)
    for gradients in _chunks(critic, loss, real, fake, mix):
        norms = groups.norms(gradients)
        scales = torch.stack([factors(norms[:, j], bound) for j, bound in enumerate(groups.bounds)])
        total += (scales @ gradients)[groups.of, own]
    return total


def halves_below(critic: Mlp, loss: PairLoss, real: Tensor, fake: Tensor, mix: Tensor, groups: Groups) -> Tensor:
    """For each group, half the pairs at or below its bound less half of those above: (groups,).

    One pair changes each by a half, so all by sqrt(groups) / 2 (Andrew et al. 2021, section 2).
    """
    bounds, total = torch.tensor(groups.bounds, device=real.device), torch.zeros(len(groups.bounds), device=real.device)
    for gradients in _chunks(critic, loss, real, fake, mix):
        total += torch.where(groups.norms(gradients) <= bounds, 0.5, -0.5).sum(0)
    return total


def _chunks(critic: Mlp, loss: PairLoss, real: Tensor, fake: Tensor, mix: Tensor) -> Iterator[Tensor]:
    """The gradients of the pairs, in chunks of bounded memory."""
    size = max(1, CHUNK_NUMBERS // sum(p.numel() for p in critic.parameters()))
    for k in range(0, len(real), size):
        yield pair_gradients(critic, loss, real[k : k + size], fake[k : k + size], mix[k : k + size])
