"""A noisy matrix of second moments a class, for tables of hundreds of columns: one sum over all pairs of columns.

A column's value is its normal score within the row's class: the mean of the part of a standard normal variable that the
bin stands for, by the released shares of bins. A row's vector is divided by the norm that is expected of it, by these
shares too, and clipped. (Private covariance: Dwork, Talwar, Thakurta and Zhang 2014.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from ....privacy.queries.content import MOST_WIDTH, check_numbers, check_size, require
from ....privacy.queries.kinds import kind
from ....privacy.queries.measurements import Measurements
from ....privacy.queries.rows import CellMap, Codes, cells_of, column_of
from ...shared.bins import Bins
from ...shared.copula import normal_cuts
from ..budget_rule import MOST_ENTRIES

Floats = NDArray[np.float64]
ROOM = 1.5  # by which a row's squared norm may exceed what is expected of it before it is clipped


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


@kind("scores")
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
        """(rows, columns): by tables; no row's depend on the rows beside it."""
        target, classes = self.given
        labels = cells_of(classes, column_of(codes, self.order, target))
        found = np.empty((len(codes), len(self.tables)))
        for k, (name, table) in enumerate(self.tables.items()):
            found[:, k] = table[labels, cells_of(self.cells[name], codes[:, self.order.index(name)])]
        return found


class MomentMatrix:
    """Second moments of the normal scores of columns, within the row's class.

    `bins`: every column's; `base`: log p(bin | class), (classes, bins) a column; `names`: the columns to read, of
    which a random part is left out where matrices would be too large, and those of more than two levels; `given`: the
    target's name and the map from its codes to classes; `order`: the names of the codes' columns.
    """

    def __init__(
        self, bins: Mapping[str, Bins], base: Mapping[str, Floats], names: Sequence[str], given: tuple[str, CellMap],
        order: Sequence[str], stream: torch.Generator,
    ) -> None:  # fmt: skip
        ordered = {name: ordered_bins(bins[name]) for name in names}
        some = [name for name in names if ordered[name] > 1]
        most = int(np.sqrt(2 * MOST_ENTRIES / given[1].cells))
        kept = set(torch.randperm(len(some), generator=stream)[:most].tolist())
        self.names = [name for k, name in enumerate(some) if k in kept]
        self.bins, self.given, self.order = bins, given, tuple(order)
        self.ordered = {name: ordered[name] for name in self.names}
        shares = {name: np.exp(base[name]) for name in self.names}
        scores = {name: normal_scores(shares[name], self.ordered[name]) for name in self.names}
        # (columns, classes): what is expected of a squared score; less than one, by what bins hide
        self.squares = np.stack([(shares[n] * np.square(scores[n])).sum(1) for n in self.names])
        self.norms = np.sqrt(ROOM * np.maximum(self.squares.sum(0), 1e-12))  # (classes,), at which rows are clipped
        tables = {name: scores[name] / self.norms[:, None] for name in self.names}
        self.features = Scores({name: bins[name] for name in self.names}, self.order, given, tables)

    def measure(self, vault: Measurements, label: str, noise: float, rows: Floats) -> Covariances:
        """Of all rows. `rows`: of each class, (classes,), noisy; `noise`: the plan's multiplier."""
        sums = vault.measure_second_moments(label, self.features, self.given, len(self.names))
        scale = np.square(self.norms) / np.maximum(rows, 1.0)
        return Covariances(self.squares.T, sums * scale[:, None, None], noise * scale / np.sqrt(2), rows)


@dataclass(frozen=True, eq=False)
class Covariances:
    """Noisy covariances of scores, (classes, columns, columns), and the noise of one beside the diagonal, (classes,).

    `squares`: the scores' own variances by the marginals, (classes, columns); `rows`: (classes,).
    """

    squares: Floats
    matrices: Floats
    std: Floats
    rows: Floats
