"""Shares of a column's values in bars, for its drawing."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ....io.cell_text import LARGEST_WHOLE
from ...data.tables import words

Bars = tuple[list[str], list[NDArray[np.float64]]]
WIDTH = 24  # bars of a number column


def number_bars(real: pd.Series, made: pd.Series) -> Bars:
    """Shares in equally wide bars between the 0.5 % and 99.5 % quantiles of the real rows, on a log scale if skewed."""
    known = real.dropna().to_numpy(np.float64)
    if not len(known):
        return [], [np.zeros(0), np.zeros(0)]
    low, high = np.quantile(known, [0.005, 0.995])
    positive = known[known > 0]
    skewed = known.min() >= 0 and len(positive) > 10 and high > 15 * np.median(positive)
    whole = False
    if skewed:
        low = max(low, float(np.quantile(positive, 0.01)))
        edges = np.geomspace(low, max(high, low * 1.01), WIDTH + 1)
    else:
        whole = bool((known == np.round(known)).all()) and high - low < WIDTH  # then each number has its own bar
        low, high = (np.floor(low), np.ceil(high)) if whole else (low, high)
        whole = whole and max(abs(low), abs(high)) < LARGEST_WHOLE  # beyond it floats have no halves
        edges = np.arange(low - 0.5, high + 1) if whole else np.linspace(low, high + 1e-9 * (1 + abs(high)), WIDTH + 1)
    shares: list[NDArray[np.float64]] = []
    for values in (known, made.dropna().to_numpy(np.float64)):
        inside = np.clip(np.searchsorted(edges, values, side="right") - 1, 0, len(edges) - 2)
        shares.append(np.asarray(np.bincount(inside, minlength=len(edges) - 1) / max(len(values), 1), np.float64))
    if whole:
        return [f"{a + 0.5:g}" for a in edges[:-1]], shares
    return [f"{a:.4g} to {b:.4g}" for a, b in itertools.pairwise(edges)], shares


def level_bars(real: pd.Series, made: pd.Series) -> Bars:
    """Shares of the most frequent levels of the real rows, and of up to four levels that only `made` has."""
    counts = [words(column).value_counts(normalize=True) for column in (real, made)]
    if not len(counts[0]):  # no value, as in a column of numbers: no share can be computed
        return [], [np.zeros(0), np.zeros(0)]
    shown = list(counts[0].index[:WIDTH]) + [x for x in counts[1].index if x not in counts[0].index][:4]
    shown = sorted(shown) if len(shown) <= 8 else shown
    return [str(x) for x in shown], [np.asarray(c.reindex(shown).fillna(0), np.float64) for c in counts]
