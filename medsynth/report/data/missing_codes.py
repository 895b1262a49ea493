"""Codes by which hospitals write a missing value: recognised where nobody declared them, and only where they are plain.

A word is one among cells that are all numbers else; a number such as -9 or 999 is one where it lies clearly apart from
every other value. A code in more than half of the cells says something of its own, and stays.

An infinity is a word here, and `numbers_of` reads cells as numbers that every section can compute with.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from ...io import table as io_table
from ...schema.cells import MISSING_NUMBERS, MISSING_WORDS

INFINITIES = frozenset(sign + word for sign in ("", "+", "-") for word in ("inf", "infinity"))
WORDS = frozenset(word.lower() for word in MISSING_WORDS) | INFINITIES
NUMBERS = tuple(float(code) for code in MISSING_NUMBERS)
MOST = 0.5  # of the cells; a code of more says something of its own
ODD = 0.01  # of the known cells that may be no numbers in a column that is read as numbers
LARGEST = 1e30  # absolute value of a number that is compared: float32, in which trees read, ends at 3e38


def missing_codes(column: pd.Series) -> frozenset[str]:
    """The texts in a column of cells that stand for a missing value, empty cells and their like among them."""
    counts = column.value_counts()
    rows = max(len(column), 1)
    gone = {text for text in counts.index if text in io_table.MISSING_TOKENS}
    words = {text for text in counts.index if text.lower() in WORDS and counts[text] <= MOST * rows}
    if not is_number(column[~column.isin(gone | words)]):
        return frozenset(gone)
    gone |= words
    texts = [t for t in counts.index if t not in gone]
    values = pd.to_numeric(pd.Series(texts, dtype=object), errors="coerce")
    known = values[~values.isin(NUMBERS)]
    if known.nunique() < 2:
        return frozenset(gone)
    low, high = float(known.min()), float(known.max())
    for text, value in zip(texts, values, strict=True):
        if value in NUMBERS and counts[text] <= MOST * rows and _apart(float(value), low, high):
            gone.add(text)
    return frozenset(gone)


def is_number(cells: pd.Series) -> bool:
    """Whether known cells are numbers, but for a few odd ones; one with a leading zero, such as 007, is a name."""
    counts = cells[~cells.isin(io_table.MISSING_TOKENS)].value_counts()
    numeric = [io_table.is_number(str(text)) for text in counts.index]
    return bool(len(counts)) and bool(counts[numeric].sum() >= (1 - ODD) * counts.sum())


def numbers_of(cells: pd.Series) -> pd.Series:
    """Return the number in each cell; NaN for a text that is not a number, an infinity, or a number beyond LARGEST."""
    numbers = pd.to_numeric(cells, errors="coerce")
    return numbers.where(numbers.abs() <= LARGEST, np.nan) if (numbers.abs() > LARGEST).any() else numbers


def _apart(value: float, low: float, high: float) -> bool:
    """Whether a code is further from the other values, which lie between `low` and `high`, than these from each other.

    A negative code among values that are never negative is apart too.
    """
    return (value < 0 <= low) or max(low - value, value - high) > high - low
