"""The tables that a report compares, read, checked and brought to one form."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...errors import SchemaError, TableError
from ...io import table as io_table
from ...rng import Stream
from ...schema import Schema
from .columns import comparable, number_columns

MOST_ROWS = 50_000  # a larger table is represented by so many of its rows, drawn uniformly
FEW_NUMBERS = 20  # a whole-number target with more values than this is predicted as a number


@dataclass(frozen=True)
class Tables:
    """Real held-out rows, synthetic rows and, where given, the real rows that the model was fitted to.

    All hold the columns `names`, the target among them; `numbers` are those compared as numbers, the rest as words.
    """

    real: pd.DataFrame
    synthetic: pd.DataFrame
    train: pd.DataFrame | None
    target: str
    numbers: frozenset[str]
    notes: list[str] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """Columns in the order of the real table."""
        return list(self.real.columns)

    @property
    def features(self) -> list[str]:
        """All columns but the target."""
        return [name for name in self.names if name != self.target]

    @property
    def numeric_target(self) -> bool:
        """Whether the target is predicted as a number and not as a class."""
        return self.target in self.numbers and self.real[self.target].nunique() > FEW_NUMBERS

    def classes(self) -> NDArray[np.str_]:
        """The target's classes in the real rows, sorted as text."""
        return np.unique(self.real[self.target].astype(str))


def read(path: Path) -> io_table.Table:
    """The table at `path`, its cells as text. Raises TableError for a file that is no table."""
    return io_table.read(path)


def gather(
    real: pd.DataFrame, synthetic: pd.DataFrame, train: pd.DataFrame | None, target: str, schema: Schema | None,
    rng: Stream,
) -> Tables:  # fmt: skip
    """The tables, given as cells of text, in one form: common columns, rows of `real` taken out of `train`, capped.

    What had to be mended stands in `notes`. Raises SchemaError or TableError where nothing can be compared.
    """
    notes: list[str] = []
    numbers = number_columns(real, schema)
    real = comparable(real, schema, numbers, "real", notes)
    synthetic = comparable(synthetic, schema, numbers, "synthetic", notes)
    synthetic = _columns(real, synthetic, target, notes)
    real = real[list(synthetic.columns)]
    if train is not None:
        train = comparable(train, schema, numbers, "train", notes)
        lacking = [name for name in real.columns if name not in train.columns]
        if lacking:
            raise SchemaError(f"`train` lacks columns of `real`: {', '.join(lacking)}. Give the table fitted on.")
        train = train[list(real.columns)]
    real = real[real[target].notna()].reset_index(drop=True)
    if len(real) < 5:
        raise TableError("`real` has too few rows with a target to measure anything. Hold out more rows.")
    if train is not None:
        train = _without(train, real, notes)
    real, synthetic = _capped(real, "real", rng, notes), _capped(synthetic, "synthetic", rng, notes)
    train = None if train is None else _capped(train, "train", rng, notes)
    if synthetic[target].isna().all():
        raise TableError(f"The synthetic table has no value in the target {target!r}: nothing can be predicted.")
    if target not in numbers:  # classes are texts: a number's text would depend on whether another row has none
        real, synthetic = _classed(real, target), _classed(synthetic, target)
        train = None if train is None else _classed(train, target)
    return Tables(real, synthetic, train, target, numbers & frozenset(real.columns), notes)


def _classed(frame: pd.DataFrame, target: str) -> pd.DataFrame:
    return frame.assign(**{target: words(frame[target])})


def _columns(real: pd.DataFrame, synthetic: pd.DataFrame, target: str, notes: list[str]) -> pd.DataFrame:
    if target not in real.columns or target not in synthetic.columns:
        raise SchemaError(f"The `target` {target!r} must be a column of both the real and the synthetic table.")
    shared = [name for name in real.columns if name in synthetic.columns]
    if len(shared) < 2:
        raise SchemaError("The real and the synthetic table share no column but the target. Check the files.")
    for names, where in ((real.columns, "real"), (synthetic.columns, "synthetic")):
        alone = [str(name) for name in names if name not in shared]
        if alone:
            notes.append(f"Only in the {where} table, and left out of every comparison: {', '.join(alone)}.")
    return synthetic[shared]


def _without(train: pd.DataFrame, real: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """`train` less the rows that also stand in `real`, each copy once."""
    mine, theirs = keys(train), keys(real)
    copy = mine.groupby(mine).cumcount()
    held = mine.map(theirs.value_counts()).fillna(0)
    overlap = int((copy < held).sum())
    if overlap:
        notes.append(f"{overlap} rows of the real table are also in the training table, and were left out there.")
    left = train[(copy >= held).to_numpy()].reset_index(drop=True)
    if len(left) < 5:
        raise TableError("`train` and `real` have the same rows. Give rows that the model was not fitted to as `real`.")
    return left


def keys(frame: pd.DataFrame) -> pd.Series:
    """One text a row: equal rows have equal texts, whether a whole number was read as 1 or as 1.0."""
    first, *rest = (words(column).fillna("") for _, column in frame.items())
    return first.str.cat(pd.concat(rest, axis=1), sep="\x1f") if rest else first


def _capped(frame: pd.DataFrame, where: str, rng: Stream, notes: list[str]) -> pd.DataFrame:
    if len(frame) <= MOST_ROWS:
        return frame
    notes.append(f"The {where} table is represented by {MOST_ROWS} of its {len(frame)} rows, drawn uniformly.")
    return frame.iloc[np.sort(rng.choice(len(frame), MOST_ROWS, replace=False))].reset_index(drop=True)


def common_levels(tables_: Sequence[pd.DataFrame], name: str) -> list[str]:
    """Every level of a word column in any of the tables, sorted as text; missing values aside."""
    return sorted(set().union(*(set(t[name].dropna().map(_word)) for t in tables_)))


def words(column: pd.Series) -> pd.Series:
    """A column's levels as text, missing ones as None."""
    place, values = pd.factorize(column)
    texts = np.array([*map(_word, values), None], dtype=object)
    return pd.Series(texts[place], index=column.index, dtype=object)


def _word(value: object) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
