"""Columns from noisy measurements: post-processing, which reads no row."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from ..transforms.categorical import Binary, Categorical
from ..transforms.column import Column, Level
from ..transforms.number import Continuous, Count

Floats = NDArray[np.float64]
HALF_OCTAVES = np.arange(-40, 61)  # half octaves: magnitudes from 2^-20 to 2^30
MAGNITUDES = 2 * len(HALF_OCTAVES) + 2  # negative, zero, positive, missing
MOST_DECIMALS = 8
FEW_LEVELS = 20  # an integer column of at most so many surviving levels may be categorical
REQUIRED_SHARE = 0.95  # of the rows that a choice must cover
LARGEST_BOUND = 1e9  # codes of whole numbers between such bounds still fit into 32 bits
LOG_RATIO = 30.0  # a positive column whose 10 % and 90 % quantiles differ by more is read on a log scale


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

    The threshold is one that noise alone passes in any cell with a chance of at most 5 %.
    """
    clear = np.nonzero(counts[:-1] > std * math.sqrt(2 * math.log(MAGNITUDES / 0.05)))[0]
    if not len(clear):
        return 0.0, 1.0
    return _edge(int(clear[0]), upper=False), _edge(int(clear[-1]), upper=True)


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


def scale(counts: Floats) -> Literal["linear", "log"]:
    """The scale: log for a column without negative numbers whose positive part spans a wide range, else linear."""
    positive = np.clip(counts[len(HALF_OCTAVES) + 1 : -1], 0, None)
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


def number(counts: Floats, std: float, decimals: Floats | None) -> Column:
    """A Continuous column, or a Count where there are no `decimals`: noisy counts of digits after the point."""
    low, high = _widened(*bounds(counts, std), scale(counts))
    kind: Literal["linear", "log"] = scale(counts) if low >= 0 else "linear"
    if decimals is None:
        whole = (math.floor(low), max(math.floor(low) + 1, math.ceil(high)))
        return Count(bounds=whole, scale=kind, missing=True)
    low, high = (low, high) if high > low else (low, low + 1.0)
    share = np.cumsum(np.clip(decimals, 0, None))
    places = int(np.searchsorted(share, REQUIRED_SHARE * max(share[-1], 1e-9)))
    # At least two codes, and no more than fit into 32 bits.
    fewest = max(0, math.ceil(-math.log10(high - low)))
    most = max(fewest, math.floor(8 - math.log10(high - low)))
    return Continuous(
        bounds=(low, high),
        scale=kind,
        decimals=min(max(places, fewest), most, 12),
        missing=True,
    )


def levels(kept: Mapping[str, float], rest: float, noise: float, *, whole: bool, rows: int) -> Column | None:
    """A column of the surviving levels. `rest`: noisy mass of rows without one; `noise`: its standard deviation.

    None for whole numbers that are better read as a count. Where clear mass is left over, a level "other" takes
    it; otherwise a stray value goes to the most frequent level. Levels are sorted.
    """
    total = sum(kept.values())
    if whole and (not kept or len(kept) > FEW_LEVELS or total < REQUIRED_SHARE * (total + max(rest, 0.0))):
        return None
    names: list[Level] = sorted(map(int, kept)) if whole else sorted(kept)
    if not names or (not whole and rest > max(3 * noise, 0.01 * rows)):
        other = "other"
        while other in kept:
            other += "_"
        return Categorical(levels=(*names, other), unknown=other, missing=True)
    common = max(kept, key=lambda name: kept[name])
    if len(names) == 2:
        return Binary(levels=(names[0], names[1]), unknown=int(common) if whole else common, missing=True)
    return Categorical(levels=tuple(names), unknown=int(common) if whole else common, missing=True)
