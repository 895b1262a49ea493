"""Measure a noisy matrix of second moments per class, for tables of hundreds of columns: one sum for all pairs.

500 columns have 124,750 pairs, and a table of each would be all noise. One matrix per class measures all of them, with
the noise of a single query. `fit._of_low_rank` calls these, in this order:

1. `normal_scores`: a bin's score is the mean of a standard normal variable over the bin's part of it, by the released
   shares of the row's class. A binary column with even shares has the scores -0.8 and 0.8.
2. `MomentMatrix`: a row's vector of scores is divided by a little more than its expected norm, also by these shares
   (NORM_ROOM), and the query clips it at norm one. The sum of x x^T over a class's rows is released (private
   covariance: Dwork, Talwar, Thakurta and Zhang 2014). It needs a column with ordered bins, which `fit` checks.
3. `loadings`: the largest eigenvectors of the noisy matrix, shrunk by what noise adds, give each column's loadings on a
   normal latent variable of few dimensions. Two columns are related as far as their loadings point the same way.
4. `latent_points`: the points of that variable at which the sampler computes shares of bins.

Columns are independent given the latent variable: Gaussian copulas on the noisy class-by-bin marginals. Levels without
an order have no score, so they depend on the class alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..arrays import Codes, Floats
from ..methods.bins import Bins
from ..methods.sampler import normal_cuts
from ..privacy.queries.content import MOST_WIDTH, STEPS, check_numbers, check_size, require
from ..privacy.queries.measurements import Measurements
from ..privacy.queries.rows import CellMap, cells_of, column_of
from ..rng import Stream
from . import constants as k


def ordered_bins(bins: Bins) -> int:
    """Return the number of leading bins that are neighbours in value: of a number, or of a binary column."""
    values = bins.cells - bins.column.gaps
    return values if bins.ordered or values == 2 else 0


def normal_scores(shares: Floats, ordered: int) -> Floats:
    """Return the normal score of each bin by its class's `shares`, both (classes, bins). Scores have mean zero, and
    are zero after the first `ordered` bins.
    """
    parts = shares[:, :ordered] / shares[:, :ordered].sum(1, keepdims=True)
    cuts = normal_cuts(parts)
    density = np.exp(-np.square(cuts) / 2) / np.sqrt(2 * np.pi)
    found = np.zeros(shares.shape)
    found[:, :ordered] = -np.diff(density) / np.maximum(parts, 1e-12)
    return found


@dataclass(frozen=True, eq=False)
class Scores:
    """A map from a row's codes to one number per column, by `tables`, (classes, bins) per column.

    `given`: the target and its classes. `order`: the names of the codes' columns. Raises QueryError unless each column
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
        """Return scores by table look-up, (rows, columns). A row's scores never depend on other rows."""
        target, classes = self.given
        labels = cells_of(classes, column_of(codes, self.order, target))
        found = np.empty((len(codes), len(self.tables)))
        for place, (name, table) in enumerate(self.tables.items()):
            found[:, place] = table[labels, cells_of(self.cells[name], codes[:, self.order.index(name)])]
        return found


class MomentMatrix:
    """Second moments of the normal scores of columns, within the row's class.

    `bins`: of every column. `shares`: p(bin | class), (classes, bins) per column. `names`: the columns to read.
    Categorical columns of more than two levels are left out, and a random part if matrices are too large. `given`: the
    target's name and the map from its codes to classes. `order`: the names of the codes' columns.
    """

    def __init__(
        self, bins: Mapping[str, Bins], shares: Mapping[str, Floats], names: Sequence[str], given: tuple[str, CellMap],
        order: Sequence[str], stream: Stream,
    ) -> None:  # fmt: skip
        ordered = {name: ordered_bins(bins[name]) for name in names}
        some = [name for name in names if ordered[name] > 1]
        most = int(np.sqrt(2 * k.MOST_ENTRIES / given[1].cells))
        kept = set(stream.permutation(len(some))[:most].tolist())
        self.names = [name for place, name in enumerate(some) if place in kept]
        self.bins = bins
        self.given = given
        self.order = tuple(order)
        self.ordered = {name: ordered[name] for name in self.names}
        scores = {name: normal_scores(shares[name], self.ordered[name]) for name in self.names}
        # (columns, classes): the expected squared score; less than one, because bins hide variance
        self.squares = np.stack([(shares[n] * np.square(scores[n])).sum(1) for n in self.names])
        # (classes,): the norms at which rows are clipped
        self.norms = np.sqrt(k.NORM_ROOM * np.maximum(self.squares.sum(0), 1e-12))
        # Rounded, because last bits of logarithms differ by machine, and a query must not.
        tables = {name: np.round(scores[name] / self.norms[:, None] * STEPS) / STEPS for name in self.names}
        self.features = Scores({name: bins[name] for name in self.names}, self.order, given, tables)

    def measure(self, vault: Measurements, label: str, noise: float, rows: Floats) -> Covariances:
        """Measure the matrices over all rows. `rows`: noisy, by class, (classes,). `noise`: the plan's multiplier."""
        sums = vault.measure_second_moments(label, self.features, self.given, len(self.names))
        scale = np.square(self.norms) / np.maximum(rows, 1.0)
        return Covariances(self.squares.T, sums * scale[:, None, None], noise * scale / np.sqrt(2), rows)


