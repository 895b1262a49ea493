"""Columns from noisy measurements: post-processing, which reads no row."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import date
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..transforms.categorical import Binary, Categorical
from ..transforms.column import Column, Level
from ..transforms.date import Date
from ..transforms.number import Continuous, Count

Floats = NDArray[np.float64]
HALF_OCTAVES = np.arange(-40, 61)  # half octaves: magnitudes from 2^-20 to 2^30
MAGNITUDES = 2 * len(HALF_OCTAVES) + 2  # negative, zero, positive, missing
MOST_DECIMALS, USUAL_DECIMALS = 8, 2  # digits after the point that are counted; kept where none of them is clear
RANGES = (1, 2, 4, 8, 16)  # widths of ranges of magnitudes, in cells, that are tried where no single cell is clear
FEW_LEVELS = 20  # an integer column of at most so many surviving levels may be categorical
REQUIRED_SHARE = 0.95  # of the rows that a choice must cover
LARGEST_BOUND = 1e9  # codes of whole numbers between such bounds still fit into 32 bits
CLEAR_STDS = 3.0  # standard deviations of its noise that a count of cells must exceed to be believed
DECIMAL_SHARE = 0.05  # of its numbers that must have decimals before a column is one of decimals
FIRST_YEAR, LAST_YEAR = 1850, 2109  # years that are counted one by one; others and cells that are no date come after
YEARS = LAST_YEAR - FIRST_YEAR + 2
LOG_RATIO = 30.0  # a positive column whose 10 % and 90 % quantiles differ by more is read on a log scale


class ColumnKind(NamedTuple):
    """What a column without a schema is read as; whether it has missing cells, and words among its numbers."""

    cells: Literal["whole", "decimal", "boolean", "date", "word"]
    missing: bool
    words: bool = False

    def seen_again(self, count: float, std: float) -> ColumnKind:
        """This kind, with missing cells if another noisy count of them shows some clearly."""
        return self._replace(missing=self.missing or count > CLEAR_STDS * std)


def column_kind(counts: Floats, std: float) -> ColumnKind:
    """The kind of a column by noisy counts of its cells' kinds, (6,), in the order of `io.table.CELL_KINDS`.

    Numbers, booleans or dates where these are clearly at least half of what is not missing, else words: so no single
    cell decides. Noise alone is believed with a chance of 0.13 % a count.
    """
    missing, whole, decimal, boolean, day, word = np.clip(counts, 0, None).tolist()
    numbers, clear = whole + decimal, CLEAR_STDS * std
    half = max((numbers + boolean + day + word) / 2, clear)
    if numbers >= half:
        many = decimal > max(DECIMAL_SHARE * numbers, clear)
        words = word > max(DECIMAL_SHARE * numbers, clear)
        return ColumnKind("decimal" if many else "whole", missing > clear, words)
    if boolean >= half:
        return ColumnKind("boolean", missing > clear)
    return ColumnKind("date" if day >= half else "word", missing > clear)


def magnitude_cell(values: Floats) -> NDArray[np.int64]:
    """The public cell of each number: its sign and half octave; NaN is the last cell. Shape as given."""
    with np.errstate(divide="ignore", invalid="ignore"):
        power = np.floor(2 * np.log2(np.abs(values)))
    place = np.nan_to_num(np.clip(power, HALF_OCTAVES[0], HALF_OCTAVES[-1]) - HALF_OCTAVES[0]).astype(np.int64)
    middle = len(HALF_OCTAVES)
    cells = np.where(values < 0, middle - 1 - place, np.where(values > 0, middle + 1 + place, middle))
    return np.where(np.isnan(values), MAGNITUDES - 1, cells)


def bounds(counts: Floats, std: float) -> tuple[float, float]:
    """Bounds around every cell whose noisy count rises clearly above the noise.

    The threshold is one that noise alone passes in any cell with a chance of at most 5 %. In a small table no cell may
    pass it: then the range of one to sixteen cells is taken that stands out most, if any does at all.
    """
    threshold = std * math.sqrt(2 * math.log(MAGNITUDES / 0.05))
    clear = np.nonzero(counts[:-1] > threshold)[0]
    if len(clear):
        return _edge(int(clear[0]), upper=False), _edge(int(clear[-1]), upper=True)
    sums = {width: np.convolve(counts[:-1], np.ones(width), "valid") / math.sqrt(width) for width in RANGES}
    width = max(RANGES, key=lambda width: float(sums[width].max()))
    if sums[width].max() < CLEAR_STDS * std:
        return 0.0, 1.0
    first = int(sums[width].argmax())
    return _edge(first, upper=False), _edge(first + width - 1, upper=True)


def _believed(counts: Floats, std: float) -> Floats:
    """Noisy counts, those that are not clear as zero: the noise of many empty cells adds up to many rows."""
    return np.where(counts > CLEAR_STDS * std, counts, 0.0)


def _edge(cell: int, *, upper: bool) -> float:
    """The lower or upper end of a magnitude cell, rounded outwards to two significant digits."""
    middle = len(HALF_OCTAVES)
    if cell == middle:
        return 0.0
    away = (cell > middle) is upper  # whether this end is the one farther from zero
    power = HALF_OCTAVES[abs(cell - middle) - 1] + (1 if away else 0)
    size = 2.0 ** (power / 2)
    digit = 10.0 ** (math.floor(math.log10(size)) - 1)
    rounded = (math.ceil if away else math.floor)(size / digit - (1e-9 if away else -1e-9)) * digit
    return float(f"{math.copysign(rounded, cell - middle):.2g}")


def scale(counts: Floats, std: float) -> Literal["linear", "log"]:
    """The scale: log for a column without negative numbers whose positive part spans a wide range, else linear."""
    positive = _believed(counts[len(HALF_OCTAVES) + 1 : -1], std)
    if positive.sum() <= 0:
        return "linear"
    share = np.cumsum(positive) / positive.sum()
    low, high = np.searchsorted(share, [0.1, 0.9])
    return "log" if 2 ** ((high - low) / 2) > LOG_RATIO else "linear"


def _widened(low: float, high: float, kind: str) -> tuple[float, float]:
    """Bounds with room for tails too thin to rise above the noise; the column's own histogram finds where rows are.

    A positive column starts at zero unless it lies far from it, as years do.
    """
    room = 16.0 if kind == "log" else 1.5
    low = 0.0 if 0 < low < high / 2 else low
    wide = (low * room if low < 0 else low), (high * room if high > 0 and low < high / 2 else high)
    return max(wide[0], -LARGEST_BOUND), min(wide[1], LARGEST_BOUND)


def number(counts: Floats, std: float, decimals: Floats | None, column: ColumnKind) -> Column:
    """A Continuous column, or a Count where there are no `decimals`: noisy counts of digits after the point.

    Words that are clearly among the numbers are read as missing; a few go to the commonest magnitude, as do a few
    missing cells.
    """
    missing = column.words or column.seen_again(float(counts[-1]), std).missing
    found = scale(counts, std)
    low, high = _widened(*bounds(counts, std), found)
    kind: Literal["linear", "log"] = found if low >= 0 else "linear"
    if decimals is None:
        whole = (math.floor(low), max(math.floor(low) + 1, math.ceil(high)))
        usual = min(max(round(_typical(counts)), whole[0]), whole[1])
        return Count(bounds=whole, scale=kind, missing=missing, unknown="missing" if missing else usual)
    low, high = (low, high) if high > low else (low, low + 1.0)
    share = np.cumsum(_believed(decimals, std))
    places = int(np.searchsorted(share, REQUIRED_SHARE * share[-1])) if share[-1] > 0 else USUAL_DECIMALS
    # At least two codes, and no more than fit into 32 bits.
    fewest = max(0, math.ceil(-math.log10(high - low)))
    most = max(fewest, math.floor(8 - math.log10(high - low)))
    places = min(max(places, fewest), most, 12)
    unknown: float | Literal["missing"] = "missing"
    if not missing:
        unknown = float(min(max(round(_typical(counts), places), low), high))
    return Continuous(bounds=(low, high), scale=kind, decimals=places, missing=missing, unknown=unknown)


def _typical(counts: Floats) -> float:
    """The middle of the magnitude cell with the largest noisy count: what a cell that is no number is read as."""
    middle, cell = len(HALF_OCTAVES), int(counts[:-1].argmax())
    if cell == middle:
        return 0.0
    return float(math.copysign(2.0 ** ((HALF_OCTAVES[abs(cell - middle) - 1] + 0.5) / 2), cell - middle))


def year_cell(ordinals: Floats) -> NDArray[np.int64]:
    """The public cell of each day number: its year; the last cell is any other, NaN too. Shape as given."""
    inside = (ordinals >= date(FIRST_YEAR, 1, 1).toordinal()) & (ordinals <= date(LAST_YEAR, 12, 31).toordinal())
    years = [date.fromordinal(int(day)).year - FIRST_YEAR if fits else YEARS - 1
             for day, fits in zip(ordinals, inside, strict=True)]  # fmt: skip
    return np.array(years, np.int64)


def day(counts: Floats, std: float, column: ColumnKind) -> Column:
    """A Date column by noisy counts of its years: from a year before the first clear one to a year after the last.

    Decades count where none of their years is clear alone: dates of birth are spread thinly.
    """
    years, missing = counts[:-1], column.missing
    limit = std * math.sqrt(2 * math.log(YEARS / 0.05))
    clear = set(np.nonzero(years > limit)[0].tolist())
    for start in range(0, len(years), 10):
        decade = range(start, start + 10)
        if not clear.intersection(decade) and years[start : start + 10].sum() > limit * math.sqrt(10):
            clear |= {decade[0], decade[-1]}
    first, last = (min(clear) - 1, max(clear) + 1) if clear else (0, len(years) - 1)
    ends = date(FIRST_YEAR + first, 1, 1), date(FIRST_YEAR + last, 12, 31)
    usual = date(FIRST_YEAR + min(max(int(years.argmax()), first), last), 7, 1)
    return Date(bounds=ends, missing=missing, unknown="missing" if missing else usual)


def levels(kept: Mapping[str, float], rest: float, noise: float, kind: ColumnKind, *, rows: int) -> Column | None:
    """A column of the surviving levels. `rest`: noisy mass of rows without one; `noise`: its standard deviation.

    None for whole numbers that are better read as a count. Where clear mass is left over, a level "other" takes
    it; otherwise a stray value goes to the most frequent level. Levels are sorted; of equally frequent ones the first.
    """
    total, missing = sum(kept.values()), kind.missing
    whole = kind.cells == "whole"
    if whole and (not kept or len(kept) > FEW_LEVELS or total < REQUIRED_SHARE * (total + max(rest, 0.0))):
        return None
    if kind.cells == "boolean" and not set(kept) - {"true", "false"}:
        return Binary(levels=(False, True), unknown=kept.get("true", 0.0) > kept.get("false", 0.0), missing=missing)
    whole = whole and all(word.lstrip("-").isdecimal() for word in kept)
    names: list[Level] = sorted(map(int, kept)) if whole else sorted(kept)
    if not names or (not whole and rest > max(3 * noise, 0.01 * rows)):
        other = "other"
        while other in kept:
            other += "_"
        return Categorical(levels=(*names, other), unknown=other, missing=missing)
    common = max(names, key=lambda name: kept[str(name)])
    if len(names) == 2:
        return Binary(levels=(names[0], names[1]), unknown=common, missing=missing)
    return Categorical(levels=tuple(names), unknown=common, missing=missing)
