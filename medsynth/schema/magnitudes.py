"""Numbers by noisy counts: which counts are clear; the range of a column's values, their scale, and their decimals."""

from __future__ import annotations

import itertools
import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
CLEAR_STDS = 3.0  # standard deviations of its noise that a count of cells must exceed to be believed
HALF_OCTAVES = np.arange(-80, 61)  # half octaves: magnitudes from 2^-40, a trillionth, to 2^30
MAGNITUDES = 2 * len(HALF_OCTAVES) + 2  # negative, zero, positive, missing
RANGES = (1, 2, 3, 4, 6, 8, 12, 16, 24)  # widths of ranges of magnitudes, in cells, that are tried
LOG_RATIO = 30.0  # a positive column whose 10 % and 90 % quantiles differ by more is read on a log scale
UNSURE_SHARE, OCTAVE = 0.1, 2  # noise of a range, as a part of its rows, at which it is widened by so many cells
NEGATIVE_ODDS = math.log(100)  # against a column of which a part lies below zero, before any row is counted
USUAL_POWER, POWER_SPREAD = 3.5, 5.0  # mean and standard deviation of a range's middle, in octaves, likewise
FAR_CELLS, FALSE_FAR = 5, 1e-4  # cells that are not clear before one that is far; chance that noise shows a far one
NEAR_UNITS, NEAR_PART = 3, 0.25  # how far a value lies that is near another one: units, or a part of that one
PROBABLE_STDS = 2.0  # standard deviations of its noise that a cell beside a clear one must exceed
DIFFERENCES = MAGNITUDES + 2  # of two dates: negative, the same day or positive, neither date, the first, the second
TRIMMED = 0.005  # of the clear rows at either end of the differences that a range may leave out
SAME_DAY = 1 - int(HALF_OCTAVES[0])  # the cell of the same day, counted from that of zero
WIDE = 6  # cells: a range of more starts at the same day
ELSEWHERE = 0.1  # of the range's rows that there may be outside of it, noise included
MOST_DECIMALS, USUAL_DECIMALS = 12, 2  # digits after the point that are counted; kept where none of them is clear
REQUIRED_SHARE = 0.95  # of the rows that a choice must cover
BANDS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)  # sizes of numbers, counted with their digits
FEW_DECIMALS = 0.05  # of the numbers above a band that may have decimals, noise included, where all are read as whole


def clear_stds(tests: int, chance: float = 0.05) -> float:
    """The standard deviations that noise passes in any of this number of tests with at most this `chance`."""
    return math.sqrt(2 * math.log(tests / chance))


def believed(counts: Floats, std: float, stds: float = CLEAR_STDS) -> Floats:
    """Noisy counts, those that are not clear as zero: the noise of many empty cells adds up to many rows."""
    return np.where(counts > stds * std, counts, 0.0)


def magnitude_cell(values: Floats) -> NDArray[np.int64]:
    """The public cell of each number: its sign and half octave; NaN is the last cell. Shape as given."""
    with np.errstate(divide="ignore", invalid="ignore"):
        power = np.floor(2 * np.log2(np.abs(values)))
    place = np.nan_to_num(np.clip(power, HALF_OCTAVES[0], HALF_OCTAVES[-1]) - HALF_OCTAVES[0]).astype(np.int64)
    middle = len(HALF_OCTAVES)
    cells = np.where(values < 0, middle - 1 - place, np.where(values > 0, middle + 1 + place, middle))
    return np.where(np.isnan(values), MAGNITUDES - 1, cells)


def bounds(counts: Floats, std: float, mass: float) -> tuple[float, float]:
    """Bounds around every cell whose noisy count rises clearly above the noise, and around probable ones beside them.

    The threshold is one that noise alone passes in any cell with a chance of at most 5 %. In a small table few or no
    cells pass it: the likeliest range for so many rows, `mass`, is within the bounds too, if it is likelier than none.
    """
    found, last = np.nonzero(counts[:-1] > std * clear_stds(MAGNITUDES))[0].tolist(), MAGNITUDES - 2
    cells, odds = _likeliest(counts[:-1], std, max(mass, std))
    if odds > 0 and mass > std:
        more = OCTAVE * (std * math.sqrt(len(cells)) > UNSURE_SHARE * mass)
        found += [max(int(cells[0]) - more, 0), min(int(cells[-1]) + more, last)]
    if not found:
        return 0.0, 1.0
    low, high = min(found), max(found)
    while low > 0 and counts[low - 1] > PROBABLE_STDS * std:
        low -= 1
    while high < last and counts[high + 1] > PROBABLE_STDS * std:
        high += 1
    return _edge(low, upper=False), _edge(high, upper=True)


