"""What was measured on private rows, as frozen facts: the mechanisms that accounting knows. It reads nothing else.

All events stand under one neighbouring relation: zero-out (one unit's record is replaced by an empty one that
contributes nothing; sensitivities are those of add-or-remove-one).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ...errors import BudgetError

RELATION = "zero-out: one row's record is replaced by an empty one that contributes nothing"


def rows_of(count: int) -> str:
    """So many rows in words.

    >>> rows_of(1), rows_of(3)
    ('1 row', '3 rows')
    """
    return "1 row" if count == 1 else f"{count} rows"


def relation(max_rows: int | None) -> str:
    """The neighbouring relation in words: of a row, or of a patient with at most `max_rows` rows."""
    if max_rows is None:
        return RELATION
    return f"zero-out: all rows of one patient, at most {max_rows}, are replaced by empty ones that contribute nothing"


def _positive(value: float, what: str) -> None:
    if not 0 < value < float("inf"):
        raise BudgetError(f"The {what} must be a positive number.")


def _whole(value: int, what: str) -> None:
    if not (isinstance(value, int) and value >= 1):
        raise BudgetError(f"The {what} must be a whole number, one or more.")


@dataclass(frozen=True, kw_only=True)
class Gaussian:
    """One measurement with Gaussian noise of `multiplier` times its L2 sensitivity."""

    multiplier: float

    def __post_init__(self) -> None:
        _positive(self.multiplier, "noise multiplier")


@dataclass(frozen=True, kw_only=True)
class SubsampledGaussian:
    """A Gaussian measurement of a Poisson lot: each row is in it by an independent coin of probability `rate`."""

    multiplier: float
    rate: float

    def __post_init__(self) -> None:
        _positive(self.multiplier, "noise multiplier")
        if not 0 < self.rate <= 1:
            raise BudgetError("The sampling rate must lie in (0, 1].")


@dataclass(frozen=True, kw_only=True)
class Thresholded:
    """Partition selection: noisy counts, of which only those above a threshold are released, each with its key.

    Beside the Gaussian noise it costs `delta`: the chance that a key of one row alone is released.
    """

    multiplier: float
    delta: float

    def __post_init__(self) -> None:
        _positive(self.multiplier, "noise multiplier")
        if not 0 < self.delta < 1:
            raise BudgetError("The delta of partition selection must lie in (0, 1).")


@dataclass(frozen=True, kw_only=True)
class ShardSampledGaussian:
    """A Gaussian measurement of one of `shards` shards, sampled afresh, evenly and in secret.

    `multiplier` is the noise over the L2 distance that any two shards' whole values can have: what one unit changes
    is the value of its own shard, in whatever way.
    """

    multiplier: float
    shards: int

    def __post_init__(self) -> None:
        _positive(self.multiplier, "noise multiplier")
        _whole(self.shards, "number of shards")

    @property
    def rate(self) -> float:
        """The chance that a given shard is the one that is sampled."""
        return 1 / self.shards


@dataclass(frozen=True, kw_only=True)
class PublicOrderGaussian:
    """A Gaussian measurement of the next of `shards` shards, which follow one another in a public order.

    A unit is in one shard, which is measured at most ceil(n / shards) of n times; measurements of other shards depend
    on it through earlier releases alone (parallel composition). `multiplier` as for a sampled shard.
    """

    multiplier: float
    shards: int

    def __post_init__(self) -> None:
        _positive(self.multiplier, "noise multiplier")
        _whole(self.shards, "number of shards")


Event = Gaussian | SubsampledGaussian | Thresholded | ShardSampledGaussian | PublicOrderGaussian
_ALL: tuple[type[Event], ...] = (Gaussian, SubsampledGaussian, Thresholded, ShardSampledGaussian, PublicOrderGaussian)
KINDS: dict[str, type[Event]] = {k.__name__: k for k in _ALL}
INTEGER_FIELDS = ("shards",)  # fields that hold whole numbers


def first_order_loss(event: Event) -> float:
    """The privacy loss of one measurement, to first order: (rate / multiplier)^2; in public order, over all shards."""
    if isinstance(event, PublicOrderGaussian):
        return 1 / (event.shards * event.multiplier**2)
    return float((getattr(event, "rate", 1.0) / event.multiplier) ** 2)


def to_json(event: Event) -> dict[str, Any]:
    """Plain data; `from_json` reads it back.

    >>> from_json(to_json(Gaussian(multiplier=2.0)))
    Gaussian(multiplier=2.0)
    """
    return {"mechanism": type(event).__name__, **asdict(event)}


def from_json(content: dict[str, Any]) -> Event:
    """The event that `content` holds. Raises BudgetError, TypeError or KeyError where it holds none."""
    fields: dict[str, Any] = {key: float(value) for key, value in content.items() if key != "mechanism"}
    fields |= {key: content[key] for key in INTEGER_FIELDS if key in fields}
    return KINDS[content["mechanism"]](**fields)
