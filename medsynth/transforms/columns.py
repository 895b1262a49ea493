"""The kinds of column. Each is a declaration made in public, before any row is read."""

from __future__ import annotations

import math
from datetime import date, datetime
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StrictBool, StrictInt, StrictStr, model_validator

from .hierarchies import SYSTEMS, Shape, System, hierarchy

Level = StrictBool | StrictInt | StrictStr
Policy = Literal["clip", "error"]
MAX_CODES = 2**31 - 2  # codes are 32-bit; one more stands for a missing value
MAX_LEVELS, DEEPEST = 10_000, 10
SIGNIFICANT = 5  # digits of the bounds' width that are kept where the schema gives no decimals


class _Base(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")

    missing: bool | tuple[StrictInt | StrictStr, ...] = False

    @property
    def gaps(self) -> int:
        """How many kinds of missing values there are: their codes follow those of the values."""
        return len(self.gap_words)

    @property
    def gap_words(self) -> tuple[str, ...]:
        """How each kind of missing value is written, "" for an empty cell."""
        if isinstance(self.missing, tuple):
            return tuple(str(code) for code in self.missing)
        return ("",) if self.missing else ()

    @model_validator(mode="after")
    def _check_gaps(self) -> Self:
        if self.missing == () or len(set(self.gap_words)) < self.gaps:
            raise ValueError("missing must be true, or a list of codes that differ from one another")
        if any(word != word.strip() for word in self.gap_words):
            raise ValueError("codes of missing values must not begin or end with blanks")
        return self


def _check_apart(words: tuple[str, ...], low: float, high: float) -> None:
    for word in words:
        try:
            inside = low <= float(word or "nan") <= high
        except ValueError:
            continue
        if inside:
            raise ValueError("a code of missing values lies within the bounds: it could be a value")


def _check_tree(tree: str | dict[str, Any]) -> None:
    """Raises ValueError unless all names of a tree are words, each once, and it is neither too deep nor too large."""
    try:
        whole = hierarchy(tree)
        known = isinstance(whole, Shape) or (whole.depth <= DEEPEST and 0 < whole.size <= MAX_LEVELS)
    except (TypeError, AttributeError, RecursionError):
        known = False
    if not known:
        raise ValueError(
            f"a tree is made of groups and lists of words, at most {DEEPEST} deep, {MAX_LEVELS} words in all"
        )


def _check_levels(levels: tuple[Level, ...], unknown: Level | None, gap_words: tuple[str, ...]) -> None:
    if {str(level) for level in levels} & set(gap_words):
        raise ValueError("a level is also a code of missing values")
    if len({str(level) for level in levels}) != len(levels):
        raise ValueError("levels must differ from one another")
    if any(isinstance(level, str) and level != level.strip() for level in levels):
        raise ValueError("levels must not begin or end with blanks")
    if unknown is not None and unknown not in levels:
        raise ValueError("unknown must name one of the levels")


class Binary(_Base):
    """A column of exactly two levels, such as 0/1, yes/no or M/F. `unknown` as for Categorical.

    >>> Binary(levels=("F", "M")).levels
    ('F', 'M')
    """

    kind: Literal["binary"] = "binary"
    levels: tuple[Level, Level]
    unknown: Level | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_levels(self.levels, self.unknown, self.gap_words)
        return self


class Categorical(_Base):
    """A column of named levels. `unknown` names the level that an undeclared value goes to; without it, an error.

    Of kind ordinal, the levels stand in their order: neighbours are taken to be alike. With a `hierarchy` of codes a
    value goes to the finest of the levels that it belongs to, else to `unknown`; levels that are not given are chosen
    by noisy counts, as fine as these can carry.
    """

    kind: Literal["categorical", "ordinal"] = "categorical"
    levels: tuple[Level, ...] = Field((), max_length=MAX_LEVELS)
    unknown: Level | None = None
    hierarchy: System | dict[str, Any] | None = None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if self.hierarchy is None and not self.levels:
            raise ValueError("levels are needed, or a hierarchy: " + ", ".join(SYSTEMS) + " or a tree")
        if self.hierarchy is not None:
            _check_tree(self.hierarchy)
            if self.kind == "ordinal" or not isinstance(self.unknown, str):
                raise ValueError("a hierarchy needs `unknown`, a word for codes that it does not know, and no order")
            if not self.levels:
                _check_levels((self.unknown,), None, self.gap_words)
                return self
        _check_levels(self.levels, self.unknown, self.gap_words)
        return self


class Continuous(_Base):
    """A measurement with public bounds, kept to `decimals` places; on a log scale zero is a cell of its own.

    Without `decimals`, as many are kept as show five significant digits of the bounds' width.

    >>> Continuous(bounds=(0, 1), scale="log", decimals=5).places
    5
    """

    kind: Literal["continuous"] = "continuous"
    bounds: tuple[float, float]
    scale: Literal["linear", "log"] = "linear"
    decimals: Annotated[int, Field(ge=0, le=12)] | None = None
    unit: str | None = None
    out_of_range: Policy = "clip"

    @property
    def places(self) -> int:
        """Decimals kept, declared or derived from the bounds."""
        if self.decimals is not None:
            return self.decimals
        width = self.bounds[1] - self.bounds[0]
        return min(12, max(0, SIGNIFICANT - 1 - math.floor(math.log10(width))))

    @property
    def units(self) -> tuple[int, int]:
        """The bounds in whole units of the last decimal place."""
        return round(self.bounds[0] * 10**self.places), round(self.bounds[1] * 10**self.places)

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_range(self.bounds, self.scale)
        _check_apart(self.gap_words, *self.bounds)
        low, high = self.units
        if high == low:
            raise ValueError("bounds are equal at this number of decimals: give more decimals")
        if high - low >= MAX_CODES:
            raise ValueError("too many decimals for these bounds: give fewer decimals or narrower bounds")
        return self


class Count(_Base):
    """A whole number with public bounds."""

    kind: Literal["count"] = "count"
    bounds: tuple[StrictInt, StrictInt]
    scale: Literal["linear", "log"] = "linear"
    unit: str | None = None
    out_of_range: Policy = "clip"

    @property
    def places(self) -> int:
        """Decimals kept: none."""
        return 0

    @property
    def units(self) -> tuple[int, int]:
        """The bounds."""
        return self.bounds

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_range(self.bounds, self.scale)
        _check_apart(self.gap_words, *self.bounds)
        if self.bounds[1] - self.bounds[0] >= MAX_CODES:
            raise ValueError("bounds are too far apart for a count: declare it continuous with decimals: 0")
        return self


class Date(_Base):
    """A calendar day, between two public days; or, with `after`, so many days after the date column of that name.

    `format` is that of the cells, in the codes of strptime. `bounds` are days as YYYY-MM-DD, or whole numbers of days
    with `after`.

    >>> Date(bounds=("2020-01-01", "2020-12-31")).units[1] - Date(bounds=("2020-01-01", "2020-12-31")).units[0]
    365
    """

    kind: Literal["date"] = "date"
    bounds: tuple[date, date] | tuple[StrictInt, StrictInt]
    format: str = "%Y-%m-%d"
    after: str | None = None
    out_of_range: Policy = "clip"
    scale: ClassVar[str] = "linear"

    @property
    def places(self) -> int:
        """Decimals kept: none."""
        return 0

    @property
    def units(self) -> tuple[int, int]:
        """The bounds in days: since the day before 0001-01-01, or after the other date."""
        first, last = (b.toordinal() if isinstance(b, date) else b for b in self.bounds)
        return first, last

    @property
    def unit(self) -> str | None:
        """What a bound counts, with `after`."""
        return f"days after {self.after}" if self.after else None

    @model_validator(mode="after")
    def _check(self) -> Self:
        if isinstance(self.bounds[0], date) == (self.after is not None):
            raise ValueError("bounds are two days as YYYY-MM-DD, or two whole numbers of days with `after`")
        if self.units[0] >= self.units[1]:
            raise ValueError("bounds must be two days, the earlier one first")
        _check_apart(self.gap_words, *self.units)
        sample = date(2003, 12, 31)
        try:
            if datetime.strptime(sample.strftime(self.format), self.format).date() != sample:
                raise ValueError
        except ValueError:
            raise ValueError("format must hold a day, a month and a year, as %d.%m.%Y does") from None
        return self


class Identifier(_Base):
    """A key such as a record number: never modelled. Sampled rows get fresh keys of `shape`, or none with `drop`.

    Each # of the shape is a digit.

    >>> Identifier(shape="MRN-######").key(7)
    'MRN-000007'
    """

    kind: Literal["identifier"] = "identifier"
    shape: str = "########"
    drop: bool = False
    places: ClassVar[int] = 0
    scale: ClassVar[str] = "linear"
    unit: ClassVar[None] = None
    bounds: ClassVar[tuple[int, int]] = (0, 0)

    @property
    def capacity(self) -> int:
        """How many keys have the shape."""
        return int(10 ** self.shape.count("#"))

    @property
    def units(self) -> tuple[int, int]:
        """The numbers that keys are made of."""
        return 0, self.capacity - 1

    def key(self, number: int) -> str:
        """The key of that number."""
        digits = iter(str(number).zfill(self.shape.count("#")))
        return "".join(next(digits) if mark == "#" else mark for mark in self.shape)

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not 1 <= self.shape.count("#") <= 9:
            raise ValueError("shape must hold one to nine #, each a digit of the fresh key")
        return self


def _check_range(bounds: tuple[float, float], scale: str) -> None:
    low, high = bounds
    if not (math.isfinite(low) and math.isfinite(high)) or low >= high:
        raise ValueError("bounds must be two finite numbers, the lower one first")
    if scale == "log" and low < 0:
        raise ValueError("a log scale needs bounds of zero or more")


Column = Annotated[Binary | Categorical | Continuous | Count | Date | Identifier, Field(discriminator="kind")]
