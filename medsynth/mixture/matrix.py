"""A noisy matrix of second moments a class, for tables of hundreds of columns: one sum over all pairs of columns.

A column's value is its normal score within the row's class: the mean of the part of a standard normal variable that the
bin stands for, by the released shares of bins. A row's vector is divided by the norm that is expected of it, by these
shares too, and clipped. (Private covariance: Dwork, Talwar, Thakurta and Zhang 2014.)

From the noisy covariances follow a normal latent variable of few dimensions, and each column's loadings. Given the
latent variable columns are independent: Gaussian copulas on the noisy class-by-bin marginals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.linalg import eigh

from ..methods.bins import Bins
from ..methods.sampler import normal_cuts
from ..privacy.queries.content import MOST_WIDTH, STEPS, check_numbers, check_size, require
from ..privacy.queries.measurements import Measurements
from ..privacy.queries.rows import CellMap, Codes, cells_of, column_of
from ..rng import Stream
from . import constants as k

Floats = NDArray[np.float64]


def ordered_bins(bins: Bins) -> int:
    """How many first bins are neighbours in value: those of a number, or the two levels of a binary column."""
    values = bins.cells - bins.column.gaps
    return values if bins.ordered or values == 2 else 0


def normal_scores(shares: Floats, ordered: int) -> Floats:
    """Of each bin, (classes, bins), by its class's `shares`, (classes, bins): mean zero; zero beyond the first
    `ordered`.
    """
    parts = shares[:, :ordered] / shares[:, :ordered].sum(1, keepdims=True)
    cuts = normal_cuts(parts)
    density = np.exp(-np.square(cuts) / 2) / np.sqrt(2 * np.pi)
    found = np.zeros(shares.shape)
    found[:, :ordered] = -np.diff(density) / np.maximum(parts, 1e-12)
    return found


@dataclass(frozen=True, eq=False)
class Scores:
    """A number for each column of a row, by `tables`, (classes, bins) a column, of its class and bin.

    `given`: the target and its classes; `order`: the names of the codes' columns. Raises QueryError unless each column
    has a number for each class and bin.
    """

    cells: Mapping[str, CellMap]
    order: tuple[str, ...]
    given: tuple[str, CellMap]
    tables: Mapping[str, Floats]

    def __post_init__(self) -> None:
        require(self.tables.keys() <= self.cells.keys(), "A column with scores has no bins.")
        check_size(len(self.tables), MOST_WIDTH, what="The columns with scores")
        for name, table in self.tables.items():
            check_numbers(table, (self.given[1].cells, self.cells[name].cells), np.float64, what="Scores of a column")

    def __call__(self, codes: Codes) -> Floats:
        """(rows, columns): by tables; no row's depend on other rows."""
        target, classes = self.given
        labels = cells_of(classes, column_of(codes, self.order, target))
        found = np.empty((len(codes), len(self.tables)))
        for place, (name, table) in enumerate(self.tables.items()):
            found[:, place] = table[labels, cells_of(self.cells[name], codes[:, self.order.index(name)])]
        return found


class MomentMatrix:
    """Second moments of the normal scores of columns, within the row's class.

    `bins`: every column's; `shares`: p(bin | class), (classes, bins) a column; `names`: the columns to read, of
    which a random part is left out where matrices would be too large, and those of more than two levels; `given`: the
    target's name and the map from its codes to classes; `order`: the names of the codes' columns.
    """

    def __init__(
        self, bins: Mapping[str, Bins], shares: Mapping[str, Floats], names: Sequence[str], given: tuple[str, CellMap],
        order: Sequence[str], stream: torch.Generator,
    ) -> None:  # fmt: skip
        ordered = {name: ordered_bins(bins[name]) for name in names}
        some = [name for name in names if ordered[name] > 1]
        most = int(np.sqrt(2 * k.MOST_ENTRIES / given[1].cells))
        kept = set(torch.randperm(len(some), generator=stream)[:most].tolist())
        self.names = [name for place, name in enumerate(some) if place in kept]
        self.bins, self.given, self.order = bins, given, tuple(order)
        self.ordered = {name: ordered[name] for name in self.names}
        scores = {name: normal_scores(shares[name], self.ordered[name]) for name in self.names}
        # (columns, classes): what is expected of a squared score; less than one, by what bins hide
        self.squares = np.stack([(shares[n] * np.square(scores[n])).sum(1) for n in self.names])
        # (classes,), at which rows are clipped
        self.norms = np.sqrt(k.NORM_ROOM * np.maximum(self.squares.sum(0), 1e-12))
        tables = {name: np.round(scores[name] / self.norms[:, None] * STEPS) / STEPS for name in self.names}
        self.features = Scores({name: bins[name] for name in self.names}, self.order, given, tables)

    def measure(self, vault: Measurements, label: str, noise: float, rows: Floats) -> Covariances:
        """Of all rows. `rows`: of each class, (classes,), noisy; `noise`: the plan's multiplier."""
        sums = vault.measure_second_moments(label, self.features, self.given, len(self.names))
        scale = np.square(self.norms) / np.maximum(rows, 1.0)
        return Covariances(self.squares.T, sums * scale[:, None, None], noise * scale / np.sqrt(2), rows)


