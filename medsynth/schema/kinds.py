"""What a column is made of, by noisy counts of the kinds of its cells: post-processing, which reads no row."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import NormalDist
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from .cells import (
    BOOLEANS,
    DAYS,
    EITHER,
    MOMENTS,
    NUMBERS,
    PADDED,
    USUAL_NUMBERS,
    WITH_SECONDS,
    WORDS,
    CellKinds,
    is_code_of_a_number,
    partners,
)

Floats = NDArray[np.float64]
CLEAR_STDS = 3.0  # standard deviations of its noise that a count of cells must exceed to be believed
DECIMAL_SHARE = 0.05  # of its numbers that must have decimals before a column is one of decimals
FINE_SHARE = 0.05  # of its numbers that may have more decimals where a column may be one of few values
FALSE_CODES, FALSE_TARGET_CODES = 0.05, 1e-6  # chance that noise alone shows some code of missing values
FALSE_LEVELS = 0.01  # chance that noise alone shows some usual level in any column of a table
LEVEL_KINDS = ("whole", "boolean", "word")  # of columns that may have levels, beside decimals of few digits


@dataclass(frozen=True, kw_only=True)
class ColumnKind:
    """What a column without a schema is read as.

    `form`: the spelling of booleans, the format of dates. `seconds`: whether timestamps have any. `pointed`: whether
    whole numbers are written 8.0. `mixed`: whether more numbers are whole than have decimals; `short`: whether hardly
    any has more than two decimals. `codes`: of missing values, as they are written. `words`: whether there are words
    among numbers.
    """

    cells: Literal["whole", "decimal", "boolean", "date", "word", "text"]
    form: str = ""
    seconds: bool = False
    pointed: bool = False
    mixed: bool = False
    short: bool = False
    codes: tuple[str, ...] = ()
    words: bool = False

    @property
    def numbers(self) -> bool:
        """Whether the column is one of numbers."""
        return self.cells in ("whole", "decimal")

    @property
    def may_have_levels(self) -> bool:
        """Whether the column's values may be few enough to be named."""
        return self.cells in LEVEL_KINDS or self.short

    def with_codes(self, found: list[str]) -> ColumnKind:
        """This kind with codes of missing values that another noisy count of them shows."""
        return replace(self, codes=tuple(dict.fromkeys((*self.codes, *found))))


def clear_stds(tests: int, chance: float = 0.05) -> float:
    """So many standard deviations noise passes in any of so many tests with a chance of at most `chance`."""
    return math.sqrt(2 * math.log(tests / chance))


def code_threshold(std: float, tests: int, *, target: bool) -> float:
    """The noisy count of cells from which on a code of missing values is believed.

    Noise alone passes it in any of so many `tests` with a chance below FALSE_CODES; in the target, whose labels
    are never invented, below FALSE_TARGET_CODES.
    """
    return std * clear_stds(tests, FALSE_TARGET_CODES if target else FALSE_CODES)


def clear_codes(counts: Floats, std: float, cells: CellKinds, columns: int, *, target: bool) -> list[str]:
    """The codes of missing values that noisy counts, (codes,), show, in one of so many `columns`."""
    limit = code_threshold(std, len(cells.codes) * columns, target=target)
    return [code for code, count in zip(cells.codes, counts.tolist(), strict=True) if count > limit]


def usual_levels(
    counts: Mapping[str, Mapping[str, float]],
    std: float,
    threshold: float,
    kinds: Mapping[str, ColumnKind],
    needed: Mapping[str, float],
) -> dict[str, dict[str, float]]:
    """Of each column the usual levels that it has, with their noisy counts, by the `counts` of all usual levels.

    One that passes the `threshold` of partition selection is there. Those that come with it are there if their counts
    stand out of the noise, of standard deviation `std`: the limit is set by how many of them are looked at, in all
    columns together. A whole number that is found so is followed to the next, up to the first that is not: these need
    no limit of their own, for a number that no row has is shown only if the first such one is (a fixed sequence of
    tests, Maurer et al. 1995). In a column of numbers this is so where levels that pass hold the `needed` count, so
    that it is one of levels. Noise alone shows some level in a table with a chance of FALSE_LEVELS at most, half of
    it for levels that pass the threshold, which a large delta lowers.
    """
    bar = max(threshold, std * _exceeded(sum(map(len, counts.values())), FALSE_LEVELS / 2))
    found = {name: {level for level, count in own.items() if count > bar} for name, own in counts.items()}

    def beside(name: str, some: set[str]) -> set[str]:
        """Usual levels that come with `some`, and have not been found."""
        more = {more for level in some for more in partners(level, kinds[name].cells)}
        return more.intersection(counts[name]) - found[name]

    named = [n for n, own in found.items() if not kinds[n].numbers or sum(counts[n][x] for x in own) >= needed[n]]
    looked_at = {name: beside(name, found[name]) for name in named}
    limit = std * _exceeded(sum(map(len, looked_at.values())), FALSE_LEVELS / 2)
    for name, some in looked_at.items():
        while shown := {level for level in some if counts[name][level] > limit}:
            found[name] |= shown
            some = beside(name, shown.intersection(USUAL_NUMBERS))
    return {name: {level: n for level, n in own.items() if level in found[name]} for name, own in counts.items()}


