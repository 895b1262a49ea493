"""A raw table behind noise: the measurements from which a schema is learned where nobody declared one.

What is measured is planned from the header alone. The first measurement tells what each column is made of; which
columns the others are about follows from it, and from nothing exact.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NoReturn

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import BudgetError
from ..io.table import CELL_KINDS, MISSING_TOKENS, Table, cell_kind, whole_text
from ..schema import Schema, inference
from ..schema.inference import ColumnKind
from ..transforms.column import Column
from ..transforms.date import ordinal
from ..transforms.number import numbers_of
from .accounting.calibration import Query
from .accounting.events import Event, Thresholded
from .noise import Floats, Integers, noised, rarely_exceeded
from .release import Release, Releases

KINDS, TARGET, LEVELS = "schema: kinds of columns", "schema: target levels", "schema: levels"
FORMATS = "schema: number formats"
KINDS_SHARE, LOSS_SHARE = 0.03, 0.075  # of the privacy loss: the kinds, and each other measurement
LEVEL_KINDS, NUMBER_KINDS = ("whole", "boolean", "word"), ("whole", "decimal")


def queries() -> list[Query]:
    """The queries that learn a schema: the same for every table, whatever its cells are.

    The target's levels are a measurement of their own: its rare classes matter most, and one column has the least
    noise.
    """
    weight = LOSS_SHARE**-0.5
    return [
        Query(label=KINDS, weight=KINDS_SHARE**-0.5),
        Query(label=TARGET, weight=weight, thresholded=True),
        Query(label=LEVELS, weight=weight, thresholded=True),
        Query(label=FORMATS, weight=weight),
    ]


class RawTable:
    """A table before it has a schema: its schema can be measured, and nothing else."""

    __slots__ = ("__releases", "__table", "_names", "_rows")

    def __init__(self, table: Table, rows: int, releases: Releases) -> None:
        self.__table, self.__releases = table, releases
        self._names, self._rows = table.header, rows

    def measure_schema(self, name: str, target: str) -> Schema:
        """The table's schema by noisy measurements; every column has a value for each cell, every bound clips.

        Raises BudgetError where the plan does not hold the measurements that `queries` lists.
        """
        kinds = self._measure_kinds()
        levels = self._measure_levels(TARGET, [target], kinds)
        others = [n for n in self._names if n != target]
        # What is planned is measured: where no column may have levels, or formats, all are measured, for nothing.
        levels |= self._measure_levels(LEVELS, [n for n in others if kinds[n].cells in LEVEL_KINDS] or others, kinds)
        settled = {n: column for n, column in levels.items() if column and kinds[n].cells in LEVEL_KINDS}
        formats = self._measure_formats([n for n in self._names if n not in settled] or list(self._names), kinds)
        return Schema(name=name, target=target, columns={n: settled.get(n) or formats[n] for n in self._names})

    def _measure_kinds(self) -> dict[str, ColumnKind]:
        """What the cells of each column are, in one release.

        A row adds one to one of six counts of each of the k columns: L2 sensitivity sqrt(k).
        """
        sensitivity = math.sqrt(len(self._names))

        def draw(event: Event) -> Release:
            std = event.multiplier * sensitivity
            return Release([noised(self.__kinds(name), std, self.__releases.entropy) for name in self._names])

        counts = self.__releases.release(KINDS, sensitivity, draw).arrays
        std = self._std(KINDS, sensitivity)
        return {name: inference.column_kind(found, std) for name, found in zip(self._names, counts, strict=True)}

    def _measure_levels(self, label: str, names: list[str], kinds: dict[str, ColumnKind]) -> dict[str, Column | None]:
        """Levels of the columns `names` whose noisy count passes a threshold, in one release.

        A row adds one to one level of each of the k columns: L2 sensitivity sqrt(k). Noise is drawn for levels
        that occur. A level of one row alone has count one; it is released only if its noise exceeds
        threshold - 1 = std * Phi^-1(1 - delta/k), which has probability delta/k, and by the union over the
        row's k levels at most delta: what Thresholded charges beside its Gaussian.
        """
        sensitivity = math.sqrt(len(names))

        def draw(event: Event) -> Release:
            if not isinstance(event, Thresholded):
                raise BudgetError("Names of levels are released by partition selection alone.")
            std, arrays, words = event.multiplier * sensitivity, list[Floats](), list[str]()
            threshold = 1 + rarely_exceeded(std, event.delta / len(names))
            for name in names:
                exact, missing = self.__level_counts(name, kinds[name])
                noisy = noised(exact.to_numpy(np.int64), std, self.__releases.entropy)
                passed = noisy > threshold
                arrays += [noisy[passed], noised(np.array([missing], np.int64), std, self.__releases.entropy)]
                words += [str(word) for word in exact.index[passed]]
            return Release(arrays, words)

        found = self.__releases.release(label, sensitivity, draw)
        std = self._std(label, sensitivity)
        words, columns = iter(found.names), dict[str, Column | None]()
        for name, counts, (missing,) in zip(names, found.arrays[::2], found.arrays[1::2], strict=True):
            kept = {next(words): float(count) for count in counts}
            rest, spread = self._rows - sum(kept.values()) - float(missing), std * math.sqrt(len(kept) + 1)
            kind = kinds[name].seen_again(float(missing), std)
            columns[name] = inference.levels(kept, rest, spread, kind, rows=self._rows)
        return columns

    def _measure_formats(self, names: list[str], kinds: dict[str, ColumnKind]) -> dict[str, Column]:
        """Magnitudes of numbers, and their decimals where columns have some; years of dates; in one release.

        A row adds one to one cell of each of k histograms: L2 sensitivity sqrt(k).
        """
        dates = [name for name in names if kinds[name].cells == "date"]
        decimal = [name for name in names if kinds[name].cells == "decimal"]
        numbers = [name for name in names if name not in dates]
        parts: list[tuple[Callable[[str], Integers], list[str]]]
        parts = [(self.__magnitudes, numbers), (self.__decimals, decimal), (self.__years, dates)]
        sensitivity = math.sqrt(sum(len(some) for _, some in parts))

        def draw(event: Event) -> Release:
            std = event.multiplier * sensitivity
            exact = [count(name) for count, some in parts for name in some]
            return Release([noised(counts, std, self.__releases.entropy) for counts in exact])

        found = iter(self.__releases.release(FORMATS, sensitivity, draw).arrays)
        magnitudes, decimals, years = ({name: next(found) for name in some} for _, some in parts)
        std = self._std(FORMATS, sensitivity)
        made = {n: inference.number(counts, std, decimals.get(n), kinds[n]) for n, counts in magnitudes.items()}
        return made | {n: inference.day(counts, std, kinds[n]) for n, counts in years.items()}

    def _std(self, label: str, sensitivity: float) -> float:
        return self.__releases.event(label).multiplier * sensitivity

    def __distinct(self, name: str) -> tuple[NDArray[np.int64], NDArray[np.object_]]:
        """The place of each row's text among the column's texts, and these."""
        place, texts = pd.factorize(self.__table.cells[name], use_na_sentinel=False)
        return place, np.asarray(texts, dtype=object)

    def __kinds(self, name: str) -> Integers:
        """Exact counts of the kinds of a column's cells."""
        place, texts = self.__distinct(name)
        kinds = np.array([cell_kind(text) for text in texts], np.int64)[place]
        return np.bincount(kinds, minlength=len(CELL_KINDS))

    def __level_counts(self, name: str, kind: ColumnKind) -> tuple[pd.Series, int]:
        """Exact counts of a column's levels, in the order of their texts, and of its missing cells."""
        cells = self.__table.cells[name]
        known = cells[~cells.isin(MISSING_TOKENS)]
        if kind.cells == "whole":  # 8.0 is 8
            written = {text: whole_text(text) or text for text in known.unique()}
            known = known.map(written)
        return known.value_counts().sort_index(), len(cells) - len(known)

    def __magnitudes(self, name: str) -> Integers:
        """Exact counts of each magnitude of a column of numbers."""
        place, texts = self.__distinct(name)
        cells = inference.magnitude_cell(numbers_of(texts))[place]
        return np.bincount(cells, minlength=inference.MAGNITUDES)

    def __decimals(self, name: str) -> Integers:
        """Exact counts of numbers with none, one, two, ... digits after the point, zeros at the end left out."""
        place, texts = self.__distinct(name)
        most = inference.MOST_DECIMALS
        digits = np.array([min(len(text.partition(".")[2].rstrip("0")), most) for text in texts], np.int64)
        known = ~np.isnan(numbers_of(texts))
        return np.bincount(digits[place][known[place]], minlength=most + 1)

    def __years(self, name: str) -> Integers:
        """Exact counts of the years of a column of dates."""
        place, texts = self.__distinct(name)
        cells = inference.year_cell(np.array([ordinal(text, "%Y-%m-%d") for text in texts], np.float64))[place]
        return np.bincount(cells, minlength=inference.YEARS)

    def __repr__(self) -> str:
        return "RawTable(private rows)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A raw table cannot be pickled or copied.")
