"""Read numbers from noisy counts: the clear counts, and the range, scale and decimals of a column's values."""

from __future__ import annotations

import itertools
import math

import numpy as np

from ..arrays import Floats, Whole

CLEAR_STDS = 3.0  # standard deviations of its noise that a count of cells must exceed to be believed
HALF_OCTAVES = np.arange(-80, 61)  # half octaves: magnitudes from 2^-40, a trillionth, to 2^30
MAGNITUDES = 2 * len(HALF_OCTAVES) + 2  # negative, zero, positive, missing
RANGES = (1, 2, 3, 4, 6, 8, 12, 16, 24)  # widths of ranges of magnitudes, in cells, that are tried
LOG_RATIO = 30.0  # ratio of the 90 % and 10 % quantiles of a positive column above which its scale is log
UNSURE_SHARE, OCTAVE = 0.1, 2  # noise, as a share of a range's rows, that widens it; by this number of cells
NEGATIVE_ODDS = math.log(100)  # against values below zero, before any row is counted
USUAL_POWER, POWER_SPREAD = 3.5, 5.0  # prior mean and standard deviation of the middle of a range, in octaves
FAR_CELLS, FALSE_FAR = 5, 1e-4  # cells that are not clear before one that is far; chance that noise shows a far one
NEAR_UNITS, NEAR_PART = 3, 0.25  # how far a value lies that is near another one: units, or a part of that one
PROBABLE_STDS = 2.0  # standard deviations of its noise that the neighbour of a clear cell must exceed
DIFFERENCES = MAGNITUDES + 2  # of two dates: negative, same day or positive; neither, only first, only second
TRIMMED = 0.005  # share of the clear rows that a range of differences may leave out at each end
SAME_DAY = 1 - int(HALF_OCTAVES[0])  # the cell of the same day, counted from the cell of zero
REPEATED = (0.05, 0.9)  # number of keys that repeat, as a share of the rows: fewer may be days, beds or ages
LONG, EVEN_STDS = 10_000, 10.0  # a number of five digits; noise that even counts must exceed this many times
WIDE = 6  # cells: a wider range starts at the same day
ELSEWHERE = 0.1  # share of the range's rows that may be outside of it; twice that with noise
TAIL_RATIO, TAIL_ROOM = 4.0, 4.0  # of the 90 % and 10 % quantiles, from which on a tail is long; room for days in it
MOST_DECIMALS, USUAL_DECIMALS = 12, 2  # digits after the point that are counted; and kept if none of them is clear
REQUIRED_SHARE = 0.95  # share of the rows that a choice must cover
BANDS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0)  # sizes of numbers, counted with their digits
FEW_DECIMALS = 0.05  # share of the numbers above a band that may have decimals, noise included


def clear_stds(tests: int, chance: float = 0.05) -> float:
    """Return the standard deviations that noise exceeds in any of this number of tests with at most this `chance`."""
    return math.sqrt(2 * math.log(tests / chance))


def believed(counts: Floats, std: float, stds: float = CLEAR_STDS) -> Floats:
    """Return noisy counts, with unclear ones as zero: the noise of many empty cells adds up to many rows."""
    return np.where(counts > stds * std, counts, 0.0)


def magnitude_cell(values: Floats) -> Whole:
    """Return the public cell of each number: its sign and half octave; NaN is the last cell. Same shape."""
    with np.errstate(divide="ignore", invalid="ignore"):
        power = np.floor(2 * np.log2(np.abs(values)))
    place = np.nan_to_num(np.clip(power, HALF_OCTAVES[0], HALF_OCTAVES[-1]) - HALF_OCTAVES[0]).astype(np.int64)
    middle = len(HALF_OCTAVES)
    cells = np.where(values < 0, middle - 1 - place, np.where(values > 0, middle + 1 + place, middle))
    return np.where(np.isnan(values), MAGNITUDES - 1, cells)


def bounds(counts: Floats, std: float, mass: float, probable: float = PROBABLE_STDS) -> tuple[float, float]:
    """Return bounds around every cell whose noisy count clearly exceeds the noise, and around `probable` neighbours.

    Noise alone passes the threshold in any cell with a chance of at most 5 %. In a small table few or no cells pass it.
    Then the likeliest range for `mass` rows is within the bounds too, if it is likelier than none.
    """
    found = np.nonzero(counts[:-1] > std * clear_stds(MAGNITUDES))[0].tolist()
    last = MAGNITUDES - 2
    rest = counts[:-1].copy()
    zero = len(HALF_OCTAVES)
    if zero in found:  # many zeros, as of costs, say nothing about the size of the other numbers
        mass, rest[zero] = mass - rest[zero], 0.0
    cells, odds = _likeliest(rest, std, max(mass, std))
    if odds > 0 and mass > std:
        more = OCTAVE * (std * math.sqrt(len(cells)) > UNSURE_SHARE * mass)
        found += [max(int(cells[0]) - more, 0), min(int(cells[-1]) + more, last)]
    if not found:
        return 0.0, 1.0
    low = min(found)
    high = max(found)
    while low > 0 and counts[low - 1] > probable * std:
        low -= 1
    while high < last and counts[high + 1] > probable * std:
        high += 1
    return _edge(low, upper=False), _edge(high, upper=True)


