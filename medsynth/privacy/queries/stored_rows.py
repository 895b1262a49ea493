"""Coded rows in a file: parts of a vault whose rows do not fit in memory."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ...arrays import Codes, Mask, Whole
from ...errors import MedsynthError
from .query import RowQuery, answered
from .rows import CodedRows, Features, Lot, Sealed, encoded

if TYPE_CHECKING:  # A table is read and refused without PyTorch.
    from torch import Tensor


class StoredCodes(Sealed):
    """Private codes on disk, in pieces, of columns with the given numbers of codes.

    The file has no name, so nobody else can open it, and it disappears when this process ends in any way. It is in
    `folder`. Raises MedsynthError if there is no space.
    """

    __slots__ = ("__file", "__kinds", "__pieces", "__weakref__")

    def __init__(self, sizes: Sequence[int], folder: Path) -> None:
        with tempfile.TemporaryFile(dir=folder) as file:
            self.__file = os.dup(file.fileno())
        weakref.finalize(self, os.close, self.__file)
        self.__kinds = tuple(np.min_scalar_type(max(size - 1, 0)) for size in sizes)
        self.__pieces = list[tuple[int, int]]()  # The start of each, and its number of rows.

    def append(self, codes: Codes) -> None:
        """Add one piece of rows, (rows, columns)."""
        start = os.lseek(self.__file, 0, os.SEEK_END)
        try:
            with open(self.__file, "wb", closefd=False) as file:
                for column, kind in zip(codes.T, self.__kinds, strict=True):
                    file.write(np.ascontiguousarray(column, kind).tobytes())
        except OSError as error:
            raise MedsynthError(f"Coded rows cannot be stored on disk ({error.strerror}). Free some space.") from None
        self.__pieces.append((start, len(codes)))

    def parts(self, names: tuple[str, ...], stay: Whole | None = None) -> Iterator[StoredRows]:
        """Yield the pieces as parts of a vault, with all rows or with those at ascending positions."""
        first = 0
        for start, rows in self.__pieces:
            kept = None if stay is None else positions_kept(stay, first, rows)
            yield StoredRows(self, start, rows, names, kept)
            first += rows

    def read(self, start: int, rows: int, some: Mask | None) -> Codes:
        """Return the codes of some rows of a piece, (rows, columns), stored column by column in memory."""
        count = rows if some is None else int(some.sum())
        found = np.empty((count, len(self.__kinds)), np.int32, order="F")
        for k, kind in enumerate(self.__kinds):
            column = np.frombuffer(os.pread(self.__file, rows * kind.itemsize, start), kind)
            found[:, k] = column if some is None else column[some]
            start += rows * kind.itemsize
        return found


def positions_kept(stay: Whole, first: int, rows: int) -> Mask:
    """Return which rows, from position `first` on, are among those that stay: (rows,)."""
    kept = np.zeros(rows, np.bool_)
    kept[stay[slice(*np.searchsorted(stay, [first, first + rows]))] - first] = True
    return kept


class StoredRows(Sealed):
    """One piece of codes on disk, or only its rows that are `kept`, (rows,), as a part of a vault."""

    __slots__ = ("__codes", "__count", "__kept", "__names", "__rows", "__start")
    elsewhere = False

    def __init__(self, codes: StoredCodes, start: int, rows: int, names: tuple[str, ...], kept: Mask | None) -> None:
        self.__codes, self.__start, self.__rows, self.__names, self.__kept = codes, start, rows, names, kept
        self.__count = rows if kept is None else int(kept.sum())

    @property
    def count(self) -> int:
        """Return the number of rows."""
        return self.__count

    def exact(self, query: RowQuery[Any], lot: Lot) -> list[Whole]:
        """Return the exact answer over the rows that take part in the lot."""
        rows = CodedRows(self.__read(lot.joined), self.__names, lot.draws, lot.units_that_joined)
        return answered(query, rows)

    def encoded(self, features: Features) -> Tensor:
        """Return the features of all rows: (rows, width)."""
        return encoded(features, self.__read(None))

    def __read(self, joined: Mask | None) -> Codes:
        some = self.__kept
        if joined is not None and some is not None:
            some = some.copy()
            some[some] = joined
        return self.__codes.read(self.__start, self.__rows, joined if some is None else some)
