"""Derive the next measurement of a fit. Every site does so itself, from the study, a public seed and earlier releases.

No query crosses the wire. A request contains numbers: the earlier releases and, for a step of a network, the critic's
weights, generated rows and clipping norms, in the shapes of the site's own query. A malicious server can choose these
numbers, but not what is done with a row: every derived query is one that the study's method makes, and is charged by
its own sensitivity.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..arrays import Floats
from ..cores import one_thread
from ..errors import QueryError
from ..fitting.training import rows_of_patients
from ..methods import registry
from ..methods.adversarial import CRITIC_GRADIENTS
from ..methods.dp_gan import QUANTILES
from ..privacy.accounting.calibration import Plan
from ..privacy.clipping import Groups
from ..privacy.contribution import PrivacyUnits
from ..privacy.networks import Mlp
from ..privacy.queries.gradients import GradientSum, NormsBelow, PairGradientSum
from ..privacy.queries.measurements import Result, ShardedMeasurements, may_answer
from ..privacy.queries.query import RowQuery
from ..privacy.queries.rows import CodedRows, Features
from ..privacy.shards import CriticConfig
from .study import Study

LARGEST = 2.0**62  # largest size of a released number
MOST_RELEASES = 64  # largest number of releases before a query
OF_PAIRS: dict[str, type[PairGradientSum | NormsBelow]] = {CRITIC_GRADIENTS: PairGradientSum, QUANTILES: NormsBelow}
Releases = Sequence[Sequence[Floats]]


@dataclass(frozen=True, eq=False)
class ShardsAsked:
    """A request to split the rows into shards. `features`: the map from codes to indicators."""

    features: Features


@dataclass(frozen=True, eq=False)
class Derived:
    """The next measurement of a fit and its label, or a request for shards."""

    label: str
    query: RowQuery[Any] | ShardsAsked


class _Stop(Exception):
    """Raised with the next measurement when all releases are used."""

    def __init__(self, found: Derived) -> None:
        super().__init__(found.label)
        self.found = found


class _Released(ShardedMeasurements):
    """Answer with earlier releases. When these are used up, raise the next measurement."""

    def __init__(self, study: Study, releases: Releases) -> None:
        self._study = study
        self._left = list(releases)

    @property
    def max_rows(self) -> int | None:
        return self._study.table_schema.max_rows

    def measure(self, label: str, query: RowQuery[Result]) -> Result:
        if not may_answer(query):
            raise QueryError("Sites answer only queries of known kinds.")
        if not self._left:
            raise _Stop(Derived(label, query))
        own = [np.asarray(array, np.float64) for array in self._left.pop(0)]
        if [array.shape for array in own] != self._shapes(query):
            raise QueryError("The earlier releases do not have the shapes of the study's measurements.")
        return query.result(own)

    def split_into_shards(self, count: int, features: Features, classes: int, config: CriticConfig) -> NoReturn:
        raise _Stop(Derived("", ShardsAsked(features)))

    def _shapes(self, query: RowQuery[Any]) -> list[tuple[int, ...]]:
        """Return the shapes of an answer: those of the answer over zero rows."""
        names = self._study.table_schema.core.names
        none = np.zeros((0, len(names)), np.int32)
        units = PrivacyUnits(np.zeros(0, np.int64), self.max_rows) if self.max_rows is not None else None
        rows = CodedRows(none, names, np.zeros((0, query.draws), np.uint64), units)
        return [array.shape for array in query.finished(query.exact(rows))]


def derived(study: Study, plan: Plan, seed: int, releases: Releases) -> Derived:
    """Return what a fit of the study measures after `releases`, the releases of its first measurements in order.

    It depends on no row, and on no noise except that in the releases. Args: `seed`: the fit's public seed. Raises
    QueryError for releases of other measurements, or for more releases than a fit makes before its steps.
    """
    if len(releases) > MOST_RELEASES:
        raise QueryError("The request contains more earlier releases than a fit makes.")
    if not all(np.isfinite(array).all() and (np.abs(array) < LARGEST).all() for own in releases for array in own):
        raise QueryError("An earlier release contains a number that is not finite, or too large.")
    known = _Released(study, releases)
    module = registry.load(study.method, study.preset)
    try:
        with one_thread(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            rows, _ = rows_of_patients(known, plan)
            used = plan.used_on(rows, plan.rows_std)
            module.fit(study.config(), study.table_schema.core, known, used, seed, "cpu", lambda done, of: None)
    except _Stop as stop:
        return stop.found
    raise QueryError("A fit of this study makes no measurement after these releases.")


def numbers_of(query: RowQuery[Any]) -> list[NDArray[Any]]:
    """Return the numbers of a query that a site cannot derive: those of a step of a network, else an empty list."""
    if not isinstance(query, GradientSum | PairGradientSum | NormsBelow):
        return []
    weights = [_array(p) for p in query.critic.parameters()]
    if isinstance(query, GradientSum):
        return weights
    return [*weights, _array(query.pool), _array(query.groups.of), np.array(query.groups.bounds, np.float64)]


def with_numbers(own: Derived, label: str, numbers: Sequence[NDArray[Any]]) -> RowQuery[Any]:
    """Return a site's own query with a server's numbers, which must be finite and have the same shapes.

    The label of a step of pairs selects one of two measurements. Raises QueryError for another label or wrong numbers.
    """
    query = own.query
    if isinstance(query, PairGradientSum | NormsBelow) and label in OF_PAIRS:
        query = OF_PAIRS[label](query.critic, query.loss, query.features, query.pool, query.groups, query.local)
    elif label != own.label or isinstance(query, ShardsAsked):
        raise QueryError("The study's fit makes another measurement next.")
    like = numbers_of(query)
    alike = len(numbers) == len(like) and all(
        one.shape == other.shape and one.dtype == other.dtype and np.isfinite(one).all()
        for one, other in zip(numbers, like, strict=True)
    )
    if not alike:
        raise QueryError("The numbers of the request do not have the shapes of the study's measurement.")
    if not like:
        return query
    assert isinstance(query, GradientSum | PairGradientSum | NormsBelow)
    critic = _with_weights(query.critic, numbers)
    if isinstance(query, GradientSum):
        return replace(query, critic=critic)
    pool, of, bounds = numbers[-3:]
    groups = Groups(torch.from_numpy(of.copy()), tuple(bounds.tolist()))
    return replace(query, critic=critic, pool=torch.from_numpy(pool.copy()), groups=groups)


def _with_weights(critic: Mlp, numbers: Sequence[NDArray[Any]]) -> Mlp:
    """Return a network of the same shape with other weights."""
    made = copy.deepcopy(critic)
    with torch.no_grad():
        for parameter, own in zip(made.parameters(), numbers, strict=False):
            parameter.copy_(torch.from_numpy(own.copy()))
    return made


def digest_of(value: Any) -> str:
    """Return SHA-256 of a query's content, or a list's, so that server and sites can check that they are equal."""
    found = hashlib.sha256()
    for part in _parts(value):
        found.update(len(part).to_bytes(8, "little") + part)
    return found.hexdigest()


def _parts(value: Any) -> Iterator[bytes]:
    """Yield the content of a query, value by value. Maps with extra facts are reduced to plain maps."""
    if isinstance(value, np.ndarray | Tensor):
        array = _array(value) if isinstance(value, Tensor) else value
        yield f"{array.dtype} {array.shape}".encode()
        yield np.ascontiguousarray(array).tobytes()
    elif isinstance(value, Mlp):
        yield value.activation.encode()
        for parameter in value.parameters():
            yield from _parts(parameter)
    elif isinstance(value, Mapping):
        yield from _parts([*value.items()])
    elif isinstance(value, list | tuple):
        yield f"{len(value)}".encode()
        for each in value:
            yield from _parts(each)
    elif hasattr(value, "plain"):
        yield from _parts(value.plain())
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        yield type(value).__qualname__.encode()
        for field in dataclasses.fields(value):
            if not field.metadata.get("local"):
                yield from _parts(getattr(value, field.name))
    elif callable(value):
        yield value.__qualname__.encode()
    else:
        yield f"{type(value).__name__} {value!r}".encode()


def _array(tensor: Tensor) -> NDArray[Any]:
    return tensor.detach().cpu().numpy()
