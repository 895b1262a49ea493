"""What was measured on private rows, as frozen facts. Accounting reads these mechanisms and nothing else.

All events use one neighbouring relation, zero-out: one unit's record is replaced by an empty one that contributes
nothing. Sensitivities are those of add-or-remove-one.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from ...errors import BudgetError

SHARE_STEPS = 1000  # steps of a share of the privacy loss, as it is printed
RELATION = "zero-out: one row's record is replaced by an empty one that contributes nothing"


def rows_of(count: int) -> str:
    """Return a number of rows in words.

    >>> rows_of(1), rows_of(3)
    ('1 row', '3 rows')
    """
    return "1 row" if count == 1 else f"{count} rows"


def relation(max_rows: int | None) -> str:
    """Return the neighbouring relation in words: of a row, or of a patient with at most `max_rows` rows."""
    if max_rows is None:
        return RELATION
    return f"zero-out: all rows of one patient, at most {max_rows}, are replaced by empty ones that contribute nothing"


@dataclass(frozen=True, kw_only=True)
class _Noised:
    """A measurement with Gaussian noise of `multiplier` times a sensitivity. Raises BudgetError if it is invalid."""

    multiplier: float

    def __post_init__(self) -> None:
        if not 0 < self.multiplier < float("inf"):
            raise BudgetError("The noise multiplier must be a positive number.")


@dataclass(frozen=True, kw_only=True)
class Gaussian(_Noised):
    """A measurement of all rows. The noise is `multiplier` times its L2 sensitivity."""


@dataclass(frozen=True, kw_only=True)
class SubsampledGaussian(_Noised):
    """A Gaussian measurement of a Poisson lot: each row is in it by an independent coin of probability `rate`."""

    rate: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.rate <= 1:
            raise BudgetError("The sampling rate must be above 0 and at most 1.")


@dataclass(frozen=True, kw_only=True)
class Thresholded(_Noised):
    """Partition selection: noisy counts, of which only those above a threshold are released, each with its key.

    In addition to the Gaussian noise it costs `delta`: the chance that a key of only one row is released.
    """

    delta: float

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.delta < 1:
            raise BudgetError("The delta of partition selection must be above 0 and below 1.")


@dataclass(frozen=True, kw_only=True)
class _OfShard(_Noised):
    """A Gaussian measurement of one of `shards` shards.

    `multiplier` is the noise over the largest L2 distance between two shards' values: one unit can change its own
    shard's value in any way.
    """

    shards: int

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (isinstance(self.shards, int) and self.shards >= 1):
            raise BudgetError("The number of shards must be a whole number, one or more.")


@dataclass(frozen=True, kw_only=True)
class ShardSampledGaussian(_OfShard):
    """A measurement of a shard that is sampled anew, uniformly and in secret."""

    @property
    def rate(self) -> float:
        """Return the chance that a given shard is sampled."""
        return 1 / self.shards


@dataclass(frozen=True, kw_only=True)
class PublicOrderGaussian(_OfShard):
    """A measurement of the next shard in a public order.

    A unit is in one shard, which is measured at most ceil(n / shards) of n times. Measurements of other shards depend
    on the unit only through earlier releases (parallel composition).
    """


Event = Gaussian | SubsampledGaussian | Thresholded | ShardSampledGaussian | PublicOrderGaussian
_ALL: tuple[type[Event], ...] = (Gaussian, SubsampledGaussian, Thresholded, ShardSampledGaussian, PublicOrderGaussian)
KINDS: dict[str, type[Event]] = {k.__name__: k for k in _ALL}
INTEGER_FIELDS = ("shards",)  # Fields with whole numbers.


def first_order_loss(event: Event) -> float:
    """Return the first-order privacy loss of one measurement: (rate / multiplier)^2, over all shards if in order."""
    if isinstance(event, PublicOrderGaussian):
        return 1 / (event.shards * event.multiplier**2)
    return float((getattr(event, "rate", 1.0) / event.multiplier) ** 2)


def to_json(event: Event) -> dict[str, Any]:
    """Return plain data for `from_json`.

    >>> from_json(to_json(Gaussian(multiplier=2.0)))
    Gaussian(multiplier=2.0)
    """
    return {"mechanism": type(event).__name__, **asdict(event)}


def from_json(content: dict[str, Any]) -> Event:
    """Return the event in `content`. Raises BudgetError, TypeError or KeyError if there is none."""
    fields: dict[str, Any] = {key: float(value) for key, value in content.items() if key != "mechanism"}
    fields |= {key: content[key] for key in INTEGER_FIELDS if key in fields}
    return KINDS[content["mechanism"]](**fields)


def loss_shares(events: Iterable[tuple[Event, int]]) -> list[float]:
    """Return each event's share of the sum of first-order losses, in tenths of a per cent that add up to one.

    The largest remainders are rounded up. Epsilon does not add up; this is the usual figure for its parts.

    >>> loss_shares([(Gaussian(multiplier=1.0), 1)] * 3)
    [0.334, 0.333, 0.333]
    """
    losses = np.array([times * first_order_loss(event) for event, times in events])
    exact = losses * SHARE_STEPS / losses.sum()
    steps = np.floor(exact)
    steps[np.argsort(steps - exact, kind="stable")[: SHARE_STEPS - int(steps.sum())]] += 1
    return [float(share) for share in steps / SHARE_STEPS]
