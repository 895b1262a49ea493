"""A critic of second moments: products of two values, for the few relations that another critic found the strongest.

Slopes follow from few rows far out, of which waves and coarse tables say little: a relation's covariance is measured by
itself, so that it comes back whole. A number's value is taken on its column's scale, less the mean, and clipped at the
far ends; a row's products over all pairs have norm one at most. (Sums of products as in private covariance, Dwork,
Talwar, Thakurta and Zhang 2014.)
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....privacy.queries.rows import CellMap
from ....transforms.grid import scale_middles
from ...shared.bins import Bins
from ...shared.marginals import Condition
from ..generator import Generator
from .pairs import Item, PairCritic
from .products import ExpectedProducts, Products

Floats = NDArray[np.float64]
CLIPPED, TRIMMED = 0.0025, 0.01  # shares of rows at either end: clipped, and left out of the standard deviation
MOST_STDS = 4.5  # from the mean to where values are clipped


def fine_values(bins: Bins) -> Floats:
    """The value of each fine cell of values from -1 to 1, (cells of values,): less the mean, clipped.

    At the ends of the rows, or at MOST_STDS standard deviations from the mean. By the released shares of the fine
    cells: no row is read.
    """
    at = scale_middles(bins.column, bins.grid)
    share = bins.shares[: len(at)] / bins.shares[: len(at)].sum()
    below = np.cumsum(share)

    def between(tail: float) -> Floats:
        ends = np.searchsorted(below, [tail, 1 - tail]).clip(max=len(at) - 1)
        return np.asarray(np.clip(at, *at[ends]))

    trimmed = between(TRIMMED)
    mean, std = share @ trimmed, np.sqrt(share @ np.square(trimmed - share @ trimmed))
    values = np.clip(between(CLIPPED), mean - MOST_STDS * std, mean + MOST_STDS * std)
    values = values - share @ values
    return np.asarray(np.clip(values / max(np.abs(values[share > 0]).max(), 1e-12), -1, 1))


def standardised(bins: Bins) -> Floats:
    """The mean value of each bin, (bins,), by `fine_values`; zero where a value is missing."""
    values = fine_values(bins)
    share, place = bins.shares[: len(values)], bins.place[: len(values)]
    means = np.bincount(place, share * values, bins.cells) / np.maximum(np.bincount(place, share, bins.cells), 1e-300)
    return np.clip(means, -1, 1)


class MomentCritic:
    """Products of two items of a row, whatever its class, for each of `pairs` of the items of a critic of pairs.

    A number's item is its standardised value, a level's one if the row has it.
    """

    def __init__(self, critic: PairCritic, pairs: Sequence[tuple[Item, Item]]) -> None:
        self.given: tuple[str, CellMap] = ("", Condition(None, None, np.empty(0), 1))
        items = sorted({item for pair in pairs for item in pair}, key=repr)
        tables = dict[str, Tensor]()
        for name, feature in items:  # those of one column come one after the other
            one = torch.tensor(standardised(critic.bins[name])) if feature is None else critic.tables[name][:, feature]
            before = [tables[name]] if name in tables else []
            tables[name] = torch.cat([*before, one[:, None].float()], 1)
        places = torch.tensor([[items.index(item) for item in pair] for pair in pairs]).T
        own = {name: critic.bins[name] for name in tables}
        self.products = Products(own, critic.order, tables, places, len(pairs) ** -0.5)

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
        return self.products.expectation(generator)
