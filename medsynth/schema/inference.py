"""Turn noisy answers about a table without a schema into columns, in the order of the questions: post-processing alone.

`privacy/partition_selection.py` asks and calls the functions below, and docs/bare-tables.md follows one table through
all files. They are sorted: kinds (`column_kind`), levels (`levels`), numbers (`number`), dates (`day`, `dates_after`).

Counts are noisy, so a rule here first compares a count with a multiple of `std`, the standard deviation of its noise.
Some also compare it with a share of `rows`, which is the estimate of question 1, or with other counts. The number of
tests matters: among 140 cells of pure noise, some exceed two standard deviations. `clear_stds` gives the limit for that
number. Where a wrong guess loses rows, the milder reading is chosen: a word becomes missing, never a number, and bounds
are widened.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import date
from functools import partial
from statistics import NormalDist
from typing import Any, Literal

import numpy as np

from ..arrays import Floats, Whole
from ..io.table import is_number, whole_text
from . import magnitudes
from .cells import (
    BOOLEANS,
    CLOCKS,
    DAYS,
    DECIMALS,
    EITHER,
    FAR,
    FINES,
    MIDNIGHTS,
    MOMENTS,
    NUMBERS,
    ODD,
    PADDED,
    SHORT,
    SHORT_CLOCK,
    SHORT_EITHER,
    USUAL_NUMBERS,
    WHOLES,
    WITH_SECONDS,
    WORDS,
    ZEROS,
    CellKinds,
    is_code_of_a_number,
    is_timed,
    midnight,
    moment,
    partners,
)
from .columns.categorical import Binary, Categorical
from .columns.column import LEVEL_APART, Column, Level, is_apart, numbers_of
from .columns.date import CLOCK_DAY, PER_DAY, Date, ordinal
from .columns.number import LARGEST_UNITS, Continuous, Count
from .learned import EMPTY, HIDDEN_SHARE, LIKELY_STDS, ColumnKind, Far, LearnedColumn
from .magnitudes import CLEAR_STDS, REQUIRED_SHARE, clear_stds

DECIMAL_SHARE = 0.05  # share of a column's numbers with decimals that makes it a column of decimals
SOME_NUMBERS = 0.05  # share of numbers in a column of words from which on its words may be codes
FINE_SHARE = 0.05  # share of numbers with more decimals that a column of few values may have
FALSE_CODES, FALSE_TARGET_CODES = 0.05, 1e-6  # chance that noise alone shows a code of missing values
FALSE_FORMS = 0.01  # bound on the chance that noise alone changes how a column's numbers are written
FALSE_LEVELS = 0.01  # chance that noise alone shows a usual level in any column of a table
FEW_LEVELS = 20  # an integer column with at most this many surviving levels may be categorical
SPIKES_SHARE = 0.02  # share of whole numbers among fine ones from which on they are counted one by one
CLASS_SHARE, FEW_CLASSES = 0.5, 5  # share of the rows that a target's few surviving whole numbers cover as its classes
LARGEST_BOUND = 1e9  # codes of whole numbers between such bounds still fit into 32 bits
FINEST = 10.0**-magnitudes.MOST_DECIMALS  # of a learned column: closer numbers are one
FIRST_YEAR, LAST_YEAR = 1850, 2109  # years counted one by one, before the rest and cells without a date
YEARS = LAST_YEAR - FIRST_YEAR + 2
YEARS_OF_SECONDS = 60  # this number of years has fewer seconds than codes
MOST_CODES, MOST_FAR = 6, 0.1  # such numbers at either end; rows far from the others that are read as missing
SPIKE, MOST_SPIKES = 4.0, 5  # times the rows of a value near it that a spike has; spikes of a column
YEARS_APART = 20  # years without a clear one after which a year is far from the others
WINDOWS = (1, 3, 10, 30)  # years that are looked at together
FEW_OUTSIDE = 0.01  # of the rows: dates that may lie outside the bounds
HALF_OCTAVE, UNSURE_SHARE = 2**0.5, 0.03  # cell width; noise, as a share of the rows, that hides rows
NARROW = 4  # days after another date must be this many times narrower than a date's own bounds
ISO = "%Y-%m-%d"  # the format of dates without a clear form
MOST_PAIRS = 10  # of columns of dates
NO_LEVELS: Mapping[str, float] = {}
OTHER = "other"  # the level for values that have no level


def missing_of(codes: Iterable[str]) -> bool | tuple[int | str, ...]:
    """Return the `missing` of a column with these codes: whole numbers as such, the empty cell alone as true."""
    found = tuple(dict.fromkeys(code if (whole := whole_text(code)) is None else int(whole) for code in codes))
    return found not in ((), ("",)) and found or bool(found)


def with_empty(codes: Iterable[str]) -> bool | tuple[int | str, ...]:
    """Return the `missing` of a column whose unread cells are missing: these codes, and the empty cell."""
    return missing_of((*codes, ""))


def free_text(kind: ColumnKind) -> LearnedColumn:
    """Return a column of texts, of which nothing else is learned."""
    codes = {code: 0.0 for code in kind.codes if not is_code_of_a_number(code)}
    return LearnedColumn(kind=kind, column=unread(codes), gaps=codes)


def unread(codes: Iterable[str], *, numbers: bool = False) -> Categorical:
    """Return a column without learned values, with these codes of missing values; those that are `numbers`, too."""
    gaps = [code for code in codes if numbers or not is_code_of_a_number(code)]
    other = other_than(gaps)
    return Categorical(levels=(other,), unknown=other, missing=missing_of(gaps))


def other_than(words: Collection[str]) -> str:
    """Return a name for the level of values without a level that none of the `words` has.

    >>> other_than(["other"])
    'other_'
    """
    name = OTHER
    while name in words:
        name += "_"
    return name


def clear_codes(counts: Floats, std: float, cells: CellKinds, columns: int, *, target: bool) -> list[str]:
    """Return the codes of missing values that noisy counts, (codes,), clearly show, in one of this number of `columns`.

    Noise alone shows a code in any of the columns with a chance below FALSE_CODES. In the target, whose labels are
    never invented, the chance is below FALSE_TARGET_CODES.
    """
    limit = std * clear_stds(len(cells.codes) * columns, FALSE_TARGET_CODES if target else FALSE_CODES)
    return [code for code, count in zip(cells.codes, counts.tolist(), strict=True) if count > limit]


def column_kind(
    counts: Floats, std: float, cells: CellKinds, *, rows: int, columns: int, target: bool = False
) -> ColumnKind:
    """Return the kind of a column from noisy counts of its cells' kinds, (kinds,), in the order of `cells.names`.

    Numbers, booleans or dates must clearly be at least half of the present cells, else they are words: so no single
    cell decides. Numbers that clearly start with a zero in part, as 07, are words: their zeros count. How numbers are
    written follows from clear counts alone; a target's must be as clear as its codes. `rows` is the public row count;
    the cells that codes of missing values leave are not counted again.
    """
    found = dict(zip(cells.names, counts.tolist(), strict=True))
    codes = clear_codes(counts[: len(cells.codes)], std, cells, columns, target=target)
    clear = CLEAR_STDS * std
    present = rows - sum(found[code] for code in codes if not is_code_of_a_number(code))
    kinds = counts[len(cells.codes) :]
    if codes and present <= clear and kinds.max() <= std * clear_stds(len(kinds)):
        return ColumnKind(cells="word").with_codes(codes)  # an empty column: its other counts are noise
    # At least half, so that no single cell and no few odd ones decide what a column is.
    half = max(present / 2, clear)
    # Codes that are numbers may be values: the magnitudes later show whether they are apart.
    own = sum(found[code] for code in codes if is_code_of_a_number(code))

    def surely(names: Iterable[str], least: float = clear) -> float:
        """Return the cells of these kinds by clear counts alone, so that the noise of absent kinds does not add up."""
        return float(sum(found[name] for name in names if found[name] > least))

    numbers = max(sum(found[name] for name in (*NUMBERS, *ZEROS)), surely((*NUMBERS, *ZEROS)))
    least = std * clear_stds(len((*NUMBERS, *ZEROS, PADDED)), FALSE_TARGET_CODES if target else FALSE_FORMS)
    some = max(DECIMAL_SHARE * numbers, least)
    sure = partial(surely, least=least)
    fine, decimal = sure(FINES), sure(DECIMALS)
    decimals = decimal > some or sum(found[name] for name in DECIMALS) > numbers / 2
    whole = found["whole"]
    # A tenth of numbers with decimals end with a zero. Whole numbers among them show that zeros are left out.
    ends = sum(found[name] for name in ZEROS)
    zeros = ends - max(DECIMAL_SHARE * numbers, whole)
    odd = max(found[ODD], min(found["pointed"], whole), min(ends, whole) * decimals)
    as_numbers = ColumnKind(
        cells="decimal" if decimals else "whole",
        mixed=some < decimal < numbers / 2,
        short=decimals and fine < max(FINE_SHARE * numbers, least),
        pointed=found["pointed"] > whole,
        zeros=decimals and zeros > 0,
        unsure=decimals and not abs(zeros) > LIKELY_STDS * std * len(ZEROS) ** 0.5 > odd,
        rewritten=odd > max(HIDDEN_SHARE * numbers, least) or (not decimals and found["decimal"] > clear),
        words=surely(["word"]),
        spikes=fine > some and sure((*WHOLES, ZEROS[0])) > max(SPIKES_SHARE * numbers, least),
        codes=tuple(codes),
    )
    # Words, booleans and dates must each be rarer than the numbers, or the column is one of them.
    padded = found[PADDED] > some
    if numbers + own < max(half, surely(WORDS), surely(BOOLEANS), surely(MOMENTS)):
        other = _other_kind(found, half, clear).with_codes(codes)
        # The sum of many counts without a number may be far from zero by its noise alone.
        clearly = other.cells == "word" and not target and sure((*NUMBERS, *ZEROS)) > max(SOME_NUMBERS * present, least)
        return replace(other, beside=as_numbers) if clearly and not padded else other
    return ColumnKind(cells="word").with_codes(codes) if padded else as_numbers


def _other_kind(found: dict[str, float], half: float, clear: float) -> ColumnKind:
    """Return the kind of a column without numbers."""
    spelling = max(BOOLEANS, key=lambda name: found[name])
    if sum(found[name] for name in BOOLEANS) >= half and found[spelling] > clear:
        return ColumnKind(cells="boolean", form=spelling)
    # There are many forms: noise alone lifts some of them above the usual limit.
    moments = {form: found[form] for form in MOMENTS if found[form] > clear / CLEAR_STDS * clear_stds(len(MOMENTS))}
    if sum(moments.values()) >= half:
        strange = found["word"] + found[FAR]
        return replace(_date(moments), words=strange if strange > clear else 0.0)
    return ColumnKind(cells="text" if found["text"] >= half else "word")


def _date(moments: dict[str, float]) -> ColumnKind:
    """Return dates, timestamps or times of day in the form of most cells; `moments` are clear counts."""
    clocks = {form: moments.get(form, 0.0) for form in CLOCKS}
    if sum(clocks.values()) > sum(moments.values()) / 2:
        clock = max(clocks, key=lambda form: clocks[form])
        # 13:45 has no zero to leave out.
        if clock == CLOCKS[0] and clocks[SHORT_CLOCK] > DECIMAL_SHARE * clocks[clock]:
            clock = SHORT_CLOCK
        return _in_form(clock, moments, (clock, clock.replace("%-", "%")), seconds="%S" in clock)
    days: dict[str, float] = {}
    for form, count in moments.items():
        if form not in CLOCKS:
            day = next(start for start in (*DAYS, EITHER, SHORT_EITHER) if form.startswith(start))
            days[day] = days.get(day, 0.0) + count
    short, either = days.pop(SHORT_EITHER, 0.0), days.pop(EITHER, 0.0)
    # 12/11/2020 has no zero to leave out: cells with one digit show the form of the others.
    if short + sum(days.get(form, 0.0) for form in SHORT) > either + sum(days.get(form, 0.0) for form in DAYS[-2:]):
        days |= {f: days.get(f, 0.0) + days.pop(f.replace("-", ""), 0.0) for f in SHORT[1:]}
        either += short
        usual = SHORT[1:]
    else:
        usual = DAYS[-2:]
    day = max(days, key=lambda name: days[name], default=usual[0])
    if either > sum(days.values()) and day not in usual:
        day = usual[0]
    starts = (day, day.replace("%-", "%"), EITHER, SHORT_EITHER)
    own = {form: count for form, count in moments.items() if form.startswith(starts)}
    timed = {form: count for form, count in own.items() if form not in (*starts, *MIDNIGHTS)}
    # Midnights among times are times: their share is kept.
    written = sum(count for form, count in own.items() if form not in starts)
    if written < sum(own.values()) / 2 or sum(timed.values()) <= DECIMAL_SHARE * written:
        form = max(own.keys() - timed, key=lambda form: (own[form], form))
        return _in_form(*((day, moments, starts) if form in starts else (form, moments, (form,))))
    most = max(timed, key=lambda form: timed[form]).removesuffix(WITH_SECONDS)
    time = most.removeprefix(next(start for start in starts if most.startswith(start)))
    alike = [f"{start}{time}{more}" for start in starts for more in ("", WITH_SECONDS)]
    seconds = any(form.endswith(WITH_SECONDS) for form in timed)
    return _in_form(day + time, moments, (*alike, midnight(day + time)), seconds=seconds)


def _in_form(form: str, moments: dict[str, float], alike: Collection[str], *, seconds: bool = False) -> ColumnKind:
    """Return dates in a form. `alike`: the forms of cells that come back as they are; others come back in this one."""
    others = sum(count for other, count in moments.items() if other not in alike)
    rewritten = others > DECIMAL_SHARE * sum(moments.values())
    return ColumnKind(cells="date", form=form, seconds=seconds, rewritten=rewritten)


def usual_levels(
    counts: Mapping[str, Mapping[str, float]],
    std: float,
    threshold: float,
    kinds: Mapping[str, ColumnKind],
    needed: Mapping[str, float],
) -> dict[str, dict[str, float]]:
    """Return the usual levels of each column with their noisy counts, from the `counts` of all usual levels.

    A level that passes the `threshold` of partition selection, or a higher one for many levels, is there. Its partners
    are there if their counts exceed the noise, of standard deviation `std`. The limit depends on the number of partners
    tested, in all columns together. After a whole number that is found, the next number is tested, up to the first that
    is absent. This needs no stricter limit (a fixed sequence of tests, Maurer et al. 1995). A column of numbers is
    tested only if its passing levels reach the `needed` count, which makes it a column of levels. Noise alone shows a
    level in a table with a chance of at most FALSE_LEVELS. Half of it is for levels that pass the threshold, which a
    large delta lowers.
    """
    bar = max(threshold, std * _exceeded(sum(map(len, counts.values())), FALSE_LEVELS / 2))
    found = {name: {level for level, count in own.items() if count > bar} for name, own in counts.items()}

    def beside(name: str, some: set[str]) -> set[str]:
        """Return usual partners of `some` that have not been found."""
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


def words_are_codes(found: LearnedColumn) -> bool:
    """Return whether the frequent words of a column with clear numbers are nearly all of its words, as `>60` may be.

    Then other cells are numbers, which would be lost among the levels, and the words are codes next to them.
    """
    beside = found.kind.beside
    words = sum(count for word, count in found.kept.items() if not is_number(word))
    return beside is not None and found.merged and words >= REQUIRED_SHARE * beside.words


def second_level(found: Mapping[str, float], counts: Mapping[str, float]) -> dict[str, float]:
    """Return the usual partner of the only level of a column that is declared to have two: the one with most cells.

    >>> second_level({"no": 900.0}, {"yes": 3.0, "no": 900.0}), second_level({"a": 9.0}, {"yes": 3.0})
    ({'yes': 3.0}, {})
    """
    usual = partners(min(found), "word") if len(found) == 1 else set()
    best = max(sorted(usual.intersection(counts)), key=lambda level: counts[level], default=None)
    return {} if best is None else {best: counts[best]}


def _exceeded(tests: int, chance: float) -> float:
    """Return the standard deviations that noise exceeds in any of the `tests` with at most this `chance`."""
    return NormalDist().inv_cdf(1 - chance / max(tests, 1))


def words_of(kept: Mapping[str, float], kind: ColumnKind) -> dict[str, float]:
    """Return the words among levels that are numbers, times or booleans: they are codes of missing values.

    A word with a digit among numbers, as 3a among stages, is a level, but no error of a spreadsheet is one.
    """
    if kind.numbers:
        return {word: n for word, n in kept.items() if word[:1] == "#" or not any(map(str.isdigit, word))}
    if kind.cells == "boolean":
        return {word: n for word, n in kept.items() if word not in ("true", "false")}
    return {word: n for word, n in kept.items() if kind.cells == "date" and moment(word) not in CLOCKS}


def levels(
    kept: Mapping[str, float],
    codes: Mapping[str, float],
    rest: float,
    noise: float,
    kind: ColumnKind,
    *,
    rows: int,
    target: bool = False,
) -> Column | None:
    """Return a column of the surviving levels. `codes`: noisy counts of the codes of missing values that were found.
    `rest`: noisy count of rows without a level or a code; `noise`: its standard deviation.

    A code that is more common than every level is a level itself. None for numbers and times that are better read as
    such, so that values of few rows are not lost. A level "other" takes clear remaining rows, also in a target of one
    class; among three words or more it takes likely ones. Otherwise an unknown value goes to the most frequent level,
    in successive numbers to the last one. But among numbers, times and booleans it is missing, except in a target.
    Levels are sorted; in a tie the first counts.
    """
    total = sum(kept.values())
    whole = kind.numbers or kind.cells == "date"
    classes = target and kind.cells == "whole" and len(kept) <= FEW_CLASSES
    share = CLASS_SHARE if classes else REQUIRED_SHARE
    if whole and (not kept or len(kept) > FEW_LEVELS or total < share * (total + max(rest, 0.0))):
        return None
    common = max(codes, key=lambda code: codes[code], default="")
    if common and codes[common] > max(kept.values(), default=0.0):
        kept = {**kept, common: codes[common]}
        codes = {code: n for code, n in codes.items() if code != common}
    strict = not target and kind.cells != "word"
    own = [code for code in codes if code not in kept]
    missing = with_empty(own) if strict else missing_of(own)
    given = bool(own)
    lost = not kept or ((target or not whole) and rest > max(3 * noise, 0.01 * rows))
    # Rare words do not go to the commonest one.
    lost = lost or (kind.cells == "word" and not target and len(kept) > 2 and rest > noise)
    if kind.cells == "boolean" and not set(kept) - {"true", "false"}:
        usual = kept.get("true", 0.0) > kept.get("false", 0.0)
        return Binary(
            levels=(False, True), unknown="missing" if strict else usual, missing=missing,
            dtype="bool" if strict and not given else None, spelling=kind.form or "true",
        )  # fmt: skip
    if mixed := whole and not lost and all(map(is_number, kept)) and not all(map(_is_whole, kept)):
        kept = {f"{word}.0" if kind.pointed and _is_whole(word) else word: count for word, count in kept.items()}
    whole = whole and not lost and all(map(_is_whole, kept))
    names: list[Level] = [*map(int, kept)] if whole else [*kept]
    names.sort(key=float if mixed else None)
    dtype = "float64" if mixed or (whole and kind.pointed) else "int64" if whole and strict and not given else None
    if not kept and not target and "" in codes and rest <= CLEAR_STDS * noise:
        return Categorical(levels=EMPTY, unknown="", missing=missing_of(code for code in codes if code))
    if lost:
        other = other_than({*kept, *codes})
        return Categorical(levels=(*names, other), unknown=other, missing=missing)
    unknown = "missing" if strict else _stray(names, kept)
    if len(names) == 2:
        return Binary(levels=(names[0], names[1]), unknown=unknown, missing=missing, dtype=dtype)
    order: Literal["ordinal", "categorical"] = "ordinal" if mixed or kind.cells == "date" else "categorical"
    return Categorical(kind=order, levels=tuple(names), unknown=unknown, missing=missing, dtype=dtype)


def _is_whole(word: str) -> bool:
    return word.removeprefix("-").isdecimal()


def _stray(names: list[Level], kept: Mapping[str, float]) -> Level:
    """Return the level for unknown values: the most frequent, or the last of successive numbers with a thin tail."""
    common = max(names, key=lambda name: kept[str(name)])
    numbers = [name for name in names if isinstance(name, int)]
    successive = len(numbers) == len(names) > 2 and numbers[-1] - numbers[0] == len(numbers) - 1
    return names[-1] if successive and kept[str(names[-1])] < kept[str(common)] / 2 else common


def number(
    counts: Floats,
    std: float,
    decimals: Floats | None,
    kind: ColumnKind,
    codes: Mapping[str, float],
    *,
    rows: int,
    levels: Mapping[str, float] = NO_LEVELS,
    tailed: bool = False,
) -> tuple[Column, Far]:
    """Return a Continuous column, or a Count if there are no `decimals`, and what was found far from its values.

    `decimals` are noisy counts of digits after the point. `codes` are noisy counts of the codes of missing values that
    were found, `levels` of single numbers that passed the threshold, `rows` is the public row count. `tailed`: the
    scale is declared to be log, so the tail is long even if the noise hides it. A code or a level that lies clearly
    apart from the values is a code of missing values; other codes are values. Every other cell is missing, however
    rare: no word becomes a number. Numbers that are mostly beyond what bounds may be, as keys of many digits are, are
    read as texts: nothing is learned of them.
    """
    gaps = dict(codes)
    counts = counts.copy()
    # First what passed a threshold by its name, such as 999, then cells of magnitudes that lie alone: both would widen
    # the bounds. Only then the bounds, which show whether a code such as 99 is a value.
    mass = rows - sum(codes.values())
    named = _far_levels(counts, std, levels, mass)
    for text, count in named.items():
        counts[magnitudes.magnitude_cell(np.array([float(text)]))] -= count
    mass -= sum(named.values())
    if magnitudes.believed(counts[[0, magnitudes.MAGNITUDES - 2]], std).sum() > mass / 2:  # a billion and more
        return unread(codes), Far()
    if codes and mass <= CLEAR_STDS * std:  # no number is left: its bounds would be invented
        return unread(codes, numbers=True), Far()
    counts, apart = magnitudes.without_far(counts, std, MOST_FAR * rows)
    ends = magnitudes.bounds(counts, std, mass)
    for code in [code for code in codes if is_code_of_a_number(code) and not is_apart(np.array(float(code)), *ends)]:
        counts[magnitudes.magnitude_cell(np.array([float(code)]))] += gaps.pop(code)
    gaps |= named
    spread = magnitudes.spread(counts, std)
    # The tail of laboratory values is long, and mostly below the noise.
    long_tail = tailed or spread > (magnitudes.LOG_RATIO if decimals is None else magnitudes.TAIL_RATIO)
    wide = _widened(*magnitudes.bounds(counts, std, mass), 16.0 if long_tail else 1.5, unsure=std > UNSURE_SHARE * mass)
    low, high = _without_codes(wide, [*filter(is_number, gaps)])
    if decimals is None:
        first = math.floor(low)
        dtype = "float64" if kind.pointed else None if gaps else "int64"
        own: dict[str, Any] = {"bounds": (first, max(first + 1, math.ceil(high))), "dtype": dtype}
    else:
        own = _with_decimals(counts, std, kind, decimals, low, high)
    column = (Count if decimals is None else Continuous).model_validate({
        **own, "scale": "log" if low >= 0 and spread > magnitudes.LOG_RATIO else "linear",
        "missing": _outside(gaps, own["bounds"]), "unknown": "missing", "out_of_range": "missing" if apart else "clip",
        "cut_points": _cut_points(counts, std, levels, own["bounds"], own.get("decimals", 0)),
    })  # fmt: skip
    return column, Far(tuple(named), tuple(f"{value:.2g}" for value in apart))


def _with_decimals(
    counts: Floats, std: float, kind: ColumnKind, decimals: Floats, low: float, high: float
) -> dict[str, Any]:
    """Return bounds, decimals and zeros of a column of numbers with decimals."""
    high = high if high > low else low + 1.0
    places, whole_from = magnitudes.kept_decimals(decimals, std)
    # At least two codes, and at most as many as fit into 32 bits.
    if high - low < FINEST:
        low, high = math.floor(low / FINEST) * FINEST, math.ceil(high / FINEST) * FINEST
    fewest = max(0, math.ceil(-math.log10(high - low)))
    most = max(fewest, math.floor(8 - math.log10(high - low)))
    exact = math.floor(math.log10(LARGEST_UNITS / max(-low, high)))
    places = min(max(places, fewest), most, exact, magnitudes.MOST_DECIMALS)
    unit = 10.0**-places
    if low == 0 and 2 * unit < high and not magnitudes.believed(counts, std)[len(magnitudes.HALF_OCTAVES)]:
        low = unit  # no assay gives zeros if the counts show none
    zeros = "all" if kind.zeros else "one" if kind.pointed else "none"
    return {"bounds": (low, high), "decimals": places, "whole_from": whole_from, "zeros": zeros}


def _far_levels(counts: Floats, std: float, levels: Mapping[str, float], mass: float) -> dict[str, float]:
    """Return single numbers that lie far from all other values, with their noisy counts.

    At either end the farthest few are tried together: they are far if all of them lie apart from the bounds of what is
    left without them. Cells that lie alone, and neighbours that noise explains, do not widen these bounds.
    """
    numbers = sorted((text for text in levels if is_number(text)), key=float)
    found = dict[str, float]()
    for ordered in (numbers[::-1], numbers):
        for most in range(min(MOST_CODES, len(ordered)), 0, -1):
            some = {text: levels[text] for text in ordered[:most] if text not in found}
            rest = counts.copy()
            cells = magnitudes.magnitude_cell(np.array([*map(float, some)]))
            np.add.at(rest, cells, -np.array([*some.values()]))
            rest[cells] = magnitudes.believed(rest[cells], 2 * std, clear_stds(magnitudes.MAGNITUDES))  # two noises
            left = mass - sum(some.values())
            low, high = magnitudes.bounds(magnitudes.without_far(rest, std, MOST_FAR * left)[0], std, left, CLEAR_STDS)
            nearest = min((abs(float(text)) for text in some), default=0.0)
            reach = max(-low, high)
            if 0 < LEVEL_APART * reach < nearest and sum(some.values()) < mass / 2:
                found |= some
                break
    return found


def _cut_points(
    counts: Floats, std: float, levels: Mapping[str, float], ends: tuple[float, float], places: int
) -> tuple[float, ...]:
    """Return cut points around the commonest single values, those that are far commoner than the values near them."""
    unit = 10.0**-places
    single = {float(text): count for text, count in levels.items() if is_number(text)}

    def is_spike(value: float, count: float) -> bool:
        if not ends[0] <= value <= ends[1]:
            return False
        return count > SPIKE * magnitudes.near(counts, value, unit, count) + CLEAR_STDS * std

    spikes = [value for value, count in single.items() if is_spike(value, count)]
    chosen = sorted(spikes, key=lambda value: -single[value])[:MOST_SPIKES]
    edges = {round(edge, places) for value in chosen for edge in (value, value + unit)}
    first, last = (round(end / unit) for end in ends)
    kept = tuple(sorted(edge for edge in edges if first < round(edge / unit) <= last))
    return kept if places else tuple(map(int, kept))


def _without_codes(ends: tuple[float, float], codes: list[str]) -> tuple[float, float]:
    """Return bounds that contain no code of missing values."""
    low, high = ends
    below = [float(code) for code in codes if float(code) < 0]
    above = [float(code) for code in codes if float(code) > 0]
    lowest = max([low, *(code + min(1, -code / 2) for code in below)])
    return lowest, min([high, *(code - min(1, code / 2) for code in above)])


def _outside(gaps: Mapping[str, float], ends: tuple[float, float]) -> bool | tuple[int | str, ...]:
    """Return the `missing` of a column with these bounds: a number within them is a value. Any cell may be missing."""
    numbers = numbers_of(np.array([*gaps], dtype=object))  # also that of 07, which a table keeps as a word
    return with_empty(code for code, value in zip(gaps, numbers, strict=True) if not ends[0] <= value <= ends[1])


def _widened(low: float, high: float, room: float, *, unsure: bool) -> tuple[float, float]:
    """Widen bounds by `room` for tails too thin to exceed the noise; the column's own histogram finds the rows later.

    A positive column starts at zero unless it is far from zero, as years are. Then it gets one more cell at both ends,
    if a cell's noise hides a part of the rows.
    """
    if 0 < high / 2 <= low and unsure:
        return low / HALF_OCTAVE, min(high * HALF_OCTAVE, LARGEST_BOUND)
    low = 0.0 if 0 < low < high / 2 else low
    wide = (low * room if low < 0 else low), (high * room if high > 0 and low < high / 2 else high)
    return max(wide[0], -LARGEST_BOUND), min(wide[1], LARGEST_BOUND)


def year_cell(ordinals: Floats) -> Whole:
    """Return the public cell of each day number: its year; the last cell is for the rest, including NaN. Same shape."""
    inside = (ordinals >= date(FIRST_YEAR, 1, 1).toordinal()) & (ordinals <= date(LAST_YEAR, 12, 31).toordinal())
    years = [date.fromordinal(int(day)).year - FIRST_YEAR if fits else YEARS - 1
             for day, fits in zip(ordinals, inside, strict=True)]  # fmt: skip
    return np.array(years, np.int64)


def day(
    counts: Floats, std: float, kind: ColumnKind, codes: Mapping[str, float], levels: Mapping[str, float] = NO_LEVELS,
    *, rows: int,
) -> tuple[Column, Far]:  # fmt: skip
    """Return a Date column by noisy counts of its years, and what was found far from its values.

    `codes`: noisy counts of the codes of missing values that were found. `levels`: those of words and of usual days for
    unknown dates that passed the threshold; a day among the others is a value. `rows` is the public row count. What
    lies beyond the bounds is missing: dates must not pile up at their ends.
    """
    # A day such as 1900-01-01 for "unknown" is one frequent level: without it, its year is as rare as its neighbours.
    years = counts[:-1].copy()
    cells = dict(zip(levels, year_cell(np.array([ordinal(text, kind.form) for text in levels])).tolist(), strict=True))
    dated = {text: cell for text, cell in cells.items() if cell < len(years)}
    for text, cell in dated.items():
        years[cell] -= levels[text]
    apart = _far_years(years, std)
    others = [*codes.values(), *(levels[text] for text in dated), *years[apart]]
    years[apart] = 0.0
    strange = counts[-1] if counts[-1] > CLEAR_STDS * std else 0.0
    first, last = _span(years, std, rows - sum(others) - strange)
    named = [text for text, cell in cells.items() if not first <= cell <= last]
    gaps = [*(code for code in codes if not is_code_of_a_number(code)), *named]
    ends = date(FIRST_YEAR + first, 1, 1), date(FIRST_YEAR + last, 12, 31)
    if kind.form in CLOCKS:
        ends, first, last = (CLOCK_DAY, CLOCK_DAY), 0, 0
    timed = is_timed(kind.form)
    seconds = kind.seconds and last - first < YEARS_OF_SECONDS
    column = Date.model_validate({
        "bounds": ends, "format": kind.form or ISO, "missing": with_empty(gaps), "unknown": "missing",
        "resolution": ("second" if seconds else "minute") if timed else "day", "out_of_range": "missing",
    })  # fmt: skip
    far = tuple(text for text in named if not math.isnan(ordinal(text, kind.form)))
    limit = std * clear_stds(YEARS)
    outside = [year for year in apart if counts[year] > limit and not first <= year <= last]
    return column, Far(far, tuple(str(FIRST_YEAR + year) for year in outside))


def _span(years: Floats, std: float, mass: float) -> tuple[int, int]:
    """Return the first and the last year of a column of `mass` rows, from noisy counts of years.

    It begins with the narrowest windows that are clearly not empty, and grows to the side with more rows until it
    contains nearly all of them. Then it gets room for what the noise hides: many dates of birth are one of their year.
    """
    total = np.concatenate([[0.0], np.cumsum(years)])
    for width in WINDOWS:
        clear = np.nonzero(total[width:] - total[:-width] > std * math.sqrt(width) * clear_stds(4 * YEARS))[0]
        if len(clear):
            break
    else:
        return 0, len(years) - 1
    start, stop = int(clear[0]), int(clear[-1]) + width
    while mass - (total[stop] - total[start]) > max(FEW_OUTSIDE * mass, 0.5 * std * math.sqrt(stop - start)):
        step = max(1, (stop - start) // 4)
        before, after = max(0, start - step), min(len(years), stop + step)
        if (before, after) == (start, stop):
            break
        below, above = total[start] - total[before], total[after] - total[stop]
        start, stop = (before, stop) if after == stop or (before < start and below >= above) else (start, after)
    hidden = std * math.sqrt(stop - start) > FEW_OUTSIDE / 2 * mass
    room = max(1, (stop - start) // 2) if hidden else 1
    return max(0, start - room), min(len(years), stop + room) - 1


def _far_years(years: Floats, std: float) -> list[int]:
    """Return clear years without a clear one near them, far from the years of most rows."""
    clear = np.nonzero(years > std * clear_stds(YEARS))[0]
    groups = np.split(clear, np.nonzero(np.diff(clear) > YEARS_APART)[0] + 1)
    main = max(groups, key=lambda group: years[group].sum())
    return [int(group[0]) for group in groups if len(group) == 1 and group is not main]


def by_start(pairs: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Choose from pairs (a date, a later one) the date that each date comes after, if any.

    A date that others come after comes after none itself. The date with most followers comes first, then the first one.

    >>> by_start([("admitted", "operated"), ("admitted", "discharged"), ("operated", "discharged")])
    {'operated': 'admitted', 'discharged': 'admitted'}
    """
    left = list(pairs)
    found = dict[str, str]()
    while left:
        starts = [first for first, _ in left]
        start = max(starts, key=starts.count)
        after = {second: start for first, second in left if first == start}
        found |= after
        left = [pair for pair in left if not {start, *after}.intersection(pair)]
    return found