def _likeliest(counts: Floats, std: float, mass: float) -> tuple[Whole, float]:
    """Return the cells, ascending, of the likeliest range with `mass` rows spread evenly, and its log odds.

    The odds are against no rows. A range of magnitudes contains positive numbers, negative ones, or both. Both suits a
    change, for example, whose cells are on both sides of the many near zero.
    """
    middle = len(HALF_OCTAVES)
    best = -math.inf
    cells = np.zeros(1, np.int64)
    both = counts[middle + 1 :] + counts[middle - 1 :: -1]
    for width, sides in itertools.product(RANGES, (1, 2)):
        sums = np.convolve(counts if sides == 1 else both, np.ones(width), "valid")
        odds = (2 * sums - mass) * mass / (sides * width) / (2 * std**2)  # log odds
        odds[: middle if sides == 1 else None] -= NEGATIVE_ODDS
        odds -= _unusual(len(odds), width, sides)
        start = int(odds.argmax())
        if odds[start] > best:
            best = float(odds[start])
            cells = start + np.arange(width)
            if sides == 2:
                cells = np.concatenate([middle - 1 - cells[::-1], middle + 1 + cells])
    return cells, best


def _unusual(ranges: int, width: int, sides: int) -> Floats:
    """Return how much less likely each range of `width` cells is than a usual one before a row is counted, in log odds.

    Ranges of one side start at the largest negative magnitude, those of both sides at the smallest.
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
    clear = np.nonzero(counts[:-1] > std * clear_stds(MAGNITUDES))[0]
    middle = len(HALF_OCTAVES)
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


def like_keys(counts: Floats, std: float, rows: int) -> tuple[bool, bool]:
    """Return whether noisy counts of whole numbers show those of keys, and whether they show keys of several rows each.

    Keys are long numbers, of five digits or more and with a range of as many values as there are rows. Or they are the
    numbers from one to that of the rows or a few more, equally often each. Keys of several rows each end at a smaller
    number.
    """
    clear = believed(counts, std, clear_stds(MAGNITUDES))
    cells = np.flatnonzero(clear)
    if not cells.size or cells[0] <= len(HALF_OCTAVES) or cells[-1] == MAGNITUDES - 1:
        return False, False
    enough = bool(clear.sum() >= rows / 2)
    if enough and cells[0] >= magnitude_cell(np.array([LONG]))[0]:
        return _edge(int(cells[-1]), upper=True) - _edge(int(cells[0]), upper=False) >= rows, False
    ends = rows * np.concatenate([np.geomspace(*REPEATED, 120), np.linspace(1, 2, 41)])
    even = [end for end in ends if end >= 1 and _are_even(counts, std, rows, end)]
    return enough and any(end >= rows for end in even), any(end < rows for end in even)


def _are_even(counts: Floats, std: float, rows: int, end: float) -> bool:
    """Return whether noisy counts clearly show the whole numbers from one to `end`, equally often each."""
    edges = np.minimum(np.ceil(2.0 ** (np.append(HALF_OCTAVES, HALF_OCTAVES[-1] + 1) / 2)), math.floor(end) + 1)
    expected = np.zeros(MAGNITUDES)
    expected[len(HALF_OCTAVES) + 1 : -1] = np.diff(np.maximum(edges, 1)) * rows / math.floor(end)
    square = float(np.square((counts - expected) / std).sum())
    return square < MAGNITUDES + CLEAR_STDS * math.sqrt(2 * MAGNITUDES) and expected.max() > EVEN_STDS * std


def spread(counts: Floats, std: float) -> float:
    """Return the ratio of the 90 % and 10 % quantiles of positive numbers, by clear counts; 1 without any."""
    positive = believed(counts[len(HALF_OCTAVES) + 1 : -1], std, clear_stds(MAGNITUDES))
    if positive.sum() <= 0:
        return 1.0
    low, high = np.searchsorted(np.cumsum(positive) / positive.sum(), [0.1, 0.9])
    return float(2 ** ((high - low) / 2))


def _edge(cell: int, *, upper: bool) -> float:
    """Return the lower or upper end of a magnitude cell, rounded outwards to two significant digits."""
    middle = len(HALF_OCTAVES)
    if cell == middle:
        return 0.0
    away = (cell > middle) is upper  # whether this end is the one farther from zero
    power = HALF_OCTAVES[abs(cell - middle) - 1] + (1 if away else 0)
    size = 2.0 ** (power / 2)
    digit = 10.0 ** (math.floor(math.log10(size)) - 1)
    rounded = (math.ceil if away else math.floor)(size / digit - (1e-9 if away else -1e-9)) * digit
    return float(f"{math.copysign(rounded, cell - middle):.2g}")


def difference_cell(first: Floats, second: Floats) -> Whole:
    """Return the public cell of the days from one date to another, each a day number or NaN. Same shape.

    Minutes between timestamps are counted alike. Days are counted from one, which is the same day, so that no cell
    between zero and one is empty. If a date is missing, the last three cells show which is present: none, the first,
    the second.
    """
    days = np.floor(second) - np.floor(first)
    cells = magnitude_cell(days + np.where(days < 0, -1, 1))
    one, other = np.isfinite(first), np.isfinite(second)
    return np.where(one & ~other, MAGNITUDES, np.where(other & ~one, MAGNITUDES + 1, cells))


def turned(counts: Floats) -> Floats:
    """Return counts of differences in the other direction: from the second date to the first."""
    found = counts.copy()
    middle = len(HALF_OCTAVES)
    found[: 2 * middle + 1] = counts[2 * middle :: -1]
    same = [middle - SAME_DAY, middle + SAME_DAY]
    found[same] = counts[same]  # the same day stays among the positive ones
    found[-2:] = counts[:-3:-1]
    return found


def days_after(counts: Floats, std: float, rows: int, rows_std: float) -> tuple[int, int] | None:
    """Return the range of days by which the second date comes after the first, from noisy counts of their differences.

    None unless the counts clearly show that nearly all rows have this order, or miss the second date. `rows` is the
    public row count, or a noisy one with errors of `rows_std`. The rows that it leaves are elsewhere; so the noise of
    the many cells there does not add up.
    """
    middle = len(HALF_OCTAVES)
    share = np.cumsum(believed(counts[: MAGNITUDES - 1], std, clear_stds(MAGNITUDES)))
    low, high = (int(cell) for cell in np.searchsorted(share, [TRIMMED * share[-1], (1 - TRIMMED) * share[-1]]))
    if share[-1] <= 0 or low <= middle:
        return None
    # Tails are too thin to exceed the noise: add a cell above; below, start at the same day or one cell lower.
    low = max(low - 1, middle + SAME_DAY)
    high = min(high + 1, MAGNITUDES - 2)
    low = low if high - low < WIDE else middle + SAME_DAY
    first, last = _edge(low, upper=False), _edge(high, upper=True)
    inside = float(counts[low : high + 1].sum())
    elsewhere = rows - inside - float(counts[MAGNITUDES - 1 : MAGNITUDES + 1].sum())
    noise = math.hypot(std * math.sqrt(high - low + 3), rows_std)
    # Without an order half of the rows get the wrong one, so the noise has room.
    if max(elsewhere, (elsewhere + CLEAR_STDS * noise) / 2) > ELSEWHERE * inside:
        return None
    return math.floor(first) - 1, math.ceil(last) - 1


def days_at_most(counts: Floats, std: float) -> int:
    """Return the most days by which a date follows another one, from noisy counts of their differences.

    That it follows is declared, so no count has to show it, and the least number of days is zero. Long stays are rare,
    and below the noise: the range gets room for them.
    """
    first = len(HALF_OCTAVES) + SAME_DAY
    own = np.where(np.arange(MAGNITUDES) < first, 0.0, counts[:MAGNITUDES])
    own[-1] = 0.0
    mass = float(own.sum())
    _, high = bounds(own, std, mass)
    return math.ceil(high * (TAIL_ROOM if spread(own, std) > TAIL_RATIO else OCTAVE)) - 1


def digit_cell(values: Floats, digits: Whole, *, mixed: bool) -> Whole:
    """Return the public cell of each number's digits after the point; if `mixed`, by bands of its size as well."""
    band = np.searchsorted(BANDS, np.abs(values), side="right") if mixed else np.zeros(len(values), np.int64)
    return np.asarray(band * (MOST_DECIMALS + 1) + digits, np.int64)


