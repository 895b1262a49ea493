"""Real rows as a plain reader of the file has them: what classifiers can learn from them before any model touched them.

The baseline of utility is trained and tested on this form. In the form in which the tables are compared, a schema that
was learned under noise may have taken a column of numbers for one of words, or have cut its bounds short: a baseline
that suffers from the same would hide what the model lost.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from ...schema import Column, Schema
from .missing_codes import is_number, missing_codes, numbers_of

MOST_WORDS = 60  # of a column, the most frequent ones; the others are one word
RARE = "(rare)"


def plain(
    cells: list[pd.DataFrame], compared: list[pd.DataFrame], target: str, schema: Schema | None, *, learned: bool
) -> list[pd.DataFrame]:
    """Each table of real rows, given as cells of text and as compared, with its numbers and words as they are written.

    Columns that a person declared keep their declared kind, unclipped; those of a `learned` schema, and undeclared
    ones, are read by their cells alone. The target stays as it is compared.
    """
    together = pd.concat(cells, ignore_index=True)
    made = [frame.copy() for frame in compared]
    for name in [n for n in compared[0].columns if n in together.columns and n != target]:
        column = schema.columns.get(name) if schema else None
        if column is not None and (column.dated or (column.categorical and not learned)):
            continue
        values = _read(together[name]) if column is None or learned else _declared(together[name], column)
        for frame, part in zip(made, _split(values, cells), strict=True):
            frame[name] = part
    return made


def _read(cells: pd.Series) -> pd.Series:
    """The numbers or words of a column that nobody declared."""
    known = cells.mask(cells.isin(list(missing_codes(cells))), None)
    return numbers_of(known) if is_number(known.dropna()) else _common(known)


def _declared(cells: pd.Series, column: Column) -> pd.Series:
    """The numbers of a declared column, its declared codes of missing values aside."""
    place, texts = pd.factorize(cells, use_na_sentinel=False)
    gaps, undeclared = column.missing_in(np.asarray(texts, dtype=object))
    return numbers_of(cells.mask(((gaps >= 0) | undeclared)[place], None))


def _common(words: pd.Series) -> pd.Series:
    """Words, all but the most frequent ones as one."""
    kept = words.value_counts().index[:MOST_WORDS]
    return words.where(words.isna() | words.isin(kept), RARE)


def _split(values: pd.Series, cells: list[pd.DataFrame]) -> list[pd.Series]:
    """The values of each table, which stand one below another."""
    ends = pd.Series([len(frame) for frame in cells]).cumsum()
    return [values.iloc[end - len(frame) : end].reset_index(drop=True) for end, frame in zip(ends, cells, strict=True)]
