"""Moments of declared regressions: what the coefficients of a linear model follow from, measured by themselves.

A linear regression's coefficients are functions of the means, squares and products of its terms; a logistic one's
score reads the products of outcome and predictors. They are read from every value's fine cell, so that no bin blurs
them; the expectation of a product of columns follows from the means of their bins. Over rows of independent
columns all products have about the same size, but for those that count more or less than others. A row's products are
clipped at a norm that few rows reach, and the sums corrected for what that takes from them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ..methods.bins import Bins
from ..methods.marginals import Condition
from ..methods.regressions import Regression
from ..privacy.networks import Mlp
from ..privacy.queries.gradients import minus_output
from ..privacy.queries.measurements import Measurements
from ..privacy.queries.rows import CellMap, Features
from ..rng import numpy_stream
from ..schema.columns.grid import scale_middles
from . import constants as k
from .measurement import MomentMeasurement
from .products import Products, ProductsByClass

Floats = NDArray[np.float64]
CLIPPING_NORM = 1.0  # of a row's features, which are divided by the bound
Product = tuple[int, ...]  # the places of the items that are multiplied


def fine_values(bins: Bins) -> Floats:
    """The value of each fine cell of values, from -1 to 1, (cells of values,): less the mean, clipped.

    By the released shares of the fine cells: no row is read.
    """
    at = scale_middles(bins.column, bins.grid)
    share = bins.shares[: len(at)] / bins.shares[: len(at)].sum()
    below = np.cumsum(share)

    def between(tail: float) -> Floats:
        first, last = np.searchsorted(below, [tail, 1 - tail]).clip(max=len(at) - 1)
        return np.asarray(np.clip(at, at[first], at[last]))

    trimmed = between(k.LEFT_OUT)
    mean, std = share @ trimmed, np.sqrt(share @ np.square(trimmed - share @ trimmed))
    values = np.clip(between(k.CLIPPED_ENDS), mean - k.FAR * std, mean + k.FAR * std)
    values = (values - share @ values) / max(std, 1e-12)
    seen = bins.shares[: len(values)] > 0
    return np.asarray(np.clip(values / max(np.abs(values[seen]).max(), 1e-12), -1, 1))


def column_items(bins: Bins) -> Floats:
    """What a column contributes to products, by fine cell, (cells, items), each divided by its root mean square.

    Of a number its standardised value and that value's square; of levels, the most frequent but the first, each less
    its share, in that order. Then the constants.
    """
    cells, values = bins.grid.cells, fine_values(bins) if bins.column.ordered else np.empty(0)
    if len(values):
        own = np.zeros((cells, 2))
        own[: len(values)] = np.stack([values, values**2], 1)
    else:
        share = np.bincount(bins.place, bins.shares, bins.cells) / bins.shares.sum()
        frequent = np.argsort(-share, kind="stable")[1 : k.BINS + 1]
        own = (np.eye(bins.cells) - share)[bins.place][:, frequent]
    sizes = np.sqrt(bins.shares @ own**2 / bins.shares.sum())
    return np.concatenate([own / np.maximum(sizes, k.LEAST_SIZE), np.tile([k.ALONE, k.OF_TARGET, 1.0], (cells, 1))], 1)


@dataclass(frozen=True)
class _Items:
    """The places of the items of all columns side by side: `values`, a column's, a number's own or the levels';
    `square`, by the place of a number's own; `column`, the name by place. The last are the constants.
    """

    values: Mapping[str, list[int]]
    square: Mapping[int, int]
    column: Sequence[str]

    @classmethod
    def of(cls, fine: Mapping[str, Floats], bins: Mapping[str, Bins]) -> _Items:
        """Of tables of items, (cells, items) a column."""
        column = [name for name, table in fine.items() for _ in range(table.shape[1])]
        values = {name: [place for place, other in enumerate(column) if other == name][:-3] for name in fine}
        square = {own[0]: own[1] for name, own in values.items() if bins[name].column.ordered}
        values = {name: own[:1] if bins[name].column.ordered else own for name, own in values.items()}
        return cls(values, square, column)

    def product(self, *terms: Product) -> Product:
        """Of terms: a number twice is its square; two levels of a column, whose product is linear in both, are one."""
        found = dict[str, int]()
        for place in itertools.chain(*terms):
            twice = self.column[place] in found and place in self.square
            found[self.column[place]] = self.square[place] if twice else found.get(self.column[place], place)
        return tuple(sorted(found.values()))

    def of_regression(self, regression: Regression, target: str) -> tuple[list[Product], list[Product]]:
        """The terms of a regression, and products of any two of them, the target left out."""
        kept = [[self.values[name]] for name in regression.columns if name != target]
        for pair in regression.interactions:
            kept.append([self.values[name][: k.MOST_CROSSED] for name in pair if name != target])
        terms = list(dict.fromkeys(places for own in kept if own for places in itertools.product(*own)))
        both = itertools.combinations_with_replacement(terms, 2)
        return terms, [self.product(one, other) for one, other in both]

    def factors(self, regressions: Sequence[Regression], target: str) -> Tensor:
        """(factors, products): each product of the regressions once, times its constant, then times ones."""
        alone, of_target, one = range(len(self.column) - 3, len(self.column))
        constants = dict[Product, int]()
        for regression in regressions:
            terms, products = self.of_regression(regression, target)
            constants |= dict.fromkeys(terms, of_target) if target in regression.columns else {}
            for own in (*terms, *products):
                constants.setdefault(own, alone if len(own) == 1 else one)
        constants = constants or {(): one}  # columns of one level: how many rows there are
        most = 1 + max(map(len, constants))
        return torch.tensor([(*own, constant, *[one] * (most - len(own) - 1)) for own, constant in constants.items()]).T


def _independent_products(fine: dict[str, Floats], shares: dict[str, Floats], factors: Tensor) -> Floats:
    """Products of rows whose columns are independent, by the released shares of cells: (rows, products)."""
    rng, items = numpy_stream(0, "declared moments"), list[Floats]()
    for name, table in fine.items():
        share = shares[name] + 1e-12
        items.append(table[rng.choice(len(share), k.DRAWN_ROWS, p=share / share.sum())])
    every = np.concatenate(items, 1)
    return np.asarray(np.prod([every[:, places] for places in factors.numpy()], axis=0))


def _kept(products: Floats, factors: Floats) -> Floats:
    """What clipping rows by `factors`, (rows,), leaves of each mean, (products,).

    Of one that is not negative, a square, as it is. Of others as much as of their squares: they have a mean where
    columns are related, and the density of weakly related columns is that of independent ones times one plus a multiple
    of the product.
    """
    weights = np.where((products >= 0).all(0), products, products**2) + 1e-12
    return np.asarray((factors @ weights) / weights.sum(0))


class DeclaredMoments:
    """Means and squares of the terms of `regressions`, and products of any two terms of one of them.

    `bins`: of every column but the target; `given`: the target's name and the map from its codes to classes. Where a
    regression names the target, each class has sums of its own. `order`: the names of the codes' columns.
    `noise`: the standard deviation of a sum's noise at norm one; `rows`: of the table. The fewest rows are clipped with
    which a product's noise is within its sampling error. `kept`: what clipping leaves of each sum, (width,).
    """

    def __init__(
        self, regressions: Sequence[Regression], bins: dict[str, Bins], given: tuple[str, CellMap],
        order: Sequence[str], noise: float, rows: int,
    ) -> None:  # fmt: skip
        target = given[0]
        by_class = any(target in regression.columns for regression in regressions)
        self.given = given if by_class else ("", Condition(None, None, np.empty(0), 1))
        names = list(dict.fromkeys(n for regression in regressions for n in regression.columns if n != target))
        self._bins = {name: bins[name] for name in names}
        fine = {name: column_items(bins[name]) for name in names}
        factors = _Items.of(fine, bins).factors(regressions, target)
        tables = {name: torch.tensor(table, dtype=torch.float32) for name, table in fine.items()}
        grids = {name: bins[name].grid for name in names}
        independent = _independent_products(fine, {name: bins[name].shares for name in names}, factors)
        norms = np.linalg.norm(independent, axis=1)
        bounds = np.quantile(norms, 1 - np.array(k.CLIPPED_ROWS)).tolist()
        bound = next((bound for bound in bounds if noise * bound < math.sqrt(rows)), bounds[-1])
        self.products = Products(grids, tuple(order), tables, factors, torch.tensor(1 / bound))
        self.kept = _kept(independent, np.minimum(1.0, bound / norms))

    def measure(self, vault: Measurements, label: str, noise: float, bins: Mapping[str, Bins]) -> MomentMeasurement:
        """Measure the sums over rows, and put back what clipping took from them.

        A sum of vectors, each clipped at one, is minus the gradient sum of a linear function of them.

        Args: `noise`: the standard deviation of the noise of a sum at norm one; `bins`: those of the model. It expects
        of a product of columns what the means of their bins give.
        """
        classes, width = self.given[1].cells, self.products.width
        linear = Mlp([classes * width, 1], bias=False)
        (total,) = vault.measure_gradient_sum(label, linear, minus_output, self.features, CLIPPING_NORM)
        inside, scale = self.products.inside({name: bins[name] for name in self.products.tables}), self.products.scales
        scales = self.kept * scale.double().numpy()
        return MomentMeasurement(
            maps={name: table.double().numpy().T for name, table in inside.tables.items()},
            factors=inside.factors.numpy(),
            values=-total.reshape(classes, width).double().numpy() / scales,
            std=noise * CLIPPING_NORM / scales,
        )

    @property
    def features(self) -> Features:
        """The map from codes to (rows, classes * width)."""
        return ProductsByClass(self.products, self.given) if self.given[0] else self.products
