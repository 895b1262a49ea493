"""Rows on which a query of somebody else's may fail, without a sign of it: they add nothing to its answer.

A site answers queries that a server wrote. One that fails on some rows alone must not get another reply for them: the
reply would say that the table has such a row. An answer of no rows in its place would say the same, for it lies far
from that of all rows. So each row, or patient, on which a query fails adds nothing, and all others add what they add
without it: a unit still changes the sum by at most the query's sensitivity.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from .queries.parts import Part
from .queries.query import RowQuery, added
from .queries.rows import Codes, Features, Lot, Whole


class FaultlessPart:
    """A part of a vault's rows whose answers have one form, and which never fails for a row.

    Whatever fails on no rows at all fails here too, before a row is read: that is a public fact.
    """

    __slots__ = ("__part",)

    def __init__(self, part: Part) -> None:
        self.__part = part

    @property
    def count(self) -> int:
        """Return the number of rows."""
        return self.__part.count

    def exact(self, query: RowQuery[Any], lot: Lot) -> list[Whole]:
        """Return the exact answer over the rows of a lot that the query can answer."""
        nothing = self.__part.exact(query, Lot(np.zeros(self.count, np.bool_), lot.draws[:0], lot.units))
        joined = np.arange(self.count) if lot.joined is None else np.flatnonzero(lot.joined)
        units = joined if lot.units is None else lot.units.of_row[joined]
        return self.__answered(query, lot, joined, units, nothing)

    def __answered(
        self, query: RowQuery[Any], lot: Lot, rows: NDArray[np.int64], units: NDArray[np.int64], nothing: list[Whole]
    ) -> list[Whole]:
        """Return the answer over `rows`, which are of `units`: half of the units at a time once it fails."""
        try:
            found = self.__part.exact(query, lot)
            if _form(found) == _form(nothing):
                return found
        except Exception:  # whatever a row makes of somebody else's query
            found = nothing
        if len(apart := np.unique(units)) < 2:
            return nothing
        first, halves = units < apart[len(apart) // 2], []
        for some in (first, ~first):
            joined = np.zeros(self.count, np.bool_)
            joined[rows[some]] = True
            part = Lot(joined, lot.draws[some], lot.units)
            halves.append(self.__answered(query, part, rows[some], units[some], nothing))
        return added(halves)

    def encoded(self, features: Features) -> Tensor:
        """Return the features of all rows, (rows, width): zeros for a row that has none."""
        return self.__part.encoded(partial(_features_or_zeros, features))

    def __repr__(self) -> str:
        return "FaultlessPart(private rows)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("Private rows cannot be pickled or copied.")


def _form(arrays: list[Whole]) -> list[tuple[tuple[int, ...], np.dtype[Any]]]:
    """Return the shape and type of each array."""
    return [(array.shape, array.dtype) for array in arrays]


def _features_or_zeros(features: Features, codes: Codes) -> Tensor:
    """Return the features of each row: half of the rows at a time once the map fails."""
    width = features(codes[:0]).shape[1]
    try:
        found = features(codes)
        if found.shape == (len(codes), width):
            return found
    except Exception:  # as above
        found = torch.zeros(1, width)
    if len(codes) < 2:
        return torch.zeros(len(codes), width)
    half = len(codes) // 2
    return torch.cat([_features_or_zeros(features, some) for some in (codes[:half], codes[half:])])
