"""Moments of declared regressions: what the coefficients of a linear model follow from, measured by themselves.

A linear regression's coefficients are functions of the means, squares and products of its columns; a logistic one's
score reads the products of outcome and predictors. They are read from every value's fine cell, so that no bin blurs
them; the generator's expectation of a product of two columns follows from the means of its bins. A row's products are
clipped at a norm that few rows reach, and the sums corrected for what that takes from them.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ....privacy.queries.rows import CellMap, Features
from ....rng import numpy_stream
from ...regressions import Regression
from ...shared.bins import Bins
from ...shared.marginals import Condition
from ..generator import Generator
from .linear import FeatureSums
from .moments import fine_values
from .products import ExpectedProducts, Products, ProductsByClass

Floats = NDArray[np.float64]
CLIPPED_STDS = 3.5  # from the mean, where values are clipped
CLIPPED_ROWS = 0.05  # the share of rows of independent columns that is clipped: noise is in proportion to the bound
DRAWN = 20_000  # such rows, drawn in public


def column_items(bins: Bins) -> Floats:
    """What a column contributes to products, by fine cell, (cells, items): all of size one at most.

    Of a number its standardised value and that value's square; of levels, each but the most frequent, less its share.
    Then one.
    """
    cells, values = bins.grid.cells, fine_values(bins, CLIPPED_STDS) if bins.column.ordered else np.empty(0)
    if len(values):
        own = np.zeros((cells, 2))
        own[: len(values)] = np.stack([values, values**2], 1)
    else:
        share = np.bincount(bins.place, bins.shares, bins.cells) / bins.shares.sum()
        own = np.delete(np.eye(cells) - share, share.argmax(), 1) if cells == bins.cells else np.zeros((cells, 0))
    return np.concatenate([own, np.ones((cells, 1))], 1)


def _independent_products(fine: dict[str, Floats], shares: dict[str, Floats], ones: Tensor, others: Tensor) -> Floats:
    """Products of rows whose columns are independent, by the released shares of cells: (rows, products)."""
    rng, items = numpy_stream(0, "declared moments"), list[Floats]()
    for name, table in fine.items():
        share = shares[name] + 1e-12
        items.append(table[rng.choice(len(share), DRAWN, p=share / share.sum())])
    every = np.concatenate(items, 1)
    return np.asarray(every[:, ones.numpy()] * every[:, others.numpy()])


def _kept(products: Floats, factors: Floats) -> Floats:
    """What clipping rows by `factors`, (rows,), leaves of each mean, (products,).

    Of one that is not negative, a square, as it is. Of others as much as of their squares: they have a mean where
    columns are related, and the density of weakly related columns is that of independent ones times one plus a multiple
    of the product.
    """
    weights = np.where((products >= 0).all(0), products, products**2)
    return np.asarray((factors @ weights) / np.maximum(weights.sum(0), 1e-12))


class DeclaredCritic:
    """Means and squares of the columns of `regressions`, and products of any two columns of one of them.

    `bins`: every column's beside the target's; `given`: the target's name and the map from its codes to classes. Where
    a regression names the target each class has sums of its own. `order`: the names of the codes' columns. `kept`: what
    clipping leaves of each sum, (width,).
    """

    def __init__(
        self, regressions: Sequence[Regression], bins: dict[str, Bins], given: tuple[str, CellMap], order: Sequence[str]
    ) -> None:
        target = given[0]
        by_class = any(target in regression.columns for regression in regressions)
        self.given = given if by_class else ("", Condition(None, None, np.empty(0), 1))
        names = list(dict.fromkeys(n for regression in regressions for n in regression.columns if n != target))
        self._bins = {name: bins[name] for name in names}
        fine = {name: column_items(bins[name]) for name in names}
        first = dict(zip(names, np.cumsum([0, *(table.shape[1] for table in fine.values())]).tolist(), strict=False))
        own = {name: list(range(first[name], first[name] + table.shape[1] - 1)) for name, table in fine.items()}
        pairs = [(item, first[name] + fine[name].shape[1] - 1) for name in names for item in own[name]]
        main = {name: own[name][:1] if bins[name].column.ordered else own[name] for name in names}
        for regression in regressions:
            columns = [name for name in regression.columns if name != target]
            for k, one in enumerate(columns):
                pairs += [(a, b) for other in columns[k + 1 :] for a in main[one] for b in main[other]]
        ones, others = torch.tensor(list(dict.fromkeys(tuple(sorted(pair)) for pair in pairs))).T
        tables = {name: torch.tensor(table, dtype=torch.float32) for name, table in fine.items()}
        grids = {name: bins[name].grid for name in names}
        independent = _independent_products(fine, {name: bins[name].shares for name in names}, ones, others)
        norms = np.linalg.norm(independent, axis=1)
        bound = float(np.quantile(norms, 1 - CLIPPED_ROWS))
        self.products = Products(grids, tuple(order), tables, ones, others, 1 / bound)
        self.kept = _kept(independent, np.minimum(1.0, bound / norms))

    def inside(self, bins: dict[str, Bins]) -> DeclaredCritic:
        """The same products, with other shares of the cells inside the bins."""
        found = copy.copy(self)
        found._bins = {name: bins[name] for name in self._bins}
        return found

    def corrected(self, sums: FeatureSums) -> FeatureSums:
        """Measured sums without what clipping took from them; `std` stays that of the least corrected."""
        return replace(sums, totals=sums.totals / torch.tensor(self.kept, dtype=torch.float32))

    @property
    def columns_read(self) -> set[str]:
        """The names of the columns of its products."""
        return set(self.products.tables)

    @property
    def width(self) -> int:
        """How many means, squares and products a row has."""
        return len(self.products.ones)

    @property
    def features(self) -> Features:
        """The map from codes to (rows, classes * width)."""
        return ProductsByClass(self.products, self.given) if self.given[0] else self.products

    def expectation(self, generator: Generator) -> ExpectedProducts:
        """The means as a function of the shares of a generator, which has all columns that are read."""
        tables = {name: self._by_bin(name, table) for name, table in self.products.tables.items()}
        binned = Products(self._bins, self.products.order, tables, self.products.ones, self.products.others,
                          self.products.scale)  # fmt: skip
        return binned.expectation(generator)

    def _by_bin(self, name: str, table: Tensor) -> Tensor:
        """The mean items of each bin, (bins, items), by the shares of its fine cells."""
        bins = self._bins[name]
        share = bins.shares + 1e-12
        whole = np.bincount(bins.place, share, bins.cells)
        sums = np.stack([np.bincount(bins.place, share * one, bins.cells) for one in table.double().numpy().T], 1)
        return torch.tensor(sums / whole[:, None], dtype=torch.float32)
