"""What was asked of private rows, as frozen facts. Accounting reads nothing else.

All events stand under one neighbouring relation: zero-out (one unit's record is replaced by an empty one that
contributes nothing; sensitivities are those of add-or-remove-one).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from ...errors import BudgetError

RELATION = "zero-out: one row's record is replaced by an empty one that contributes nothing"


def relation(most: int | None) -> str:
    """The neighbouring relation in words: of a row, or of a patient with at most `most` rows."""
    if most is None:
        return RELATION
    return f"zero-out: all rows of one patient, at most {most}, are replaced by empty ones that contribute nothing"


def _positive(value: float, what: str) -> None:
    if not 0 < value < float("inf"):
        raise BudgetError(f"The {what} must be a positive number.")


def _whole(value: int, what: str) -> None:
    if not (isinstance(value, int) and value >= 1):
        raise BudgetError(f"The {what} must be a whole number, one or more.")


@dataclass(frozen=True, kw_only=True)
class Gaussian:
    """One answer with Gaussian noise of `multiplier` times its L2 sensitivity."""

    multiplier: float

    def __post_init__(self) -> None:
        _positive(self.multiplier, "noise multiplier")


@dataclass(frozen=True, kw_only=True)
class SubsampledGaussian:
    """A Gaussian answer on a Poisson lot: each row is in it by an independent coin of probability `rate`."""

    multiplier: float
    rate: float

    def __post_init__(self) -> None:
        _positive(self.multiplier, "noise multiplier")
        if not 0 < self.rate <= 1:
            raise BudgetError("The sampling rate must lie in (0, 1].")


@dataclass(frozen=True, kw_only=True)
class Thresholded:
    """Noisy counts of which only those above a threshold are released, each with its key.

    Beside the Gaussian noise it costs `delta`: the chance that a key held by one row alone is released.
    """

    multiplier: float
    delta: float

    def __post_init__(self) -> None:
        _positive(self.multiplier, "noise multiplier")
        if not 0 < self.delta < 1:
            raise BudgetError("The delta of key discovery must lie in (0, 1).")


@dataclass(frozen=True, kw_only=True)
class PickedGaussian:
    """One of `shards` parties, picked afresh, evenly and in secret, answers with Gaussian noise.

    `multiplier` is the noise over the L2 distance that any two parties' whole answers can have: what one unit changes
    is the answer of its own party, in whatever way.
    """

    multiplier: float
    shards: int

    def __post_init__(self) -> None:
        _positive(self.multiplier, "noise multiplier")
        _whole(self.shards, "number of shards")

    @property
    def rate(self) -> float:
        """The chance that a given party is the one that answers."""
        return 1 / self.shards


@dataclass(frozen=True, kw_only=True)
class TurnGaussian:
    """The next of `shards` parties, which take turns in a public order, answers with Gaussian noise.

    A unit is in one party, which answers at most ceil(n / shards) of n times; other parties' answers say nothing of it
    that was not released before (parallel composition). `multiplier` as for a picked party.
    """

    multiplier: float
    shards: int

    def __post_init__(self) -> None:
        _positive(self.multiplier, "noise multiplier")
        _whole(self.shards, "number of shards")


Event = Gaussian | SubsampledGaussian | Thresholded | PickedGaussian | TurnGaussian
_ALL: tuple[type[Event], ...] = (Gaussian, SubsampledGaussian, Thresholded, PickedGaussian, TurnGaussian)
KINDS: dict[str, type[Event]] = {k.__name__: k for k in _ALL}
WHOLE = ("shards",)  # fields that hold whole numbers


def weight(event: Event) -> float:
    """One answer's part of the privacy loss, to first order: (rate / multiplier)^2; of turns, over all parties."""
    if isinstance(event, TurnGaussian):
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
    fields |= {key: content[key] for key in WHOLE if key in fields}
    return KINDS[content["mechanism"]](**fields)
