"""A critic of pairs of columns: one noisy sum tells how every two columns rise and fall together, and by class.

A column's features have norm one at most: of a number, cosines and sines of where its bin lies, low frequencies alone;
of a level, its place among the frequent levels. The critic is linear in the products of two columns' features. A row's
products over all pairs have norm sqrt(pairs), whatever the row: nothing is clipped, and the noise of a product does not
grow by bins, as that of the cells of a table does. (Sums of products as in private covariance, Dwork, Talwar, Thakurta
and Zhang 2014; the linear critic as in DP-MERF, Harder et al. 2021.) Given a latent point columns are independent, so
the generator's expected products are products of means, exactly.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....privacy.vault import CellMap, Codes, column_of
from ...shared.bins import MERGED_WIDE, Bins
from ..budget_rule import MOST_PRODUCTS
from ..generator import Generator

Floats = NDArray[np.float64]
FREQUENCIES = 2  # of a number, each as cosine and sine
FEWEST_BINS = 3  # of a number with waves
NUMBERS = 0.6  # the part of the strongest pairs of items that is of two numbers
MOST_LEVELS = 8  # of a column that have features, the most frequent ones


def column_features(bins: Bins, mass: Floats) -> Floats:
    """The features of each bin, (bins, features), each of norm one or, of a rare level, zero. `mass`: (bins,)."""
    values = bins.ordered
    if values < FEWEST_BINS and bins.cells == 2:
        return np.array([[-1.0], [1.0]])
    if values < FEWEST_BINS:
        return np.eye(bins.cells)[:, np.argsort(-mass, kind="stable")[:MOST_LEVELS]]
    turns = math.pi * bins.middles(MERGED_WIDE)[:, None] * np.arange(1, FREQUENCIES + 1)
    waves = np.concatenate([np.cos(turns), np.sin(turns)], 1) / math.sqrt(FREQUENCIES)
    features = np.zeros((bins.cells, 2 * FREQUENCIES + bins.cells - values))
    features[:values, : 2 * FREQUENCIES] = waves
    features[values:, 2 * FREQUENCIES :] = np.eye(bins.cells - values)
    return features


Item = tuple[str, int | None]  # a column, and one of its features; None: the value of a number


@dataclass(frozen=True, eq=False)
class Products:
    """Products of two features of a row, times `scale`.

    `tables`: each column's features by bin, (bins, features), which stand beside one another; `ones` and `others`: the
    places of the two that are multiplied. `bins` and `order`: of the columns, and the names of the codes' columns.
    """

    bins: Mapping[str, Bins]
    order: tuple[str, ...]
    tables: Mapping[str, Tensor]
    ones: Tensor
    others: Tensor
    scale: float

    def of_rows(self, codes: Codes) -> Tensor:
        """(rows, products)."""
        places = {name: np.asarray(self.bins[name].cell_of(codes[:, self.order.index(name)])) for name in self.tables}
        each = torch.cat([self.tables[name][torch.from_numpy(place)] for name, place in places.items()], 1)
        found: Tensor = each[:, self.ones] * each[:, self.others] * self.scale
        return found

    def expectation(self, generator: Generator) -> ExpectedProducts:
        """The mean products as a function of the shares of a generator, which has the columns of all tables."""
        device = generator.base.device
        matrix = torch.zeros(sum(table.shape[1] for table in self.tables.values()), generator.base.shape[1])
        first = 0
        for name, table in self.tables.items():
            matrix[first : first + table.shape[1], generator.spans[name]] = table.T
            first += table.shape[1]
        return ExpectedProducts(matrix.to(device), self.ones.to(device), self.others.to(device), self.scale)


class PairCritic:
    """Products of the features of two columns, within the row's class.

    `bins`: every column's; `mass`: (bins,) shares of the rows; `names`: the columns to read, of which those are left
    out that come last in a random order, where products are too many; `given`: the target's name and the map from its
    codes to classes; `order`: the names of the codes' columns.
    """

    def __init__(
        self, bins: Mapping[str, Bins], mass: Mapping[str, Floats], names: Sequence[str], given: tuple[str, CellMap],
        order: Sequence[str], stream: torch.Generator,
    ) -> None:  # fmt: skip
        self.bins, self.given, self.order = bins, given, tuple(order)
        tables = {name: column_features(bins[name], mass[name]) for name in names}
        self.names = _within(tables, MOST_PRODUCTS // given[1].cells, torch.randperm(len(names), generator=stream))
        self.tables = {name: torch.tensor(tables[name], dtype=torch.float32) for name in self.names}
        column = np.repeat(np.arange(len(self.names)), [self.tables[name].shape[1] for name in self.names])
        ones, others = np.triu_indices(len(column), 1)
        apart = column[ones] != column[others]
        scale = max(1, len(self.names) * (len(self.names) - 1) // 2) ** -0.5
        places = torch.from_numpy(ones[apart]), torch.from_numpy(others[apart])
        self.products = Products(bins, self.order, self.tables, *places, scale)

    @property
    def columns_read(self) -> set[str]:
        """The names of the columns of its products."""
        return set(self.names)

    @property
    def width(self) -> int:
        """How many products a row has, in its class's place."""
        return len(self.products.ones)

    def features(self, codes: Codes) -> Tensor:
        """(rows, classes * width): the products in the place of the row's own class, zero elsewhere.

        By tables, and one multiplication a number: no row's features depend on the rows beside it.
        """
        target, cells = self.given
        labels = torch.from_numpy(np.asarray(cells.cell_of(column_of(codes, self.order, target)), np.int64))
        found = torch.zeros(len(codes), cells.cells, self.width)
        found[torch.arange(len(codes)), labels] = self.products.of_rows(codes)
        return found.reshape(len(codes), -1)

    def expectation(self, generator: Generator) -> ExpectedProducts:
        """The mean products as a function of the shares of a generator, which has all columns that are read."""
        return self.products.expectation(generator)

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
        items, sizes = self.items(), dict[tuple[Item, Item], float]()
        squares = np.square(products).sum(0).tolist()
        for one, other, size in zip(self.products.ones.tolist(), self.products.others.tolist(), squares, strict=True):
            pair = items[one], items[other]
            sizes[pair] = sizes.get(pair, 0.0) + size
        ordered = sorted(sizes, key=sizes.__getitem__, reverse=True)
        numbers = [pair for pair in ordered if all(feature is None for _, feature in pair)][: round(NUMBERS * most)]
        return [*numbers, *(pair for pair in ordered if pair not in numbers)][:most]


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


@dataclass(frozen=True, eq=False)
class ExpectedProducts:
    """Mean products of generated rows. `matrix`, (features, all bins): each bin's features."""

    matrix: Tensor
    ones: Tensor
    others: Tensor
    scale: float

    def of(self, shares: Tensor) -> Tensor:
        """Of each class, (classes, width), from p(bin | point, class), (all bins, classes, points)."""
        means = (self.matrix @ shares.flatten(1)).reshape(-1, *shares.shape[1:]).transpose(0, 1)
        products = means @ means.transpose(1, 2) / shares.shape[-1]
        return products[:, self.ones, self.others] * self.scale
