"""A raw table behind noise: the answers from which a schema is learned where nobody declared one."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NoReturn

import numpy as np
import pandas as pd
from scipy.special import ndtri

from ..io.table import MISSING_TOKENS, Kind, Table
from ..rng import Entropy
from ..schema import Schema
from ..schema import inference as learned
from ..transforms.column import Column
from .accounting.calibration import Query
from .accounting.events import Event, Thresholded
from .accounting.ledger import Ledger
from .noise import noised

TARGET, LEVELS, FORMATS = "schema: target levels", "schema: levels", "schema: number formats"
SHARE = 0.075  # of the privacy loss, each answer


def queries(kinds: Mapping[str, Kind], target: str) -> list[Query]:
    """What learning a schema asks, from header and dtypes alone.

    The target's levels are an answer of their own: its rare classes matter most, and one column has the least noise.
    """
    discovery = [label for label, names in _named(kinds, target).items() if names]
    asked = [Query(label=label, weight=SHARE**-0.5, discovery=True) for label in discovery]
    return asked + [Query(label=FORMATS, weight=SHARE**-0.5)] * bool(set(kinds.values()) & {"int", "float"})


def _named(kinds: Mapping[str, Kind], target: str) -> dict[str, list[str]]:
    """The columns that may have levels, by the answer that finds them."""
    names = [name for name, kind in kinds.items() if kind != "float"]
    return {TARGET: [n for n in names if n == target], LEVELS: [n for n in names if n != target]}


class Extract:
    """A raw table and the ledger that its answers are written to first. It has no getter."""

    __slots__ = ("__entropy", "__table", "_kinds", "_ledger", "_rows")

    def __init__(self, table: Table, kinds: Mapping[str, Kind], rows: int, ledger: Ledger, entropy: Entropy) -> None:
        self.__table = table
        self.__entropy = entropy
        self._kinds, self._rows, self._ledger = kinds, rows, ledger

    def schema(self, name: str, target: str) -> Schema:
        """The table's schema by noisy answers; every column may be missing, every bound clips."""
        kept: dict[str, Column | None] = {}
        for label, names in _named(self._kinds, target).items():
            kept |= self._levels(label, names) if names else {}
        numbers = self._numbers() if set(self._kinds.values()) & {"int", "float"} else {}
        columns: dict[str, Column] = {}
        for column, kind in self._kinds.items():
            found = kept[column] if kind != "float" else None
            columns[column] = found if found is not None else numbers[column]
        return Schema(name=name, target=target, columns=columns)

    def _levels(self, label: str, asked: list[str]) -> dict[str, Column | None]:
        """Levels of the `asked` text and whole-number columns whose noisy count passes a threshold, in one answer.

        A row adds one to one level of each of the k columns: L2 sensitivity sqrt(k). Noise is drawn for levels
        that occur. A level that one row alone holds has count one; it is released only if its noise exceeds
        threshold - 1 = std * Phi^-1(1 - delta/k), which has probability delta/k, and by the union over the
        row's k levels at most delta: what Thresholded charges beside its Gaussian.
        """
        event, std = self._charge(label, math.sqrt(len(asked)))
        assert isinstance(event, Thresholded)
        threshold = 1 + std * float(ndtri(1 - event.delta / len(asked)))
        found: dict[str, Column | None] = {}
        for name in asked:
            cells = self.__table.cells[name]
            exact = cells[~cells.isin(MISSING_TOKENS)].value_counts()
            noisy = noised(np.asarray(exact, dtype=np.float64), std, self.__entropy)
            kept = {str(w): float(c) for w, c in zip(exact.index, noisy, strict=True) if c > threshold}
            whole = self._kinds[name] == "int"
            kept = {str(int(w)): c for w, c in kept.items()} if whole else kept
            (gone,) = noised(np.array([float(len(cells) - exact.sum())]), std, self.__entropy)
            rest, spread = self._rows - sum(kept.values()) - float(gone), std * math.sqrt(len(kept) + 1)
            found[name] = learned.levels(kept, rest, spread, whole=whole, rows=self._rows)
        return found

    def _numbers(self) -> dict[str, Column]:
        """Magnitudes of every number column and decimals of every measurement, in one answer.

        A row adds one to one cell of each of k histograms: L2 sensitivity sqrt(k).
        """
        asked = [name for name, kind in self._kinds.items() if kind != "text"]
        measured = [name for name in asked if self._kinds[name] == "float"]
        _, std = self._charge(FORMATS, math.sqrt(len(asked) + len(measured)))
        found: dict[str, Column] = {}
        for name in asked:
            cells = self.__table.cells[name]
            values = pd.to_numeric(cells, errors="coerce").to_numpy(np.float64)
            exact = np.bincount(learned.magnitude_cell(values), minlength=learned.MAGNITUDES).astype(np.float64)
            magnitudes, decimals = noised(exact, std, self.__entropy), None
            if name in measured:
                digits = cells[~np.isnan(values)].str.partition(".")[2].str.len().clip(upper=learned.MOST_DECIMALS)
                exact = np.bincount(digits.astype(np.int64), minlength=learned.MOST_DECIMALS + 1).astype(np.float64)
                decimals = noised(exact, std, self.__entropy)
            found[name] = learned.number(magnitudes, std, decimals)
        return found

    def _charge(self, label: str, sensitivity: float) -> tuple[Event, float]:
        event = self._ledger.allowance[label][0]
        self._ledger.charge(label, event, sensitivity)
        return event, event.multiplier * sensitivity

    def __repr__(self) -> str:
        return "Extract(private rows)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("An extract cannot be pickled or copied.")
