"""Run GS-WGAN over sites. Critics stay with the rows; generated rows go to the sites, and sanitised gradients return.

A step's request contains public generated rows: some to train critics against, and some at which gradients are added
up. A site derives the map from codes to indicators itself (`derivation.py`), and sends its part of the sum over all
shards of all sites (`privacy/shards.py`). One row changes one clipped gradient in this sum, whatever rows its critic
was trained against. So a server may send any rows, and learns only the noised sum.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..arrays import Floats
from ..errors import QueryError
from ..methods import registry
from ..methods.adversarial import Indicators, ShardMethod
from ..privacy.accounting.calibration import Plan
from ..privacy.shards import Shards, UpstreamSum
from ..privacy.vault import Vault
from .derivation import Derived, Releases, ShardsAsked, derived
from .rounds import Rounds
from .study import Study
from .transport import grouped

HALF = 1 << 28  # splits a seed in two, because checkpoints store numbers of 53 bits
Ask = Callable[[str, UpstreamSum, list[NDArray[Any]]], Tensor]


def places(rows: Tensor) -> NDArray[np.int32]:
    """Return the places of the ones in indicators, (..., width) to (..., ones). Every row has equally many."""
    found = (rows > 0.5).nonzero()[:, -1]
    return found.reshape(*rows.shape[:-1], -1).cpu().numpy().astype(np.int32)


def indicators(where: NDArray[Any], width: int) -> Tensor:
    """Return the rows whose `places` are given."""
    index = torch.from_numpy(where.astype(np.int64))
    return torch.zeros(*index.shape[:-1], width).scatter(-1, index, 1.0)


class RemoteShards:
    """The server's view of the shards of all sites. Rows for training are sent with the request for the next sum."""

    def __init__(self, ask: Ask, classes: int) -> None:
        self._ask, self._classes = ask, classes
        self._pools: list[NDArray[np.int32]] = []

    def train(self, fakes: Tensor) -> None:
        """Train every critic one step on its own rows against generated rows, (classes, rows, width)."""
        self._pools.append(places(fakes))

    def measure_upstream_sum(self, label: str, fakes: Tensor, bound: float, *, joint: bool = False) -> Tensor:
        """Return the noised sum of all critics' clipped gradients at generated rows, (rows, width - classes)."""
        pools = np.stack(self._pools)
        where = places(fakes)
        self._pools = []
        query = UpstreamSum(indicators(where, fakes.shape[-1]), self._classes, bound, joint)  # as sites derive it
        return self._ask(label, query, [pools, where])


@dataclass(frozen=True, eq=False)
class Step:
    """The request for one step at a site.

    query: the sum. pools: rows to train critics against first, (times, classes, rows, width). kept: arrays of the
    request from which a restarted site trains its critics again.
    """

    query: UpstreamSum
    pools: Tensor
    kept: list[Floats]


class SiteCritics:
    """A site's shards with their critics. The server's rows train them; the site's own study sets the measurement.

    A restarted site trains its critics again with the steps on file, from a fresh seed.
    """

    def __init__(self, study: Study, plan: Plan, vault: Vault, rounds: Rounds) -> None:
        self._study, self._plan, self._vault, self._rounds = study, plan, vault, rounds
        self._shards: Shards | None = None
        self._map: Indicators | None = None  # of the shards' rows

    def read(self, own: Derived, numbers: Sequence[NDArray[Any]], seed: int, releases: Releases) -> Step:
        """Return the step in a request, from what the site derives itself and the request's generated rows.

        The clipping norm and other settings come from the site's own study, never from a request. Raises QueryError
        unless the rows have the shape that the study's method requires.
        """
        if not isinstance(own.query, ShardsAsked):
            raise QueryError("The study's fit makes another measurement next.")
        config = self._study.config()
        method, first = self._method, not self._rounds.steps
        features = self._map or (_indicators(own) if first else self._features(self._rounds.steps[0][1:]))
        classes = features.given[1].cells
        if len(numbers) != 2:
            raise QueryError("A step must contain two arrays of generated rows.")
        pools, fakes = numbers
        times = method.warm if first else method.critic_steps
        ones = fakes.shape[-1]
        shapes = [(times, classes, method.pool, ones), (config.batch, ones)]
        width = features.width
        inside = all(a.dtype == np.int32 and a.size and a.min() >= 0 and a.max() < width for a in (pools, fakes))
        if [pools.shape, fakes.shape] != shapes or not inside:
            raise QueryError("The step's generated rows do not have the shape that the study's method requires.")
        query = UpstreamSum(indicators(fakes, width), classes, config.clip, config.joint)
        kept = _kept(seed, releases) if first else []  # a restart derives the map from these
        return Step(query, indicators(pools, width), [pools.astype(np.float64), *kept])

    def release(self, label: str, step: Step) -> None:
        """Train the critics, and put this site's part of the sum on file. Raise BudgetError as a vault does."""
        if self._shards is None:
            self._shards = self._opened((self._rounds.steps or [step.kept])[0][1:])
        for pool in step.pools:
            self._shards.train(pool)
        self._shards.release(label, step.query)

    def _opened(self, kept: Sequence[Floats]) -> Shards:
        """Return the shards of this site, with critics trained by the steps on file."""
        features = self._map = self._features(kept)
        config = self._study.config()
        count = config.shards // len(self._study.sites)
        classes = features.given[1].cells
        shards = self._vault.split_into_shards(count, features, classes, self._method.critic)
        for pools, *_ in self._rounds.steps:
            for pool in indicators(pools, features.width):
                shards.train(pool)
        return shards

    @property
    def _method(self) -> ShardMethod:
        """The study's method, which sets how often critics train and on how many generated rows."""
        found = registry.load(self._study.method, self._study.preset)
        assert isinstance(found, ShardMethod)
        return found

    def _features(self, kept: Sequence[Floats]) -> Indicators:
        """Return the map of the shards' rows, from the seed and the releases that were kept from the first step."""
        return _indicators(derived(self._study, self._plan, *_restored(kept)))


def _kept(seed: int, releases: Releases) -> list[Floats]:
    """Return a seed and releases as arrays for a checkpoint."""
    return [
        np.array([*divmod(seed, HALF), *map(len, releases)], np.float64),
        *(array for own in releases for array in own),
    ]


def _restored(kept: Sequence[Floats]) -> tuple[int, Releases]:
    """Return the seed and the releases in arrays that `_kept` made."""
    high, low, *counts = kept[0].astype(np.int64).tolist()
    return high * HALF + low, grouped(kept[1:], counts)


def _indicators(own: Derived) -> Indicators:
    assert isinstance(own.query, ShardsAsked) and isinstance(own.query.features, Indicators)
    return own.query.features
