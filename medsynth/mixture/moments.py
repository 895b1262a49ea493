"""Measure sums over rows of products of features, which the model predicts from the features' means in its bins.

A row's vector of products is clipped at a norm. A small norm needs little noise but clips many rows. It is the largest
at which a sum's noise is below the root of the number of rows. The choice uses rows drawn from the released one-way
shares, and no private row. Each noisy sum is divided by the part that clipping leaves.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ..arrays import Floats
from ..methods.bins import Bins
from ..privacy.queries.measurements import Measurements
from ..privacy.queries.rows import CellMap, Features
from ..privacy.queries.vectors import VectorSum
from ..rng import numpy_stream
from . import constants as k
from .measurement import MomentMeasurement
from .products import Products, ProductsByClass


@dataclass(frozen=True, eq=False)
class Moments:
    """Sums of the products of rows, by class or together.

    `products`: of a row, divided by the norm. `given`: the target's name and the map from its codes to classes, or
    `TOGETHER`. `kept`: the part of each sum that clipping leaves, (products,).
    """

    products: Products
    given: tuple[str, CellMap]
    kept: Floats

    @classmethod
    def clipped(
        cls, fine: Mapping[str, Floats], factors: Tensor, bins: Mapping[str, Bins], given: tuple[str, CellMap],
        order: Sequence[str], noise: float, rows: int, weights: Floats | float = 1.0,
    ) -> Moments:  # fmt: skip
        """Choose the norm. Args: `fine`: each column's features by fine cell, (cells, features), with their `bins`;
        `factors`: the places of the multiplied features, (factors, products), each product times its weight; `order`:
        the names of the codes' columns; `noise`: the standard deviation of a sum's noise at norm one; `rows`: of the
        table.
        """
        tables = {name: torch.tensor(table, dtype=torch.float32) for name, table in fine.items()}
        grids = {name: bins[name].grid for name in fine}
        independent = _independent_products(fine, {name: bins[name].shares for name in fine}, factors) * weights
        norms = np.linalg.norm(independent, axis=1)
        # Clip as few rows as possible while a product's noise stays within its sampling error, the root of the rows.
        bounds = np.quantile(norms, 1 - np.array(k.CLIPPED_ROWS)).tolist()
        bound = next((bound for bound in bounds if noise * bound < math.sqrt(rows)), bounds[-1])
        # Minus: model files and checkpoints contain minus the sums, and those of earlier versions are still read.
        scales = torch.tensor(-weights / bound, dtype=torch.float32)
        kept = _kept(independent, np.minimum(1.0, bound / norms))
        return cls(Products(grids, tuple(order), tables, factors, scales), given, kept)

    def measure(
        self, vault: Measurements, label: str, noise: float, bins: Mapping[str, Bins], firmness: float = 1.0
    ) -> MomentMeasurement:
        """Measure the sums over rows, and correct them for clipping.

        Args: `noise`: the standard deviation of a sum's noise at norm one; `bins`: bins of the model. The model
        computes a product of columns from the means of their bins; `firmness`: the weight of these sums in the fit,
        relative to that by their noise.
        """
        classes, width = self.given[1].cells, self.products.width
        total = vault.measure(label, VectorSum(self.features, classes * width))
        inside = self.products.inside({name: bins[name] for name in self.products.tables})
        scales = self.kept * self.products.scales.double().numpy()
        return MomentMeasurement(
            maps={name: table.double().numpy().T for name, table in inside.tables.items()},
            factors=inside.factors.numpy(),
            values=total.reshape(classes, width) / scales,
            std=noise / np.abs(scales) / math.sqrt(firmness),
        )

    @property
    def features(self) -> Features:
        """The map from codes to products, (rows, classes * width)."""
        return ProductsByClass(self.products, self.given) if self.given[0] else self.products


def _independent_products(fine: Mapping[str, Floats], shares: Mapping[str, Floats], factors: Tensor) -> Floats:
    """Return products of rows drawn with independent columns, by the released shares of cells: (rows, products)."""
    rng = numpy_stream(0, "declared moments")
    rows = min(k.DRAWN_ROWS, k.DRAWN_NUMBERS // factors.shape[1])
    items = list[Floats]()
    for name, table in fine.items():
        share = shares[name] + 1e-12
        items.append(table[rng.choice(len(share), rows, p=share / share.sum())])
    every = np.concatenate(items, 1)
    return np.asarray(np.prod([every[:, places] for places in factors.numpy()], axis=0))


def _kept(products: Floats, factors: Floats) -> Floats:
    """Return the part of each mean, (products,), that remains when rows are clipped by `factors`, (rows,).

    For squares it is computed directly. For other products it is the part that remains of their squares: their mean
    comes from related columns, and the density of weakly related columns is that of independent columns times one plus
    a multiple of the product.
    """
    weights = np.where((products >= 0).all(0), products, products**2) + 1e-12
    return np.asarray((factors @ weights) / weights.sum(0))
