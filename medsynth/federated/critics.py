"""GS-WGAN over sites: critics stay where the rows are; generated rows go there, and sanitised gradients come back.

A step's request holds generated rows, which are public: those that critics train against, and those at which their
gradients are added up. The map from codes to indicators a site derives itself (`derivation.py`). What a site sends is
its part of the sum over all shards of all sites (`privacy/shards.py`): one row changes one clipped gradient of it,
whatever its critic was trained against. So a server may send any rows, and learns no more than that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..errors import QueryError
from ..methods import registry
from ..methods.adversarial import Indicators, ShardMethod
from ..privacy.accounting.calibration import Plan
from ..privacy.queries.rows import Floats
from ..privacy.shards import Shards, UpstreamSum
from ..privacy.vault import Vault
from .derivation import Derived, Releases, ShardsAsked, derived
from .rounds import Rounds
from .study import Study
from .transport import grouped

HALF = 1 << 28  # of a seed: checkpoints hold numbers of 53 bits
Ask = Callable[[str, UpstreamSum, list[NDArray[Any]]], Tensor]


def places(rows: Tensor) -> NDArray[np.int32]:
    """Where the ones of indicators stand, (..., width) to (..., ones): as many in every row."""
    found = (rows > 0.5).nonzero()[:, -1]
    return found.reshape(*rows.shape[:-1], -1).cpu().numpy().astype(np.int32)


def indicators(where: NDArray[Any], width: int) -> Tensor:
    """The rows that `places` were of."""
    index = torch.from_numpy(where.astype(np.int64))
    return torch.zeros(*index.shape[:-1], width).scatter(-1, index, 1.0)


class RemoteShards:
    """The server's end: the shards of all sites. What critics train against goes to the sites with the next sum."""

    def __init__(self, ask: Ask, classes: int) -> None:
        self._ask, self._classes = ask, classes
        self._pools: list[NDArray[np.int32]] = []

    def train(self, fakes: Tensor) -> None:
        """One step of every critic on its own rows, against generated rows, (classes, rows, width)."""
        self._pools.append(places(fakes))

    def measure_upstream_sum(self, label: str, fakes: Tensor, bound: float, *, joint: bool = False) -> Tensor:
        """The noised sum of all sites' critics' clipped gradients at generated rows: (rows, width - classes)."""
        pools, where = np.stack(self._pools), places(fakes)
        self._pools = []
        query = UpstreamSum(indicators(where, fakes.shape[-1]), self._classes, bound, joint)  # as sites derive it
        return self._ask(label, query, [pools, where])


@dataclass(frozen=True, eq=False)
class Step:
    """What a site is asked in a step.

    query: the sum; pools: what its critics train against before, (times, classes, rows, width); kept: the request's
    arrays that a site which starts anew trains its critics by again.
    """

    query: UpstreamSum
    pools: Tensor
    kept: list[Floats]


class SiteCritics:
    """A site's end: its shards with their critics, trained as the server says, measured as the site's own study says.

    Critics of a site that starts anew are trained by the steps on file, from a fresh seed.
    """

    def __init__(self, study: Study, plan: Plan, vault: Vault, rounds: Rounds) -> None:
        self._study, self._plan, self._vault, self._rounds = study, plan, vault, rounds
        self._shards: Shards | None = None
        self._map: Indicators | None = None  # of the shards' rows

    def read(self, own: Derived, numbers: Sequence[NDArray[Any]], seed: int, releases: Releases) -> Step:
        """The step in a request, by what the site derives itself and the request's generated rows.

        Clipping norm and the like are the site's own: no request holds them. Raises QueryError unless the rows have
        the form that the study's method gives them.
        """
        if not isinstance(own.query, ShardsAsked):
            raise QueryError("The study's fit measures something else next.")
        config = self._study.config()
        method, first = self._method, not self._rounds.steps
        features = self._map or (_indicators(own) if first else self._features(self._rounds.steps[0][1:]))
        classes, width = features.given[1].cells, _width(features)
        if len(numbers) != 2:
            raise QueryError("A step holds two arrays of generated rows.")
        pools, fakes = numbers
        times, ones = method.warm if first else method.critic_steps, fakes.shape[-1]
        shapes = [(times, classes, method.pool, ones), (config.batch, ones)]
        inside = all(a.dtype == np.int32 and a.size and a.min() >= 0 and a.max() < width for a in (pools, fakes))
        if [pools.shape, fakes.shape] != shapes or not inside:
            raise QueryError("The step's generated rows are not of the form that the study's method gives them.")
        query = UpstreamSum(indicators(fakes, width), classes, config.clip, config.joint)
        kept = _kept(seed, releases) if first else []  # from which a restart derives the map
        return Step(query, indicators(pools, width), [pools.astype(np.float64), *kept])

    def release(self, label: str, step: Step) -> None:
        """Train the critics, and put this site's part of the sum on file. Raises BudgetError as a vault does."""
        if self._shards is None:
            self._shards = self._opened((self._rounds.steps or [step.kept])[0][1:])
        for pool in step.pools:
            self._shards.train(pool)
        self._shards.release(label, step.query)

    def _opened(self, kept: Sequence[Floats]) -> Shards:
        """The shards of this site, their critics as far as the steps on file bring them."""
        features = self._map = self._features(kept)
        config = self._study.config()
        count = config.shards // len(self._study.sites)
        classes = features.given[1].cells
        shards = self._vault.split_into_shards(count, features, classes, self._method.critic)
        for pools, *_ in self._rounds.steps:
            for pool in indicators(pools, _width(features)):
                shards.train(pool)
        return shards

    @property
    def _method(self) -> ShardMethod:
        """The study's method: how often its critics train, on how many generated rows."""
        found = registry.load(self._study.method, self._study.preset)
        assert isinstance(found, ShardMethod)
        return found

    def _features(self, kept: Sequence[Floats]) -> Indicators:
        """The map of the shards' rows, by the seed and the releases that were kept of the first step."""
        return _indicators(derived(self._study, self._plan, *_restored(kept)))


def _kept(seed: int, releases: Releases) -> list[Floats]:
    """A seed and releases as a checkpoint holds them."""
    return [
        np.array([*divmod(seed, HALF), *map(len, releases)], np.float64),
        *(array for own in releases for array in own),
    ]


def _restored(kept: Sequence[Floats]) -> tuple[int, Releases]:
    """What `_kept` was made of."""
    high, low, *counts = kept[0].astype(np.int64).tolist()
    return high * HALF + low, grouped(kept[1:], counts)


def _indicators(own: Derived) -> Indicators:
    assert isinstance(own.query, ShardsAsked) and isinstance(own.query.features, Indicators)
    return own.query.features


def _width(features: Indicators) -> int:
    """How many indicators a row has, those of its class included."""
    return sum(cells.cells for cells in features.cells.values()) + features.given[1].cells
