"""Measure moments of declared regressions, from which the coefficients of a linear model follow.

A linear regression's coefficients are functions of the means, squares and products of its terms. The score of a
logistic regression contains the products of outcome and predictors. So one noisy sum of products over the rows
determines both. For `weight ~ age + sex` this happens, in this order:

1. `column_items` turns each fine cell of a column into *items*, the numbers that are multiplied: age and its square,
   weight and its square, one indicator of sex. Fine cells, because bins would blur the slope.
2. `_Items.factors` lists the *products*: each term, and any two terms together, such as age, age * sex, age squared.
   Products differ in importance, so each has a constant weight, which is stored as one more item.
3. `Moments` (`moments.py`) chooses the norm at which a row's vector of products is clipped, and sums over the rows.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..arrays import Floats
from ..methods.bins import Bins
from ..methods.marginals import TOGETHER
from ..methods.regressions import Regression
from ..privacy.queries.rows import CellMap
from ..schema.columns.grid import scale_middles
from . import constants as k
from .moments import Moments

Product = tuple[int, ...]  # the places of the items that are multiplied


def fine_values(bins: Bins) -> Floats:
    """Return the value of each fine cell of values, from -1 to 1, (cells of values,).

    It is clipped at extreme quantiles, centred, and divided by its deviation and its largest size. It is computed from
    the released shares of the fine cells: no row is read.
    """
    at = scale_middles(bins.column, bins.grid)
    share = bins.shares[: len(at)] / bins.shares[: len(at)].sum()
    below = np.cumsum(share)

    def between(tail: float) -> Floats:
        first, last = np.searchsorted(below, [tail, 1 - tail]).clip(max=len(at) - 1)
        return np.asarray(np.clip(at, at[first], at[last]))

    # Shares of far cells are mostly noise, so the deviation is that of the rows without them.
    trimmed = between(k.LEFT_OUT)
    mean = share @ trimmed
    std = np.sqrt(share @ np.square(trimmed - mean))
    values = np.clip(between(k.CLIPPED_ENDS), mean - k.FAR * std, mean + k.FAR * std)
    values = (values - share @ values) / max(std, 1e-12)
    seen = bins.shares[: len(values)] > 0
    return np.asarray(np.clip(values / max(np.abs(values[seen]).max(), 1e-12), -1, 1))


def column_items(bins: Bins) -> Floats:
    """Return a column's items for products, by fine cell, (cells, items), each divided by its root mean square.

    A number has its standardised value and that value's square. A categorical column has the indicators of its most
    frequent levels except the commonest, each minus its share; by the bins of a fit all levels are equally frequent, so
    these are the levels after the first. A missing number has items of zero. The last three items are the constants.
    """
    cells = bins.grid.cells
    values = fine_values(bins) if bins.column.ordered else np.empty(0)
    if len(values):
        own = np.zeros((cells, 2))
        own[: len(values)] = np.stack([values, values**2], 1)
    else:
        share = np.bincount(bins.place, bins.shares, bins.cells) / bins.shares.sum()
        frequent = np.argsort(-share, kind="stable")[1 : k.BINS + 1]
        own = (np.eye(bins.cells) - share)[bins.place][:, frequent]
    # With items of one size, products of independent columns have one size too, and clipping treats them alike.
    sizes = np.sqrt(bins.shares @ own**2 / bins.shares.sum())
    return np.concatenate([own / np.maximum(sizes, k.LEAST_SIZE), np.tile([k.ALONE, k.OF_TARGET, 1.0], (cells, 1))], 1)


def item_words(name: str, bins: Bins) -> list[str]:
    """Return the words for the items of `column_items`, (items,): empty for the constants."""
    if bins.column.ordered:
        return [name, f"{name} squared", "", "", ""]
    share = np.bincount(bins.place, bins.shares, bins.cells)
    frequent = np.argsort(-share, kind="stable")[1 : k.BINS + 1]
    return [f"{name}={bins.column.text(int(code))}" for code in frequent] + [""] * 3


@dataclass(frozen=True)
class _Items:
    """The places of the items of all columns. `values`: of each column, a number's value or the levels. `square`: of a
    number's square, by the place of its value. `column`: the column of each place. The constants come last.
    """

    values: Mapping[str, list[int]]
    square: Mapping[int, int]
    column: Sequence[str]

    @classmethod
    def of(cls, fine: Mapping[str, Floats], bins: Mapping[str, Bins]) -> _Items:
        """Return the places for tables of items, (cells, items) per column."""
        column = [name for name, table in fine.items() for _ in range(table.shape[1])]
        values = {name: [place for place, other in enumerate(column) if other == name][:-3] for name in fine}
        square = {own[0]: own[1] for name, own in values.items() if bins[name].column.ordered}
        values = {name: own[:1] if bins[name].column.ordered else own for name, own in values.items()}
        return cls(values, square, column)

    def product(self, *terms: Product) -> Product:
        """Return the product of terms. A number twice becomes its square. Of two levels of a column, one is kept."""
        found = dict[str, int]()
        for place in itertools.chain(*terms):
            twice = self.column[place] in found and place in self.square
            found[self.column[place]] = self.square[place] if twice else found.get(self.column[place], place)
        return tuple(sorted(found.values()))

    def of_regression(self, regression: Regression, target: str) -> tuple[list[Product], list[Product]]:
        """Return the terms of a regression and the products of any two of them, without the target."""
        kept = [[self.values[name]] for name in regression.columns if name != target]
        for pair in regression.interactions:
            kept.append([self.values[name][: k.MOST_CROSSED] for name in pair if name != target])
        terms = list(dict.fromkeys(places for own in kept if own for places in itertools.product(*own)))
        both = itertools.combinations_with_replacement(terms, 2)
        return terms, [self.product(one, other) for one, other in both]

    def factors(self, regressions: Sequence[Regression], target: str) -> Tensor:
        """Return each product of the regressions once, times its constant and then ones: (factors, products)."""
        alone, of_target, one = range(len(self.column) - 3, len(self.column))
        constants = dict[Product, int]()
        for regression in regressions:
            terms, products = self.of_regression(regression, target)
            # The target has no items: its classes separate the sums, so a term's sum is its product with the target.
            constants |= dict.fromkeys(terms, of_target) if target in regression.columns else {}
            for own in (*terms, *products):
                constants.setdefault(own, alone if len(own) == 1 else one)
        constants = constants or {(): one}  # all columns have one level: count rows
        most = 1 + max(map(len, constants))
        return torch.tensor([(*own, constant, *[one] * (most - len(own) - 1)) for own, constant in constants.items()]).T


def declared_moments(
    regressions: Sequence[Regression], bins: Mapping[str, Bins], given: tuple[str, CellMap], order: Sequence[str],
    noise: float, rows: int,
) -> Moments:  # fmt: skip
    """Return the means and squares of the terms of `regressions`, and products of any two terms of one of them.

    `bins`: of every column except the target. `given`: the target's name and the map from its codes to classes. If a
    regression names the target, each class has its own sums. The others: as for `Moments.clipped`.
    """
    target = given[0]
    by_class = any(target in regression.columns for regression in regressions)
    names = list(dict.fromkeys(n for regression in regressions for n in regression.columns if n != target))
    fine = {name: column_items(bins[name]) for name in names}
    factors = _Items.of(fine, bins).factors(regressions, target)
    return Moments.clipped(fine, factors, bins, given if by_class else TOGETHER, order, noise, rows)
