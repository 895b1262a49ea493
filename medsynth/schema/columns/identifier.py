"""Columns of keys, such as record numbers: never modelled."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import ClassVar, Literal, Self

import numpy as np
import pandas as pd
from pydantic import model_validator

from ...errors import UsageError
from .column import MAX_CODES, Codes, Column, Description, Floats, Level, Reading, Texts, Values

_DIGITS = re.compile(r"(\d+)")  # decimal digits of any alphabet
SortKey = tuple[tuple[tuple[int, str], ...], str]


def sort_key(key: str) -> SortKey:
    """Return what a key is compared by: a function of this key alone.

    Runs of digits, of any alphabet and length, are compared as numbers, and what lies between them as text. Keys that
    differ in leading zeros or alphabets alone are compared as text, so two keys are equal only if their texts are. An
    empty key comes first.

    >>> sorted(["A10", "A2", "10", "9", "09", ""], key=sort_key)
    ['', '09', '9', '10', 'A2', 'A10']
    """
    # Texts have the even places and numbers the odd ones, so that a text is never compared with a number. Of two
    # numbers without leading zeros the one of more digits is larger.
    parts = _DIGITS.split(key)
    parts[1::2] = ["".join(str(unicodedata.decimal(digit)) for digit in run).lstrip("0") for run in parts[1::2]]
    return tuple((len(part) if k % 2 else 0, part) for k, part in enumerate(parts)), key


class Identifier(Column):
    """A key such as a record number: never modelled. Sampled rows get fresh keys of `shape`, or none with `drop`.

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
        """How many keys there are: those of more digits than the shape has # included."""
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
            raise ValueError("shape must have one to nine #, each a digit of the fresh key")
        return self

    def value_text(self, code: int) -> str:
        """The key of a number; one with more digits than the shape has # grows where the first of them stands."""
        places = self.shape.count("#")
        text = str(code).zfill(places)
        digits = iter([text[: len(text) - places + 1], *text[len(text) - places + 1 :]])
        return "".join(next(digits) if mark == "#" else mark for mark in self.shape)

    def fresh(self, first: int, count: int) -> Codes:
        """The numbers of `count` keys after the `first`: (count,). Raises UsageError for more than codes can count."""
        if first + count > MAX_CODES:
            raise UsageError(f"A table has at most {MAX_CODES} keys. Sample fewer rows at once.")
        return first + np.arange(1, count + 1, dtype=np.int32)

    def read(self, texts: Texts) -> Reading:
        """A real key is never coded: each text is allowed, and read as the key of number zero."""
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
        """Return numbers by which keys ascend, (rows,): their places among the sorted keys of these cells.

        Only comparisons of two ranks have a meaning: each is the comparison of two sort keys. A rank by itself depends
        on all cells, and is not a value of its row.
        """
        place, texts = pd.factorize(cells, use_na_sentinel=False)
        ascending = sorted(range(len(texts)), key=lambda k: sort_key(str(texts[k])))
        return np.argsort(ascending)[place].astype(np.float64)

    def value_range(self, text: str) -> tuple[int, int]:
        raise ValueError("an identifier is made afresh for each row and cannot be a condition.")

    def describe(self) -> Description:
        return Description(f"fresh keys like {self.value_text(1)}", "", "never modelled")
