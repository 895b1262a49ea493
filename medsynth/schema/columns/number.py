"""Columns of numbers within public bounds: a code is a distance from the lower bound."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from itertools import pairwise
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from pydantic import Field, StrictFloat, StrictInt, model_validator

from ...arrays import Codes, Floats, Mask, Texts, Whole
from ...errors import OUTSIDE, Problem
from ...io.table import Kind
from .column import (
    MAX_CODES,
    UNREADABLE,
    USUAL_CODES,
    Column,
    Description,
    Fault,
    Level,
    Reading,
    Values,
    is_apart,
    numbers_of,
    undeclared_gaps,
)

LARGEST_UNITS = 2**53  # units of the last decimal place up to which floats are exact
TOO_LARGE = 2**60  # above all bounds
SIGNIFICANT_DIGITS = 5  # digits of the bounds' width that are kept if the schema does not declare decimals
Policy = Literal["clip", "missing", "error"]
Zeros = Literal["none", "one", "all"]


class Quantity(Column):
    """The common part of columns of numbers. A code counts units of the last decimal place from the lower bound."""

    levels: ClassVar[tuple[Level, ...]] = ()
    out_of_range: Policy = "clip"
    unknown: StrictInt | StrictFloat | date | Literal["missing"] | None = None
    cut_points: tuple[StrictInt | StrictFloat | date, ...] = ()

    @property
    @abstractmethod
    def units(self) -> tuple[int, int]:
        """The bounds in whole units of the last decimal place."""

    @property
    def size(self) -> int:
        low, high = self.units
        return high - low + 1

    @property
    def cut_codes(self) -> tuple[int, ...]:
        """The lowest value at or above each cut point, as a code."""
        return tuple(math.ceil(self._cut_unit(point)) - self.units[0] for point in self.cut_points)

    @property
    def cut_groups(self) -> tuple[str, ...]:
        """The groups of values between the cut points, in words; none without cut points."""
        if not self.cut_points:
            return ()
        texts = self._ends_of(self.cut_points)
        below = "before" if isinstance(self.cut_points[0], date) else "below"
        between = (f"{first} to {below} {end}" for first, end in pairwise(texts))
        return f"{below} {texts[0]}", *between, f"{texts[-1]} and {'later' if below == 'before' else 'above'}"

    def _cut_unit(self, value: float | date) -> Decimal:
        """Return a cut point in units of the last decimal place."""
        return Decimal(str(value)).scaleb(self.places)

    def check_values(self) -> None:
        """Raise ValueError unless `unknown` and the cut points are allowed values (docs/schema.md)."""
        if "missing" in (self.unknown, self.out_of_range) and not self.missing:
            raise ValueError("`unknown: missing` and `out_of_range: missing` need `missing: true`")
        if self.unknown is not None and not 0 <= self._unknown_code < self.size + self.gaps:
            raise ValueError("`unknown` must be a value within the bounds, or missing")
        dated = isinstance(self.bounds[0], date)
        if not all(dated if isinstance(p, date) else not dated and math.isfinite(p) for p in self.cut_points):
            raise ValueError("cut points must be of the same kind as the column's bounds")
        if not all(a < b for a, b in pairwise((0, *self.cut_codes, self.size))):
            raise ValueError("cut points must ascend, above the lower bound and up to the upper one, "
                             "with a value of the column between any two")  # fmt: skip

    def unreadable(self) -> Problem:
        """Return what is wrong with a text that is not a value, and the cure."""
        cure = "Correct the cell, set `unknown: missing`, or declare the column categorical."
        return Problem(text="not a number", cure=cure)

    @property
    def _unknown_code(self) -> int:
        """The code of a cell that is not a number; -1 if `unknown` is not a value of such a column."""
        low, _ = self.units
        if self.unknown is None or isinstance(self.unknown, str | date):
            return self.empty_code if self.unknown == "missing" else -1
        small = -LARGEST_UNITS <= self.unknown <= LARGEST_UNITS
        return round(self.unknown * 10**self.places) - low if small else -1

    def read_values(self, texts: Texts) -> Reading:
        """Return the codes of texts that are numbers; of others that of `unknown`, if it is declared.

        If these are missing, a usual code of missing values far outside the bounds is missing too, and never clipped.
        """
        numbers = numbers_of(texts)
        if self.reads_as_missing and self.out_of_range == "clip":
            low, high = (unit / 10**self.places for unit in self.units)
            numbers[np.isin(numbers, USUAL_CODES) & is_apart(numbers, low, high)] = np.nan
        return self.coded(numbers)

    def coded(self, numbers: Floats) -> Reading:
        """Return the codes of numbers, UNREADABLE for one that is not finite; those outside the bounds are clipped.

        The unit is the nearest to the written decimal, so 0.1 is one tenth and not its binary neighbour.
        """
        finite = np.isfinite(numbers)
        (low, high) = self.units
        with np.errstate(over="ignore"):  # a number that is too large to scale is outside the bounds
            scaled = np.rint(np.where(finite, numbers, 0.0) * 10.0**self.places)
        units = np.clip(scaled, low - 1, high + 1).astype(np.int64)
        inside = np.clip(units, low, high)
        faults = [Fault(~finite, self.unreadable())] if self.unknown is None else []
        if self.out_of_range == "error":
            cure = "Widen the bounds, correct the cell, or set `out_of_range: clip`."
            problem = Problem(kind=OUTSIDE, text="a value outside the schema's bounds", cure=cure)
            faults.append(Fault(finite & (inside != units), problem))
        codes = np.where(finite, inside - low, UNREADABLE if self.unknown is None else self._unknown_code)
        if self.out_of_range == "missing":
            codes = np.where(finite & (inside != units), self.empty_code, codes)
        return Reading(np.where(codes == UNREADABLE, codes, self._settled(codes)), tuple(faults))

    def _settled(self, codes: Whole) -> Whole:
        """Move each code of a value to the nearest one that a cell may have; codes of missing values stay."""
        return codes

    def value_text(self, code: int) -> str:
        """Return the exact decimal without trailing zeros."""
        unit = int(self._settled(np.array([code], np.int64))[0]) + self.units[0]
        text = format(Decimal(unit).scaleb(-self.places), "f")
        return text.rstrip("0").rstrip(".") if "." in text else text

    def values(self, codes: Codes, related: Mapping[str, Values]) -> Values:
        # Division by a power of ten rounds to the nearest float, the same as reading the decimal text.
        numbers = (self._settled(codes.astype(np.int64)) + self.units[0]) / 10.0**self.places
        return np.where(codes >= self.size, np.nan, numbers)

    def cell_values(self, cells: pd.Series) -> Values:
        """Return a table's numbers, NaN for other text: each is read as its code is, whatever the other cells are."""
        return numbers_of(cells.to_numpy(object))

    def code_computed(self, result: Floats, related: Mapping[str, Values]) -> Codes:
        """Return the nearest codes of computed numbers; one that is not finite is missing, or the lower bound."""
        low, high = self.units
        units = np.clip(np.rint(np.where(np.isfinite(result), result, 0.0) * 10.0**self.places), low, high)
        code = np.where(np.isfinite(result), units - low, self.empty_code if self.missing else 0)
        return code.astype(np.int32)

    def value_range(self, text: str) -> tuple[int, int]:
        """Return the codes of the numbers LOW to HIGH in "LOW..HIGH", or of one number."""
        low, high = self.units
        parts = text.split("..") if ".." in text else [text, text]
        try:
            first = math.ceil(self._units_of(parts[0], low))
            last = math.floor(self._units_of(parts[-1], high))
        except (ArithmeticError, ValueError):
            raise ValueError("not a number and not LOW..HIGH, such as 40..60, 60.. or ..40.") from None
        if len(parts) != 2 or first > last or last < low or first > high:
            raise ValueError(f"the column has no value there. Its bounds are {self._ends()}.")
        return max(first, low) - low, min(last, high) - low

    def _units_of(self, text: str, open_end: int) -> Decimal:
        """Return a number in units of the last decimal place, `open_end` for none; too large numbers are cut."""
        number = Decimal(open_end).scaleb(-self.places) if text.strip() == "" else Decimal(text)
        if not number.is_finite():
            raise ValueError("not a number")
        return min(max(number, Decimal(-TOO_LARGE)), Decimal(TOO_LARGE)).scaleb(self.places)

    def validate_cells(self, cells: pd.Series) -> dict[str, Mask]:
        number = pd.to_numeric(cells, errors="coerce").to_numpy(np.float64)
        low, high = (end / 10**self.places for end in self.units)
        outside = (number < low) | (number > high) | np.isnan(number)
        units = np.where(np.isfinite(number), number, 0.0) * 10.0**self.places
        finer = np.abs(units - np.round(units)) > 1e-6 * (1 + np.abs(units))
        known = cells.notna().to_numpy(np.bool_)
        places = f"at most {self.places} decimal{'s' * (self.places > 1)}" if self.places else "a whole number"
        return {f"within {self._ends()}": known & outside, places: known & finer, **undeclared_gaps(self, cells)}

    def describe(self) -> Description:
        unit = getattr(self, "unit", None)
        cuts = f", cut at {', '.join(self._ends_of(self.cut_points))}" if self.cut_points else ""
        domain = f"{self._ends()}{f' {unit}' if unit else ''}, {self.scale} scale{cuts}"
        precision = f"{self.places} decimal{'s' * (self.places > 1)}" if self.places else "whole numbers"
        return Description(domain, self.describe_missing(), precision)

    def _ends(self) -> str:
        return " to ".join(self._ends_of(self.bounds))

    @staticmethod
    def _ends_of(values: Sequence[object]) -> list[str]:
        return [f"{end:g}" if isinstance(end, int | float) else str(end) for end in values]


