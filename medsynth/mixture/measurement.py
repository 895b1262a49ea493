"""A measurement: noisy counts that are linear in the model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, kw_only=True)
class Measurement:
    """Noisy counts of a column or of a pair of columns, linear in their bins.

    `columns`: their names. `maps`: of each column of a pair, (cells, bins): what a row in a bin adds to each cell. A
    column by itself is counted in its bins, without a map. `values`: (classes, cells, ...), or (1, cells, ...) if
    classes are not separated. `std`: of the noise of each cell, which broadcasts to `values`. `centred`: whether the
    mean of a column's counts is not known.
    """

    columns: tuple[str, ...]
    values: Floats
    std: Floats
    maps: tuple[Floats, ...] = ()
    centred: bool = False

    def if_independent(self, shares: Mapping[str, Floats], sizes: Floats) -> Floats:
        """Return what a table of two columns would be if they were independent in each class.

        Args: `shares`: p(bin | class) of each column, (classes, bins); `sizes`: rows of each class, (classes,).
        """
        one, other = (m @ shares[name].T for name, m in zip(self.columns, self.maps, strict=True))
        return np.asarray(np.einsum("c,ic,jc->cij", sizes, one, other))


@dataclass(frozen=True, eq=False, kw_only=True)
class RuleMeasurement:
    """Counts by class of what a rule of the schema says of several columns together.

    `columns`: their names. `map`: (bins of the first, of the second, ..., cells), the share of each cell among the rows
    of these bins. `values`: (classes, cells). `std`: of the noise. What a rule forbids is a cell known to be empty.
    """

    columns: tuple[str, ...]
    map: Floats
    values: Floats
    std: float


@dataclass(frozen=True, eq=False, kw_only=True)
class MomentMeasurement:
    """Sums over rows of products of features, each feature of one column.

    `maps`: of each column, (features, bins). `factors`: (factors, products), the places of the features that are
    multiplied, counted through all columns. `values`: (classes, products), or (1, products) if classes are not
    separated. `std`: of the noise of each, (products,).
    """

    maps: Mapping[str, Floats]
    factors: NDArray[np.int64]
    values: Floats
    std: Floats


Measured = Measurement | RuleMeasurement | MomentMeasurement


def contrasts(cells: int) -> Floats:
    """Return orthonormal rows that sum to zero, (cells - 1, cells).

    A centred table has no component along the constant vector, where its noise would be fitted for nothing.
    """
    basis, _ = np.linalg.qr(np.concatenate([np.ones((cells, 1)), np.eye(cells)[:, :-1]], 1))
    return np.asarray(basis.T[1:])
