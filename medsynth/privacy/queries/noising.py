"""What leaves a vault for one query: the noised answer, or a part of it if several vaults' answers are added up.

Each class matches a level of trust in whoever adds up. A part is a list of arrays of whole numbers. Each number is
written as two floats of 32 bits, high and low, since releases and checkpoints store floats. Parts of several vaults are
added up as whole numbers modulo 2^64.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...arrays import Floats, Whole
from ...errors import BudgetError
from ...rng import Entropy
from ..noise import noise_grid, noise_share
from .query import PrivateQuery

HALF = 32  # Bits of a whole number in each float.


class Noising(ABC):
    """How noise is added before an answer leaves."""

    @abstractmethod
    def released(self, query: PrivateQuery[Any], total: list[Whole], std: float, entropy: Entropy) -> list[Floats]:
        """Return what leaves a vault if noise of `std` is due. Raises BudgetError if the query has no such part."""


@dataclass(frozen=True)
class WholeNoise(Noising):
    """All of the noise: anybody may see the answer."""

    def released(self, query: PrivateQuery[Any], total: list[Whole], std: float, entropy: Entropy) -> list[Floats]:
        """Return the noised answer."""
        return query.noised(total, std, entropy)


@dataclass(frozen=True)
class NoiseShare(Noising):
    """A share of the noise: any `honest` vaults' shares together have all of it (docs/proofs/secure-sums.md).

    For somebody who receives only the sum over the vaults. Raises BudgetError unless at least one vault is honest.
    """

    honest: int

    def __post_init__(self) -> None:
        if self.honest < 1:
            raise BudgetError("At least one vault must add its share of the noise.")

    def released(self, query: PrivateQuery[Any], total: list[Whole], std: float, entropy: Entropy) -> list[Floats]:
        """Return the answer with its share, in whole steps of the noise's grid."""
        if not query.adds_up:
            raise BudgetError(f"A {type(query).__name__} is not a sum over rows, so vaults cannot add it up.")
        pairs = zip(query.finished(total), query.scales(std), strict=True)
        return as_words([noise_share(w, scale.std / scale.unit, self.honest, entropy) for w, scale in pairs])

    def noised(self, query: PrivateQuery[Any], total: list[Whole], std: float) -> list[Floats]:
        """Return the release from the sum of all vaults' answers, `total`, in steps of the noise's grid."""
        shape = math.sqrt(self.honest)
        units = [(noise_grid(scale.std / scale.unit / shape)[0], scale.unit) for scale in query.scales(std)]
        return [whole / steps * unit for whole, (steps, unit) in zip(total, units, strict=True)]


@dataclass(frozen=True)
class Unnoised(Noising):
    """None of the noise: a trusted party adds it to the sum over all vaults. NOT PRIVATE by itself."""

    def released(self, query: PrivateQuery[Any], total: list[Whole], std: float, entropy: Entropy) -> list[Floats]:
        """Return the exact answer that is noised, if it adds up over vaults, else the sums that it is computed from."""
        return as_words(query.finished(total) if query.adds_up else total)

    def noised(self, query: PrivateQuery[Any], total: list[Whole], std: float, entropy: Entropy) -> list[Floats]:
        """Return the release from the sum of all vaults' answers, with noise of `std`."""
        return query.noised_finished(total if query.adds_up else query.finished(total), std, entropy)


NOISINGS = (WholeNoise, NoiseShare, Unnoised)


def as_words(arrays: Sequence[Whole]) -> list[Floats]:
    """Return whole numbers of 64 bits as pairs of floats, (2, ...): the upper half with its sign, and the lower half.

    >>> from_words(as_words([np.array([-1, 2**62 + 1])]))
    [array([                 -1, 4611686018427387905])]
    """
    return [np.stack([a >> HALF, a & ((1 << HALF) - 1)]).astype(np.float64) for a in arrays]


def from_words(arrays: Sequence[Floats]) -> list[Whole]:
    """Return the whole numbers that `as_words` wrote."""
    return [(a[0].astype(np.int64) << HALF) | a[1].astype(np.int64) for a in arrays]
