"""Rows as cells and as points: the coding under which tables are compared. Cells come from real held-out rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata

from .tables import Tables, common_levels, words

CELLS = 12  # quantile cells of a number column; a value that many rows share is a cell of its own
MOST_LEVELS = 40  # levels of a word column beyond the most frequent ones are one cell


@dataclass(frozen=True)
class Coding:
    """Maps every column to cells: `edges` of number columns, `levels` of word columns; the last cell is missing."""

    edges: dict[str, NDArray[np.float64]]
    levels: dict[str, list[str]]

    @classmethod
    def of(cls, tables: Tables) -> Coding:
        """The coding that the real held-out rows of `tables` imply."""
        edges, levels = {}, {}
        everyone = [t for t in (tables.real, tables.synthetic, tables.train) if t is not None]
        for name in tables.names:
            if name in tables.numbers:
                known = tables.real[name].dropna().to_numpy(np.float64)
                edges[name] = np.unique(np.quantile(known, np.linspace(0, 1, CELLS + 1)[1:-1])) if len(known) else known
            else:
                found = common_levels(everyone, name)
                if len(found) > MOST_LEVELS:
                    found = sorted(words(tables.real[name]).value_counts().index[:MOST_LEVELS])
                levels[name] = found
        return cls(edges, levels)

    def cells(self, name: str) -> int:
        """Number of cells of a column, the missing one included."""
        # A value between an edge and its equal has a cell of its own: heaps at zero must not blur.
        return 2 * len(self.edges[name]) + 2 if name in self.edges else len(self.levels[name]) + 2

    def column(self, frame: pd.DataFrame, name: str) -> NDArray[np.int64]:
        """The cell of each row: (rows,)."""
        if name in self.edges:
            value, edges = frame[name].to_numpy(np.float64), self.edges[name]
            cell = np.searchsorted(edges, value, side="left") + np.searchsorted(edges, value, side="right")
            return np.asarray(np.where(np.isnan(value), self.cells(name) - 1, cell), np.int64)
        place = {level: k for k, level in enumerate(self.levels[name])}
        text = words(frame[name])
        level = text.map(place).fillna(len(place)).to_numpy(np.int64)
        return np.where(text.isna().to_numpy(), len(place) + 1, level)

    def table(self, frame: pd.DataFrame) -> NDArray[np.int64]:
        """(rows, columns) cells of every column of `frame`."""
        return np.stack([self.column(frame, name) for name in frame.columns], 1)


def points(tables: Tables, frames: list[pd.DataFrame]) -> list[NDArray[np.float64]]:
    """Each frame as points (rows, dimensions) in which distances mean something across columns.

    Numbers are ranked over all frames together, to [0, 1]; words are indicators, so that two levels are as far apart
    as two ends of a number; a missing number stands in the middle with an indicator of its own.
    """
    together = pd.concat(frames, ignore_index=True)
    parts: list[NDArray[np.float64]] = []
    for name in tables.names:
        column = together[name]
        if name in tables.numbers:
            value = column.to_numpy(np.float64)
            gone = np.isnan(value)
            rank = np.full(len(value), 0.5)
            if not gone.all():
                rank[~gone] = rankdata(value[~gone]) / (~gone).sum()
            parts += [rank[:, None], gone[:, None].astype(np.float64)] if gone.any() else [rank[:, None]]
        else:
            codes, uniques = pd.factorize(words(column).fillna(""), sort=True)
            keep = min(len(uniques), MOST_LEVELS)
            common = np.argsort(-np.bincount(codes))[:keep]
            parts.append((codes[:, None] == common) / np.sqrt(2))
    whole, stops = np.concatenate(parts, 1), np.cumsum([len(f) for f in frames])[:-1]
    return np.split(whole, stops)
