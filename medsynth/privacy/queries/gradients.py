"""Queries of a critic at the rows of a lot: clipped gradient sums of rows and of pairs, and norms below a bound."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ...arrays import Codes, Floats, Whole
from ...cores import in_order
from ...errors import BudgetError
from ...rng import Entropy
from ..clipping import (
    BOUNDS,
    MOST_PARAMETERS,
    MOST_ROWS,
    ONE_GRADIENT,
    PRODUCT_BITS,
    SUM_BITS,
    ClippedSum,
    Groups,
    LocalTraining,
    Loss,
    PairLoss,
    clipped_gradient_sum,
    clipped_means,
    clipped_pair_sum,
    gradients_of_groups,
    halves_below,
    units,
)
from ..device_noise import noised_tensors
from ..exact_sums import LongSum
from ..networks import Mlp, in_blocks
from ..release import on_host
from .content import MOST_NUMBERS
from .query import NoiseScale, Result, RowQuery
from .rows import CellMap, CodedRows, Features

CHUNK_NUMBERS = 1 << 21  # Features of rows summed at once. Chunks do not change sums of whole numbers.
CHUNKS_AT_ONCE = 8  # Processed on as many cores. Each chunk needs memory.


def minus_output(outputs: Tensor) -> Tensor:
    """Return the loss of a linear critic, (rows, 1) to (rows,), whose gradient is minus a row's features."""
    return -outputs[:, 0]


def where_computed(sums: Sequence[Tensor]) -> list[Any]:
    """Return sums as an exact answer: the tensors themselves if another device than the CPU has them, else arrays."""
    return on_host(sums) if sums[0].is_cpu else [*sums]


class CriticQuery(RowQuery[Result]):
    """A query whose sums stay on the critic's device until the noise is added. On the CPU they are arrays.

    Whoever sends sums to another process sends arrays, so the functions from `finished` on accept both.
    """

    def with_noise(self, values: list[Any], std: float, entropy: Entropy) -> list[Any]:
        """Return arrays, or tensors, with noise. It is drawn on the tensors' device."""
        if isinstance(values[0], Tensor):
            return [*noised_tensors(values, std, entropy)]
        return super().with_noise(values, std, entropy)


