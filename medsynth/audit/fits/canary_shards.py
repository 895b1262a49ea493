"""Canaries in shards, one in each: the attacker computes every shard's gradient with its canary and without.

Which row is in which shard and the critics' secret seed are known to this attacker, as the proof allows: the claim
rests on neither (docs/proofs/). What stays secret is which shard each measurement is of, its noise, and the coins.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.special import logsumexp
from torch import Tensor

from ...privacy.accounting.events import Event, PublicOrderGaussian
from ...privacy.accounting.ledger import Ledger
from ...privacy.queries.rows import Codes
from ...privacy.shards import CriticConfig, Shards
from ...privacy.vault import Vault
from ...rng import Entropy, NoNoise
from ..recorder import Recorder
from .canaries import CanaryVault

EXACT, MANY = "exact upstream gradient", 10**9
TINY = 1e-300


class _Scripted:
    """Entropy that begins with bytes of the attacker's choice."""

    def __init__(self, rest: Entropy, script: list[bytes]) -> None:
        self.source, self._rest, self._script = rest.source, rest, script

    def bytes(self, count: int) -> bytes:
        """The script's bytes, then those of the rest."""
        return self._script.pop(0) if self._script else self._rest.bytes(count)


class _Exact(NoNoise):
    """No noise, and bytes of the attacker's choice."""

    def __init__(self, script: list[bytes]) -> None:
        self._script = script

    def bytes(self, count: int) -> bytes:
        """The script's bytes, then those of the system."""
        return self._script.pop(0) if self._script else super().bytes(count)


class ShardedCanaryVault(CanaryVault):
    """A vault of canaries that can be split into as many shards."""

    def split_into_shards(
        self, count: int, features: Callable[[Codes], Tensor], classes: int, config: CriticConfig
    ) -> WatchedShards:
        """As the vault's, with canary k in shard k; the shards with all canaries and with none are known beside it."""
        places, secret = np.arange(len(self.codes), dtype=np.uint64), self.entropy.bytes(8)
        measured = Recorder(self.ledger, _Scripted(self.entropy, [places[self.included].tobytes(), secret]))
        ledgers = [Ledger(delta=0.5, accountant="rdp", random_source="audit", allowance=_every(count)) for _ in "10"]
        known = [
            Recorder(ledger, _Exact([places[:rows].tobytes(), secret]))
            for ledger, rows in zip(ledgers, (len(places), 0), strict=True)
        ]
        sides = ((self.codes[self.included], measured), (self.codes, known[0]), (self.codes[:0], known[1]))
        shards = [Vault(codes, self.names, out).split_into_shards(count, features, classes, config)
                  for codes, out in sides]  # fmt: skip
        return WatchedShards(self, measured, shards, count)


def _every(count: int) -> dict[str, tuple[Event, int]]:
    """Leave to compute each shard's gradient in turn, as often as need be."""
    return {EXACT: (PublicOrderGaussian(multiplier=1.0, shards=count), MANY)}


class WatchedShards:
    """Shards whose every measurement is attacked; the last two of `shards` are the attacker's own."""

    def __init__(self, canaries: CanaryVault, measured: Recorder, shards: list[Shards], count: int) -> None:
        self._canaries, self._measured, self._count = canaries, measured, count
        self._shards, *self._known = shards

    def train(self, fakes: Tensor) -> None:
        """A step of every critic, of the fit's own and of the attacker's."""
        for shards in (self._shards, *self._known):
            shards.train(fakes)

    def measure_upstream_gradient(self, label: str, fakes: Tensor, bound: float, *, joint: bool = False) -> Tensor:
        """As the shards': the release is of one of as many gradients as there are shards, with its canary or without.

        With w[k] the density of the release were it of shard k, averaged over the coin of its canary, the density
        given that canary k is included is the mean of all w, in which w[k] is replaced by that with the canary.
        """
        found = self._shards.measure_upstream_gradient(label, fakes, bound, joint=joint)
        release = self._measured.last[label].arrays[0]
        logs = []  # with all canaries, with none: (shards,)
        for known in self._known:
            exact = [known.measure_upstream_gradient(EXACT, fakes, bound, joint=joint) for _ in range(self._count)]
            gaps = np.stack([gradient.double().cpu().numpy() for gradient in exact]) - release
            logs.append(-np.square(gaps).sum((1, 2)) / (2 * self._measured.std**2))
        densities = np.exp(np.array(logs) - logsumexp(logs))
        either = densities.mean(0)
        rest = np.maximum(either.sum() - either, 0.0)
        self._canaries.evidence += np.log(rest + densities[0] + TINY) - np.log(rest + densities[1] + TINY)
        self._canaries.count()
        return found