class Continuous(Quantity):
    """A measurement with public bounds, kept to `decimals` places; on a log scale zero has its own cell.

    Without `decimals`, the bounds' width is kept to five significant digits. `zeros` are those at the end of a number
    in a CSV file: none (8, 8.5), one if there are no other decimals (8.0), or all (8.00, 8.50). Numbers of at least
    `whole_from`, of either sign, are whole: for example, ages have months only below two years.

    >>> Continuous(bounds=(0, 1), scale="log", decimals=5).places
    5
    """

    drafts: ClassVar[Mapping[Kind, str]] = {
        "float": "{kind: continuous, bounds: [TODO, TODO], decimals: TODO, unit: TODO, missing: true}  "
        "# scale: log for skewed assays; or, of few values, {kind: ordinal, levels: ['0.5', '1.0']}"
    }

    kind: Literal["continuous"] = "continuous"
    bounds: tuple[float, float]
    scale: Literal["linear", "log"] = "linear"
    decimals: Annotated[int, Field(ge=0, le=12)] | None = None
    whole_from: Annotated[float, Field(gt=0)] | None = None
    zeros: Zeros = "none"
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
        return round(self.bounds[0] * 10**self.places), round(self.bounds[1] * 10**self.places)

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_range(self.bounds, self.scale)
        check_apart(self.gap_words, *self.bounds)
        low, high = self.units
        if max(-low, high) > LARGEST_UNITS:
            raise ValueError("too many decimals for bounds so far from zero: declare fewer decimals")
        if high == low:
            raise ValueError("bounds are equal at this number of decimals: declare more decimals")
        if high - low >= MAX_CODES:
            raise ValueError("too many decimals for these bounds: declare fewer decimals or narrower bounds")
        self.check_values()
        return self

    def text(self, code: int) -> str:
        """A code as the text of a CSV cell, with the zeros at its end that `zeros` asks for."""
        text = super().text(code)
        if code >= self.size or self.zeros == "none" or self.places == 0:
            return text
        digits = self.places if self.zeros == "all" else 1
        return f"{text.partition('.')[0]}.{text.partition('.')[2].ljust(digits, '0')}"

    def _settled(self, codes: Whole) -> Whole:
        """Move numbers that are whole by declaration to the nearest whole number."""
        if self.whole_from is None:
            return codes
        (low, high), scale = self.units, 10**self.places
        units = codes + low
        whole = np.rint(units / scale).astype(np.int64) * scale
        whole = np.where(whole > high, whole - scale, np.where(whole < low, whole + scale, whole))
        fits = (np.abs(units) >= self.whole_from * scale) & (whole >= low) & (whole <= high)
        return np.where(fits & (codes < self.size), whole - low, codes)