@dataclass(frozen=True, eq=False)
class GradientSum(CriticQuery[tuple[Tensor, ...]]):
    """The sum of the critic's clipped gradients over the rows, one tensor per parameter.

    `features` is a public, row-by-row map from codes to the critic's input. With `microbatches`, each row's own draw
    puts it into one of this number of groups, and group means are clipped: their gradients and sizes add up over parts.
    `given`: a column and its classes; the critic then has a block of inputs per class, and reads a row's features in
    the block of its class. The sensitivity is `bound`, or twice that with microbatches, times a patient's maximum
    number of rows. Raises BudgetError for a critic that is too large or has unequal blocks, and unless the bound and
    the number of microbatches suit whole numbers.
    """

    critic: Mlp
    loss: Loss
    features: Features
    bound: float
    microbatches: int | None = None
    given: tuple[str, CellMap] | None = None

    def __post_init__(self) -> None:
        groups = 1 if self.microbatches is None else self.microbatches
        count = sum(p.numel() for p in self.critic.parameters())
        most = MOST_NUMBERS // max(1, count)
        if not BOUNDS[0] <= self.bound <= BOUNDS[1] or not 1 <= groups <= max(1, min(MOST_ROWS, most)):
            raise BudgetError("The clipping norm and the number of microbatches must be positive, and not too large.")
        first = next(self.critic.parameters())
        classes = 1 if self.given is None else self.given[1].cells
        if first.shape[1] % classes or count > MOST_PARAMETERS:
            raise BudgetError("The critic is too large, or its blocks of inputs for classes are not equal.")

    @property
    def adds_up(self) -> bool:
        """Return false with microbatches: a mean over all rows of a group is not a sum of means."""
        return self.microbatches is None

    @property
    def draws(self) -> int:
        """Return the number of draws: one with microbatches, for the row's group."""
        return 0 if self.microbatches is None else 1

    def sensitivity(self, max_rows: int | None) -> float:
        """Return the bound, doubled with microbatches, times a patient's maximum number of rows."""
        return (max_rows or 1) * (self.bound if self.microbatches is None else 2 * self.bound)

    def exact(self, rows: CodedRows) -> list[Any]:
        """Return two words per parameter; with microbatches, each group's gradients, (groups, parameters), and size."""
        if self.microbatches is not None:
            return self._groups(rows, self.microbatches)
        if self.given is None:
            return where_computed(self._words(self.critic, rows.codes))
        # Each class by itself, with the part of the critic that it uses. Elsewhere its first gradients are zero.
        labels = rows.cells(*self.given)
        classes = self.given[1].cells
        found = [self._words(self.critic.of_class(k, classes), rows.codes[labels == k]) for k in range(classes)]
        parts = list(zip(*found, strict=True))
        first, shared = [torch.cat(words, 1) for words in parts[:2]], [torch.stack(words).sum(0) for words in parts[2:]]
        return where_computed([*first, *shared])

    def _words(self, critic: Mlp, codes: Codes) -> list[Tensor]:
        """Return the sum over rows, two words per parameter, by chunks of bounded memory."""
        total = list[LongSum]()
        chunks = self._chunks(critic, codes)
        for found in in_order((partial(self._sum, critic, some) for some in chunks), min(len(chunks), CHUNKS_AT_ONCE)):
            total = total or [LongSum() for _ in found.whole]
            for part, whole in zip(total, found.whole, strict=True):
                part.add(whole)
        return [word for part in total for word in part.words]

    def _sum(self, critic: Mlp, codes: Codes) -> ClippedSum:
        return clipped_gradient_sum(critic, self.loss, self.features(codes), self.bound)

    def _chunks(self, critic: Mlp, codes: Codes) -> list[Codes]:
        """Return the rows in chunks of bounded memory; no rows are one chunk."""
        size = max(1, CHUNK_NUMBERS // sum(parameter.shape[-1] for parameter in critic.parameters()))
        size = min(size, MOST_ROWS)
        return [codes[k : k + size] for k in range(0, max(len(codes), 1), size)]

    def inputs(self, rows: CodedRows) -> Tensor:
        """Return what the critic reads, (rows, inputs): a row's features, in the block of its class if `given`."""
        features = self.features(rows.codes)
        if self.given is None:
            return features
        hot = np.eye(self.given[1].cells, dtype=np.float32)[rows.cells(*self.given)]
        return in_blocks(features, torch.from_numpy(hot).to(features))

    def _groups(self, rows: CodedRows, count: int) -> list[Any]:
        """Group the rows: 64 bits modulo `count` are uniform up to count/2^64."""
        group = (rows.draws[:, 0] % np.uint64(count)).astype(np.int64)
        features = self.inputs(rows)
        sums = gradients_of_groups(self.critic, self.loss, features, torch.from_numpy(group).to(features.device), count)
        sizes = torch.from_numpy(np.bincount(group, minlength=count)).to(sums.device)
        return where_computed([sums, sizes])

    def finished(self, total: list[Any]) -> list[Any]:
        """Return one array or tensor per parameter, in the units of a released sum."""
        shift = PRODUCT_BITS - SUM_BITS
        parts = [torch.as_tensor(part) for part in total]
        if self.microbatches is None:
            found = [LongSum(*pair).divided(shift) for pair in zip(parts[::2], parts[1::2], strict=True)]
        else:
            sums, sizes = parts
            found = [mean >> shift for mean in clipped_means(self.critic, sums, sizes, self.bound).whole]
        return found if isinstance(total[0], Tensor) else on_host(found)

    def scales(self, std: float) -> list[NoiseScale]:
        """Return the scale of each parameter's sum: one unit and one deviation for all."""
        return [NoiseScale(std, units(self.bound)[1]) for _ in self.critic.parameters()]

    def result(self, arrays: list[Any]) -> tuple[Tensor, ...]:
        """Return the noised sum, one tensor per parameter."""
        return tuple(torch.as_tensor(a).to(p) for a, p in zip(arrays, self.critic.parameters(), strict=True))


@dataclass(frozen=True, eq=False)
class _OfPairs:
    """A critic's gradients at rows of a lot, in groups of parameters.

    Each row's own secret draws pair it with a row of the public `pool`, (pool, features), and a coefficient in [0, 1).
    So no public stream depends on the size of a lot. With several steps of `local` training, a pair's gradients along
    them are added up before they are clipped. Raises BudgetError for an empty pool, and for groups of other parameters
    than the critic's.
    """

    critic: Mlp
    loss: PairLoss
    features: Features
    pool: Tensor
    groups: Groups
    local: LocalTraining = ONE_GRADIENT

    def __post_init__(self) -> None:
        if self.pool.dim() != 2 or not self.pool.numel():
            raise BudgetError("The pool of rows to pair with a lot is empty.")
        if len(self.groups.of) != sum(p.numel() for p in self.critic.parameters()):
            raise BudgetError("Each parameter of the critic, and no other, needs a group with a clipping norm.")

    @property
    def draws(self) -> int:
        """Return the number of draws: one for the partner and one for the coefficient."""
        return 2

    def pairs(self, rows: CodedRows) -> tuple[Tensor, Tensor, Tensor]:
        """Return the rows' features, a row of the pool for each, and coefficients."""
        pool, draws = self.pool, rows.draws
        partner = torch.from_numpy((draws[:, 0] % np.uint64(len(pool))).astype(np.int64)).to(pool.device)
        mix = torch.from_numpy((draws[:, 1] >> np.uint64(11)).astype(np.float64) * 2.0**-53).to(pool)
        return self.features(rows.codes).to(pool), pool[partner], mix


@dataclass(frozen=True, eq=False)
class PairGradientSum(_OfPairs, CriticQuery[tuple[Tensor, ...]]):
    """The sum of the critic's clipped gradients of pairs over the rows, one tensor per parameter.

    With each group of parameters divided by its bound, the sensitivity is sqrt(groups) times a patient's maximum number
    of rows.
    """

    def sensitivity(self, max_rows: int | None) -> float:
        """Return sqrt(groups) times a patient's maximum number of rows."""
        return (max_rows or 1) * self.groups.sensitivity

    def exact(self, rows: CodedRows) -> list[Any]:
        """Return the sum for all parameters, each in the unit of its group."""
        found = clipped_pair_sum(self.critic, self.loss, *self.pairs(rows), self.groups, self.local)
        return where_computed([found])

    def finished(self, total: list[Any]) -> list[Any]:
        """Return one array or tensor per group."""
        found = [torch.as_tensor(total[0])[own] for own in self._own()]
        return found if isinstance(total[0], Tensor) else on_host(found)

    def _own(self) -> list[Tensor]:
        of = self.groups.of.cpu()
        return [torch.nonzero(of == j)[:, 0] for j in range(len(self.groups.bounds))]

    def scales(self, std: float) -> list[NoiseScale]:
        """Return scales in proportion to the group's bound."""
        both = zip(self.groups.bounds, self.groups.units, strict=True)
        return [NoiseScale(std * bound, unit) for bound, unit in both]

    def result(self, arrays: list[Any]) -> tuple[Tensor, ...]:
        """Return the noised sum, one tensor per parameter."""
        parts = [torch.as_tensor(array) for array in arrays]
        flat = parts[0].new_zeros(len(self.groups.of))
        for own, part in zip(self._own(), parts, strict=True):
            flat[own] = part
        like = tuple(self.critic.parameters())
        pieces = torch.split(flat, [p.numel() for p in like])
        return tuple(piece.reshape(p.shape).to(p) for piece, p in zip(pieces, like, strict=True))


@dataclass(frozen=True, eq=False)
class NormsBelow(_OfPairs, RowQuery[Floats]):
    """For each group of parameters: half the number of pairs within the group's bound, minus half the others.

    Divided by the expected lot, plus a half, it is the share of rows that clipping does not change. The sensitivity of
    the k numbers together is sqrt(k) / 2 times a patient's maximum number of rows.
    """

    def sensitivity(self, max_rows: int | None) -> float:
        """Return sqrt(groups) / 2 times a patient's maximum number of rows."""
        return (max_rows or 1) * self.groups.sensitivity / 2

    def exact(self, rows: CodedRows) -> list[Whole]:
        """Return the counts in halves: (groups,)."""
        return [halves_below(self.critic, self.loss, *self.pairs(rows), self.groups, self.local).cpu().numpy()]

    def scales(self, std: float) -> list[NoiseScale]:
        """Return the scale of all counts."""
        return [NoiseScale(std, 0.5)]
