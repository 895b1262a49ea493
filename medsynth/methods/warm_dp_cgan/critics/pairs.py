"""A critic of pairs of columns: one noisy sum tells how every two columns rise and fall together, and by class.

A column's features have norm one at most (`column_features`). The critic is linear in the products of two columns'
features, each pair of columns with a weight of its own. A row's products over all pairs have norm one at most, whatever
the row: nothing is clipped, and the noise of a product does not grow by bins, as that of the cells of a table does.
(Sums of products as in private covariance, Dwork, Talwar, Thakurta and Zhang 2014; the linear critic as in DP-MERF,
Harder et al. 2021.) Given a latent point columns are independent, so the generator's expected products are products of
means, exactly.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....privacy.queries.rows import CellMap
from ...shared.bins import Bins
from ..budget_rule import MOST_PRODUCTS
from ..generator import Generator
from ..marginals.weights import noise_of_cells, weights_by_size
from ..shrinkage import Alike
from .column_features import FEWEST_BINS, FREQUENCIES, column_features, kinds_of_features
from .products import ExpectedProducts, Products, ProductsByClass

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
MOST_LEVELS = (40, 20, 8)  # of a column that have features: the first number of which all columns are read, or the last
LEVEL_ROWS = 2.0  # that a level with a feature has at least, in standard deviations of the noise of a product
NUMBERS = 0.6  # the part of the strongest pairs of items that is of two numbers

Key = TypeVar("Key", bound=Hashable)
Item = tuple[str, int | None]  # a column, and one of its features; None: the value of a number


class PairCritic:
    """Products of the features of two columns, within the row's class.

    `bins`: every column's; `mass`: (bins,) rows; `names`: the columns to read, of which those are left out that come
    last in a random order, where products are too many even of few levels; `given`: the target's name and the map from
    its codes to classes; `order`: the names of the codes' columns; `noise`: the standard deviation of a sum's noise at
    norm one. Levels of few rows beside that of a product have no features.
    """

    def __init__(
        self, bins: Mapping[str, Bins], mass: Mapping[str, Floats], names: Sequence[str], given: tuple[str, CellMap],
        order: Sequence[str], stream: torch.Generator, noise: float,
    ) -> None:  # fmt: skip
        self.bins, self.given, self.order = bins, given, tuple(order)
        most, least = MOST_PRODUCTS // given[1].cells, LEVEL_ROWS * noise * math.sqrt(math.comb(len(names), 2))
        shuffled = torch.randperm(len(names), generator=stream)
        for levels in MOST_LEVELS:
            tables = {name: column_features(bins[name], mass[name], least, levels) for name in names}
            self.names = _within(tables, most, shuffled)
            if len(self.names) == len(names):
                break
        self.tables = {name: torch.tensor(tables[name], dtype=torch.float32) for name in self.names}
        column = np.repeat(np.arange(len(self.names)), [self.tables[name].shape[1] for name in self.names])
        ones, others = np.triu_indices(len(column), 1)
        apart = column[ones] != column[others]
        places = np.stack([ones[apart], others[apart]])
        self.products = Products(
            {name: bins[name] for name in self.names}, self.order, self.tables, torch.from_numpy(places),
            torch.tensor(_scales(column[places]), dtype=torch.float32),
        )  # fmt: skip

    @property
    def columns_read(self) -> set[str]:
        """The names of the columns of its products."""
        return set(self.names)

    @property
    def width(self) -> int:
        """How many products a row has, in its class's place."""
        return self.products.width

    @property
    def features(self) -> ProductsByClass:
        """The map from codes to (rows, classes * width)."""
        return ProductsByClass(self.products, self.given)

    def expectation(self, generator: Generator) -> ExpectedProducts:
        """The mean products as a function of the shares of a generator, which has all columns that are read."""
        return self.products.expectation(generator)

    def alike(self) -> Alike:
        """Which products are large or small together: those of two columns; and of which kind each is."""
        sizes = [self.tables[name].shape[1] for name in self.names]
        kinds = [kinds_of_features(self.bins[name], size) for name, size in zip(self.names, sizes, strict=True)]
        both = np.stack([np.repeat(np.arange(len(sizes)), sizes), np.concatenate(kinds)])  # of each feature
        pairs = np.sort(both[:, self.products.factors.numpy()], 1)  # of each product, (2, factors, products)
        return Alike(*(np.unique(some, axis=1, return_inverse=True)[1].ravel() for some in pairs))

    def items(self) -> list[Item]:
        """What each feature tells of: the value of a number, or one level."""
        return [
            (name, None if self.bins[name].ordered >= FEWEST_BINS and k < 2 * FREQUENCIES else k)
            for name in self.names
            for k in range(self.tables[name].shape[1])
        ]

    def strongest(self, products: Floats, most: int) -> list[tuple[Item, Item]]:
        """At most so many pairs of items, those with the largest sums of squares of `products`, (classes, width).

        The first are pairs of numbers, as far as there are any.
        """
        sizes = self._sizes(products, self.items())
        ordered = sorted(sizes, key=sizes.__getitem__, reverse=True)
        numbers = [pair for pair in ordered if all(feature is None for _, feature in pair)][: round(NUMBERS * most)]
        return [*numbers, *(pair for pair in ordered if pair not in numbers)][:most]

    def by_columns(self, products: Floats) -> dict[tuple[str, str], float]:
        """The sum of squares of `products`, (classes, width), of each two columns, in the order of `names`."""
        return self._sizes(products, [name for name, _ in self.items()])

    def _sizes(self, products: Floats, of: Sequence[Key]) -> dict[tuple[Key, Key], float]:
        """Sums of squares of products, each over its scale, by what the first and the second feature are `of`."""
        sizes = dict[tuple[Key, Key], float]()
        squares = np.square(products / self.products.scales.numpy()).sum(0).tolist()
        for (one, other), size in zip(self.products.factors.T.tolist(), squares, strict=True):
            pair = of[one], of[other]
            sizes[pair] = sizes.get(pair, 0.0) + size
        return sizes


def _scales(columns: Whole) -> Floats:
    """The weight of each product, (products,), by its two `columns`, (2, products), such that a row's have norm one at
    most: the third root of how many products its columns have, as tables have by their cells.
    """
    _, pair, counts = np.unique(columns, axis=1, return_inverse=True, return_counts=True)
    noise = noise_of_cells(weights_by_size(dict(enumerate(counts.tolist()))), 1.0)
    return np.asarray(1 / np.array(list(noise.values()))[pair.ravel()])


def _within(tables: Mapping[str, Floats], most: int, order: Tensor) -> list[str]:
    """As many first columns of a random `order` as keep their products at `most`; in the order of `tables`."""
    names, kept, products, features = list(tables), set[str](), 0, 0
    for k in order.tolist():
        wide = tables[names[k]].shape[1]
        products, features = products + wide * features, features + wide
        if products > most:
            break
        kept.add(names[k])
    return [name for name in names if name in kept]
