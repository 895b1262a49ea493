"""A critic of second moments: products of two values, for the few relations that another critic found the strongest.

Slopes follow from few rows far out, of which waves and coarse tables say little: a relation's covariance is measured by
itself, so that it comes back whole. A number's value is that of its fine cell, on its column's scale, in standard
deviations from the mean. Most rows' products are small beside the largest there are, so that a row is clipped at a norm
of all its products that only rows far out in several columns reach. (Sums of products as in private covariance, Dwork,
Talwar, Thakurta and Zhang 2014.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray

from ....privacy.queries.rows import CellMap
from ....transforms.grid import scale_middles
from ...shared.bins import Bins
from ...shared.marginals import Condition
from ..generator import Generator
from .pairs import Item, PairCritic
from .products import ExpectedProducts, Products

Floats = NDArray[np.float64]
# Shares of rows at either end that are left out of the standard deviation, and that are clipped; and the distance from
# the mean, in standard deviations, where values are clipped. The second, where rows are clipped as well.
CLIPPED, FAR = (0.01, 0.0025, 4.5), (0.0005, 0.0005, 8.0)
LEAST_STD = 0.1  # by which a level's indicator is divided: that of a level of 1 % of the rows
NORMS, NORM_NOISE = (40.0, 80.0), 0.033  # of a row's products: as large as keeps a product's noise at a share of rows


def standardised(bins: Bins, clipped: tuple[float, float, float] = FAR) -> Floats:
    """The value of each fine cell of values, (cells of values,): less the mean, in standard deviations, `clipped`.

    By the released shares of the fine cells: no row is read.
    """
    left_out, ends, most = clipped
    at = scale_middles(bins.column, bins.grid)
    share = bins.shares[: len(at)] / bins.shares[: len(at)].sum()
    below = np.cumsum(share)

    def between(tail: float) -> Floats:
        first, last = np.searchsorted(below, [tail, 1 - tail]).clip(max=len(at) - 1)
        return np.asarray(np.clip(at, at[first], at[last]))

    trimmed = between(left_out)
    mean, std = share @ trimmed, np.sqrt(share @ np.square(trimmed - share @ trimmed))
    values = np.clip(between(ends), mean - most * std, mean + most * std)
    return np.asarray((values - share @ values) / max(std, 1e-12))


def fine_values(bins: Bins) -> Floats:
    """The value of each fine cell of values, from -1 to 1, (cells of values,): less the mean, clipped."""
    values = standardised(bins, CLIPPED)
    seen = bins.shares[: len(values)] > 0
    return np.asarray(np.clip(values / max(np.abs(values[seen]).max(), 1e-12), -1, 1))


def item_values(critic: PairCritic, item: Item) -> Floats:
    """What an item of a critic of pairs contributes to products, by fine cell, (cells,), missing ones included.

    Of a number its standardised value, and zero where it is missing; of a level one if the row has it, less its share.
    """
    name, feature = item
    bins = critic.bins[name]
    if feature is None:
        values = standardised(bins)
        return np.pad(values, (0, bins.grid.cells - len(values)))
    share, one = np.bincount(bins.place, bins.shares, bins.cells), critic.tables[name][:, feature].double().numpy()
    one = one - share @ one / share.sum()
    return np.asarray((one / max(np.sqrt(share @ one**2 / share.sum()), LEAST_STD))[bins.place])


class MomentCritic:
    """Products of two items of a row, whatever its class, for each of `pairs` of the items of a critic of pairs.

    `noise`: the standard deviation of a sum's noise at norm one; `rows`: of the table.
    """

    def __init__(self, critic: PairCritic, pairs: Sequence[tuple[Item, Item]], noise: float, rows: int) -> None:
        self.given: tuple[str, CellMap] = ("", Condition(None, None, np.empty(0), 1))
        items = sorted({item for pair in pairs for item in pair}, key=repr)  # those of a column one after the other
        self._bins = {name: critic.bins[name] for name, _ in items}
        fine = {name: np.stack([item_values(critic, i) for i in items if i[0] == name], 1) for name in self._bins}
        tables = {name: torch.tensor(table, dtype=torch.float32) for name, table in fine.items()}
        places = torch.tensor([[items.index(item) for item in pair] for pair in pairs]).T
        grids = {name: bins.grid for name, bins in self._bins.items()}
        norm = float(np.clip(NORM_NOISE * rows / max(noise, 1e-12), *NORMS))
        self.products = Products(grids, critic.order, tables, places, torch.tensor(1 / norm))

    @property
    def columns_read(self) -> set[str]:
        """The names of the columns of its products."""
        return set(self.products.tables)

    @property
    def width(self) -> int:
        """How many products a row has."""
        return self.products.width

    @property
    def features(self) -> Products:
        """The map from codes to (rows, pairs)."""
        return self.products

    def expectation(self, generator: Generator) -> ExpectedProducts:
        """The mean products as a function of the shares of a generator, which has all columns that are read."""
        return self.products.inside(self._bins).expectation(generator)
