"""What leaves a vault for one query: the noised answer or, where several vaults' answers are added up, a part of it.

Each class is a trust in whoever adds up. A part is a list of arrays of whole numbers, each written as two floats of 32
bits a number, high and low, as releases and checkpoints hold floats. Parts of several vaults are added up as whole
numbers modulo 2^64.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...errors import BudgetError
from ...rng import Entropy
from ..noise import noise_grid, noise_share
from .query import PrivateQuery
from .rows import Floats, Whole

HALF = 32  # bits of a float that hold a part of a whole number


class Noising(ABC):
    """What is made of an exact answer before it leaves a vault, where noise of `std` is due."""

    @abstractmethod
    def released(self, query: PrivateQuery[Any], total: list[Whole], std: float, entropy: Entropy) -> list[Floats]:
        """What leaves. Raises BudgetError where the query has no such part."""


@dataclass(frozen=True)
class WholeNoise(Noising):
    """All of the noise: for everybody."""

    def released(self, query: PrivateQuery[Any], total: list[Whole], std: float, entropy: Entropy) -> list[Floats]:
        """The noised answer."""
        return query.noised(total, std, entropy)


@dataclass(frozen=True)
class NoiseShare(Noising):
    """A share of the noise: the sum of any `honest` vaults' shares has all of it (docs/proofs/secure-sums.md).

    For somebody who gets the sum over the vaults alone. Raises BudgetError unless one vault or more is honest.
    """

    honest: int

    def __post_init__(self) -> None:
        if self.honest < 1:
            raise BudgetError("Noise is shared by one vault or more.")

    def released(self, query: PrivateQuery[Any], total: list[Whole], std: float, entropy: Entropy) -> list[Floats]:
        """The answer with its share, in whole steps of the noise's grid."""
        if not query.adds_up:
            raise BudgetError(f"A {type(query).__name__} is no sum over rows: no vault has a part of it that adds up.")
        pairs = zip(query.finished(total), query.scales(std), strict=True)
        return as_words([noise_share(w, scale.std / scale.unit, self.honest, entropy) for w, scale in pairs])

    def noised(self, query: PrivateQuery[Any], total: list[Whole], std: float) -> list[Floats]:
        """The release that the sum of all vaults' answers is: `total`, in steps of the noise's grid."""
        shape = math.sqrt(self.honest)
        units = [(noise_grid(scale.std / scale.unit / shape)[0], scale.unit) for scale in query.scales(std)]
        return [whole / steps * unit for whole, (steps, unit) in zip(total, units, strict=True)]


@dataclass(frozen=True)
class Unnoised(Noising):
    """None of the noise: for somebody trusted, who adds it to the sum over all vaults. NOT PRIVATE by itself."""

    def released(self, query: PrivateQuery[Any], total: list[Whole], std: float, entropy: Entropy) -> list[Floats]:
        """The exact answer: what is noised, where that adds up over vaults, else what it is computed of."""
        return as_words(query.finished(total) if query.adds_up else total)

    def noised(self, query: PrivateQuery[Any], total: list[Whole], std: float, entropy: Entropy) -> list[Floats]:
        """The release that the sum of all vaults' answers is, with noise of `std`."""
        return query.noised_finished(total if query.adds_up else query.finished(total), std, entropy)


NOISINGS = (WholeNoise, NoiseShare, Unnoised)


def as_words(arrays: Sequence[Whole]) -> list[Floats]:
    """Whole numbers of 64 bits as pairs of floats, (2, ...): the upper half with its sign, and the lower one.

    >>> from_words(as_words([np.array([-1, 2**62 + 1])]))
    [array([                 -1, 4611686018427387905])]
    """
    return [np.stack([a >> HALF, a & ((1 << HALF) - 1)]).astype(np.float64) for a in arrays]


def from_words(arrays: Sequence[Floats]) -> list[Whole]:
    """The whole numbers that `as_words` wrote."""
    return [(a[0].astype(np.int64) << HALF) | a[1].astype(np.int64) for a in arrays]
