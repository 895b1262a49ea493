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


def read(path: Path) -> pd.DataFrame:
    """A table with its numbers as numbers. Raises TableError for a file that is no table."""
    table = io_table.read(path)
    kinds = io_table.dtypes(table)
    return pd.DataFrame({name: _read(table.cells[name], kinds[name]) for name in table.header})


def _read(cells: pd.Series, kind: io_table.Kind) -> pd.Series:
    known = cells.mask(cells.isin(list(io_table.MISSING_TOKENS)), None)
    if kind != "text":
        return pd.to_numeric(known)
    if set(known.dropna().str.lower()) <= {"true", "false"} and known.notna().all():
        return known.str.lower() == "true"
    return known


def gather(
    real: pd.DataFrame, synthetic: pd.DataFrame, train: pd.DataFrame | None, target: str, schema: Schema | None,
    rng: Stream,
) -> Tables:  # fmt: skip
    """The tables in one form: common columns, common types, rows of `real` taken out of `train`, sizes capped.

    What had to be mended stands in `notes`. Raises SchemaError or TableError where nothing can be compared.
    """
    notes: list[str] = []
    if schema is not None:
        real, synthetic = dated(real, schema), dated(synthetic, schema)
        train = None if train is None else dated(train, schema)
    synthetic = _columns(real, synthetic, target, notes)
    real = real[list(synthetic.columns)]
    if train is not None:
        lacking = [name for name in real.columns if name not in train.columns]
        if lacking:
            raise SchemaError(f"`train` lacks columns of `real`: {', '.join(lacking)}. Give the table fitted on.")
        train = train[list(real.columns)]
    numbers = frozenset(name for name in real.columns if _is_number(real[name], name, schema))
    real, synthetic = _typed(real, numbers, "real", notes), _typed(synthetic, numbers, "synthetic", notes)
    real = real[real[target].notna()].reset_index(drop=True)
    if len(real) < 5:
        raise TableError("`real` has too few rows with a target to measure anything. Hold out more rows.")
    if train is not None:
        train = _without(_typed(train, numbers, "train", notes), real, notes)
    real, synthetic = _capped(real, "real", rng, notes), _capped(synthetic, "synthetic", rng, notes)
    train = None if train is None else _capped(train, "train", rng, notes)
    lost = synthetic[target].isna().sum()
    if lost == len(synthetic):
        raise TableError(f"The synthetic table has no value in the target {target!r}: nothing can be predicted.")
    return Tables(real, synthetic, train, target, numbers, notes)


def dated(frame: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """A table as `readable`, its dates as years and their parts."""
    made = readable(frame, schema)
    for name, column in schema.columns.items():
        if name in made:
            made[name] = column.compared(made[name])
    return made


def readable(frame: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """Without identifiers, which are compared with nothing; codes in hierarchies at the model's levels; codes of
    missing values as missing, with a column beside that tells several kinds apart.
    """
    made = frame.drop(columns=[n for n, c in schema.columns.items() if not c.modelled and n in frame])
    for name, column in schema.columns.items():
        if name not in made:
            continue
        made[name] = column.at_levels(made[name])
        if isinstance(column.missing, tuple):
            place, found = pd.factorize(made[name], use_na_sentinel=False)
            kind = column.gaps_of(["" if pd.isna(cell) else str(cell) for cell in found])[place]
            made[name] = made[name].mask(kind >= 0)
            if column.gaps > 1:
                labels = np.array([*(word or "empty" for word in column.gap_words), "known"], dtype=object)
                made[f"{name}: missing"] = labels[kind]
    return made


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


def _is_number(column: pd.Series, name: str, schema: Schema | None) -> bool:
    if schema is not None and name in schema.columns:
        return not schema.columns[name].categorical
    return pd.api.types.is_numeric_dtype(column) and not pd.api.types.is_bool_dtype(column)


def _typed(frame: pd.DataFrame, numbers: frozenset[str], where: str, notes: list[str]) -> pd.DataFrame:
    """Numbers as floats or integers; words keep numeric levels numeric, so that classifiers see what they hold."""
    columns: dict[str, pd.Series] = {}
    for name in frame.columns:
        column = frame[name]
        if name in numbers and not pd.api.types.is_numeric_dtype(column):
            column = pd.to_numeric(column, errors="coerce")
            if column.isna().sum() > frame[name].isna().sum():
                notes.append(f"{name}: words in a number column of the {where} table are read as missing.")
        columns[name] = column.astype(str).where(column.notna()) if pd.api.types.is_bool_dtype(column) else column
    return pd.DataFrame(columns)


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
    columns = [
        column.map("{:.12g}".format) if pd.api.types.is_numeric_dtype(column) else column.astype(str)
        for _, column in frame.items()
    ]
    return columns[0].str.cat(pd.concat(columns[1:], axis=1), sep="\x1f") if columns[1:] else columns[0]


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
    return column.map(_word, na_action="ignore")


def _word(value: object) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