@dataclass(frozen=True, eq=False)
class Covariances:
    """Noisy covariances of scores, (classes, columns, columns). `std`: of the noise off the diagonal, (classes,).

    `squares`: the scores' variances by the marginals, (classes, columns). `rows`: (classes,).
    """

    squares: Floats
    matrices: Floats
    std: Floats
    rows: Floats


def latent_points(count: int, rank: int, rng: Stream) -> Floats:
    """Draw normal points, (count, rank), with mean zero.

    Each point comes with its negative, so that columns nearly keep their shares. With `rank` pairs or more, the second
    moments are exactly those of a standard normal variable.
    """
    half = rng.standard_normal((count // 2, rank))
    half = np.linalg.qr(half)[0] * np.sqrt(len(half)) if len(half) >= rank else half
    return np.concatenate([half, -half])


def loadings(found: Covariances) -> Floats:
    """Return loadings, (classes, columns, rank). A class with a matrix of pure noise gets those of all classes."""
    weights = found.rows / found.rows.sum()
    together = np.einsum("k,kij->ij", weights, found.matrices)
    common = _factors(together, weights @ found.squares, float(np.sqrt(np.square(weights * found.std).sum())))
    each = [_factors(*one) for one in zip(found.matrices, found.squares, found.std.tolist(), strict=True)]
    return np.stack([own if own.any() else common for own in each])


def _factors(matrix: Floats, squares: Floats, std: float) -> Floats:
    """Return loadings of latent variables, (columns, rank), for scores with covariances `matrix` and noise `std`.

    `squares`: the scores' variances, below one because bins hide variance. The covariance of two scores is about the
    product of both variances and the correlation inside the bins. Noise lifts an eigenvalue x to about y = x +
    (columns std^2) / x and rotates its vector. sqrt(y^2 - 4 columns std^2) is the best estimate of x, and zero if y is
    smaller than the noise (Gavish and Donoho 2017).
    """
    from scipy.linalg import eigh

    columns = len(squares)
    edge = 2 * std * np.sqrt(len(squares))
    rank = min(k.RANK, columns)
    clipped = np.clip(np.trace(matrix) / max(squares.sum(), 1e-12), 0.25, 1.0)  # variance left by clipping
    work, level = matrix / clipped, edge / clipped
    shared = np.zeros(columns)
    factors = np.zeros((columns, k.RANK))
    for _ in range(k.SHARED_ROUNDS):
        # The diagonal contains each column's own variance, which no factor shares: replace it by the shared part.
        np.fill_diagonal(work, shared)
        values, vectors = eigh(work, subset_by_index=[columns - rank, columns - 1])
        kept = np.sqrt(np.maximum(np.square(np.maximum(values, 0)) - level**2, 0))
        factors[:, :rank] = vectors * np.sqrt(kept)
        shared = np.minimum(np.square(factors).sum(1), k.MOST_SHARED * squares)
    strength = np.maximum(np.square(factors).sum(0), 1e-12)
    # Shrink each loading by its own noise, relative to the usual size of the factor's loadings.
    size = strength / max(np.square(squares).sum(), 1e-12)  # mean squared loading of the factor over columns
    noise = (level / 2) ** 2 / columns / strength
    found = factors * squares[:, None] * size / (np.square(squares)[:, None] * size + noise + 1e-12)
    length = np.sqrt(np.square(found).sum(1, keepdims=True))
    return np.asarray(found * np.minimum(1.0, np.sqrt(k.MOST_SHARED) / np.maximum(length, 1e-12)))
