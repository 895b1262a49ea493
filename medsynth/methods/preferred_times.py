"""Kinds of days and of moments, of which some are preferred: the first of a month, hours of a day, full hours.

Dates that are known by their month are written as its first day, and visits happen in the daytime. A day whose time is
not known is often written with midnight, and people round times to five minutes or a quarter of an hour.
`digit_preference` measures and draws kinds of numbers by their digits; here are those of calendar days and of
timestamps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..arrays import Codes, Whole
from ..privacy.queries.content import require

HOURS, DAYS = 24, 31
LAST_DAY = 3_652_059  # 9999-12-31
EPOCH = 719_163  # 1970-01-01, as a day number
ROUNDINGS = (60, 15, 5, 1)  # minutes to which a time of day is rounded: each is a kind in each hour


class Repeated:
    """What maps from codes to kinds of units share: periods repeat from `start` on, each like the first."""

    low: int
    top: int

    @property
    def cells(self) -> int:
        """The number of kinds, plus one for missing values."""
        return len(self.groups.T)

    @property
    def groups(self) -> Whole:
        """The group of each kind by each grouping, and of missing values: (groupings, cells)."""
        raise NotImplementedError

    @property
    def start(self) -> int:
        """The first unit of a period."""
        raise NotImplementedError

    @cached_property
    def _kind(self) -> Whole:
        """The kind of each unit of a period, (period,)."""
        raise NotImplementedError

    @cached_property
    def _units(self) -> tuple[Whole, Whole, Whole]:
        """The units of a period by kind, as kind times period plus unit, (period,); each kind's start and size."""
        found = np.sort(self._kind * len(self._kind) + np.arange(len(self._kind)))
        sizes = np.bincount(self._kind, minlength=self.cells - 1)
        return found, np.cumsum(sizes) - sizes, sizes

    def cell_of(self, codes: Codes) -> Whole:
        """Return the kind of each value."""
        units = (codes.astype(np.int64) + self.low - self.start) % len(self._kind)
        return np.where(codes < self.top, self._kind[units], self.cells - 1)

    def count(self, first: Whole, last: Whole) -> Whole:
        """Count the units of each kind in each range [first, last]: (kinds, ranges)."""
        kinds = np.arange(self.cells - 1)[:, None]
        return self._below(kinds, last + 1) - self._below(kinds, first)

    def nth(self, kind: Whole, first: Whole, rank: Whole) -> Whole:
        """Return the unit of a `kind` with this `rank`, from zero, among those from `first` on. All (rows,)."""
        units, starts, sizes = self._units
        periods, place = np.divmod(self._below(kind, first) + rank, sizes[kind])
        return np.asarray(self.start + (periods - kind) * len(units) + units[starts[kind] + place])

    def _below(self, kind: Whole, end: Whole) -> Whole:
        """Return the number of units of a kind before `end`."""
        units, starts, sizes = self._units
        periods, rest = np.divmod(end - self.start, len(units))
        return np.asarray(periods * sizes[kind] + np.searchsorted(units, kind * len(units) + rest) - starts[kind])


@dataclass(frozen=True)
class HourKinds(Repeated):
    """A map from codes of timestamps to their hours, each by how the minutes are rounded.

    `per_day`: the units of a day. `rounded`: False in models of earlier versions, whose kinds are hours alone. Raises
    QueryError for other units and for moments too far away.
    """

    low: int
    top: int
    per_day: int
    rounded: bool = True

    def __post_init__(self) -> None:
        require(self.per_day in (24 * 60, 24 * 60 * 60), "Hours are those of minutes or seconds.")
        require(0 <= self.low <= self.low + self.top <= (LAST_DAY + 1) * self.per_day, "The moments are too far away.")

    @property
    def groups(self) -> Whole:
        """The group of each kind, and of missing values: by rounding, and by hour."""
        kinds = np.arange(HOURS * len(ROUNDINGS)) if self.rounded else np.arange(HOURS) * len(ROUNDINGS)
        hours, rounding = np.divmod(kinds, len(ROUNDINGS))
        return np.stack([np.append(rounding, -1), np.append(hours, -1)][: 1 + self.rounded])

    @property
    def start(self) -> int:
        """The first midnight."""
        return 0

    @cached_property
    def _kind(self) -> Whole:
        """The kind of each unit of a day."""
        minutes, seconds = np.divmod(np.arange(self.per_day), self.per_day // (HOURS * 60))
        if not self.rounded:
            return minutes // 60
        finer = [(minutes % some != 0) | (seconds != 0) for some in ROUNDINGS[:-1]]
        return np.asarray(minutes // 60 * len(ROUNDINGS) + np.sum(finer, 0))


@dataclass(frozen=True)
class DayKinds(Repeated):
    """A map from codes of days to their day of the month, with the first of January apart. Raises QueryError."""

    low: int
    top: int

    def __post_init__(self) -> None:
        require(1 <= self.low <= self.low + self.top <= LAST_DAY + 1, "The days are too far away.")

    @property
    def groups(self) -> Whole:
        """The group of each kind: days of a month, first of January, missing values."""
        return np.array([[*[0] * DAYS, 1, -1]])

    @property
    def start(self) -> int:
        """The first day: the range is the only period."""
        return self.low

    @cached_property
    def _kind(self) -> Whole:
        """The kind of each day from `low` on."""
        days = np.arange(self.low - EPOCH, self.low + self.top - EPOCH).astype("datetime64[D]")
        of_month = (days - days.astype("datetime64[M]")).astype(np.int64)
        of_year = (days - days.astype("datetime64[Y]")).astype(np.int64)
        return np.where(of_year == 0, DAYS, of_month)