def digit_cells(*, mixed: bool) -> int:
    """Return the number of cells of `digit_cell`."""
    return (MOST_DECIMALS + 1) * (len(BANDS) + 1 if mixed else 1)


def kept_decimals(counts: Floats, std: float) -> tuple[int, float | None]:
    """Return the decimals to keep, and the size from which on all numbers are whole, from noisy counts of `digit_cell`.

    The size is None if all bands have decimals, or if the noise does not show that they have none.
    """
    table = counts.reshape(-1, MOST_DECIMALS + 1)
    share = np.cumsum(believed(table.sum(0), std * math.sqrt(len(table))))
    places = int(np.searchsorted(share, REQUIRED_SHARE * share[-1])) if share[-1] > 0 else USUAL_DECIMALS
    for band, edge in enumerate(BANDS[: len(table) - 1], 1):
        above, noise = table[band:], std * math.sqrt((len(table) - band) * max(places, 1))
        if above[:, 1 : places + 1].sum() + CLEAR_STDS * noise < FEW_DECIMALS * above[:, 0].sum():
            return places, float(edge)
    return places, None


def loses_form(counts: Floats, std: float, places: int, zeros: bool) -> bool:
    """Return whether numbers clearly have more decimals than `places`, or fewer if `zeros` fill these up."""
    table = counts.reshape(-1, MOST_DECIMALS + 1)
    shown = believed(table.sum(0), std * math.sqrt(len(table)))
    fewer = bool(shown[1:places].sum() > FEW_DECIMALS * shown.sum())
    return kept_decimals(counts, std)[0] > places or (zeros and fewer)
