"""Columns of numbers within public bounds: a code is a distance from the lower bound."""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from datetime import date
from decimal import Decimal
from itertools import pairwise
from typing import Annotated, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from pydantic import BeforeValidator, Field, StrictFloat, StrictInt, StrictStr, model_validator

from ...arrays import Codes, Floats, Mask, Texts, Whole
from ...errors import OUTSIDE, EntryError, Problem
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
from .number_text import NumberText, number_text

LARGEST_UNITS = 2**53  # units of the last decimal place up to which floats are exact
TOO_LARGE = 2**60  # above all bounds
SIGNIFICANT_DIGITS = 5  # digits of the bounds' width that are kept if the schema does not declare decimals
MOST_LIMITS = 5  # of an assay at each end: each has a cell of its own in all grids
_DIGITS = re.compile(r"[0-9](?:[0-9.,'’\s]*[0-9])?(?:[eE][+-]?[0-9]+)?")
Limits = Annotated[
    tuple[StrictStr, ...],
    Field(max_length=MOST_LIMITS),
    BeforeValidator(lambda given: (given,) if isinstance(given, str) else given),
]
Policy = Literal["clip", "missing", "error"]
Zeros = Literal["none", "one", "all"]


class Quantity(Column):
    """The common part of columns of numbers. A code counts units of the last decimal place from the lower bound."""

    levels: ClassVar[tuple[Level, ...]] = ()
    out_of_range: Policy = "clip"
    unknown: StrictInt | StrictFloat | date | Literal["missing"] | None = None
    cut_points: tuple[StrictInt | StrictFloat | date, ...] = ()

    @property
    def examples(self) -> tuple[str, ...]:
        """The forms of cells as declared; none for plain numbers."""
        given: str | tuple[str, ...] | None = getattr(self, "written_as", None)
        return (given,) if isinstance(given, str) else given or ()

    @property
    @abstractmethod
    def units(self) -> tuple[int, int]:
        """The bounds in whole units of the last decimal place, with one more unit for each limit of an assay."""

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
            named = "unknown" if self.unknown == "missing" else "out_of_range"
            raise EntryError(named, "`unknown: missing` and `out_of_range: missing` need `missing: true`")
        if self.unknown is not None and not 0 <= self._unknown_code < self.size + self.gaps:
            raise EntryError("unknown", "`unknown` must be a value within the bounds, or missing")
        dated = isinstance(self.bounds[0], date)
        if not all(dated if isinstance(p, date) else not dated and math.isfinite(p) for p in self.cut_points):
            raise EntryError("cut_points", "cut points must be of the same kind as the column's bounds")
        if not all(a < b for a, b in pairwise((0, *self.cut_codes, self.size))):
            raise EntryError("cut_points", "cut points must ascend, above the lower bound and up to the upper one, "
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
        numbers = self._numbers(texts)
        if self.reads_as_missing and self.out_of_range == "clip":
            low, high = (unit / 10**self.places for unit in self.number_units)
            numbers[np.isin(numbers, USUAL_CODES) & is_apart(numbers, low, high)] = np.nan
        return self.coded(numbers)

    def _numbers(self, texts: Texts) -> Floats:
        """Return the number of each text, NaN for none: (texts,)."""
        return numbers_of(texts)

    def coded(self, numbers: Floats) -> Reading:
        """Return the codes of numbers, UNREADABLE for one that is not finite; those outside the bounds are clipped.

        The unit is the nearest to the written decimal, so 0.1 is one tenth and not its binary neighbour.
        """
        finite = np.isfinite(numbers)
        (low, high) = self.units
        with np.errstate(over="ignore"):  # a number that is too large to scale is outside the bounds
            scaled = np.rint(np.where(finite, numbers, 0.0) * 10.0**self.places)
        first, last = self.number_units
        units = np.clip(scaled, first - 1, last + 1).astype(np.int64)
        inside = np.clip(units, max(low, first - 1), min(high, last + 1))  # beyond the numbers: at the nearest limit
        faults = [Fault(~finite, self.unreadable())] if self.unknown is None else []
        if self.out_of_range == "error":
            cure = "Widen the bounds, correct the cell, or set `out_of_range: clip`."
            problem = Problem(kind=OUTSIDE, text="a value outside the schema's bounds", cure=cure)
            faults.append(Fault(finite & (np.clip(units, first, last) != units), problem))
        codes = np.where(finite, inside - low, UNREADABLE if self.unknown is None else self._unknown_code)
        if self.out_of_range == "missing":
            codes = np.where(finite & (np.clip(units, first, last) != units), self.empty_code, codes)
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
        units = self._settled(codes.astype(np.int64)) + self.units[0]
        numbers = units / 10.0**self.places if self.places >= 0 else units * 10.0**-self.places
        return np.where(codes >= self.size, np.nan, numbers)

    def cell_values(self, cells: pd.Series) -> Values:
        """Return a table's numbers, NaN for other text: each is read as its code is, whatever the other cells are."""
        return numbers_of(cells.to_numpy(object))

    def code_computed(self, result: Values, related: Mapping[str, Values]) -> Codes:
        """Return the nearest codes of computed numbers; one that is not finite is missing, or the lower bound."""
        result = result.astype(np.float64)
        low, high = self.number_units
        units = np.clip(np.rint(np.where(np.isfinite(result), result, 0.0) * 10.0**self.places), low, high)
        none = self.empty_code if self.missing else low - self.units[0]
        code = np.where(np.isfinite(result), units - self.units[0], none)
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
        number = np.asarray(self.cell_values(cells), np.float64)
        low, high = (end / 10.0**self.places for end in self.number_units)
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
        written = f", written {' or '.join(self.examples)}" if self.examples else ""
        return Description(domain, self.describe_missing(), f"{self._precision}{written}")

    @property
    def _precision(self) -> str:
        if self.places < 0:
            return f"rounded to {10**-self.places:,}"
        return f"{self.places} decimal{'s' * (self.places > 1)}" if self.places else "whole numbers"

    def _ends(self) -> str:
        return " to ".join(self._ends_of(self.bounds))

    @staticmethod
    def _ends_of(values: Sequence[object]) -> list[str]:
        return [f"{end:g}" if isinstance(end, int | float) else str(end) for end in values]


class WrittenNumber(Quantity):
    """A quantity whose cells may have a unit, marks or a flag next to the number, and limits of an assay such as <0.5.

    `text` is an example of a cell (number_text.py), or a list of several: then a column of its own contains which of
    them a cell has (parts.py). `below` and `above` are limits, from the lowest to the highest. They have codes next to
    those of the numbers, at the ends of the scale.
    """

    written_as: Annotated[StrictStr | tuple[StrictStr, ...] | None, Field(alias="text")] = None
    below: Limits = ()
    above: Limits = ()

    @property
    def forms(self) -> tuple[NumberText, ...]:
        """The forms that these declare."""
        return tuple(map(number_text, self.examples))

    @property
    def units(self) -> tuple[int, int]:
        low, high = self.number_units
        return low - len(self.below), high + len(self.above)

    @property
    def limits(self) -> dict[str, int]:
        """The codes of the limits, by their text without blanks."""
        codes = [*range(len(self.below)), *range(self.size - len(self.above), self.size)]
        return {_bare(word): code for word, code in zip((*self.below, *self.above), codes, strict=True)}

    def check_values(self) -> None:
        """Raise ValueError unless `text`, the limits, `unknown` and the cut points are allowed (docs/schema.md)."""
        super().check_values()
        if self.written_as == () or len(set(self.forms)) < len(self.forms):
            raise EntryError("text", "`text` must be an example of a cell, or a list of different ones")
        words = [*map(_bare, (*self.below, *self.above)), *self.gap_words]
        if len(set(words)) < len(words) or "" in words[: len(words) - self.gaps]:
            raise EntryError("below", "limits must be different texts, and not codes of missing values")
        stated = [numbers_in(self.below), numbers_in(self.above)]
        low, high = (unit / 10.0**self.places for unit in self.number_units)
        if (stated[0] and low < min(stated[0])) or (stated[1] and high > max(stated[1])):
            raise EntryError(
                "below", "no number lies beyond a limit: narrow the bounds to the numbers in `below` and `above`"
            )

    @property
    def limit_values(self) -> dict[float, str]:
        """The limits by the number that each has in comparisons."""
        words = zip((*self.below, *self.above), self.limits.values(), strict=True)
        return {float(self.values(np.array([code]), {})[0]): word for word, code in words}

    def _numbers(self, texts: Texts) -> Floats:
        if not self.forms:
            return super()._numbers(texts)
        return np.array([self.form_of(str(text))[1] for text in texts], np.float64)

    def form_of(self, text: str) -> tuple[int, float]:
        """Return the number of the first form that a text has, and its number; 0 and NaN if it has none."""
        read = ((k, form.read(text)) for k, form in enumerate(self.forms))
        return next(((k, number) for k, number in read if not math.isnan(number)), (0, math.nan))

    def unreadable(self) -> Problem:
        cure = "Correct the cell, or set `unknown: missing`."
        return Problem(text="not in the form that `text` declares", cure=cure) if self.forms else super().unreadable()

    def read_values(self, texts: Texts) -> Reading:
        """Return the codes of limits, and of texts that are numbers as every quantity does."""
        read = super().read_values(texts)
        at = self.limits
        if not at:
            return read
        codes = np.array([at.get(_bare(str(text)), -1) for text in texts], np.int64)
        faults = tuple(fault._replace(found=fault.found & (codes < 0)) for fault in read.faults)
        return Reading(np.where(codes < 0, read.codes, codes), faults)

    def with_zeros(self, text: str) -> str:
        """Return a number's text with the zeros at its end that the column declares."""
        return text

    def text(self, code: int) -> str:
        """Return a code as the text of a CSV cell, in the first form."""
        if code < len(self.below):
            return self.below[code]
        if self.size - len(self.above) <= code < self.size:
            return self.above[code - self.size]
        plain = super().text(code)
        if code >= self.size:
            return plain
        return self.forms[0].write(self.with_zeros(plain)) if self.forms else self.with_zeros(plain)

    def texts(self, codes: Codes) -> list[str]:
        """Return the same texts as `text` does, with decimals cut out of the digits of whole numbers."""
        if self.forms or (places := self.places) <= 0:
            return super().texts(codes)
        first, last, scale = len(self.below), self.size - len(self.above), 10**places
        units = self._settled(codes.astype(np.int64)) + self.units[0]
        found = []
        for code, unit in zip(codes.tolist(), units.tolist(), strict=True):
            whole, part = divmod(abs(unit), scale)
            plain = f"{'-' * (unit < 0)}{whole}{f'.{part:0{places}}'.rstrip('0') if part else ''}"
            found.append(self.with_zeros(plain) if first <= code < last else self.text(code))
        return found

    def decode_values(self, codes: Codes, related: Mapping[str, Values], dtype: str | None) -> pd.Series:
        """Return numbers; words for limits, and texts for all values if they have a form."""
        numbers = self.decode_numbers(codes)
        words = np.ones(len(codes), np.bool_) if self.forms else np.isin(codes, [*self.limits.values()])
        if not (self.forms or self.limits):
            return numbers
        texts = self.csv_cells(codes, related)
        return numbers.astype(object).mask(words, texts).mask(codes >= self.size, None)

    def decode_numbers(self, codes: Codes) -> pd.Series:
        """Return the numbers of codes, (rows,), in the dtype of the kind."""
        return pd.Series(self.values(codes, {}))

    def compared(self, cells: pd.Series) -> pd.Series:
        """Return numbers, those of limits included."""
        if pd.api.types.is_numeric_dtype(cells):
            return cells
        return pd.Series(self.cell_values(cells), index=cells.index)

    def values(self, codes: Codes, related: Mapping[str, Values]) -> Values:
        """Return numbers. A limit has the next number beyond the bounds, or a part of a lower bound above zero."""
        found = super().values(codes, related)
        low = self.bounds[0]
        if not self.below or not isinstance(low, int | float) or low <= 0:
            return found
        return np.where(codes < len(self.below), low * (codes + 1.0) / (len(self.below) + 1), found)

    def cell_values(self, cells: pd.Series) -> Values:
        if not (self.forms or self.limits):
            return super().cell_values(cells)
        place, found = pd.factorize(cells, use_na_sentinel=False)
        texts = np.array(["" if pd.isna(text) else str(text) for text in found], dtype=object)
        known = {_bare(word): value for value, word in self.limit_values.items()}
        limits = [known.get(_bare(text), math.nan) for text in texts]
        return np.where(np.isnan(limits), self._numbers(texts), limits)[place]

    def value_range(self, text: str) -> tuple[int, int]:
        code = self.limits.get(_bare(text), -1)
        return super().value_range(text) if code < 0 else (code, code)

    def validate_cells(self, cells: pd.Series) -> dict[str, Mask]:
        known = self.limits
        limits = cells.map(lambda cell: _bare(str(cell)) in known).to_numpy(np.bool_)
        return {rule: broken & ~limits for rule, broken in super().validate_cells(cells).items()}

    def describe(self) -> Description:
        found = super().describe()
        limits = f", limits {', '.join((*self.below, *self.above))}" if self.limits else ""
        return found._replace(domain=f"{found.domain}{limits}")


class Continuous(WrittenNumber):
    """A measurement with public bounds, kept to `decimals` places; on a log scale zero has its own cell.

    Without `decimals`, the bounds' width is kept to five significant digits. `zeros` are those at the end of a number
    in a CSV file: none (8, 8.5), one if there are no other decimals (8.0), or all (8.00, 8.50). Numbers of at least
    `whole_from`, of either sign, are whole: for example, ages have months only below two years.

    >>> Continuous(bounds=(0, 1), scale="log", decimals=5).places
    5
    """

    kind: Literal["continuous"] = "continuous"
    bounds: tuple[float, float]
    scale: Literal["linear", "log"] = "linear"
    decimals: Annotated[int, Field(ge=-12, le=12)] | None = None
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
    def number_units(self) -> tuple[int, int]:
        return round(self.bounds[0] * 10**self.places), round(self.bounds[1] * 10**self.places)

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_range(self.bounds, self.scale)
        check_apart(self.gap_words, *self.bounds)
        low, high = self.units
        if max(-low, high) > LARGEST_UNITS:
            raise EntryError("decimals", "too many decimals for bounds so far from zero: declare fewer decimals")
        if high == low:
            raise EntryError("decimals", "bounds are equal at this number of decimals: declare more decimals")
        if high - low >= MAX_CODES:
            raise EntryError(
                "decimals", "too many decimals for these bounds: declare fewer decimals or narrower bounds"
            )
        self.check_values()
        return self

    def with_zeros(self, text: str) -> str:
        if self.zeros == "none" or self.places <= 0:
            return text
        digits = self.places if self.zeros == "all" else 1
        return f"{text.partition('.')[0]}.{text.partition('.')[2].ljust(digits, '0')}"

    def _settled(self, codes: Whole) -> Whole:
        """Move numbers that are whole by declaration to the nearest whole number."""
        if self.whole_from is None:
            return codes
        (low, high), scale = self.number_units, 10**self.places
        units = codes + self.units[0]
        whole = np.rint(units / scale).astype(np.int64) * scale
        whole = np.where(whole > high, whole - scale, np.where(whole < low, whole + scale, whole))
        fits = (np.abs(units) >= self.whole_from * scale) & (whole >= low) & (whole <= high)
        return np.where(fits & (units >= low) & (units <= high), whole - self.units[0], codes)


class Count(WrittenNumber):
    """A whole number with public bounds.

    >>> Count(bounds=(0, 50)).size
    51
    """

    kind: Literal["count"] = "count"
    bounds: tuple[StrictInt, StrictInt]
    scale: Literal["linear", "log"] = "linear"
    unit: str | None = None

    @property
    def number_units(self) -> tuple[int, int]:
        return self.bounds

    @model_validator(mode="after")
    def _check(self) -> Self:
        _check_range(self.bounds, self.scale)
        check_apart(self.gap_words, *self.bounds)
        if self.bounds[1] - self.bounds[0] >= MAX_CODES:
            raise EntryError("bounds", "bounds are too far apart for a count: declare it continuous with decimals: 0")
        self.check_values()
        return self

    def form_of(self, text: str) -> tuple[int, float]:
        """Return as for every number. A file with semicolons is read with 8.197 for 8,197, which is whole here."""
        found = super().form_of(text)
        again = super().form_of(text.replace(".", ",")) if found[1] % 1 > 0 else found
        return found if math.isnan(again[1]) else again

    def decode_numbers(self, codes: Codes) -> pd.Series:
        """Return whole numbers: int64, or Int64 if values may be missing."""
        whole = pd.Series(codes.astype(np.int64) + self.units[0])
        return whole.astype("Int64").mask(codes >= self.size) if self.missing else whole


def _bare(text: str) -> str:
    """Return a text without blanks."""
    return "".join(text.split())


def numbers_in(words: Sequence[str]) -> list[float]:
    """Return the numbers that limits state: 0.5 of <0,5."""
    found = [match[0] for word in words if ":" not in word and (match := _DIGITS.search(word))]
    return [number_text(f"{{{digits}}}").read(digits) for digits in found]


def _check_range(bounds: tuple[float, float], scale: str) -> None:
    low, high = bounds
    if not -math.inf < low < high < math.inf:
        raise EntryError("bounds", "`bounds` must be two finite numbers, the lower one first")
    if max(-low, high) > LARGEST_UNITS:
        raise EntryError("bounds", f"bounds must lie between -{LARGEST_UNITS} and {LARGEST_UNITS}")
    if scale == "log" and low < 0:
        raise EntryError("scale", "a log scale needs bounds of zero or more")


def check_apart(words: tuple[str, ...], low: float, high: float) -> None:
    """Raise ValueError if a code of missing values could be a value."""
    if any(low <= number <= high for number in numbers_of(np.array(words, dtype=object))):
        raise EntryError("missing", "a code of missing values is within the bounds: narrow them, or remove the code")
