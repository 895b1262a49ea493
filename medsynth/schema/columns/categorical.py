"""Columns of named levels: binary, categorical and ordinal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field, model_validator

from ...arrays import Codes, Floats, Mask, Texts, Whole
from ...errors import EntryError, Problem
from ...io.cell_text import value_text
from .column import (
    APART,
    LEVEL_APART,
    LONG,
    UNREADABLE,
    USUAL_CODES,
    Column,
    Description,
    Fault,
    Level,
    Reading,
    Values,
    canonical,
    is_apart,
    level_text,
    numbers_of,
    undeclared_gaps,
)
from .hierarchies import SYSTEMS, CodePattern, System, hierarchy

MAX_LEVELS, MAX_DEPTH = 10_000, 10
LEVELS_IN_MESSAGE = 20  # levels in a message
LEVELS_IN_DESCRIPTION = 8  # levels in a description


class Levels(Column):
    """The common part of columns of named levels. The code of a level is its index among the levels."""

    categorical: ClassVar[bool] = True
    bounds: ClassVar[tuple[None, None]] = (None, None)
    scale: ClassVar[Literal["linear"]] = "linear"

    unknown: Level | None = None
    spelling: Literal["true", "True", "TRUE"] = "true"  # of booleans in text

    @model_validator(mode="after")
    def _check_levels(self) -> Self:
        levels = self.levels or (self.unknown,)  # those of a hierarchy are not chosen yet
        if {str(level) for level in levels} & set(self.gap_words):
            raise EntryError("missing", "a level is also a code of missing values: remove it from one of them")
        if len({str(level) for level in levels}) != len(levels):
            raise EntryError("levels", "levels must differ from one another")
        if any(isinstance(level, str) and level != level.strip() for level in levels):
            raise EntryError("levels", "levels must not begin or end with blanks")
        if self.reads_as_missing and levels == self.levels and not self.missing:
            raise EntryError("unknown", "`unknown: missing` needs `missing: true`")
        if self.unknown not in (None, "missing", *levels):
            raise EntryError("unknown", "unknown must name one of the levels, or missing")
        return self

    @property
    def size(self) -> int:
        return len(self.levels)

    def read_values(self, texts: Texts) -> Reading:
        """Return the level numbers of texts; UNREADABLE for an unknown level unless `unknown` is declared."""
        index = {canonical(str(level), level): k for k, level in enumerate(self.levels)}
        other = UNREADABLE if self.unknown is None or self.reads_as_missing else self.levels.index(self.unknown)
        first, rounded = self.levels[0], self._rounded
        written = [rounded.get(text, text) for text in texts]
        codes = np.array([index.get(canonical(text, first), index.get(text, other)) for text in written], np.int64)
        if self.reads_as_missing:
            strange = codes == UNREADABLE
            codes[strange] = self._nearest(texts[strange])
        cure = "Add it to `levels`, set `unknown`, or correct the cell. If the file is not UTF-8, set `encoding`."
        return Reading(codes, (Fault(codes == UNREADABLE, Problem(text="not a declared level", cure=cure)),))

    def _nearest(self, texts: Texts) -> Whole:
        """Return for each number the nearest level that is one; the first code of missing values for other texts.

        A number far from all levels is a code of missing values.
        """
        own, numbers = numbers_of(np.array([*map(level_text, self.levels)], dtype=object)), numbers_of(texts)
        read = np.isfinite(numbers)
        if not len(texts) or not np.isfinite(own).any():
            return np.full(len(texts), self.empty_code, np.int64)
        times = np.where(np.isin(numbers, USUAL_CODES), APART, LEVEL_APART)
        far = is_apart(numbers, float(np.nanmin(own)), float(np.nanmax(own)), times)
        gaps = np.abs(np.where(read, numbers, 0.0)[:, None] - np.nan_to_num(own, nan=np.inf))
        return np.where(read & ~far, gaps.argmin(1), self.empty_code)

    def at_levels(self, cells: pd.Series) -> pd.Series:
        """Return the cells, with the declared level in place of a whole number that a file stores as a float."""
        rounded = self._rounded
        return cells.replace(rounded) if rounded else cells

    @property
    def _rounded(self) -> dict[str, str]:
        """The levels that a float rounds, by their rounded text, unless several have that text."""
        long = [str(level) for level in self.levels if LONG.fullmatch(str(level))]
        texts = [value_text(float(level)) for level in long]
        return {text: level for text, level in zip(texts, long, strict=True) if texts.count(text) == 1}

    def decode_values(self, codes: Codes, related: Mapping[str, Values], dtype: str | None) -> pd.Series:
        """Return levels: booleans bool (boolean if some may be missing), whole numbers int64 (Int64), words object."""
        missing = codes >= self.size
        place = np.where(missing, len(self.levels), codes)
        if all(isinstance(level, bool) for level in self.levels):
            truth = np.array([*self.levels, False], np.bool_)[place]
            return pd.Series(pd.array(truth, "boolean")).mask(missing) if self.missing else pd.Series(truth)
        if all(isinstance(level, int) and not isinstance(level, bool) for level in self.levels):
            whole = np.array([*self.levels, 0], np.int64)[place]
            return pd.Series(pd.array(whole, "Int64")).mask(missing) if self.missing else pd.Series(whole)
        words = np.empty(len(self.levels) + 1, dtype=object)  # the last is None, for a missing value
        words[:-1] = [None if level == "" else level for level in self.levels]  # an empty level is an empty cell
        return pd.Series(words[place], dtype=object)

    def text(self, code: int) -> str:
        """Return as every column does; a level that is a word, such as 1 next to 0.5, is written as it is."""
        word = code < self.size and isinstance(self.levels[code], str)
        return self.value_text(code) if word else super().text(code)

    def value_text(self, code: int) -> str:
        """Return the level as text, booleans in the declared spelling."""
        text = level_text(self.levels[code])
        if not isinstance(self.levels[code], bool) or self.spelling == "true":
            return text
        return text.capitalize() if self.spelling == "True" else text.upper()

    def category_dtype(self) -> pd.CategoricalDtype:
        """Return the levels as categories, followed by codes of missing values."""
        codes = list(self.missing) if isinstance(self.missing, tuple) else []
        return pd.CategoricalDtype([*self.levels, *(code for code in codes if code != "")], self.ordered)

    def values(self, codes: Codes, related: Mapping[str, Values]) -> Values:
        levels = np.array([*map(level_text, self.levels), None], dtype=object)
        return levels[np.minimum(codes, len(levels) - 1)]

    def code_computed(self, result: Values, related: Mapping[str, Values]) -> Codes:
        index = {level_text(level): k for k, level in enumerate(self.levels)}
        place, texts = pd.factorize(result)
        return np.array([*(index[str(text)] for text in texts), self.empty_code if self.gaps else 0], np.int32)[place]

    def cell_values(self, cells: pd.Series) -> Values:
        written = {str(level): level_text(level) for level in self.levels}
        known: dict[object, str] = {}  # by the cell's type too, because 1, 1.0 and True are equal
        for key in {(type(cell), cell) for cell in cells if not pd.isna(cell)}:
            text = _cell_text(key[1], self.levels)
            known[key] = written.get(text, text)
        return np.array([known.get((type(cell), cell)) for cell in cells], dtype=object)

    def ranks(self, cells: pd.Series) -> Floats:
        """Return the numbers of the levels, such as months, if they ascend, else the places of the levels."""
        place, reading = self.read_rows(cells, {})
        numbers = numbers_of(np.array([*map(level_text, self.levels)], dtype=object))
        ranks = np.append(numbers if (np.diff(numbers) > 0).all() else np.arange(self.size), np.nan)
        known = (reading.codes >= 0) & (reading.codes < self.size)
        return np.asarray(ranks[np.where(known, reading.codes, self.size)][place], np.float64)

    def value_range(self, text: str) -> tuple[int, int]:
        names = [str(level) for level in self.levels]
        if text not in names:
            raise ValueError(f"no such level. The levels are: {', '.join(names[:LEVELS_IN_MESSAGE])}.")
        return names.index(text), names.index(text)

    def validate_cells(self, cells: pd.Series) -> dict[str, Mask]:
        declared = {str(level) for level in self.levels} | {str(level).lower() for level in self.levels}
        texts = (None if pd.isna(cell) else _cell_text(cell, self.levels) for cell in cells)
        strange = [text is not None and text not in declared for text in texts]
        return {"a declared level": np.array(strange, np.bool_), **undeclared_gaps(self, cells)}

    def describe(self) -> Description:
        names = [str(level) for level in self.levels]
        more = f" and {len(names) - LEVELS_IN_DESCRIPTION} more" if len(names) > LEVELS_IN_DESCRIPTION else ""
        return Description(", ".join(names[:LEVELS_IN_DESCRIPTION]) + more, self.describe_missing(), "exact")


class Binary(Levels):
    """A column of exactly two levels, such as 0/1, yes/no or M/F. `unknown` as in Categorical.

    >>> Binary(levels=("F", "M")).levels
    ('F', 'M')
    """

    kind: Literal["binary"] = "binary"
    levels: tuple[Level, Level]


class Categorical(Levels):
    """A column of named levels. `unknown` names the level for undeclared values, and for empty cells if none may be
    missing; without it, they are errors. If it is `missing`, they are missing, but among levels that are numbers a
    number is read as the nearest level.

    Of kind ordinal, the levels are in order, and neighbours count as alike. With a `hierarchy` of codes, a value goes
    to the finest level that contains it, else to `unknown`; levels that are not given are chosen by noisy counts, as
    fine as these allow.
    """

    kind: Literal["categorical", "ordinal"] = "categorical"
    levels: tuple[Level, ...] = Field((), max_length=MAX_LEVELS)
    hierarchy: System | dict[str, Any] | None = None

    @property
    def ordered(self) -> bool:
        return self.kind == "ordinal"

    @model_validator(mode="after")
    def _check_hierarchy(self) -> Self:
        if self.hierarchy is None and not self.levels:
            raise EntryError("levels", "declare levels, or a hierarchy: " + ", ".join(SYSTEMS) + " or a tree")
        if self.hierarchy is not None:
            _check_tree(self.hierarchy)
            if self.kind == "ordinal" or not isinstance(self.unknown, str):
                raise EntryError(
                    "unknown", "a hierarchy needs `unknown`, a word for undeclared codes, and cannot be ordinal"
                )
        return self

    def read_values(self, texts: Texts) -> Reading:
        """Return the level numbers of texts; in a hierarchy, the number of the finest level that contains the code."""
        return super().read_values(texts) if self.hierarchy is None else Reading(self._rolled_up(texts), ())

    def _rolled_up(self, texts: Texts) -> Whole:
        """Return for each code the finest level that contains it, else `unknown`; zero if none are chosen yet."""
        if not self.levels:
            return np.zeros(len(texts), np.int64)
        index = {str(level): k for k, level in enumerate(self.levels)}
        known = hierarchy(self.hierarchy or "")
        other = index[str(self.unknown)]
        chains = ([node.label for node in reversed(known.chain(str(text)))] for text in texts)
        return np.array([next((index[c] for c in chain if c in index), other) for chain in chains], np.int64)

    def at_levels(self, cells: pd.Series) -> pd.Series:
        """Replace codes of a hierarchy by the levels that contain them; codes of missing values stay."""
        if self.hierarchy is None or not self.levels:
            return super().at_levels(cells)
        place, found = pd.factorize(cells)
        texts = np.array(found, dtype=object)
        levels = np.array([str(level) for level in self.levels], dtype=object)[self._rolled_up(texts)]
        rolled = np.array([*np.where(self.gaps_of(texts) >= 0, texts, levels), None], dtype=object)
        return pd.Series(rolled[place], index=cells.index, dtype=object)

    def hierarchy_positions(self, cells: pd.Series) -> NDArray[np.int32]:
        """Return the position of each cell's code in the hierarchy, (rows,); unknown codes come after all others."""
        known = hierarchy(self.hierarchy or "")
        place, texts = pd.factorize(cells, use_na_sentinel=False)
        chains = [known.chain(str(text)) for text in texts]
        return np.array([chain[-1].start if chain else known.size for chain in chains], np.int32)[place]


def without_levels(columns: Mapping[str, Column]) -> dict[str, Categorical]:
    """Return the columns of codes in a hierarchy whose levels are not chosen yet."""
    return {name: c for name, c in columns.items() if isinstance(c, Categorical) and not c.levels}


def _cell_text(cell: object, levels: tuple[Level, ...]) -> str:
    """Return a cell as a level of the declared type is written."""
    text = str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)
    return canonical(text, levels[0]) if levels else text


def _check_tree(tree: str | dict[str, Any]) -> None:
    """Raise ValueError unless all names of a tree are unique words, and it is neither too deep nor too large."""
    try:
        whole = hierarchy(tree)
        known = isinstance(whole, CodePattern) or (whole.depth <= MAX_DEPTH and 0 < whole.size <= MAX_LEVELS)
    except (TypeError, AttributeError, RecursionError):
        known = False
    if not known:
        raise EntryError(
            "hierarchy",
            f"a tree must consist of groups and lists of words, at most {MAX_DEPTH} deep and {MAX_LEVELS} words",
        )
