"""Define the measurements of a fit: noisy counts that the model can predict."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from ..arrays import Floats, Whole


@dataclass(frozen=True, eq=False, kw_only=True)
class Measurement:
    """Noisy counts of a column or of a pair of columns, linear in their bins.

    `columns`: their names. `maps`: for each column of a pair, what a row in a bin adds to each cell, (cells, bins). A
    single column is counted in its bins, without a map. `values`: (classes, cells, ...), or (1, cells, ...) if classes
    are not separated. `std`: of the noise of each cell; it broadcasts to `values`. `centred`: whether the mean of a
    column's counts is unknown.
    """

    columns: tuple[str, ...]
    values: Floats
    std: Floats
    maps: tuple[Floats, ...] = ()
    centred: bool = False

    def if_independent(self, shares: Mapping[str, Floats], sizes: Floats) -> Floats:
        """Return the expected table of two columns if they were independent in each class.

        Args: `shares`: p(bin | class) of each column, (classes, bins); `sizes`: rows of each class, (classes,).
        """
        one, other = (m @ shares[name].T for name, m in zip(self.columns, self.maps, strict=True))
        return np.asarray(np.einsum("c,ic,jc->cij", sizes, one, other))


@dataclass(frozen=True, eq=False, kw_only=True)
class RuleMeasurement:
    """Counts by class for a rule of the schema on several columns.

    `columns`: their names. `map`: the share of each cell among rows of these bins, (bins of the first column, of the
    second, ..., cells). `values`: (classes, cells). `std`: of the noise. Forbidden rows form a cell with count zero.
    """

    columns: tuple[str, ...]
    map: Floats
    values: Floats
    std: float


@dataclass(frozen=True, eq=False, kw_only=True)
class MomentMeasurement:
    """Sums over rows of products of features, each feature of one column.

    `maps`: of each column, (features, bins). `factors`: the places of the multiplied features, numbered through all
    columns, (factors, products). `values`: (classes, products), or (1, products) if classes are not separated. `std`:
    of the noise of each, (products,).
    """

    maps: Mapping[str, Floats]
    factors: Whole
    values: Floats
    std: Floats


Measured = Measurement | RuleMeasurement | MomentMeasurement


def contrasts(cells: int) -> Floats:
    """Return orthonormal rows that sum to zero, (cells - 1, cells).

    A centred table has no component along the constant vector. Fitting the noise there would be useless.
    """
    basis, _ = np.linalg.qr(np.concatenate([np.ones((cells, 1)), np.eye(cells)[:, :-1]], 1))
    return np.asarray(basis.T[1:])
