"""Columns of numbers within public bounds: measurements and counts."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from pydantic import Field, StrictInt, model_validator

from ...io.table import Kind
from .column import MAX_CODES, UNREADABLE, Codes, Floats, Ints, Reading, Values
from .quantity import LARGEST_UNITS, Quantity, check_apart

SIGNIFICANT_DIGITS = 5  # digits of the bounds' width that are kept where the schema gives no decimals


class Continuous(Quantity):
    """A measurement with public bounds, kept to `decimals` places; on a log scale zero is a cell of its own.

    Without `decimals`, as many are kept as show five significant digits of the bounds' width. Numbers of `whole_from`
    and more, of either sign, are whole: ages have months below two years alone.

    >>> Continuous(bounds=(0, 1), scale="log", decimals=5).places
    5
    """

    drafts: ClassVar[Mapping[Kind, str]] = {
        "float": "{kind: continuous, bounds: [TODO, TODO], decimals: TODO, unit: TODO}  "
        "# scale: log for skewed assays; or, of few values, {kind: ordinal, levels: ['0.5', '1.0']}"
    }

    kind: Literal["continuous"] = "continuous"
    bounds: tuple[float, float]
    scale: Literal["linear", "log"] = "linear"
    decimals: Annotated[int, Field(ge=0, le=12)] | None = None
    whole_from: Annotated[float, Field(gt=0)] | None = None
    unit: str | None = None

    @property
    def places(self) -> int:
        """Decimals kept, declared or derived from the bounds."""
        if self.decimals is not None:
            return self.decimals
        width = self.bounds[1] - self.bounds[0]
        return min(12, max(0, SIGNIFICANT_DIGITS - 1 - math.floor(math.log10(width))))

    @property
    def units(self) -> tuple[int, int]:
        """The bounds in whole units of the last decimal place."""
        return round(self.bounds[0] * 10**self.places), round(self.bounds[1] * 10**self.places)

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_range(self.bounds, self.scale)
        check_apart(self.gap_words, *self.bounds)
        low, high = self.units
        if max(-low, high) > LARGEST_UNITS:
            raise ValueError("too many decimals for bounds so far from zero: give fewer decimals")
        if high == low:
            raise ValueError("bounds are equal at this number of decimals: give more decimals")
        if high - low >= MAX_CODES:
            raise ValueError("too many decimals for these bounds: give fewer decimals or narrower bounds")
        self.check_unknown()
        self.check_cut_points()
        return self

    def coded(self, numbers: Floats) -> Reading:
        """As every number; those of `whole_from` and more as whole numbers."""
        reading = super().coded(numbers)
        known = reading.codes != UNREADABLE
        return reading._replace(codes=np.where(known, self._settled(reading.codes), reading.codes))

    def _settled(self, codes: Ints) -> Ints:
        """Codes of values; those of numbers that are whole by declaration at the nearest whole number."""
        if self.whole_from is None:
            return codes
        (low, high), scale = self.units, 10**self.places
        units = codes + low
        whole = np.rint(units / scale).astype(np.int64) * scale
        whole = np.where(whole > high, whole - scale, np.where(whole < low, whole + scale, whole))
        fits = (np.abs(units) >= self.whole_from * scale) & (whole >= low) & (whole <= high)
        return np.where(fits & (codes < self.size), whole - low, codes)

    def value_text(self, code: int) -> str:
        """The exact decimal without trailing zeros."""
        return super().value_text(int(self._settled(np.array([code], np.int64))[0]))

    def values(self, codes: Codes, related: Mapping[str, Values]) -> Values:
        """The numbers, NaN for a missing one."""
        return super().values(self._settled(codes.astype(np.int64)).astype(np.int32), related)

    def decode_values(self, codes: Codes, related: Mapping[str, Values], dtype: str | None) -> pd.Series:
        """Measurements: float64."""
        missing, scale = codes >= self.size, 10**self.places
        whole = self._settled(np.where(missing, 0, codes.astype(np.int64)))
        # Division by a power of ten rounds to the nearest float: the one that the decimal text reads as.
        return pd.Series(np.where(missing, np.nan, (whole + self.units[0]) / float(scale)))


class Count(Quantity):
    """A whole number with public bounds.

    >>> Count(bounds=(0, 50)).size
    51
    """

    drafts: ClassVar[Mapping[Kind, str]] = {
        "int": "{kind: count, bounds: [TODO, TODO]}  # or {kind: binary, levels: [0, 1]}, or categorical"
    }

    kind: Literal["count"] = "count"
    bounds: tuple[StrictInt, StrictInt]
    scale: Literal["linear", "log"] = "linear"
    unit: str | None = None

    @property
    def units(self) -> tuple[int, int]:
        """The bounds."""
        return self.bounds

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_range(self.bounds, self.scale)
        check_apart(self.gap_words, *self.bounds)
        if self.bounds[1] - self.bounds[0] >= MAX_CODES:
            raise ValueError("bounds are too far apart for a count: declare it continuous with decimals: 0")
        self.check_unknown()
        self.check_cut_points()
        return self


def _check_range(bounds: tuple[float, float], scale: str) -> None:
    low, high = bounds
    if not -math.inf < low < high < math.inf:
        raise ValueError("bounds must be two finite numbers, the lower one first")
    if max(-low, high) > LARGEST_UNITS:
        raise ValueError(f"bounds must lie between -{LARGEST_UNITS} and {LARGEST_UNITS}")
    if scale == "log" and low < 0:
        raise ValueError("a log scale needs bounds of zero or more")
