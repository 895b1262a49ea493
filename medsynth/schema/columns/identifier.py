"""Columns of keys, such as record numbers, which are never modelled."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import ClassVar, Literal, Self

import numpy as np
import pandas as pd
from pydantic import model_validator

from ...arrays import Codes, Floats, Texts
from ...errors import EntryError, UsageError
from .column import MAX_CODES, Column, Description, Level, Reading, Values

_DIGITS = re.compile(r"(\d+)")  # decimal digits of any alphabet
SortKey = tuple[tuple[tuple[int, str], ...], str]


def sort_key(key: str) -> SortKey:
    """Return the sort key of a key: a function of this key alone.

    Runs of digits, of any alphabet and length, compare as numbers, and the text between them as text. Keys that differ
    only in leading zeros or alphabets compare as text, so two keys are equal only if their texts are. An empty key
    comes first.

    >>> sorted(["A10", "A2", "10", "9", "09", ""], key=sort_key)
    ['', '09', '9', '10', 'A2', 'A10']
    """
    # Texts have the even places and numbers the odd ones, so that a text never meets a number. Of two numbers without
    # leading zeros the one with more digits is larger.
    parts = _DIGITS.split(key)
    parts[1::2] = ["".join(str(unicodedata.decimal(digit)) for digit in run).lstrip("0") for run in parts[1::2]]
    return tuple((len(part) if k % 2 else 0, part) for k, part in enumerate(parts)), key


class Identifier(Column):
    """A key such as a record number, never modelled. Sampled rows get fresh keys of `shape`, or none with `drop`.

    Each # of the shape is a digit.

    >>> Identifier(shape="MRN-######").value_text(7)
    'MRN-000007'
    """

    modelled: ClassVar[bool] = False
    may_be_target: ClassVar[bool] = False
    levels: ClassVar[tuple[Level, ...]] = ()
    bounds: ClassVar[tuple[None, None]] = (None, None)
    scale: ClassVar[Literal["linear"]] = "linear"

    kind: Literal["identifier"] = "identifier"
    shape: str = "########"
    drop: bool = False

    @property
    def size(self) -> int:
        """The number of keys, including those with more digits than the shape has #."""
        return MAX_CODES + 1

    @property
    def ordered(self) -> bool:
        return False

    @property
    def written(self) -> bool:
        return not self.drop

    @model_validator(mode="after")
    def _check(self) -> Self:
        if not 1 <= self.shape.count("#") <= 9:
            raise EntryError("shape", "`shape` must contain one to nine #, each for a digit of the fresh key")
        return self

    def value_text(self, code: int) -> str:
        """Return the key of a number. If it has more digits than the shape has #, the first # gets the extra digits."""
        places = self.shape.count("#")
        text = str(code).zfill(places)
        digits = iter([text[: len(text) - places + 1], *text[len(text) - places + 1 :]])
        return "".join(next(digits) if mark == "#" else mark for mark in self.shape)

    def fresh(self, first: int, count: int) -> Codes:
        """Return the numbers of `count` keys after the `first`: (count,). Raise UsageError beyond MAX_CODES."""
        if first + count > MAX_CODES:
            raise UsageError(f"A table can have at most {MAX_CODES} keys. Sample fewer rows at once.")
        return first + np.arange(1, count + 1, dtype=np.int32)

    def read(self, texts: Texts) -> Reading:
        """Read any text as key number zero: a real key never gets a code."""
        return Reading(np.zeros(len(texts), np.int64), ())

    def read_values(self, texts: Texts) -> Reading:
        return self.read(texts)

    def decode_values(self, codes: Codes, related: Mapping[str, Values], dtype: str | None) -> pd.Series:
        return pd.Series([None if code >= self.size else self.value_text(int(code)) for code in codes], dtype=object)

    def values(self, codes: Codes, related: Mapping[str, Values]) -> Values:
        return np.array([self.value_text(int(code)) for code in codes], dtype=object)

    def cell_values(self, cells: pd.Series) -> Values:
        return cells.to_numpy(object)

    def ranks(self, cells: pd.Series) -> Floats:
        """Return numbers by which keys ascend, (rows,): their ranks among the sorted keys of these cells.

        Use them for comparisons only: each comparison of two ranks is that of two sort keys. A rank by itself depends
        on all cells, and is not a value of its row.
        """
        place, texts = pd.factorize(cells, use_na_sentinel=False)
        ascending = sorted(range(len(texts)), key=lambda k: sort_key(str(texts[k])))
        return np.argsort(ascending)[place].astype(np.float64)

    def value_range(self, text: str) -> tuple[int, int]:
        raise ValueError("an identifier is fresh in each row and cannot be a condition.")

    def describe(self) -> Description:
        return Description(f"fresh keys like {self.value_text(1)}", "", "never modelled")
