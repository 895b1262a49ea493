"""From drawn bins and classes to codes: bins of every column and the target's classes, from noisy marginals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...privacy.vault import Axes
from ...schema import Schema
from .bins import Bins, grids
from .conditionals import smoothed
from .digit_preference import digit_kinds, shrunk
from .marginals import Condition, Marginal, cleaned

Floats = NDArray[np.float64]
DIGITS_OF = "digits of "  # names the marginal of a column's kinds of numbers


def decoder_axes(schema: Schema, most: int) -> dict[str, Axes]:
    """The one-way marginals that a decoder needs: fine histograms of numbers, and their kinds by preferred digits."""
    histograms: dict[str, Axes] = {name: [(name, cells)] for name, cells in grids(schema, most).items()}
    return histograms | {f"{DIGITS_OF}{name}": [(name, kinds)] for name, kinds in digit_kinds(schema).items()}


def cleaned_histograms(schema: Schema, noisy: dict[str, Floats], rows: int, std: float) -> dict[str, Floats]:
    """Shares from the noisy histograms of columns, and of the kinds of numbers by their preferred digits."""
    return {
        name: smoothed(counts, rows, std, schema.columns[name].gaps)
        if name in schema.columns
        else cleaned(shrunk(counts, std) if name.startswith(DIGITS_OF) else counts, rows)
        for name, counts in noisy.items()
    }


def decoder(
    schema: Schema, histograms: dict[str, Floats], rows: int, most: int = 1
) -> tuple[dict[str, Bins], Condition]:
    """Bins of every column, at most `most` of a number's, and the target's classes, from the noisy histograms."""
    bins = {
        name: Bins.of(column, histograms.get(name), histograms.get(f"{DIGITS_OF}{name}"), most)
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
