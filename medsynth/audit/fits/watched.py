"""A vault whose every measurement is also computed exactly, with the target and without: the attacker's notes.

The attacker knows which of the other rows joined a lot, and all their secret draws: a claim holds given these. The
target's own coin and draws stay unknown, and so does the noise. The evidence is the log likelihood ratio of presence,
summed over all releases: of a lot that the target joins with chance q, log(1 - q + q exp(s)), with s that of a release
that it surely takes part in.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ...privacy.accounting.calibration import Plan
from ...privacy.accounting.events import SubsampledGaussian
from ...privacy.queries.measurements import Measurements
from ...privacy.queries.query import RowQuery
from ...privacy.queries.rows import Codes
from ...privacy.vault import Vault
from ...rng import Entropy, NoNoise
from ..recorder import Recorder

Floats = NDArray[np.float64]
Result = TypeVar("Result")
COIN = 4  # bytes; zeros are a coin that says yes


class Done(Exception):
    """Raised once all that was planned is released: what follows is post-processing and tells an attacker no more."""


class _Logged:
    """Entropy whose draws since the last measurement began are kept."""

    def __init__(self, entropy: Entropy) -> None:
        self.source, self._entropy, self.draws = entropy.source, entropy, list[bytes]()

    def bytes(self, count: int) -> bytes:
        """As ever."""
        self.draws.append(self._entropy.bytes(count))
        return self.draws[-1]


class _OthersDraws(NoNoise):
    """The other rows' draws again, and new ones for the target: a coin that says yes, or what `present` is not told."""

    def __init__(self, log: _Logged, sizes: list[int], present: bool) -> None:
        self._log, self._sizes, self._present = log, sizes, present
        self.calls = 0

    def bytes(self, count: int) -> bytes:
        """The first bytes of the same draw, which are the other rows'."""
        number, self.calls = self.calls, self.calls + 1
        if not self._present:
            self._sizes.append(count)
        of_others = self._log.draws[number][: self._sizes[number]]
        own = count - len(of_others)
        return of_others + (bytes(own) if number == 0 else os.urandom(own))


class WatchedVault(Measurements):
    """A vault of `codes`, the last of which is the target's, that is there if `present`."""

    def __init__(self, codes: Codes, present: bool, names: tuple[str, ...], plan: Plan, entropy: Entropy) -> None:
        self._plan, self._log, self._sizes = plan, _Logged(entropy), list[int]()
        self._others = [_OthersDraws(self._log, self._sizes, side) for side in (False, True)]
        sources: list[tuple[bool, Entropy]] = [(present, self._log), (False, self._others[0]), (True, self._others[1])]
        self._recorders = [Recorder(plan.ledger(source.source), source) for _, source in sources]
        self._vaults = [
            Vault(codes if with_target else codes[:-1], names, recorder)
            for (with_target, _), recorder in zip(sources, self._recorders, strict=True)
        ]
        self._left = sum(times for _, times in plan.events.values())
        self.evidence = 0.0

    @property
    def max_rows(self) -> None:
        """The row is the unit of privacy."""

    def measure(self, label: str, query: RowQuery[Result]) -> Result:
        """As the vault's, and the attacker learns from it."""
        if not self._left:
            raise Done
        self._log.draws.clear()
        self._sizes.clear()
        for others in self._others:
            others.calls = 0
        found = [vault.measure(label, query) for vault in self._vaults]
        self._learn(label, query)
        self._left -= 1
        if not self._left:
            raise Done
        return found[0]

    def _learn(self, label: str, query: RowQuery[Any]) -> None:
        event, std = self._plan.events[label][0], self._recorders[0].std
        seen = [[np.ravel(array) for array in recorder.last[label].arrays] for recorder in self._recorders]
        release, without, present = (in_stds(arrays, query, std) for arrays in seen)
        ratio = float((present - without) @ (release - (without + present) / 2))
        rate = event.rate if isinstance(event, SubsampledGaussian) else 1.0
        self.evidence += float(np.logaddexp(math.log(rate) + ratio, math.log1p(-rate))) if rate < 1 else ratio


def in_stds(arrays: Sequence[Floats], query: RowQuery[Any], std: float) -> Floats:
    """What is released of a query whose noise is `std`, each number in standard deviations of its own noise.

    arrays: (..., numbers) each; returns (..., all numbers).
    """
    return np.concatenate([found / scale.std for found, scale in zip(arrays, query.scales(std), strict=True)], -1)
