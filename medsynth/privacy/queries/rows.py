"""Coded rows, and the public maps by which queries read them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn, Protocol

import numpy as np
from numpy.typing import NDArray

from ...arrays import Codes, Floats, Mask, Whole
from ...errors import QueryError
from ..contribution import PrivacyUnits

if TYPE_CHECKING:  # A plan and a refusal do not need PyTorch.
    from torch import Tensor

Features = Callable[[Codes], "Tensor"]  # From all columns, (rows, columns), to a critic's input, each row by itself.
Vectors = Callable[[Codes], Floats]  # The same to vectors, (rows, width).


class Sealed:
    """An object with private rows: it shows nothing of them, and cannot be pickled or copied."""

    __slots__ = ()

    def __repr__(self) -> str:
        return f"{type(self).__name__}(private rows)"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"{type(self).__name__} contains private rows, which cannot be pickled or copied.")


class CellMap(Protocol):
    """A public map from codes to cells: of a column, (rows,), or of several, (rows, columns)."""

    @property
    def cells(self) -> int:
        """Return the number of cells."""

    def cell_of(self, codes: Codes) -> NDArray[np.integer]:
        """Return the cell of each row."""


def encoded(features: Features, codes: Codes) -> Tensor:
    """Return the features of all rows, (rows, width); zero for a row on which the map fails.

    Checked content fails on no row: this is a second line of defence, as `query.answered`. Raises what the map raises
    on a public row, with the code 0 in each column.
    """
    with suppress(Exception):
        return features(codes)
    blank = features(np.zeros((1, codes.shape[1]), np.int32))
    half = len(codes) // 2
    found = blank.new_zeros(len(codes), blank.shape[1])
    if half:
        found[:half], found[half:] = encoded(features, codes[:half]), encoded(features, codes[half:])
    return found


# The axes of a contingency table: one or several columns, and the map from their codes to cells; "" is any column.
Axes = Sequence[tuple[str | tuple[str, ...], CellMap]]


def cells_of(cells: CellMap, codes: Codes) -> Whole:
    """Return the cell of each row, (rows,), from 0 to cells - 1. Only this function calls a map on codes.

    A number outside this range becomes the nearest cell, so that no row is outside a table. Raises QueryError if the
    map returns another shape, which depends on the map alone and not on the codes.
    """
    found = np.asarray(cells.cell_of(codes), np.int64)
    if found.shape != codes.shape[:1]:
        raise QueryError("A map of a query reads a different number of columns than it receives.")
    return np.clip(found, 0, cells.cells - 1)


def column_of(codes: Codes, names: tuple[str, ...], name: str | tuple[str, ...]) -> Codes:
    """Return the codes of one column, (rows,), or of several, (rows, columns), by `names`; "" is any column."""
    if isinstance(name, tuple):
        return codes[:, [names.index(one) for one in name]]
    return codes[:, names.index(name) if name else 0]


@dataclass(frozen=True, eq=False, repr=False)
class Lot:
    """The rows of a part that take part in a measurement, and their secret draws.

    joined: (rows,), which of them, None for all; draws: (rows that take part, numbers), each row's own 64-bit numbers;
    units: the patients of all rows of the part, for a query that reads them.
    """

    joined: Mask | None
    draws: NDArray[np.uint64]
    units: PrivacyUnits | None = None

    @property
    def units_that_joined(self) -> PrivacyUnits | None:
        """Return the patients of the rows that take part."""
        return self.units if self.units is None or self.joined is None else self.units.of_rows(self.joined)


@dataclass(frozen=True, eq=False, repr=False)
class CodedRows:
    """Private rows for a query's exact answer.

    codes: (rows, columns) of columns called `names`; draws: (rows, numbers), each row's own secret 64-bit numbers;
    units: the patients of these rows, for a query that reads them.
    """

    codes: Codes
    names: tuple[str, ...]
    draws: NDArray[np.uint64]
    units: PrivacyUnits | None = None

    @classmethod
    def of(cls, codes: Codes, names: tuple[str, ...], lot: Lot) -> CodedRows:
        """Select the rows that take part in a lot."""
        return cls(codes if lot.joined is None else codes[lot.joined], names, lot.draws, lot.units_that_joined)

    def cells(self, name: str | tuple[str, ...], cells: CellMap) -> Whole:
        """Return the cell of each row on one axis: (rows,)."""
        return cells_of(cells, column_of(self.codes, self.names, name))

    def some(self, which: Mask) -> CodedRows:
        """Return some of the rows, with their draws and patients."""
        units = self.units.of_rows(which) if self.units is not None else None
        return CodedRows(self.codes[which], self.names, self.draws[which], units)

    def public_row(self) -> CodedRows:
        """Return a row that is not private: it has the code 0 in each column, which is always valid."""
        units = PrivacyUnits(np.zeros(1, np.int64), 1) if self.units is not None else None
        codes, draws = np.zeros((1, self.codes.shape[1]), np.int32), np.zeros((1, self.draws.shape[1]), np.uint64)
        return CodedRows(codes, self.names, draws, units)

    def blocks(self, size: int) -> Iterator[CodedRows]:
        """Yield the rows, `size` at a time, without draws and patients."""
        for k in range(0, len(self.codes), size):
            yield CodedRows(self.codes[k : k + size], self.names, self.draws[:0])
