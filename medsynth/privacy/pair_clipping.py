"""Clipped gradient sums for losses of a pair, a real row and a generated one, with the critic's parameters in groups.

A gradient penalty uses each layer twice, so that the closed form of `clipping` does not hold: per-pair gradients are
formed by `torch.func`, in parts of bounded memory. The parameters lie in k groups, each with a bound c_j of its own.
Divided by the bounds, what one row adds has norm 1 at most in each group and sqrt(k) in all: noise of
multiplier * sqrt(k) * c_j in group j is one Gaussian mechanism of that multiplier. The groups share the rows, so that
nothing composes in parallel.

The critic's products are exact (`exact.sums`), forward and in both derivatives, so that a pair's gradient does not
depend on the pairs beside it; clipped, it is rounded towards zero to whole numbers, which are added exactly.

In place of one gradient a pair may give the sum of those along several steps of its own: the update of a client in
federated averaging (McMahan et al. 2017; Augenstein et al. 2020, algorithm 2), clipped as a whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.func import grad, vmap

from ..errors import BudgetError
from .clipping import BOUNDS, factors
from .exact.sums import WEIGHT_MOST, norms, product
from .networks import Mlp

RowCritic = Callable[[Tensor], Tensor]  # the critic as a function of one row, (features,), to a number
# Of a real row, a generated one and a coefficient, in float64: by the critic, operations on single numbers, and
# `exact.sums.exact_sum` for sums.
PairLoss = Callable[[RowCritic, Tensor, Tensor, Tensor], Tensor]
CHUNK_NUMBERS = 1 << 21  # in the gradients that are in memory at once
GRID_BITS, SUM_BITS = 22, 32  # of a group's bound: in the units of a pair's gradient, and of their clipped sum
MOST_PAIRS = 1 << 29  # As many can be added in 64 bits: a row adds fewer than 2^34 units.
EXACT_PAIRS = 1 << (53 - SUM_BITS)  # and so many in 53
MOST_STEPS = 64  # of local training
MOST_RATE = 1024.0  # of local training


@dataclass(frozen=True)
class LocalTraining:
    """So many steps of gradient descent at `rate` that a pair trains the critic for, from the shared weights on.

    Raises BudgetError unless there is a step, not more than 64, and the rate is a positive number, at most 1,024.
    """

    steps: int = 1
    rate: float = 1.0

    def __post_init__(self) -> None:
        if not 1 <= self.steps <= MOST_STEPS or not 0 < self.rate <= MOST_RATE:
            raise BudgetError(
                f"Local training takes 1 to {MOST_STEPS} steps at a positive rate, at most {MOST_RATE:g}."
            )


ONE_GRADIENT = LocalTraining()


@dataclass(frozen=True, eq=False)
class Groups:
    """The group of each of a critic's parameters, (parameters,) numbers from zero, and the groups' clipping norms.

    Raises BudgetError unless every bound is a positive number from 2^-64 to 2^64 and every parameter has one.
    """

    of: Tensor
    bounds: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.bounds or not all(BOUNDS[0] <= bound <= BOUNDS[1] for bound in self.bounds):
            raise BudgetError("The clipping norms must be positive numbers, from 2^-64 to 2^64.")
        known = self.of.dtype == torch.int64 and self.of.dim() == 1 and self.of.numel() > 0
        if not known or self.of.min() < 0 or self.of.max() >= len(self.bounds):
            raise BudgetError("Every parameter needs a group with a clipping norm.")

    @property
    def sensitivity(self) -> float:
        """L2, of the sum with each group divided by its bound."""
        return math.sqrt(len(self.bounds))

    @property
    def units(self) -> list[float]:
        """The unit, a power of two, in which each group's clipped gradients are added."""
        return [math.ldexp(1.0, math.frexp(bound)[1] - SUM_BITS) for bound in self.bounds]

    @property
    def grids(self) -> list[float]:
        """The unit, a larger power of two, to which a pair's gradient is rounded."""
        return [unit * 2.0 ** (SUM_BITS - GRID_BITS) for unit in self.units]

    def on_grids(self, gradients: Tensor) -> Tensor:
        """(rows, parameters) as whole numbers of the groups' grids."""
        return (gradients * self.spread([1 / grid for grid in self.grids])).round_()

    def spread(self, values: list[float] | Tensor) -> Tensor:
        """A value a group, (..., groups), as one a parameter, (..., parameters), or (..., 1) for a single group."""
        each = torch.as_tensor(values, dtype=torch.float64, device=self.of.device)
        return each if len(self.bounds) == 1 else each[..., self.of]

    def norms(self, gradients: Tensor) -> Tensor:
        """The norm of each group's part, on its grid: (rows, parameters) to (rows, groups)."""
        return self.norms_of_whole(self.on_grids(gradients))

    def norms_of_whole(self, whole: Tensor) -> Tensor:
        """The same, of gradients that are whole numbers of the groups' grids."""
        grids = self.grids
        parts = [whole] if len(grids) == 1 else [whole[:, self.of == j] for j in range(len(grids))]
        return torch.stack([norms(part) * grid for part, grid in zip(parts, grids, strict=True)], 1)