def _likeliest(counts: Floats, std: float, mass: float) -> tuple[NDArray[np.int64], float]:
    """The cells of the likeliest range over which so many rows are spread evenly, ascending, and the logarithm of its
    odds against no rows at all.

    A range of magnitudes is that of positive numbers, of negative ones, or of both: of a change, say, whose cells lie
    on both sides of the many near zero.
    """
    middle, best, cells = len(HALF_OCTAVES), -math.inf, np.zeros(1, np.int64)
    both = counts[middle + 1 :] + counts[middle - 1 :: -1]
    for width, sides in itertools.product(RANGES, (1, 2)):
        sums = np.convolve(counts if sides == 1 else both, np.ones(width), "valid")
        odds = (2 * sums - mass) * mass / (sides * width) / (2 * std**2)  # their logarithms
        odds[: middle if sides == 1 else None] -= NEGATIVE_ODDS
        odds -= _unusual(len(odds), width, sides)
        start = int(odds.argmax())
        if odds[start] > best:
            best, cells = float(odds[start]), start + np.arange(width)
            if sides == 2:
                cells = np.concatenate([middle - 1 - cells[::-1], middle + 1 + cells])
    return cells, best


def _unusual(ranges: int, width: int, sides: int) -> Floats:
    """How much less likely each range of so many cells is than a usual one before a row is counted, in logarithms.

    Of one side they start at the largest negative magnitude, of both at the least one.
    """
    centre = np.arange(ranges) + (width - 1) / 2
    away = np.abs(centre - len(HALF_OCTAVES)) if sides == 1 else centre + 1
    power = (HALF_OCTAVES[0] + away - 0.5) / 2
    return np.asarray(((power - USUAL_POWER) / POWER_SPREAD) ** 2 / 2)


def _middle(cell: int) -> float:
    """Return the number in the middle of a magnitude cell."""
    middle = len(HALF_OCTAVES)
    if cell == middle:
        return 0.0
    return float(math.copysign(2.0 ** ((HALF_OCTAVES[abs(cell - middle) - 1] + 0.5) / 2), cell - middle))


def without_far(counts: Floats, std: float, most: float) -> tuple[Floats, list[float]]:
    """Return the counts without cells that lie alone and far beyond all others, and numbers in the middle of these.

    Such a cell is farther from zero than the others by FAR_CELLS cells that are not clear, and has fewer than `most`
    rows. One that noise explains is left out of the counts, but not listed.
    """
    clear, middle = np.nonzero(counts[:-1] > std * clear_stds(MAGNITUDES))[0], len(HALF_OCTAVES)
    sizes = np.abs(clear - middle)
    start = sizes[counts[clear].argmax()] if len(clear) else 0
    reached = np.unique(sizes[sizes >= start])
    groups = np.split(reached, np.nonzero(np.diff(reached) > FAR_CELLS)[0] + 1)
    far = [cell for size in groups[1:] if len(size) == 1 for cell in clear[sizes == size[0]] if counts[cell] < most]
    kept = counts.copy()
    kept[far] = 0.0
    return kept, [_middle(int(cell)) for cell in far if counts[cell] > std * clear_stds(MAGNITUDES, FALSE_FAR)]


def near(counts: Floats, value: float, unit: float, own: float) -> float:
    """Return how many rows a value near this one has on average, by noisy counts without the `own` rows of it."""
    powers = 2.0 ** (np.append(HALF_OCTAVES, HALF_OCTAVES[-1] + 1) / 2)
    reach = max(NEAR_UNITS * unit, NEAR_PART * abs(value))
    low, high = value - reach, value + reach
    part = np.clip((np.minimum(powers[1:], high) - np.maximum(powers[:-1], low)) / np.diff(powers), 0, 1)
    below = np.clip((np.minimum(powers[1:], -low) - np.maximum(powers[:-1], -high)) / np.diff(powers), 0, 1)
    weights = np.concatenate([below[::-1], [1.0 if low <= 0 <= high else 0.0], part])
    return max(0.0, float(weights @ counts[:-1]) - own) * unit / (2 * reach)


def beyond(counts: Floats, std: float) -> float:
    """Clear noisy counts of numbers of the largest magnitude that is told apart, a billion and more, of either sign."""
    return float(believed(counts[[0, MAGNITUDES - 2]], std).sum())


def scale(counts: Floats, std: float) -> Literal["linear", "log"]:
    """The scale: log for a column without negative numbers whose positive part spans a wide range, else linear."""
    positive = believed(counts[len(HALF_OCTAVES) + 1 : -1], std, clear_stds(MAGNITUDES))
    if positive.sum() <= 0:
        return "linear"
    share = np.cumsum(positive) / positive.sum()
    low, high = np.searchsorted(share, [0.1, 0.9])
    return "log" if 2 ** ((high - low) / 2) > LOG_RATIO else "linear"


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


