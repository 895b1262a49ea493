"""Parts of a vault's rows: each has some coded rows and returns exact answers over them to the vault.

A vault trusts its parts, and nobody else sees their answers, which are as private as the rows.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from ...arrays import Codes, Whole
from ...cores import in_order
from .query import RowQuery, answered
from .rows import CodedRows, Features, Lot, Sealed, encoded

if TYPE_CHECKING:  # A method without networks does not need PyTorch.
    from torch import Tensor

WAITING = 64  # Answers to wait for at once if other processes compute them.


class Part(Protocol):
    """Some of the rows of a vault: in memory, in a file, or in another process."""

    @property
    def count(self) -> int:
        """Return the number of rows."""

    @property
    def elsewhere(self) -> bool:
        """Return whether another process computes the answers."""

    def exact(self, query: RowQuery[Any], lot: Lot) -> list[Whole]:
        """Return the exact answer over the rows that take part in the lot."""

    def encoded(self, features: Features) -> Tensor:
        """Return the features of all rows, (rows, width), for shards, whose critics train where the rows are."""


class RowsInMemory(Sealed):
    """Codes in memory, (rows, columns), of columns called `names`."""

    __slots__ = ("__codes", "__names")
    elsewhere = False

    def __init__(self, codes: Codes, names: tuple[str, ...]) -> None:
        self.__codes, self.__names = codes, names

    @property
    def count(self) -> int:
        """Return the number of rows."""
        return len(self.__codes)

    def exact(self, query: RowQuery[Any], lot: Lot) -> list[Whole]:
        """Return the exact answer over the rows that take part in the lot."""
        return answered(query, CodedRows.of(self.__codes, self.__names, lot))

    def encoded(self, features: Features) -> Tensor:
        """Return the features of all rows: (rows, width)."""
        return encoded(features, self.__codes)


def answers(query: RowQuery[Any], lots: Iterable[tuple[Part, Lot]], parts: Sequence[Part]) -> Iterator[list[Whole]]:
    """Yield the exact answers of the parts in order, on all cores. A part's lot is drawn when its turn comes."""
    at_once = WAITING if any(part.elsewhere for part in parts) else None
    yield from in_order((partial(part.exact, query, lot) for part, lot in lots), len(parts), at_once)
