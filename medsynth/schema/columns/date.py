"""Columns of calendar days and times, counted from the day before 0001-01-01 or from another date column."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, ClassVar, Literal, Self
from zlib import crc32

import numpy as np
import pandas as pd
from pydantic import Field, StrictInt, model_validator

from ...arrays import Codes, Floats, Mask, Texts, Whole
from ...errors import EntryError, Problem
from ...io.table import MISSING_TOKENS
from .column import MAX_CODES, Column, Reading, Values
from .dtypes import holds_moments
from .number import Quantity, check_apart

DAYS_OF_YEAR = 365.2425
CLOCK_DAY = date(1900, 1, 1)  # the day of times without a day, as strptime reads them
PER_DAY = {"day": 1, "minute": 24 * 60, "second": 24 * 60 * 60}
ENGLISH = ("January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
           "December")  # fmt: skip
GERMAN = ("Januar", "Februar", "März", "April", "Mai", "Juni", "Juli", "August", "September", "Oktober", "November",
          "Dezember")  # fmt: skip
_OTHERS = {"mrz": 2, "maerz": 2, "jän": 0, "jänner": 0, "sept": 8}  # other German spellings, by the place of the month
_WORD = re.compile(r"[^\W\d_]+")


class Date(Quantity):
    """A calendar day between two public days or, with `after`, a number of days after the date column of that name.

    `format` is that of the cells, in the codes of strptime, or a list of several: then a column of its own contains
    which of them a cell has (parts.py). `bounds` are days as YYYY-MM-DD. With `after` they are whole numbers of days
    from the day of the other date, which may be a timestamp. With `resolution` minute or second it is a timestamp, up
    to the end of the last day; with `after` too, `bounds` are minutes or seconds after the other timestamp. `pivot`:
    the first of the hundred years that two digits mean. `months`: the language of their names.

    >>> Date(bounds=("2020-01-01", "2020-12-31")).size
    366
    """

    kind: Literal["date"] = "date"
    bounds: tuple[StrictInt, StrictInt] | tuple[date, date]
    written_as: Annotated[str | tuple[str, ...], Field(alias="format")] = "%Y-%m-%d"
    after: str | None = None
    resolution: Literal["day", "minute", "second"] = "day"
    pivot: Annotated[int, Field(ge=1, le=9900)] | None = None
    months: Literal["en", "de"] = "en"
    scale: ClassVar[Literal["linear"]] = "linear"
    dated: ClassVar[bool] = True

    @property
    def format(self) -> str:
        """The first format, which has a day."""
        return self.examples[0]

    @property
    def units(self) -> tuple[int, int]:
        """The bounds in days, minutes or seconds since the day before 0001-01-01, or after the other date."""
        first, last = (b.toordinal() if isinstance(b, date) else b for b in self.bounds)
        if self.after is not None:
            return first, last
        return first * self.per_day, (last + 1) * self.per_day - 1

    @property
    def per_day(self) -> int:
        """The number of codes per day."""
        return PER_DAY[self.resolution]

    @property
    def clock(self) -> bool:
        """Whether it is a time of day without a day."""
        return self.bounds == (CLOCK_DAY, CLOCK_DAY)

    @property
    def units_of_day(self) -> int:
        return 0 if self.after else self.per_day

    @property
    def days(self) -> bool:
        return self.resolution == "day" and "%H" not in self.format

    @property
    def unit(self) -> str | None:
        """The unit of the bounds, with `after`."""
        return f"{self.resolution}s after {self.after}" if self.after else None

    @property
    def depends_on(self) -> tuple[str, ...]:
        return (self.after,) if self.after else ()

    @model_validator(mode="after")
    def _check(self) -> Self:
        if isinstance(self.bounds[0], date) == (self.after is not None):
            raise EntryError(
                "bounds", "bounds must be two days as YYYY-MM-DD, or two whole numbers of days with `after`"
            )
        if self.units[0] + (self.after is None) > self.units[1]:  # `after`, a single value means the same day
            raise EntryError("bounds", "bounds must be two days, the earlier one first")
        if self.resolution != "day" and self.size > MAX_CODES:
            raise EntryError("bounds", "a `resolution` finer than a day needs bounds that are closer together")
        if self.pivot is not None and "%y" not in "".join(self.examples):
            raise EntryError("pivot", "`pivot` needs years of two digits, %y, in `format`")
        check_apart(self.gap_words, *self.units)
        self.check_values()
        for k, form in enumerate(self.examples):
            self._check_format(form, partial=k > 0)
        return self

    def _check_format(self, form: str, *, partial: bool) -> None:
        """Raise ValueError unless the format has all that the resolution and the bounds need; `partial`: the year.

        A month or a week may be without a day. With bounds that are the first day of 1900, the format is a time of day.
        """
        if "%z" in form or "%Z" in form:
            raise EntryError(
                "format",
                "format cannot contain a zone's code. Write the zone as the cells do, as %Y-%m-%dT%H:%M:%S+01:00 does: "
                "cells with other zones keep their clock's time",
            )
        sample = datetime(2003, 12, 31, *((13, 45, 0) if self.resolution != "day" else ()))
        if self.clock:
            sample = datetime.combine(CLOCK_DAY, sample.time())
        whole = (sample, sample.replace(day=1)) if self.per_day == 1 else (sample,)
        try:
            known = _parsed(sample.strftime(form), form)  # in English
            week = "%V" in form and known == datetime(2003, 12, 29)
            if known not in whole and not week and not (partial and known.year == sample.year):
                raise ValueError
        except (ValueError, re.error):  # strptime makes a regular expression of it, which may be invalid
            time = ", an hour and a minute, as %d.%m.%Y %H:%M" if self.per_day > 1 else ", as %d.%m.%Y"
            raise EntryError(
                "format",
                f"format must have a day, a month and a year{time} does. It may leave out the day (%Y-%m, %G-W%V). For "
                "times of day set `resolution`, and `bounds: [1900-01-01, 1900-01-01]`",
            ) from None

    def check_related(self, columns: Mapping[str, Column]) -> None:
        """Raise ValueError unless `after` names a date with its own bounds that is missing only if this one may be."""
        if self.after is None:
            return
        anchor = columns.get(self.after)
        check_anchor(anchor)
        if anchor is not None and anchor.missing and not self.missing:
            raise EntryError("after", "the date in `after` may be missing, so this one needs `missing: true`")

    @property
    def _unknown_code(self) -> int:
        if isinstance(self.unknown, date) and self.after is None:
            return self.unknown.toordinal() * self.per_day - self.units[0]
        return super()._unknown_code if self.after or isinstance(self.unknown, str) else -1

    def _cut_unit(self, value: float | date) -> Decimal:
        """Return a day, or with `after` a number of days, in units."""
        return Decimal(value.toordinal() * self.per_day) if isinstance(value, date) else super()._cut_unit(value)

    @property
    def _precision(self) -> str:
        return f"{self.resolution}s"

    def unreadable(self) -> Problem:
        cure = "Correct the cell, list its form in `format`, or set `unknown: missing`."
        return Problem(text=f"not a date in the form {' or '.join(self.examples)}", cure=cure)

    def read_values(self, texts: Texts) -> Reading:
        return self.coded(np.array([self._number(str(text)) for text in texts], np.float64))

    def _number(self, text: str) -> float:
        """Return a text's number of days, minutes or seconds, NaN if it is not a date; finer parts are cut off."""
        return self.form_of(text)[1]

    def form_of(self, text: str) -> tuple[int, float]:
        """Return the number of the first format that a text has, 0 for ISO's or none, and its number as `_number`.

        Of several formats, one without a day means some day of its month, and one without a month some day of its year.
        The text alone decides which, as a hash does: were it the same day in all months, full dates would have it too.
        """
        word = self._in_english(text)
        several = len(self.examples) > 1
        read = (
            (k, _day_of(word, form, self.pivot) + several * _added(word, form)) for k, form in enumerate(self.examples)
        )
        own = next(((k, day) for k, day in read if not math.isnan(day)), (0, _day_of(word, None)))
        return own[0], float(np.floor(own[1] * self.per_day + 1e-3))

    def _in_english(self, text: str) -> str:
        """Return a cell's text with English names of months, as long as the format has them."""
        if self.months == "en":
            return text
        names = {name[:length].lower(): k for k, name in enumerate(GERMAN) for length in (3, len(name))} | _OTHERS
        length = None if "B" in "".join(self.examples) else 3
        months = {name: ENGLISH[k][:length] for name, k in names.items()}
        return _WORD.sub(lambda word: months.get(word[0].lower(), word[0]), text)

    def read_rows(self, cells: pd.Series, related: Mapping[str, tuple[Column, pd.Series]]) -> tuple[Whole, Reading]:
        """Read as every kind; with `after`, the days since the other date, missing if that one is."""
        if self.after is None:
            return super().read_rows(cells, related)
        place, texts = pd.factorize(cells, use_na_sentinel=False)
        gaps, undeclared = self.missing_in(np.asarray(texts, dtype=object))
        anchor, starts = related[self.after]
        own = _days(self.cell_values(cells))
        start = self._start(_days(anchor.cell_values(starts)))
        lost = ~np.isnan(own) & np.isnan(start)
        gaps = np.where(lost, self.empty_code - self.size if self.gaps else -1, gaps[place])
        undeclared = undeclared[place] | (lost & (self.gaps == 0) & (not self.reads_anything))
        read = self.coded(((own - start) * self.per_day)[(gaps < 0) & ~undeclared])
        return np.arange(len(cells)), self.joined(gaps, undeclared, read)

    def decode_values(self, codes: Codes, related: Mapping[str, Values], dtype: str | None) -> pd.Series:
        """Return timestamps; or texts in the column's format, for times of a day or if another `dtype` is declared."""
        days = self._absolute(codes, related)
        if self.clock if dtype is None else not holds_moments(dtype):
            return self._texts(days).mask(np.isnan(days), None)
        iso = pd.Series([None if np.isnan(d) else self._moment(d).isoformat() for d in days], dtype=object)
        return pd.to_datetime(iso, errors="coerce")  # days that timestamps cannot represent are missing

    def csv_cells(self, codes: Codes, related: Mapping[str, Values]) -> pd.Series:
        """Return dates in the column's format, missing ones as declared."""
        known = self._texts(self._absolute(codes, related))
        gone = codes - self.size
        for kind, word in enumerate(self.gap_words):  # the date in `after` may be missing too
            lost = (gone < 0) & (known == "") & (self.size + kind == self.empty_code)
            known = known.mask((gone == kind) | lost, word)
        return known

    def value_text(self, code: int) -> str:
        """Return the date; with `after`, the number of days."""
        return super().value_text(code) if self.after else self._text((code + self.units[0]) / self.per_day)

    def _start(self, days: Floats) -> Floats:
        """Return the moments of the other date, to this column's resolution."""
        return np.asarray(np.floor(days * self.per_day + (self.per_day > 1) * 1e-3) / self.per_day, np.float64)

    def values(self, codes: Codes, related: Mapping[str, Values]) -> Values:
        """Return moments as a cell can state them: without seconds, if the only format has none."""
        days = self._absolute(codes, related)
        if self.per_day != PER_DAY["second"] or len(self.examples) > 1 or re.search("%[STXcsr]", self.format):
            return days
        return np.asarray(np.floor(days * PER_DAY["minute"] + 1e-3) / PER_DAY["minute"], np.float64)

    def cell_values(self, cells: pd.Series) -> Values:
        """Return the absolute day number of each cell, NaN if it is not a date."""
        place, found = pd.factorize(cells, use_na_sentinel=False)
        gone = MISSING_TOKENS | set(self.gap_words)
        texts = ["" if pd.isna(cell) else str(cell) for cell in found]
        days = [np.nan if t in gone else self._number(t) / self.per_day for t in texts]
        return np.array(days, np.float64)[place]

    def code_computed(self, result: Values, related: Mapping[str, Values]) -> Codes:
        start = _days(related[self.after]) if self.after else 0.0
        return super().code_computed((result.astype(np.float64) - start) * self.per_day, related)

    def value_range(self, text: str) -> tuple[int, int]:
        """Return the codes of the days FIRST to LAST in "FIRST..LAST", or of one day; with `after`, numbers of days."""
        if self.after is None:
            parts = [part.strip() for part in text.split("..")]
            parts = parts if self.per_day == 1 or ".." in text else parts * 2
            ends = [self._number(part) if part or len(parts) == 1 else None for part in parts]
            if self.per_day > 1 and ends[-1] is not None and ":" not in parts[-1]:  # without a time: to the day's end
                ends[-1] += self.per_day - 1
            text = "..".join("" if end is None else f"{end:.0f}" for end in ends)
        return super().value_range(text)

    def day_range(self, text: str) -> tuple[float, float] | None:
        """Return the first and last moment of a condition in days on a date with `after`; None for other conditions."""
        parts = [part.strip() for part in text.split("..")]
        ends = [self._number(part) / self.per_day for part in parts if part]
        if self.after is None or not ends or len(parts) > 2 or np.isnan(ends).any():
            return None
        low, high = ends[0] if parts[0] else -math.inf, ends[-1] if parts[-1] else math.inf
        return low, high if self.per_day == 1 or ":" in parts[-1] else high + 1 - 1 / self.per_day

    def anchor_codes(self, days: tuple[float, float], anchor: Date) -> tuple[int, int]:
        """Return the first and last code of the date that this one follows, so that this one can be on these days."""
        shortest, longest = (unit / self.per_day for unit in self.units)
        ends = np.array([days[0] - longest, days[1] - shortest]) * anchor.per_day - anchor.units[0]
        first, last = np.clip(ends + (-1, 1), -1, anchor.size)  # one more at both ends, since moments are rounded
        return max(math.floor(first), 0), min(math.ceil(last), anchor.size - 1)

    def compared(self, cells: pd.Series) -> pd.Series:
        """Return dates as years and their parts."""
        if pd.api.types.is_numeric_dtype(cells):
            return cells
        return pd.Series(_days(self.cell_values(cells)) / DAYS_OF_YEAR, index=cells.index)

    def shown(self, years: float) -> str:
        """Return a compared value, in years, as it is written in the column's format."""
        return self._text(min(max(years * DAYS_OF_YEAR, 1.0), date.max.toordinal()))

    def validate_cells(self, cells: pd.Series) -> dict[str, Mask]:
        return {}  # the schema's rules declare how dates relate

    def _absolute(self, codes: Codes, related: Mapping[str, Values]) -> Floats:
        own = np.where(codes >= self.size, np.nan, (codes.astype(np.float64) + self.units[0]) / self.per_day)
        if self.after is None:
            return own
        start = self._start(_days(related[self.after]))
        return np.asarray(np.clip(own + start, 1, date.max.toordinal()), np.float64)

    def _texts(self, days: Floats) -> pd.Series:
        """Return day numbers as texts in the column's format, missing ones empty."""
        distinct, place = np.unique(np.nan_to_num(days), return_inverse=True)
        return pd.Series(np.array([self._text(d) for d in distinct], dtype=object)[place])

    def _text(self, day: float) -> str:
        if day < 1:
            return ""
        moment = self._moment(day)
        form = self.format
        if self.months == "de":
            name = GERMAN[moment.month - 1]
            form = form.replace("%^b", name[:3].upper()).replace("%b", name[:3]).replace("%B", name)
        return moment.strftime(form)

    def _moment(self, day: float) -> datetime:
        """Return the time of a day number, to the column's resolution."""
        whole, rest = divmod(round(day * self.per_day), self.per_day)
        start = datetime.fromordinal(int(whole))
        return start + timedelta(seconds=int(rest) * (PER_DAY["second"] // self.per_day))


def check_anchor(column: Column | None) -> None:
    """Raise ValueError unless other dates can follow a column: a date, perhaps with open bounds, without `after`."""
    if column is None or not column.dated or column.depends_on:
        raise EntryError("after", "`after` must name a column of kind date that has no `after` itself")


def dates_in(columns: Mapping[str, Column]) -> dict[str, Date]:
    """Return those of some columns that are dates."""
    return {name: column for name, column in columns.items() if isinstance(column, Date)}


def _days(values: Values) -> Floats:
    return values.astype(np.float64)


def _parsed(word: str, form: str) -> datetime:
    """Return a moment in its form. %-d has no zero in front, %^b is in capitals, and a week alone is its first day."""
    form = form.replace("%-", "%").replace("%^", "%")
    return (
        datetime.strptime(f"{word} 1", f"{form} %u")
        if "%V" in form and "%u" not in form
        else datetime.strptime(word, form)
    )


def ordinal(word: str, form: str) -> float:
    """Return a date's day number, in its format or ISO's, with its time as a part of the day; NaN for none."""
    day = _day_of(word, form)
    return _day_of(word, None) if math.isnan(day) else day


@lru_cache(maxsize=1 << 16)  # a table has each date many times, and is read in pieces
def _day_of(word: str, form: str | None, pivot: int | None = None) -> float:
    """Return as `ordinal` does, in this format alone; None: ISO's. `pivot`: the first year of two digits."""
    try:
        found = datetime.fromisoformat(word) if form is None else _parsed(word, form)
        found = found if pivot is None else found.replace(year=pivot + (found.year - pivot) % 100)
    except ValueError:
        return math.nan
    seconds = 3600 * found.hour + 60 * found.minute + found.second
    return found.toordinal() + seconds / PER_DAY["second"]


def _added(word: str, form: str) -> int:
    """Return how many days after its first day a month or year is put that a format has without a day; 0 with one."""
    if re.search("%[-^]?[djuwUVWcx]", form) or not re.search("%[-^]?[yYG]", form):
        return 0
    first, days = (3, 22) if re.search("%[-^]?[mbB]", form) else (30, 305)  # not at an end: samples are near it
    return first + crc32(word.encode(errors="replace")) % days
