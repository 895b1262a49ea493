"""From drawn bins and classes to codes: bins of every column and the target's classes, from noisy marginals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ...schema import Schema
from ...schema.columns.grid import Grid
from .bins import Bins
from .conditionals import smoothed
from .cuts import fine_grid
from .digit_preference import digit_kinds, kind_shares
from .marginals import Condition, Marginal

if TYPE_CHECKING:
    from ...privacy.queries.rows import Axes

Floats = NDArray[np.float64]
DIGITS_OF = "digits of "  # names the marginal of a column's kinds of numbers


def decoder_axes(schema: Schema, grids: Mapping[str, Grid]) -> dict[str, Axes]:
    """The one-way marginals that a decoder needs: numbers on fine `grids`, and their kinds by preferred digits."""
    histograms: dict[str, Axes] = {name: [(name, cells)] for name, cells in grids.items()}
    return histograms | {f"{DIGITS_OF}{name}": [(name, kinds)] for name, kinds in digit_kinds(schema).items()}


def cleaned_histograms(schema: Schema, noisy: dict[str, Floats], rows: float, std: float) -> dict[str, Floats]:
    """Shares from the noisy histograms of columns, and of the kinds of numbers by their preferred digits."""
    shares = {n: smoothed(noisy[n], rows, std, column.gaps) for n, column in schema.columns.items() if n in noisy}
    fine = {name: fine_grid(schema.columns[name]) for name in shares}
    return shares | digit_shares(schema, noisy, dict.fromkeys(noisy, std), rows, fine, shares)


def digit_shares(
    schema: Schema, noisy: Mapping[str, Floats], std: Mapping[str, float], rows: float, grids: Mapping[str, Grid],
    shares: Mapping[str, Floats],
) -> dict[str, Floats]:  # fmt: skip
    """Shares of kinds of numbers by preferred digits, by marginal: of columns with such `shares` on their `grids`."""
    return {
        DIGITS_OF + name: kind_shares(
            noisy[DIGITS_OF + name], std[DIGITS_OF + name], rows, cells.edges + schema.columns[name].units[0],
            shares[name],
        )
        for name, cells in grids.items()
        if DIGITS_OF + name in noisy
    }  # fmt: skip


def decoder(
    schema: Schema, histograms: dict[str, Floats], rows: float, most: int = 1, grids: dict[str, Grid] | None = None,
    wide: float = 0.0,
) -> tuple[dict[str, Bins], Condition]:  # fmt: skip
    """Bins of every column, at most `most` of a number's, and the target's classes, from the noisy histograms.

    `grids`: of the histograms that are not on their column's public grid; `wide`: as for `Bins.of`.
    """
    fine = grids or {}
    bins = {
        name: Bins.of(column, histograms.get(name), histograms.get(f"{DIGITS_OF}{name}"), most, fine.get(name), wide)
        for name, column in schema.columns.items()
    }
    target = schema.target or ""
    if not target:
        return bins, Condition.of(schema, {})
    column, cells = schema.columns[target], bins[target].grid.cells
    marginal = Marginal.of(column, rows * histograms.get(target, np.full(cells, 1 / cells)), rows, bins[target].grid)
    return bins, Condition.of(schema, {target: marginal})


def decoder_tensors(
    histograms: dict[str, Floats], bins: dict[str, Bins], names: list[str]
) -> dict[str, NDArray[np.float32]]:
    """What a model keeps of its decoder: the histograms, and the bin of each fine cell of the columns `names`."""
    kept = {f"histogram.{name}": shares.astype(np.float32) for name, shares in histograms.items()}
    return kept | {f"place.{name}": bins[name].place.astype(np.float32) for name in names}


def grid_tensors(grids: dict[str, Grid]) -> dict[str, NDArray[np.float32]]:
    """Edges of grids as a model keeps them, (2, edges)."""
    return {f"edges.{name}": whole_tensor(grid.edges) for name, grid in grids.items()}


def restored_grids(tensors: dict[str, NDArray[np.float32]], schema: Schema) -> dict[str, Grid]:
    """The grids that `grid_tensors` were taken from."""
    found = {k.removeprefix("edges."): whole_numbers(t) for k, t in tensors.items() if k.startswith("edges.")}
    return {name: Grid(edges, schema.columns[name].gaps) for name, edges in found.items()}


def whole_tensor(numbers: NDArray[np.int64]) -> NDArray[np.float32]:
    """Whole numbers as a model keeps them, (2, numbers): multiples of 2^16 and the rest, which float32 holds."""
    return np.stack([numbers >> 16, numbers & 0xFFFF]).astype(np.float32)


def whole_numbers(tensor: NDArray[np.float32]) -> NDArray[np.int64]:
    """The numbers that `whole_tensor` was taken from."""
    high, low = tensor.astype(np.int64)
    return np.asarray((high << 16) + low)
