"""Compute products of features of a row by table look-up. Moments of declared regressions are sums of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ..arrays import Codes
from ..methods.bins import Bins
from ..privacy.queries.content import MOST_WIDTH, check_numbers, check_places, check_size, require
from ..privacy.queries.rows import CellMap, cells_of, column_of


@dataclass(frozen=True, eq=False)
class Products:
    """Products of features of a row, times their `scales`, (products,), or one scale for all.

    `tables`: each column's features by bin, (bins, features), column after column. `factors`: the places of the two or
    more features in each product, (factors, products). `bins`: of the columns. `order`: the names of the codes'
    columns. Raises QueryError unless each bin has features, and each factor a valid place.
    """

    bins: Mapping[str, CellMap]
    order: tuple[str, ...]
    tables: Mapping[str, Tensor]
    factors: Tensor
    scales: Tensor

    def __post_init__(self) -> None:
        require(self.tables.keys() <= self.bins.keys(), "A column whose features are multiplied has no bins.")
        features = 0
        for name, table in self.tables.items():
            require(table.dim() == 2, "Features of a column must be a table.")
            check_numbers(table, (self.bins[name].cells, table.shape[1]), np.float32, what="Features of a column")
            features += table.shape[1]
        require(self.factors.dim() == 2 and len(self.factors) > 0, "Products need factors.")
        # A table of one column has no products, so width zero is allowed.
        require(self.width <= MOST_WIDTH, f"The products of a row: expected at most {MOST_WIDTH:,}.")
        check_places(self.factors, (len(self.factors), self.width), features, what="The factors of products")
        scales = (self.width,) if self.scales.numel() != 1 else tuple(self.scales.shape)
        check_numbers(self.scales, scales, np.float32, what="The scales of products")

    @property
    def width(self) -> int:
        """The number of products of a row."""
        return self.factors.shape[1]

    def __call__(self, codes: Codes) -> Tensor:
        """Return products, (rows, products). A row's products never depend on other rows."""
        places = {name: cells_of(self.bins[name], codes[:, self.order.index(name)]) for name in self.tables}
        each = torch.cat([self.tables[name][torch.from_numpy(place)] for name, place in places.items()], 1)
        return _multiplied(each, self.factors) * self.scales

    def inside(self, bins: Mapping[str, Bins]) -> Products:
        """Return the products by bins instead of fine cells, with each feature's mean in a bin by the cells' shares.

        These are a mixture's expected products, because its columns are independent within bins.
        """
        return replace(self, bins=bins, tables={name: _means(bins[name], own) for name, own in self.tables.items()})


@dataclass(frozen=True, eq=False)
class ProductsByClass:
    """Products of features of a row in the block of its class. `given`: the target and its classes.

    Raises QueryError if a row would have too many products.
    """

    products: Products
    given: tuple[str, CellMap]

    def __post_init__(self) -> None:
        check_size(self.given[1].cells * self.products.width, MOST_WIDTH, what="The products of a row, by class")

    def __call__(self, codes: Codes) -> Tensor:
        """Return products in the block of the row's class, zero elsewhere: (rows, classes * products)."""
        target, cells = self.given
        labels = torch.from_numpy(cells_of(cells, column_of(codes, self.products.order, target)))
        found = torch.zeros(len(codes), cells.cells, self.products.width)
        found[torch.arange(len(codes)), labels] = self.products(codes)
        return found.flatten(1)


def _means(bins: Bins, table: Tensor) -> Tensor:
    """Return the mean of each feature in each bin, (bins, features), of features by fine cell."""
    share = bins.shares + 1e-12
    whole = np.bincount(bins.place, share, bins.cells)
    sums = np.stack([np.bincount(bins.place, share * one, bins.cells) for one in table.double().numpy().T], 1)
    return torch.tensor(sums / whole[:, None], dtype=torch.float32)


def _multiplied(features: Tensor, factors: Tensor) -> Tensor:
    """Return products, (rows, products, ...), of features, (rows, features, ...)."""
    found = features[:, factors[0]]
    for others in factors[1:]:
        found = found * features[:, others]
    return found