def date_pairs(names: Sequence[str]) -> list[tuple[str, str]]:
    """Return the pairs of date columns whose differences are counted: at most ten, nearest in the header first.

    >>> date_pairs(["born", "admitted", "discharged"])
    [('born', 'admitted'), ('admitted', 'discharged'), ('born', 'discharged')]
    """
    pairs = itertools.combinations(range(len(names)), 2)
    return [(names[a], names[b]) for a, b in sorted(pairs, key=lambda pair: (pair[1] - pair[0], pair))][:MOST_PAIRS]


def dates_after(
    columns: Mapping[str, LearnedColumn],
    counts: Mapping[tuple[str, str], Floats],
    std: float,
    *,
    rows: int,
    rows_std: float,
) -> dict[str, LearnedColumn]:
    """Return the columns, with dates as days after another date if noisy counts of differences clearly show that."""
    found: dict[tuple[str, str], Date] = {}
    for (one, two), known in counts.items():
        for first, second, days in ((one, two, known), (two, one, magnitudes.turned(known))):
            date_after = _date_after(first, columns[first], columns[second], days, std, rows, rows_std)
            if date_after:
                found[first, second] = date_after
    after = by_start(found)
    return {**columns, **{name: replace(columns[name], column=found[first, name]) for name, first in after.items()}}


