"""Columns of named levels: binary, categorical and ordinal."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field, model_validator

from ...io.cell_text import frame_value_text
from ...io.table import Kind
from .column import (
    UNREADABLE,
    Codes,
    Column,
    Description,
    Fault,
    Ints,
    Level,
    Mask,
    Reading,
    Texts,
    Values,
    canonical,
    undeclared_gaps,
)
from .hierarchies import SYSTEMS, CodePattern, System, hierarchy

MAX_LEVELS, MAX_DEPTH = 10_000, 10
LONG = re.compile(r"-?[1-9][0-9]{15,29}")  # Whole numbers that a float may not hold.
LEVELS_IN_MESSAGE = 20  # levels in a message
LEVELS_IN_DESCRIPTION = 8  # levels in a description


def level_text(level: object) -> str:
    """A level as constraints and CSV files write it: booleans in lower case."""
    return str(level).lower() if isinstance(level, bool) else str(level)


class Levels(Column):
    """What columns of named levels share. The code of a level is its place among the levels."""

    categorical: ClassVar[bool] = True
    bounds: ClassVar[tuple[None, None]] = (None, None)
    scale: ClassVar[Literal["linear"]] = "linear"

    unknown: Level | None = None
    spelling: Literal["true", "True", "TRUE"] = "true"  # of booleans in text

    @model_validator(mode="after")
    def _check_levels(self) -> Self:
        levels = self.levels or (self.unknown,)  # of a hierarchy, they are still to be chosen
        if {str(level) for level in levels} & set(self.gap_words):
            raise ValueError("a level is also a code of missing values")
        if len({str(level) for level in levels}) != len(levels):
            raise ValueError("levels must differ from one another")
        if any(isinstance(level, str) and level != level.strip() for level in levels):
            raise ValueError("levels must not begin or end with blanks")
        if self.unknown is not None and self.unknown not in levels:
            raise ValueError("unknown must name one of the levels")
        return self

    @property
    def size(self) -> int:
        return len(self.levels)

    def read_values(self, texts: Texts) -> Reading:
        """Level numbers of texts; UNREADABLE for one that is no level, where no level is named for such."""
        index = {canonical(str(level), level): k for k, level in enumerate(self.levels)}
        other = UNREADABLE if self.unknown is None else self.levels.index(self.unknown)
        first, rounded = self.levels[0], self._rounded
        written = [rounded.get(text, text) for text in texts]
        codes = np.array([index.get(canonical(text, first), index.get(text, other)) for text in written], np.int64)
        cure = "Add the level to the schema or mend the cell; if the file is not UTF-8, give its `encoding`."
        return Reading(codes, (Fault(codes == UNREADABLE, "a level that the schema does not name", cure),))

    def at_levels(self, cells: pd.Series) -> pd.Series:
        """The cells, with the declared level in place of a whole number that a frame rounded."""
        rounded = self._rounded
        return cells.replace(rounded) if rounded else cells

    @property
    def _rounded(self) -> dict[str, str]:
        """Return levels that a frame rounds, by their rounded text, unless several have that text."""
        long = [str(level) for level in self.levels if LONG.fullmatch(str(level))]
        texts = [frame_value_text(int(level)) for level in long]
        return {text: level for text, level in zip(texts, long, strict=True) if texts.count(text) == 1}

    def decode_values(self, codes: Codes, related: Mapping[str, Values], dtype: str | None) -> pd.Series:
        """The levels: booleans bool (boolean where some may be missing), whole numbers int64 (Int64), words object."""
        missing = codes >= self.size
        place = np.where(missing, len(self.levels), codes)
        if all(isinstance(level, bool) for level in self.levels):
            truth = np.array([*self.levels, False], np.bool_)[place]
            return pd.Series(pd.array(truth, "boolean")).mask(missing) if self.missing else pd.Series(truth)
        if all(isinstance(level, int) and not isinstance(level, bool) for level in self.levels):
            whole = np.array([*self.levels, 0], np.int64)[place]
            return pd.Series(pd.array(whole, "Int64")).mask(missing) if self.missing else pd.Series(whole)
        words = np.empty(len(self.levels) + 1, dtype=object)  # the last is None, for a missing one
        words[:-1] = self.levels
        return pd.Series(words[place], dtype=object)

    def value_text(self, code: int) -> str:
        """The level as text, booleans as they are spelled."""
        text = level_text(self.levels[code])
        if not isinstance(self.levels[code], bool) or self.spelling == "true":
            return text
        return text.capitalize() if self.spelling == "True" else text.upper()

    def category_dtype(self) -> pd.CategoricalDtype:
        """The levels as categories, codes of missing values after them."""
        codes = list(self.missing) if isinstance(self.missing, tuple) else []
        return pd.CategoricalDtype([*self.levels, *(code for code in codes if code != "")], self.ordered)

    def values(self, codes: Codes, related: Mapping[str, Values]) -> Values:
        levels = np.array([*map(level_text, self.levels), None], dtype=object)
        return levels[np.minimum(codes, len(levels) - 1)]

    def cell_values(self, cells: pd.Series) -> Values:
        written = {str(level): level_text(level) for level in self.levels}
        texts = (None if pd.isna(cell) else _cell_text(cell, self.levels) for cell in cells)
        return np.array([None if text is None else written.get(text, text) for text in texts], dtype=object)

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
    """A column of exactly two levels, such as 0/1, yes/no or M/F. `unknown` as for Categorical.

    >>> Binary(levels=("F", "M")).levels
    ('F', 'M')
    """

    kind: Literal["binary"] = "binary"
    levels: tuple[Level, Level]


class Categorical(Levels):
    """A column of named levels. `unknown` names the level that an undeclared value goes to, an empty cell too
    where none may be missing; without it, an error.

    Of kind ordinal, the levels are in their order: neighbours are taken to be alike. With a `hierarchy` of codes a
    value goes to the finest of the levels that it belongs to, else to `unknown`; levels that are not given are chosen
    by noisy counts, as fine as these can carry.
    """

    drafts: ClassVar[Mapping[Kind, str]] = {
        "text": "{kind: categorical, levels: [TODO]}  # or {kind: binary, levels: [F, M]}"
    }

    kind: Literal["categorical", "ordinal"] = "categorical"
    levels: tuple[Level, ...] = Field((), max_length=MAX_LEVELS)
    hierarchy: System | dict[str, Any] | None = None

    @property
    def ordered(self) -> bool:
        return self.kind == "ordinal"

    @model_validator(mode="after")
    def _check_hierarchy(self) -> Self:
        if self.hierarchy is None and not self.levels:
            raise ValueError("levels are needed, or a hierarchy: " + ", ".join(SYSTEMS) + " or a tree")
        if self.hierarchy is not None:
            _check_tree(self.hierarchy)
            if self.kind == "ordinal" or not isinstance(self.unknown, str):
                raise ValueError("a hierarchy needs `unknown`, a word for codes that it does not know, and no order")
        return self

    def read_values(self, texts: Texts) -> Reading:
        """Level numbers of texts; of a code in a hierarchy, the finest level that it belongs to."""
        return super().read_values(texts) if self.hierarchy is None else Reading(self._rolled_up(texts), ())

    def _rolled_up(self, texts: Texts) -> Ints:
        """Level numbers of codes: the finest level that each belongs to, else `unknown`; zero while none are chosen."""
        if not self.levels:
            return np.zeros(len(texts), np.int64)
        index, known = {str(level): k for k, level in enumerate(self.levels)}, hierarchy(self.hierarchy or "")
        other = index[str(self.unknown)]
        chains = ([node.label for node in reversed(known.chain(str(text)))] for text in texts)
        return np.array([next((index[c] for c in chain if c in index), other) for chain in chains], np.int64)

    def at_levels(self, cells: pd.Series) -> pd.Series:
        """Codes in a hierarchy brought to the levels that they belong to; a code of a missing value stays as it is."""
        if self.hierarchy is None or not self.levels:
            return super().at_levels(cells)
        place, found = pd.factorize(cells)
        texts = np.array(found, dtype=object)
        levels = np.array([str(level) for level in self.levels], dtype=object)[self._rolled_up(texts)]
        rolled = np.array([*np.where(self.gaps_of(texts) >= 0, texts, levels), None], dtype=object)
        return pd.Series(rolled[place], index=cells.index, dtype=object)

    def hierarchy_positions(self, cells: pd.Series) -> NDArray[np.int32]:
        """The position of each cell's code in the hierarchy, (rows,); the one past all for an unknown code."""
        known = hierarchy(self.hierarchy or "")
        place, texts = pd.factorize(cells, use_na_sentinel=False)
        chains = [known.chain(str(text)) for text in texts]
        return np.array([chain[-1].start if chain else known.size for chain in chains], np.int32)[place]


def without_levels(columns: Mapping[str, Column]) -> dict[str, Categorical]:
    """The columns of codes in a hierarchy whose levels are still to be chosen."""
    return {name: c for name, c in columns.items() if isinstance(c, Categorical) and not c.levels}


def _cell_text(cell: object, levels: tuple[Level, ...]) -> str:
    """A cell as a level of the declared type is written."""
    text = str(int(cell)) if isinstance(cell, float) and cell.is_integer() else str(cell)
    return canonical(text, levels[0]) if levels else text


def _check_tree(tree: str | dict[str, Any]) -> None:
    """Raises ValueError unless all names of a tree are words, each once, and it is neither too deep nor too large."""
    try:
        whole = hierarchy(tree)
        known = isinstance(whole, CodePattern) or (whole.depth <= MAX_DEPTH and 0 < whole.size <= MAX_LEVELS)
    except (TypeError, AttributeError, RecursionError):
        known = False
    if not known:
        raise ValueError(
            f"a tree is made of groups and lists of words, at most {MAX_DEPTH} deep, {MAX_LEVELS} words in all"
        )
