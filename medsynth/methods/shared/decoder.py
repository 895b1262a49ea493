"""What turns drawn bins and classes into codes: bins of every column and the target's classes, from noisy answers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...schema import Schema
from .bins import Bins
from .conditionals import smoothed
from .digit_preference import shrunk
from .marginals import Condition, Marginal, cleaned

Floats = NDArray[np.float64]


def cleaned_histograms(schema: Schema, answers: dict[str, Floats], rows: int, std: float) -> dict[str, Floats]:
    """Shares from the noisy histograms of columns, and of the kinds of numbers that values are heaped on."""
    return {
        name: smoothed(answer, rows, std, schema.columns[name].gaps)
        if name in schema.columns
        else cleaned(shrunk(answer, std) if name.startswith("grain ") else answer, rows)
        for name, answer in answers.items()
    }


def codebook(
    schema: Schema, histograms: dict[str, Floats], rows: int, most: int = 1
) -> tuple[dict[str, Bins], Condition]:
    """Bins of every column, at most `most` of a number's, and the target's classes, from the noisy histograms."""
    bins = {
        name: Bins.of(column, histograms.get(name), histograms.get(f"grain {name}"), most)
        for name, column in schema.columns.items()
    }
    target = schema.target or ""
    if not target:
        return bins, Condition.of(schema, {})
    column, cells = schema.columns[target], bins[target].grid.cells
    marginal = Marginal.of(column, rows * histograms.get(target, np.full(cells, 1 / cells)), rows, bins[target].grid)
    return bins, Condition.of(schema, {target: marginal})