@dataclass(frozen=True, eq=False)
class Covariances:
    """Noisy covariances of scores, (classes, columns, columns), and the noise of one off the diagonal, (classes,).

    `squares`: the scores' own variances by the marginals, (classes, columns); `rows`: (classes,).
    """

    squares: Floats
    matrices: Floats
    std: Floats
    rows: Floats


def latent_points(count: int, rank: int, rng: Stream) -> Floats:
    """(count, rank) normal draws whose mean is zero and whose second moments are those of a standard normal variable.

    Each comes with its opposite, so that columns keep their shares nearly.
    """
    half = rng.standard_normal((count // 2, rank))
    half = np.linalg.qr(half)[0] * np.sqrt(len(half)) if len(half) >= rank else half
    return np.concatenate([half, -half])


def loadings(found: Covariances) -> Floats:
    """(classes, columns, rank). A class whose matrix shows nothing above its noise has those of all together."""
    weights = found.rows / found.rows.sum()
    together = np.einsum("k,kij->ij", weights, found.matrices)
    common = _factors(together, weights @ found.squares, float(np.sqrt(np.square(weights * found.std).sum())))
    each = [_factors(*one) for one in zip(found.matrices, found.squares, found.std.tolist(), strict=True)]
    return np.stack([own if own.any() else common for own in each])


def _factors(matrix: Floats, squares: Floats, std: float) -> Floats:
    """(columns, rank): loadings of the latent variables of normal scores with covariances `matrix`, noise `std`.

    `squares`: the scores' variances, below one by what bins hide; the covariance of two scores is about the product
    of both variances and the correlation of what is in the bins. The noise lifts an eigenvalue y to about y = x +
    (columns std^2) / x and turns its vector: sqrt(y^2 - 4 columns std^2) is nearest to what was there (Gavish and
    Donoho 2017), and nothing of what lies below.
    """
    columns, edge = len(squares), 2 * std * np.sqrt(len(squares))
    rank = min(k.RANK, columns)
    clipped = np.clip(np.trace(matrix) / max(squares.sum(), 1e-12), 0.25, 1.0)  # what clipping left of all variance
    work, level = matrix / clipped, edge / clipped
    shared = np.zeros(columns)
    factors = np.zeros((columns, k.RANK))
    for _ in range(k.SHARED_ROUNDS):
        np.fill_diagonal(work, shared)
        values, vectors = eigh(work, subset_by_index=[columns - rank, columns - 1])
        kept = np.sqrt(np.maximum(np.square(np.maximum(values, 0)) - level**2, 0))
        factors[:, :rank] = vectors * np.sqrt(kept)
        shared = np.minimum(np.square(factors).sum(1), k.MOST_SHARED * squares)
    strength = np.maximum(np.square(factors).sum(0), 1e-12)
    size = strength / max(np.square(squares).sum(), 1e-12)  # of a squared loading of the factor, over columns
    noise = (level / 2) ** 2 / columns / strength
    found = factors * squares[:, None] * size / (np.square(squares)[:, None] * size + noise + 1e-12)
    length = np.sqrt(np.square(found).sum(1, keepdims=True))
    return np.asarray(found * np.minimum(1.0, np.sqrt(k.MOST_SHARED) / np.maximum(length, 1e-12)))
