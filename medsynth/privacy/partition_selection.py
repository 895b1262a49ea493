"""A raw table behind noise: the measurements from which a schema is learned where nobody declared one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NoReturn

import numpy as np
import pandas as pd

from ..errors import BudgetError
from ..io import table as io_table
from ..io.table import MISSING_TOKENS, Kind, Table
from ..schema import Schema, inference
from ..transforms.column import Column
from .accounting.calibration import Query
from .accounting.events import Event, Thresholded
from .noise import Floats, Integers, noised, rarely_exceeded
from .release import Release, Releases

TARGET, LEVELS, FORMATS = "schema: target levels", "schema: levels", "schema: number formats"
LOSS_SHARE = 0.075  # of the privacy loss, each measurement


def column_types(table: Table) -> dict[str, Kind]:
    """The type of each column of a table without a schema: whole number, number or text. NO NOISE, NOT CHARGED.

    Public by declaration: column types. They are read from all cells, so that one row can change them: a single word
    makes a column of numbers one of text. The claim of a fit without a schema rests on their being public knowledge,
    as the header is, and the ledger's notes say so. Where they are not public, declare a schema.
    """
    return io_table.dtypes(table)


def queries(types: Mapping[str, Kind], target: str) -> list[Query]:
    """The queries that learn a schema, from header and column types alone.

    The target's levels are a measurement of their own: its rare classes matter most, and one column has the least
    noise.
    """
    selections = [label for label, names in _columns_with_levels(types, target).items() if names]
    found = [Query(label=label, weight=LOSS_SHARE**-0.5, thresholded=True) for label in selections]
    return found + [Query(label=FORMATS, weight=LOSS_SHARE**-0.5)] * _has_numbers(types)


def _has_numbers(types: Mapping[str, Kind]) -> bool:
    return bool(set(types.values()) & {"int", "float"})


def _columns_with_levels(types: Mapping[str, Kind], target: str) -> dict[str, list[str]]:
    """The columns that may have levels, by the measurement that selects them."""
    names = [name for name, kind in types.items() if kind != "float"]
    return {TARGET: [n for n in names if n == target], LEVELS: [n for n in names if n != target]}


class RawTable:
    """A table before it has a schema: its schema can be measured, and nothing else."""

    __slots__ = ("__releases", "__table", "_rows", "_types")

    def __init__(self, table: Table, types: Mapping[str, Kind], rows: int, releases: Releases) -> None:
        self.__table, self.__releases = table, releases
        self._types, self._rows = types, rows

    def measure_schema(self, name: str, target: str) -> Schema:
        """The table's schema by noisy measurements; every column may be missing, every bound clips.

        Raises BudgetError where the plan does not hold the measurements that `queries` lists.
        """
        levels: dict[str, Column | None] = {}
        for label, names in _columns_with_levels(self._types, target).items():
            levels |= self._measure_levels(label, names) if names else {}
        numbers = self._measure_formats() if _has_numbers(self._types) else {}
        columns = {column: levels.get(column) or numbers[column] for column in self._types}
        return Schema(name=name, target=target, columns=columns)

    def _measure_levels(self, label: str, names: list[str]) -> dict[str, Column | None]:
        """Levels of the text and whole-number columns `names` whose noisy count passes a threshold, in one release.

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
                cells = self.__table.cells[name]
                exact = cells[~cells.isin(MISSING_TOKENS)].value_counts().sort_index()  # no order by true counts
                noisy = noised(np.asarray(exact, dtype=np.int64), std, self.__releases.entropy)
                missing = noised(np.array([len(cells) - exact.sum()], np.int64), std, self.__releases.entropy)
                passed = noisy > threshold
                arrays += [noisy[passed], missing]
                words += [str(word) for word in exact.index[passed]]
            return Release(arrays, words)

        found = self.__releases.release(label, sensitivity, draw)
        std = self._std(label, sensitivity)
        words, columns = iter(found.names), dict[str, Column | None]()
        for name, counts, (missing,) in zip(names, found.arrays[::2], found.arrays[1::2], strict=True):
            whole = self._types[name] == "int"
            kept = {next(words): float(count) for count in counts}
            kept = {str(int(word)): count for word, count in kept.items()} if whole else kept
            rest, spread = self._rows - sum(kept.values()) - float(missing), std * math.sqrt(len(kept) + 1)
            columns[name] = inference.levels(kept, rest, spread, whole=whole, rows=self._rows)
        return columns

    def _measure_formats(self) -> dict[str, Column]:
        """Magnitudes of every number column and decimals of every column that is not whole, in one release.

        A row adds one to one cell of each of k histograms: L2 sensitivity sqrt(k).
        """
        names = [name for name, kind in self._types.items() if kind != "text"]
        decimal = [name for name in names if self._types[name] == "float"]
        sensitivity = math.sqrt(len(names) + len(decimal))

        def draw(event: Event) -> Release:
            std = event.multiplier * sensitivity
            exact = [self.__magnitudes(name) for name in names] + [self.__decimals(name) for name in decimal]
            return Release([noised(counts, std, self.__releases.entropy) for counts in exact])

        counts = self.__releases.release(FORMATS, sensitivity, draw).arrays
        decimals = dict(zip(decimal, counts[len(names) :], strict=True))
        std = self._std(FORMATS, sensitivity)
        return {name: inference.number(counts[k], std, decimals.get(name)) for k, name in enumerate(names)}

    def _std(self, label: str, sensitivity: float) -> float:
        return self.__releases.event(label).multiplier * sensitivity

    def __values(self, name: str) -> Floats:
        return pd.to_numeric(self.__table.cells[name], errors="coerce").to_numpy(np.float64)

    def __magnitudes(self, name: str) -> Integers:
        """Exact counts of each magnitude of a column of numbers."""
        cells = inference.magnitude_cell(self.__values(name))
        return np.bincount(cells, minlength=inference.MAGNITUDES)

    def __decimals(self, name: str) -> Integers:
        """Exact counts of numbers with none, one, two, ... digits after the point."""
        numbers = self.__table.cells[name][~np.isnan(self.__values(name))]
        digits = numbers.str.partition(".")[2].str.len().clip(upper=inference.MOST_DECIMALS)
        return np.bincount(digits.astype(np.int64), minlength=inference.MOST_DECIMALS + 1)

    def __repr__(self) -> str:
        return "RawTable(private rows)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("A raw table cannot be pickled or copied.")
