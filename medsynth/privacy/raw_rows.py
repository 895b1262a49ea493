"""Rows of a table before it has a schema, and exact counts of their cells, which add up over parts of the rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..arrays import Floats, Texts, Whole
from ..io.table import Table, is_number
from ..schema import inference, magnitudes
from ..schema.cells import FINES, NUMBERS, ODD, WORDS, ZEROS, CellKinds, is_code_of_a_number, level_of
from ..schema.columns.column import Column, numbers_of
from ..schema.columns.date import ordinal
from ..schema.columns.open import Open
from ..schema.learned import ColumnKind
from .queries.rows import Sealed


class Distinct(NamedTuple):
    """The index of each row's text among a column's texts, (rows,); these, (texts,); and the index of each kind."""

    place: NDArray[np.int32]
    texts: Texts
    kinds: Whole


def digits_of(text: str) -> int:
    """Return how many digits a number has after the point; 0 for 8.0, and for what is not a number.

    >>> digits_of("8.50"), digits_of("8.0"), digits_of("5.43e-09"), digits_of("1e3"), digits_of("x")
    (2, 0, 11, 0, 0)
    """
    if not is_number(text):
        return 0
    digits, _, power = text.lower().partition("e")
    places = 0 if digits.endswith(".0") else len(digits.partition(".")[2])
    return max(0, places - int(power or 0))


class RawRows(Sealed):
    """Private cells of open columns, whose kinds `kinds` defines. Each row's counts depend on that row only."""

    __slots__ = ("__open", "__read", "__table", "_kinds")

    def __init__(self, table: Table, kinds: CellKinds, columns: Mapping[str, Open] | None = None) -> None:
        self.__table, self._kinds, self.__open = table, kinds, columns or {}
        self.__read: dict[str, Distinct] = {}

    def distinct(self, name: str) -> Distinct:
        """Return a column's texts with their kinds, and the index of each row's text. The slow result is kept."""
        if name not in self.__read:
            place, found = pd.factorize(self.__table.cells[name], use_na_sentinel=False)
            texts = np.asarray(found, dtype=object)
            texts = self.__open[name].plain(texts) if name in self.__open else texts
            self.__read[name] = Distinct(place.astype(np.int32), texts, self._kinds.places(texts))
        return self.__read[name]

    def kinds(self, name: str) -> Whole:
        """Return the number of a column's cells of each kind."""
        place, _, kinds = self.distinct(name)
        return np.bincount(kinds[place], minlength=len(self._kinds.names))

    def levels(self, name: str, kind: ColumnKind, usual: Sequence[str]) -> tuple[pd.Series, Whole]:
        """Return counts of levels that are not `usual`, by text; and of usual ones, then of codes of missing values.

        Each cell counts once. Codes that are numbers count as levels. In a column of dates or of numbers with many
        decimals, only words are levels. If the latter has spikes, numbers with fewer decimals are levels too.
        """
        place, texts, kinds = self.distinct(name)
        own = self._kinds.codes
        codes_alone = [name in own and not is_code_of_a_number(name) for name in self._kinds.names]
        coded = np.array(codes_alone, np.bool_)[kinds]
        named = WORDS if not kind.spikes else {*WORDS, *NUMBERS, *ZEROS}.difference(FINES, [ODD])
        words = np.array([name in named for name in self._kinds.names], np.bool_)[kinds]
        levels = ~coded & (words | kind.may_have_levels)
        written = np.array([level_of(text, kind.cells) for text in texts[levels]], dtype=object)
        cells = np.bincount(place, minlength=len(texts))[levels]
        cell_of = {level: k for k, level in enumerate(usual)}
        known = np.array([cell_of.get(level, -1) for level in written], np.int64)
        counts = np.zeros(len(usual), np.int64)
        np.add.at(counts, known[known >= 0], cells[known >= 0])
        codes = np.bincount(kinds[place][coded[place]], minlength=len(own))
        others = pd.Series(cells[known < 0], dtype=np.int64).groupby(written[known < 0]).sum()
        return others, np.concatenate([counts, codes])

    def magnitudes(self, name: str, kind: ColumnKind) -> Whole:
        """Return counts of cells by the magnitude of their numbers, then by code of missing values."""
        place, texts, codes = self.distinct(name)
        numbers = numbers_of(texts)
        numbers[np.isinf(numbers)] = np.nan  # inf is a word
        coded = codes < len(self._kinds.codes)
        cells = np.where(coded, magnitudes.MAGNITUDES + codes, magnitudes.magnitude_cell(numbers))
        return np.bincount(cells[place], minlength=magnitudes.MAGNITUDES + len(self._kinds.codes))

    def decimals(self, name: str, kind: ColumnKind) -> Whole:
        """Return counts of numbers with 0, 1, 2, ... digits after the point."""
        place, texts, _ = self.distinct(name)
        numbers = numbers_of(texts)
        most = magnitudes.MOST_DECIMALS
        digits = np.array([min(digits_of(str(text)), most) for text in texts], np.int64)
        known = np.isfinite(numbers)
        cells = magnitudes.digit_cell(numbers, digits, mixed=kind.mixed)[place][known[place]]
        return np.bincount(cells, minlength=magnitudes.digit_cells(mixed=kind.mixed))

    def years(self, name: str, kind: ColumnKind) -> Whole:
        """Return counts of cells by the year of their dates, then by code of missing values."""
        place, texts, codes = self.distinct(name)
        years = inference.year_cell(np.array([ordinal(text, kind.form) for text in texts], np.float64))
        cells = np.where(codes < len(self._kinds.codes), inference.YEARS + codes, years)
        return np.bincount(cells[place], minlength=inference.YEARS + len(self._kinds.codes))

    def differences(self, first: tuple[str, ColumnKind | Column], second: tuple[str, ColumnKind]) -> Whole:
        """Return counts of rows by the days from one date to another of the same row; by minutes between timestamps."""
        units = inference.units_between(first[1], second[1])
        # A minute's part of a day is rounded, perhaps to just below the minute.
        one, other = (self._days(*date) * units + 1e-3 for date in (first, second))
        return np.bincount(magnitudes.difference_cell(one, other), minlength=magnitudes.DIFFERENCES)

    def _days(self, name: str, kind: ColumnKind | Column) -> Floats:
        """Return each row's day number; NaN for a cell without a date. A declared column reads its own cells."""
        if isinstance(kind, Column):
            return kind.cell_values(self.__table.cells[name]).astype(np.float64)
        place, texts, _ = self.distinct(name)
        return np.array([ordinal(text, kind.form) for text in texts], np.float64)[place]


def levels_added(one: pd.Series, other: pd.Series) -> pd.Series:
    """Return counts of levels over more rows, in the order of the levels' texts."""
    return one.add(other, fill_value=0).astype(np.int64).sort_index()
