"""The public grid of all tools and figures: levels as they are, numbers in 20 bins of the declared scale and bounds.

A second grid has the training rows' own quantiles as its bins. Figures use it, and tools whose name ends in
-quantiles; no private tool could know these bins for free. The last code is the missing value. A code becomes one of
the values that the column can hold in the bin, all equally likely on the column's scale.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

Codes = NDArray[np.int64]
BINS = 20


class Grid:
    """The codes of one column: numbers in `bins` even bins, or between the quantiles of `fitted`."""

    def __init__(self, column: Any, fitted: pd.Series[Any] | None = None, bins: int = BINS) -> None:
        self.missing = bool(column.missing)
        self.levels = list(column.levels)
        if self.levels:
            self.known = len(self.levels)
            return
        self.log, self.step = getattr(column, "scale", "linear") == "log", 10.0**-column.places
        # Whole units of the last decimal place, from the lowest to the highest that the column can hold.
        self.low, self.high = (round(float(end) / self.step) for end in column.bounds)
        self.known = min(bins, self.high - self.low + 1)
        ends = self.scaled(np.array([self.low, self.high + 1]))
        self.edges = np.linspace(ends[0], ends[1], self.known + 1)
        if fitted is not None and self.known == bins:
            units = np.clip(np.rint(fitted.dropna().to_numpy(np.float64) / self.step), self.low, self.high)
            inner = np.unique(np.ceil(np.quantile(units, np.linspace(0, 1, bins + 1)[1:-1])))
            inner = self.scaled(inner[(inner > self.low) & (inner <= self.high)])
            self.edges = np.concatenate([ends[:1], inner, ends[1:]])
            self.known = len(self.edges) - 1

    @property
    def first_units(self) -> NDArray[np.float64]:
        """Return the lowest unit of each bin of a number, and the unit after the last bin: (known + 1,)."""
        return np.ceil(np.expm1(self.edges) if self.log else self.edges - 1e-9)

    @property
    def cut_points(self) -> list[float]:
        """Return the lowest value of each bin but the first; nothing if each value is a bin."""
        if self.levels or self.known == self.high - self.low + 1:
            return []
        units = np.unique(self.first_units[1:-1])
        return list(map(float, self.numbers(units[(units > self.low) & (units <= self.high)])))

    @property
    def size(self) -> int:
        """Return the number of codes, the missing value included."""
        return self.known + self.missing

    def scaled(self, units: NDArray[Any]) -> NDArray[np.float64]:
        """Return units on the column's scale."""
        return np.log1p(units) if self.log else np.asarray(units, np.float64)

    def numbers(self, units: NDArray[Any]) -> NDArray[np.float64]:
        """Return units as numbers, rounded to the column's decimals."""
        return np.asarray(np.round(units * self.step, max(0, round(-np.log10(self.step)))))

    def codes(self, values: pd.Series[Any]) -> Codes:
        """Return the codes of values (rows,). Raise ValueError for a level that the schema does not declare."""
        gone = values.isna().to_numpy()
        if self.levels:
            at = {str(level): k for k, level in enumerate(self.levels)}
            found = values.astype(str).map(at).to_numpy(np.float64)
            if np.isnan(found[~gone]).any():
                raise ValueError("a level is not declared")
        else:
            numbers = np.where(gone, self.low * self.step, values.to_numpy(np.float64, na_value=np.nan))
            units = np.clip(np.rint(numbers / self.step), self.low, self.high)
            found = np.searchsorted(self.edges[1:-1], self.scaled(units), side="right").astype(np.float64)
        if gone.any() and not self.missing:
            raise ValueError("a value is missing where the schema declares none")
        return np.where(gone, self.known, found).astype(np.int64)

    def values(self, codes: Codes, rng: np.random.Generator) -> pd.Series[Any]:
        """Draw values for codes (rows,), each within its bin."""
        gone = codes >= self.known
        codes = np.where(gone, 0, codes)
        if self.levels:
            return pd.Series(np.array(self.levels, object)[codes]).mask(gone)
        ends = self.first_units
        first, last = ends[codes], np.maximum(ends[codes], ends[codes + 1] - 1)
        chance, low, high = rng.random(len(codes)), self.edges[codes], self.edges[codes + 1]
        drawn = np.expm1(low + chance * (high - low)) if self.log else first + chance * (last - first + 1)
        units = np.clip(np.clip(np.floor(drawn), first, last), self.low, self.high)
        return pd.Series(self.numbers(units)).mask(gone)


def grids(schema: Any, fitted: pd.DataFrame | None = None, bins: int = BINS) -> dict[str, Grid]:
    """Return the grid of every column: even, or between the quantiles of `fitted`."""
    return {n: Grid(column, None if fitted is None else fitted[n], bins) for n, column in schema.columns.items()}


def coded(frame: pd.DataFrame, by: dict[str, Grid]) -> pd.DataFrame:
    """Return a table's codes, columns in the schema's order."""
    return pd.DataFrame({name: grid.codes(frame[name]) for name, grid in by.items()})


def decoded(codes: pd.DataFrame, by: dict[str, Grid], rng: np.random.Generator) -> pd.DataFrame:
    """Return a table of values from codes."""
    return pd.DataFrame({name: grid.values(codes[name].to_numpy(np.int64), rng) for name, grid in by.items()})


def with_cut_points(schema: Any) -> Any:
    """Return the schema with the edges of the even bins as cut points of its number columns."""
    found = schema.to_dict()
    for name, grid in grids(schema).items():
        if points := grid.cut_points:
            found["columns"][name]["cut_points"] = points
    return type(schema).from_dict(found)
