"""Summaries of the columns of synthetic rows. They are functions of rows that a model drew, so they cost no privacy."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..privacy.queries.rows import Codes
from ..schema.columns.column import Column

QUARTERS = (0.25, 0.5, 0.75)
MOST_SHARES = 20  # levels with a share of their own


@dataclass(frozen=True, kw_only=True)
class ColumnSummary:
    """The share of missing values, and either three quartiles as texts or the shares of levels among all rows."""

    missing: float
    quartiles: tuple[str, ...] = ()
    shares: tuple[tuple[str, float], ...] = ()

    @property
    def sentence(self) -> str:
        """Return the summary in words, with its source."""
        words = [f"{self.missing:.1%} missing"]
        words += ["quartiles " + ", ".join(self.quartiles)] if self.quartiles else []
        words += ["shares " + ", ".join(f"{level} {share:.1%}" for level, share in self.shares)] if self.shares else []
        return f"in the synthetic rows: {', '.join(words)}"


def summary(column: Column, codes: Codes) -> ColumnSummary:
    """Return the summary of the synthetic `codes`, (rows,), of a column. Keys have only a share of missing values.

    Quartiles are values of the column. Levels after the most frequent MOST_SHARES are added up.
    """
    gone = codes >= column.size
    share = float(np.mean(gone)) if len(codes) else 0.0
    known = codes[~gone]
    if not column.modelled or not len(known):
        return ColumnSummary(missing=share)
    if not column.categorical:
        found = np.quantile(known, QUARTERS, method="inverted_cdf")
        return ColumnSummary(missing=share, quartiles=tuple(column.text(int(code)) for code in found))
    counts = np.bincount(known, minlength=column.size) / len(codes)
    first = np.argsort(-counts, kind="stable")[:MOST_SHARES]
    shares = [(column.text(int(code)), float(counts[code])) for code in sorted(first)]
    rest = float(counts.sum() - counts[first].sum())
    others = [("all other levels", rest)] if column.size > MOST_SHARES else []
    return ColumnSummary(missing=share, shares=(*shares, *others))