class Count(Quantity):
    """A whole number with public bounds.

    >>> Count(bounds=(0, 50)).size
    51
    """

    drafts: ClassVar[Mapping[Kind, str]] = {
        "int": "{kind: count, bounds: [TODO, TODO], missing: true}  # or {kind: binary, levels: [0, 1]}, or categorical"
    }

    kind: Literal["count"] = "count"
    bounds: tuple[StrictInt, StrictInt]
    scale: Literal["linear", "log"] = "linear"
    unit: str | None = None

    @property
    def units(self) -> tuple[int, int]:
        return self.bounds

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_range(self.bounds, self.scale)
        check_apart(self.gap_words, *self.bounds)
        if self.bounds[1] - self.bounds[0] >= MAX_CODES:
            raise ValueError("bounds are too far apart for a count: declare it continuous with decimals: 0")
        self.check_values()
        return self

    def decode_values(self, codes: Codes, related: Mapping[str, Values], dtype: str | None) -> pd.Series:
        """Return whole numbers: int64, or Int64 if values may be missing."""
        whole = pd.Series(codes.astype(np.int64) + self.units[0])
        return whole.astype("Int64").mask(codes >= self.size) if self.missing else whole


def _check_range(bounds: tuple[float, float], scale: str) -> None:
    low, high = bounds
    if not -math.inf < low < high < math.inf:
        raise ValueError("`bounds` must be two finite numbers, the lower one first")
    if max(-low, high) > LARGEST_UNITS:
        raise ValueError(f"bounds must lie between -{LARGEST_UNITS} and {LARGEST_UNITS}")
    if scale == "log" and low < 0:
        raise ValueError("a log scale needs bounds of zero or more")


def check_apart(words: tuple[str, ...], low: float, high: float) -> None:
    """Raise ValueError if a code of missing values could be a value."""
    if any(low <= number <= high for number in numbers_of(np.array(words, dtype=object))):
        raise ValueError("a code of missing values is within the bounds: narrow them, or remove the code")