def _exceeded(tests: int, chance: float) -> float:
    """So many standard deviations that noise exceeds any of so many times with at most this `chance`."""
    return NormalDist().inv_cdf(1 - chance / max(tests, 1))


def column_kind(
    counts: Floats, std: float, cells: CellKinds, *, rows: int, columns: int, target: bool = False
) -> ColumnKind:
    """The kind of a column by noisy counts of its cells' kinds, (kinds,), in the order of `cells.names`.

    Numbers, booleans or dates where these are clearly at least half of what is not missing, else words: so no single
    cell decides. Numbers of which some clearly start with a zero, as 07, are words: codes, whose zeros count. `rows` is
    the public row count: what codes of missing values leave of it is not counted again.
    """
    found = dict(zip(cells.names, counts.tolist(), strict=True))
    codes = clear_codes(counts[: len(cells.codes)], std, cells, columns, target=target)
    clear = CLEAR_STDS * std
    present = rows - sum(found[code] for code in codes if not is_code_of_a_number(code))
    kinds = counts[len(cells.codes) :]
    if codes and present <= clear and kinds.max() <= std * clear_stds(len(kinds)):
        return ColumnKind(cells="word").with_codes(codes)  # an empty column: what else it shows is noise
    half = max(present / 2, clear)
    whole, pointed, short, fine = (found[name] for name in NUMBERS)
    decimal = short + fine
    # Codes that are numbers may be values: whether they lie apart is seen later, by the magnitudes.
    own = sum(found[code] for code in codes if is_code_of_a_number(code))
    sure = {name: count for name, count in found.items() if count > clear}

    def surely(names: Iterable[str]) -> float:
        """Cells of these kinds by clear counts alone: the noise of kinds that no cell has does not add up."""
        return float(sum(sure.get(name, 0.0) for name in names))

    numbers = max(whole + pointed + decimal, surely(NUMBERS))
    if numbers + own < max(half, surely(WORDS), surely(BOOLEANS), surely(MOMENTS)):
        return _other_kind(found, half, clear).with_codes(codes)
    some = max(DECIMAL_SHARE * numbers, clear)
    if found[PADDED] > some:
        return ColumnKind(cells="word").with_codes(codes)
    return ColumnKind(
        cells="decimal" if decimal > some else "whole",
        mixed=some < decimal < numbers / 2,
        short=decimal > some and fine < max(FINE_SHARE * numbers, clear),
        pointed=decimal <= some and pointed > max(whole, clear),
        words=found["word"] > some,
        codes=tuple(codes),
    )


def _other_kind(found: dict[str, float], half: float, clear: float) -> ColumnKind:
    """The kind of a column that is none of numbers."""
    spelling = max(BOOLEANS, key=lambda name: found[name])
    if sum(found[name] for name in BOOLEANS) >= half and found[spelling] > clear:
        return ColumnKind(cells="boolean", form=spelling)
    moments = {form: found[form] for form in MOMENTS if found[form] > clear}
    if sum(moments.values()) >= half:
        return _date(moments)
    return ColumnKind(cells="text" if found["text"] >= half else "word")


def _date(moments: dict[str, float]) -> ColumnKind:
    """Dates or timestamps, in the form that most of them have; `moments` are clear counts."""
    days: dict[str, float] = {}
    for form, count in moments.items():
        day = next(start for start in (*DAYS, EITHER) if form.startswith(start))
        days[day] = days.get(day, 0.0) + count
    either = days.pop(EITHER, 0.0)
    day = max(days, key=lambda name: days[name], default="%d/%m/%Y")
    if either > sum(days.values()) and day not in DAYS[-2:]:
        day = "%d/%m/%Y"
    own = {form: count for form, count in moments.items() if form.startswith((day, EITHER))}
    timed = {form: count for form, count in own.items() if form not in (day, EITHER)}
    if sum(timed.values()) < sum(own.values()) / 2:
        return ColumnKind(cells="date", form=day)
    most = max(timed, key=lambda form: timed[form]).removesuffix(WITH_SECONDS)
    time = most.removeprefix(EITHER) if most.startswith(EITHER) else most.removeprefix(day)
    return ColumnKind(cells="date", form=day + time, seconds=any(form.endswith(WITH_SECONDS) for form in timed))