def _exact_critic(critic: Mlp, weights: dict[str, Tensor]) -> RowCritic:
    """The critic, of these weights, as a function of one row, by exact products."""

    def output(row: Tensor) -> Tensor:
        x = row[None]
        for k in range(len(critic.layers)):
            x = product(critic.activate(x) if k else x, weights[f"layers.{k}.weight"].mT)
            x = x + weights[f"layers.{k}.bias"] if f"layers.{k}.bias" in weights else x
        return x[0, 0]

    return output


def pair_gradients(
    critic: Mlp, loss: PairLoss, real: Tensor, fake: Tensor, mix: Tensor, local: LocalTraining = ONE_GRADIENT
) -> Tensor:
    """The gradient of each pair's own loss, (rows, parameters) in float64, in the order of `critic.parameters()`.

    real, fake: (rows, features); mix: (rows,). With several steps of `local` training it is the sum of the gradients
    along them: what the pair would change the weights by, over minus the rate. A pair whose gradient is not finite
    counts as zero.
    """
    # Weights are bounded, so that their sizes are added exactly: by each pair's own weights, too, in local training.
    weights = {name: _bounded(p.detach().double()) for name, p in critic.named_parameters()}
    if not len(real):
        return real.new_zeros(0, sum(p.numel() for p in weights.values()), dtype=torch.float64)

    def one(weights: dict[str, Tensor], real: Tensor, fake: Tensor, mix: Tensor) -> Tensor:
        return loss(_exact_critic(critic, weights), real, fake, mix)

    def added(weights: dict[str, Tensor], *pair: Tensor) -> dict[str, Tensor]:
        total: dict[str, Tensor] = grad(one)(weights, *pair)
        for _ in range(local.steps - 1):
            slopes = grad(one)({name: _bounded(w - local.rate * total[name]) for name, w in weights.items()}, *pair)
            total = {name: own + slopes[name] for name, own in total.items()}
        return total

    found = vmap(added, in_dims=(None, 0, 0, 0))(weights, real.double(), fake.double(), mix.double())
    flat = torch.cat([found[name].flatten(1) for name in weights], 1)
    finite = torch.isfinite(flat.abs().amax(1, keepdim=True))  # a sum of finite numbers could overflow by their order
    return torch.where(finite, flat, 0.0)


def _bounded(weights: Tensor) -> Tensor:
    return weights.nan_to_num(0.0).clamp(-WEIGHT_MOST, WEIGHT_MOST)


def clipped_pair_sum(
    critic: Mlp, loss: PairLoss, real: Tensor, fake: Tensor, mix: Tensor, groups: Groups,
    local: LocalTraining = ONE_GRADIENT,
) -> Tensor:  # fmt: skip
    """The sum over pairs of their gradients, each group's part clipped to its bound: (parameters,) whole numbers.

    In units of the group, `groups.units`. One pair more or less changes group j by at most `groups.bounds[j]`. Raises
    BudgetError for more pairs than 64 bits hold.
    """
    if len(real) > MOST_PAIRS:
        raise BudgetError("The lot is too large for exact sums of gradients.")
    total = torch.zeros(len(groups.of), dtype=torch.int64, device=real.device)
    for gradients in _chunks(critic, loss, real, fake, mix, local):
        whole = groups.on_grids(gradients)
        found = groups.norms_of_whole(whole)
        scales = torch.stack([factors(found[:, j], bound) for j, bound in enumerate(groups.bounds)], 1)
        whole *= groups.spread(scales * 2.0 ** (SUM_BITS - GRID_BITS))
        total += whole.trunc_().sum(0).long()
    return total


def halves_below(
    critic: Mlp, loss: PairLoss, real: Tensor, fake: Tensor, mix: Tensor, groups: Groups,
    local: LocalTraining = ONE_GRADIENT,
) -> Tensor:  # fmt: skip
    """For each group, the pairs at or below its bound less those above: (groups,) whole numbers, to be halved.

    One pair changes each by one, so all halves by sqrt(groups) / 2 (Andrew et al. 2021, section 2).
    """
    bounds = torch.tensor(groups.bounds, device=real.device, dtype=torch.float64)
    total = torch.zeros(len(groups.bounds), dtype=torch.int64, device=real.device)
    for gradients in _chunks(critic, loss, real, fake, mix, local):
        total += torch.where(groups.norms(gradients) <= bounds, 1, -1).sum(0)
    return total


def _chunks(
    critic: Mlp, loss: PairLoss, real: Tensor, fake: Tensor, mix: Tensor, local: LocalTraining
) -> Iterator[Tensor]:
    """The gradients of the pairs, in chunks of bounded memory whose rows add up exactly."""
    size = min(EXACT_PAIRS, max(1, CHUNK_NUMBERS // sum(p.numel() for p in critic.parameters())))
    for k in range(0, len(real), size):
        yield pair_gradients(critic, loss, real[k : k + size], fake[k : k + size], mix[k : k + size], local)