def typical(counts: Floats, low: float = -math.inf, high: float = math.inf) -> float:
    """The middle of the magnitude cell of the bounds with the largest noisy count: what no number is read as."""
    first, last = magnitude_cell(np.array([low, high]))
    return _middle(int(first) + int(counts[first : last + 1].argmax()))


def difference_cell(first: Floats, second: Floats) -> NDArray[np.int64]:
    """The public cell of the days from one date to another, each a day number or NaN. Shape as given.

    Days are counted from one, as the same day is: so no cell between zero and one is empty. Where a date is gone, the
    last three cells say which is there: none, the first, the second.
    """
    days = np.floor(second) - np.floor(first)
    cells = magnitude_cell(days + np.where(days < 0, -1, 1))
    one, other = np.isfinite(first), np.isfinite(second)
    return np.where(one & ~other, MAGNITUDES, np.where(other & ~one, MAGNITUDES + 1, cells))


def turned(counts: Floats) -> Floats:
    """Counts of differences in the other direction: from the second date to the first."""
    found, middle = counts.copy(), len(HALF_OCTAVES)
    found[: 2 * middle + 1] = counts[2 * middle :: -1]
    same = [middle - SAME_DAY, middle + SAME_DAY]
    found[same] = counts[same]  # the same day stays among those after
    found[-2:] = counts[:-3:-1]
    return found


def days_after(counts: Floats, std: float, rows: int, rows_std: float) -> tuple[int, int] | None:
    """The range of days by which the second date comes after the first, by noisy counts of their differences.

    None unless the counts clearly show that in nearly all of the rows it does, or that it is missing there. `rows` is
    the public row count, or a noisy one with errors of `rows_std`: what is left of it lies elsewhere, and no count of
    the many cells there adds its noise.
    """
    middle = len(HALF_OCTAVES)
    share = np.cumsum(believed(counts[: MAGNITUDES - 1], std, clear_stds(MAGNITUDES)))
    low, high = (int(cell) for cell in np.searchsorted(share, [TRIMMED * share[-1], (1 - TRIMMED) * share[-1]]))
    if share[-1] <= 0 or low <= middle:
        return None
    # Tails are too thin to rise above the noise: a cell more above, and below from the same day, or from somewhat less.
    low, high = max(low - 1, middle + SAME_DAY), min(high + 1, MAGNITUDES - 2)
    low = low if high - low < WIDE else middle + SAME_DAY
    first, last = _edge(low, upper=False), _edge(high, upper=True)
    inside = float(counts[low : high + 1].sum())
    elsewhere = rows - inside - float(counts[MAGNITUDES - 1 : MAGNITUDES + 1].sum())
    noise = math.hypot(std * math.sqrt(high - low + 3), rows_std)
    if elsewhere + CLEAR_STDS * noise > ELSEWHERE * inside:
        return None
    return math.floor(first) - 1, math.ceil(last) - 1


def digit_cell(values: Floats, digits: NDArray[np.int64], *, mixed: bool) -> NDArray[np.int64]:
    """The public cell of each number's digits after the point; of a `mixed` column, by bands of its size as well."""
    band = np.searchsorted(BANDS, np.abs(values), side="right") if mixed else np.zeros(len(values), np.int64)
    return np.asarray(band * (MOST_DECIMALS + 1) + digits, np.int64)


def digit_cells(*, mixed: bool) -> int:
    """How many cells `digit_cell` has."""
    return (MOST_DECIMALS + 1) * (len(BANDS) + 1 if mixed else 1)


def kept_decimals(counts: Floats, std: float) -> tuple[int, float | None]:
    """Decimals to keep, and from which size on all numbers are whole, by noisy counts of `digit_cell`.

    None where decimals are found in all bands, or where the noise does not show that there are none.
    """
    table = counts.reshape(-1, MOST_DECIMALS + 1)
    share = np.cumsum(believed(table.sum(0), std * math.sqrt(len(table))))
    places = int(np.searchsorted(share, REQUIRED_SHARE * share[-1])) if share[-1] > 0 else USUAL_DECIMALS
    for band, edge in enumerate(BANDS[: len(table) - 1], 1):
        above, noise = table[band:], std * math.sqrt((len(table) - band) * max(places, 1))
        if above[:, 1 : places + 1].sum() + CLEAR_STDS * noise < FEW_DECIMALS * above[:, 0].sum():
            return places, float(edge)
    return places, None
