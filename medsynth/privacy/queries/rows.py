"""Coded rows and the public maps that queries read them by."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import numpy as np
from numpy.typing import NDArray

from ..contribution import PrivacyUnits

if TYPE_CHECKING:  # a plan and a refusal do without PyTorch
    from torch import Tensor

Codes = NDArray[np.int32]
Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Features = Callable[[Codes], "Tensor"]  # of all columns, (rows, columns), to a critic's input, each row by itself
Vectors = Callable[[Codes], Floats]  # the same, to vectors, (rows, width)


class CellMap(Protocol):
    """A public map from codes to cells: of a column, (rows,), or of several, (rows, columns)."""

    @property
    def cells(self) -> int:
        """How many cells there are."""

    def cell_of(self, codes: Codes) -> NDArray[np.integer]:
        """The cell of each row."""


# The axes of a contingency table: a column, or several, and the map from their codes to cells; "" is any column.
Axes = Sequence[tuple[str | tuple[str, ...], CellMap]]


def column_of(codes: Codes, names: tuple[str, ...], name: str | tuple[str, ...]) -> Codes:
    """The codes of one column, (rows,), or of several, (rows, columns), of those called `names`; "" is any column."""
    if isinstance(name, tuple):
        return codes[:, [names.index(one) for one in name]]
    return codes[:, names.index(name) if name else 0]


@dataclass(frozen=True, eq=False, repr=False)
class Lot:
    """Those rows of a part that take part in a measurement, and what was drawn of them in secret.

    joined: (rows,) which of them, None for all; draws: (rows that take part, numbers), each row's own 64-bit numbers;
    units: the patients of all rows of the part, for a query that reads them.
    """

    joined: NDArray[np.bool_] | None
    draws: NDArray[np.uint64]
    units: PrivacyUnits | None = None

    @property
    def units_that_joined(self) -> PrivacyUnits | None:
        """The patients of the rows that take part."""
        return self.units if self.units is None or self.joined is None else self.units.of_rows(self.joined)


@dataclass(frozen=True, eq=False, repr=False)
class CodedRows:
    """Private rows of which a query has an exact answer.

    codes: (rows, columns) of columns called `names`; draws: (rows, numbers), each row's own secret 64-bit numbers;
    units: the patients of these rows, for a query that reads them.
    """

    codes: Codes
    names: tuple[str, ...]
    draws: NDArray[np.uint64]
    units: PrivacyUnits | None = None

    @classmethod
    def of(cls, codes: Codes, names: tuple[str, ...], lot: Lot) -> CodedRows:
        """Those of the rows that take part in a lot."""
        return cls(codes if lot.joined is None else codes[lot.joined], names, lot.draws, lot.units_that_joined)

    def cells(self, name: str | tuple[str, ...], cells: CellMap) -> NDArray[np.integer]:
        """The cell of each row on one axis: (rows,)."""
        return cells.cell_of(column_of(self.codes, self.names, name))

    def blocks(self, size: int) -> Iterator[CodedRows]:
        """The rows, so many at a time, without draws and patients."""
        for k in range(0, len(self.codes), size):
            yield CodedRows(self.codes[k : k + size], self.names, self.draws[:0])