def declared_after(first: str, own: ColumnKind, days: Floats, std: float) -> Date:
    """Return a date that is declared to follow the column `first`, by noisy counts of the days between them."""
    given = {"after": first, "format": own.form or ISO, "missing": True, "unknown": "missing"}
    most = max(1, magnitudes.days_at_most(days, std))
    return Date.model_validate({"bounds": (0, most), "out_of_range": "missing", **given})


def units_between(first: ColumnKind | Column, second: ColumnKind) -> int:
    """Return the units of a day in which two dates are apart: minutes between timestamps, else days."""
    timed = isinstance(first, ColumnKind) and is_timed(first.form) and is_timed(second.form)
    return PER_DAY["minute"] if timed else 1


def _date_after(
    first: str, start: LearnedColumn, own: LearnedColumn, days: Floats, std: float, rows: int, rows_std: float
) -> Date | None:
    """Return a date as days, or a timestamp as minutes, after the column `first`.

    None if that is unclear, not narrower, or loses a time.
    """
    ends = magnitudes.days_after(days, std, rows, rows_std)
    column = own.column
    units = units_between(start.kind, own.kind)
    if ends is None or column is None or start.column is None or is_timed(own.kind.form) > (units > 1):
        return None
    resolution = ("second" if own.kind.seconds else "minute") if units > 1 else "day"
    finer = PER_DAY[resolution] // units
    low, high = ends[0] * finer, (ends[1] + 1) * finer - 1
    if NARROW * (high - low + 1) > column.size or (start.has_gaps and not own.has_gaps):
        return None
    given = {"after": first, "missing": column.missing or True, "unknown": "missing"}
    given |= {"format": own.kind.form or ISO, "resolution": resolution}
    return Date.model_validate({"bounds": (low, high), **given})
