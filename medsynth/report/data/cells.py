"""Tables as cells, as points and as a matrix for trees: the forms in which they are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata

from .tables import Tables, common_levels, words

CELLS = 12  # quantile cells of a number column; a value that many rows share is a cell of its own
MOST_LEVELS = 40  # levels of a word column beyond the most frequent ones are one cell


@dataclass(frozen=True)
class Cells:
    """Maps every column to cells: `edges` of number columns, `levels` of word columns; the last cell is missing."""

    edges: dict[str, NDArray[np.float64]]
    levels: dict[str, list[str]]

    @classmethod
    def of(cls, tables: Tables) -> Cells:
        """The cells that the real held-out rows of `tables` imply."""
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

    def count(self, name: str) -> int:
        """Number of cells of a column, the missing one included."""
        # A value equal to an edge has a cell of its own: a value that many rows share, such as zero, stays sharp.
        return 2 * len(self.edges[name]) + 2 if name in self.edges else len(self.levels[name]) + 2

    def column(self, frame: pd.DataFrame, name: str) -> NDArray[np.int64]:
        """The cell of each row: (rows,)."""
        if name in self.edges:
            value, edges = frame[name].to_numpy(np.float64), self.edges[name]
            cell = np.searchsorted(edges, value, side="left") + np.searchsorted(edges, value, side="right")
            return np.asarray(np.where(np.isnan(value), self.count(name) - 1, cell), np.int64)
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
    blocks: list[NDArray[np.float64]] = []
    for name in tables.names:
        column = together[name]
        if name in tables.numbers:
            value = column.to_numpy(np.float64)
            gone = np.isnan(value)
            rank = np.full(len(value), 0.5)
            if not gone.all():
                rank[~gone] = rankdata(value[~gone]) / (~gone).sum()
            blocks += [rank[:, None], gone[:, None].astype(np.float64)] if gone.any() else [rank[:, None]]
        else:
            codes, uniques = pd.factorize(words(column).fillna(""), sort=True)
            keep = min(len(uniques), MOST_LEVELS)
            common = np.argsort(-np.bincount(codes))[:keep]
            blocks.append((codes[:, None] == common) / np.sqrt(2))
    return _split(np.concatenate(blocks, 1), frames)


def matrices(names: Sequence[str], numbers: frozenset[str], frames: list[pd.DataFrame]) -> list[NDArray[np.float64]]:
    """Each frame as (rows, names), one number a cell, as trees read it: levels as codes, missing values as NaN."""
    together = pd.concat([frame[list(names)] for frame in frames], ignore_index=True)
    columns = [
        together[name].to_numpy(np.float64)
        if name in numbers
        else np.where(together[name].isna(), np.nan, pd.factorize(words(together[name]), sort=True)[0])
        for name in names
    ]
    return _split(np.stack(columns, 1), frames)


def _split(whole: NDArray[np.float64], frames: list[pd.DataFrame]) -> list[NDArray[np.float64]]:
    return np.split(whole, np.cumsum([len(frame) for frame in frames])[:-1])
