"""Kinds of days and of moments, of which some are preferred: the first of a month, or the hours of a day.

Dates that are known by their month are written as its first day, and visits happen in the daytime. A day whose time is
not known is often written with midnight. `digit_preference` measures and draws kinds of numbers by their digits; here
are those of calendar days and of timestamps.
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


@dataclass(frozen=True)
class HourKinds:
    """A map from codes of timestamps to their hours, with full hours, such as midnight, apart.

    `per_day`: the units of a day. `full`: whether full hours are apart. Models of earlier versions have hours alone.
    Raises QueryError for other units and for moments too far away.
    """

    low: int
    top: int
    per_day: int
    full: bool = True

    def __post_init__(self) -> None:
        require(self.per_day in (24 * 60, 24 * 60 * 60), "Hours are those of minutes or seconds.")
        require(0 <= self.low <= self.low + self.top <= (LAST_DAY + 1) * self.per_day, "The moments are too far away.")

    @property
    def cells(self) -> int:
        """The number of kinds, plus one for missing values."""
        return len(self.place)

    @property
    def place(self) -> Whole:
        """The group of each kind, (cells,): full hours and the rest of each, or whole hours; missing values."""
        return np.array([*([0, 1] if self.full else [1]) * HOURS, -1])

    @cached_property
    def _parts(self) -> tuple[Whole, Whole]:
        """The first unit of a day of each kind and their number, (kinds,)."""
        starts = np.arange(HOURS) * (self.per_day // HOURS)
        starts = np.stack([starts, starts + 1], 1).ravel() if self.full else starts
        return starts, np.diff(starts, append=self.per_day)

    def cell_of(self, codes: Codes) -> Whole:
        """Return the kind of each value."""
        units = codes.astype(np.int64) + self.low
        kind = np.searchsorted(self._parts[0], units % self.per_day, side="right") - 1
        return np.where(codes < self.top, kind, self.cells - 1)

    def count(self, first: Whole, last: Whole) -> Whole:
        """Count the moments of each kind in each range [first, last]: (kinds, ranges)."""
        kinds = np.arange(self.cells - 1)[:, None]
        return self._below(kinds, last + 1) - self._below(kinds, first)

    def nth(self, kind: Whole, first: Whole, rank: Whole) -> Whole:
        """Return the moment of a `kind` with this `rank`, from zero, among those from `first` on. All (rows,)."""
        starts, lengths = self._parts
        days, rest = np.divmod(self._below(kind, first) + rank, lengths[kind])
        return np.asarray(days * self.per_day + starts[kind] + rest)

    def _below(self, kind: Whole, end: Whole) -> Whole:
        """Return the number of moments of a kind before `end`."""
        starts, lengths = self._parts
        days, rest = np.divmod(end, self.per_day)
        return np.asarray(days * lengths[kind] + np.clip(rest - starts[kind], 0, lengths[kind]))


@dataclass(frozen=True)
class DayKinds:
    """A map from codes of days to their day of the month, with the first of January apart. Raises QueryError."""

    low: int
    top: int

    def __post_init__(self) -> None:
        require(1 <= self.low <= self.low + self.top <= LAST_DAY + 1, "The days are too far away.")

    @property
    def cells(self) -> int:
        """The number of kinds, plus one for missing values."""
        return DAYS + 2

    @property
    def place(self) -> Whole:
        """The group of each kind, (cells,): days of a month, first of January, missing values."""
        return np.array([*[0] * DAYS, 1, -1])

    @cached_property
    def _kind(self) -> Whole:
        """The kind of each day from `low` on, (top,)."""
        days = np.arange(self.low - EPOCH, self.low + self.top - EPOCH).astype("datetime64[D]")
        of_month = (days - days.astype("datetime64[M]")).astype(np.int64)
        of_year = (days - days.astype("datetime64[Y]")).astype(np.int64)
        return np.where(of_year == 0, DAYS, of_month)

    @cached_property
    def _days(self) -> tuple[Whole, Whole]:
        """The days sorted by kind, as one number each, (top,): kind times `top`, plus day. And each kind's start."""
        found = np.sort(self._kind * self.top + np.arange(self.top))
        return found, np.searchsorted(found, np.arange(DAYS + 1) * self.top)

    def cell_of(self, codes: Codes) -> Whole:
        """Return the kind of each value."""
        return np.where(codes < self.top, self._kind[np.minimum(codes, self.top - 1)], DAYS + 1)

    def count(self, first: Whole, last: Whole) -> Whole:
        """Count the days of each kind in each range [first, last]: (kinds, ranges)."""
        kinds = np.arange(DAYS + 1)[:, None]
        return self._below(kinds, last + 1) - self._below(kinds, first)

    def nth(self, kind: Whole, first: Whole, rank: Whole) -> Whole:
        """Return the day of a `kind` with this `rank`, from zero, among those from `first` on. All (rows,)."""
        days, starts = self._days
        at = np.minimum(starts[kind] + self._below(kind, first) + rank, self.top - 1)
        return np.asarray(days[at] - kind * self.top + self.low)

    def _below(self, kind: Whole, end: Whole) -> Whole:
        """Return the number of days of a kind before `end`."""
        days, starts = self._days
        inside = np.clip(end - self.low, 0, self.top)
        return np.asarray(np.searchsorted(days, kind * self.top + inside) - starts[kind])
