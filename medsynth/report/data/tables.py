"""The tables that a report compares, in one form: as cells, as points and as numbers for trees.

The baseline of utility reads the real rows from the file (`plain`), not in the form in which tables are compared. A
schema that was learned under noise may misread a number column as words, or cut its bounds short. A baseline with the
same faults would hide the model's loss.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.stats import rankdata

from ...arrays import Floats, Whole
from ...errors import SchemaError, TableError
from ...io import reader
from ...io import table as io_table
from ...io.cell_text import LARGEST_WHOLE
from ...io.formats import OWN, SavedAs
from ...rng import Stream
from ...schema import Column, Schema
from ...schema.columns.date import Date
from ...similarity import CELLS, cells_in, count_of, edges_of
from .columns import (
    comparable,
    dates_of,
    is_number,
    levels_in_order,
    limits_of,
    missing_codes,
    number_columns,
    numbers_of,
    without_codes,
    without_gaps,
    without_own_value,
    words,
)
from .statistics import Patients

LOST, NOTED = 0.9, 0.05  # shares of real cells without a value in the model: fidelity omits the column; a note names it
MOST_ROWS = 50_000  # A larger table is represented by this number of its rows, drawn uniformly.
FEW_NUMBERS = 20  # A whole-number target with more values than this is predicted as a number.
MOST_WORDS = 60  # Most frequent words kept in a plain column; all others become RARE.
RARE = "(rare)"
MOST_LEVELS = 40  # Levels of a word column. The rarer ones share one cell.


@dataclass(frozen=True)
class Tables:
    """Real held-out rows, synthetic rows and, if given, the real rows that the model was fitted to.

    All have the columns `names`, which include the target, if any. Those in `numbers` are compared as numbers, the rest
    as words. `plain_real` and `plain_train` are the same real rows as written in their files (see `plain`). `patients`
    has the number of each row's patient by the table's field if patients are the privacy unit, else nothing. `lost`:
    the share of each column's real cells that the model has no value for, if it matters. `limits` as `limits_of`,
    `in_order` as `levels_in_order`, and `dates` as `dates_of`.
    """

    real: pd.DataFrame
    synthetic: pd.DataFrame
    train: pd.DataFrame | None
    target: str | None
    numbers: frozenset[str]
    notes: list[str] = field(default_factory=list)
    plain_real: pd.DataFrame | None = None
    plain_train: pd.DataFrame | None = None
    patients: Mapping[str, Patients] = field(default_factory=dict)
    lost: Mapping[str, float] = field(default_factory=dict)
    limits: Mapping[str, Mapping[float, str]] = field(default_factory=dict)
    in_order: Mapping[str, Sequence[str]] = field(default_factory=dict)
    dates: Mapping[str, Date] = field(default_factory=dict)

    @property
    def kept(self) -> Tables:
        """Return these tables without the columns that are lost, unless none but the target would be left."""
        names = [name for name in self.names if name not in self.lost_columns]
        if len(names) == len(self.names) or len(names) < 2:
            return self
        train = None if self.train is None else self.train[names]
        return replace(self, real=self.real[names], synthetic=self.synthetic[names], train=train)

    @property
    def lost_columns(self) -> list[str]:
        """Return the columns whose cells are all compared as one value, which would look perfect."""
        return [name for name, share in self.lost.items() if share > LOST and name != self.target]

    def patients_of(self, rows: pd.DataFrame, part: str) -> Patients | None:
        """Return the patients of some `rows` of the table `part`, (rows,); None if rows are the privacy unit."""
        return self.patients[part][rows.index] if self.patients else None

    @property
    def baseline(self) -> tuple[pd.DataFrame, pd.DataFrame | None]:
        """Return the held-out rows and the training rows for the baseline of utility."""
        real = self.real if self.plain_real is None else self.plain_real
        return real, self.train if self.plain_train is None else self.plain_train

    @property
    def names(self) -> list[str]:
        """Return the columns in the order of the real table."""
        return list(self.real.columns)

    @property
    def features(self) -> list[str]:
        """Return all columns except the target."""
        return [name for name in self.names if name != self.target]

    @property
    def predicted(self) -> str:
        """Return the target, for a section that needs one."""
        assert self.target is not None
        return self.target

    @property
    def numeric_target(self) -> bool:
        """Return whether the target is predicted as a number and not as a class."""
        numbers = {self.target} & self.numbers
        return any(self.real[name].nunique() > FEW_NUMBERS for name in numbers)

    def classes(self) -> NDArray[np.str_]:
        """Return the target's classes in the real rows, sorted as text."""
        return np.unique(self.real[self.predicted].astype(str))


def read(path: Path, saved: SavedAs = OWN) -> io_table.Table:
    """Read the table at `path` with its cells as text. Raises TableError for a file that is not a table."""
    return reader.read(path, saved)


def gather(
    real: pd.DataFrame, synthetic: pd.DataFrame, train: pd.DataFrame | None, target: str | None, schema: Schema | None,
    rng: Stream, *, learned: bool = False, disjoint: bool = False,
) -> Tables:  # fmt: skip
    """Bring tables of text cells to one form: common columns, no rows of `real` in `train`, at most MOST_ROWS rows.

    `learned`: whether the schema was measured and not declared. `disjoint`: whether `real` and `train` are known to
    contain different rows; then rows with equal values stay in both. If patients are the privacy unit, rows of `train`
    whose patient is in `real` are always left out.

    `notes` lists every repair. Raises SchemaError or TableError if nothing can be compared.
    """
    notes: list[str] = []
    cells = [real] if train is None else [real, train]
    patients = patient_numbers([*cells, synthetic], schema)
    lost = _lost(real, target, schema, notes) if learned else {}  # a person who declares `unknown` knows what it takes
    real, synthetic, train, numbers = _compared(real, synthetic, train, target, schema, notes)
    compared = [real] if train is None else [real, train]
    plains = plain(cells, compared, target, schema, learned=learned)
    *kept, rows = _with_target([*compared, synthetic], target, notes)
    if train is not None:
        kept[1] = kept[1] if disjoint else kept[1][_without(train.iloc[kept[1]], real.iloc[kept[0]], notes)]
        if patients:
            kept[1] = _of_others(kept[1], patients[1], patients[0], notes)
    kept = [_capped(rows, where, rng, notes) for rows, where in zip(kept, ("real", "train"), strict=False)]
    rows = _capped(rows, "synthetic", rng, notes)
    synthetic = synthetic.iloc[rows].reset_index(drop=True)
    frames = [*compared, *plains]
    frames = [frame.iloc[rows].reset_index(drop=True) for frame, rows in zip(frames, kept * 2, strict=True)]
    *frames, synthetic = _alike([*frames, synthetic], target, number=target in numbers)
    own = dict(zip(("real", "train"), (p[k] for p, k in zip(patients, kept, strict=False)), strict=False))
    own |= {"synthetic": patients[-1][rows]} if patients else {}
    held = frames[:: len(kept)]
    fitted = frames[1::2] if train is not None else [None, None]
    return Tables(held[0], synthetic, fitted[0], target, numbers, notes, held[1], fitted[1], own, lost,
                  limits_of(schema), levels_in_order(schema), dates_of(schema))  # fmt: skip


def plain(
    cells: list[pd.DataFrame], compared: list[pd.DataFrame], target: str | None, schema: Schema | None, *, learned: bool
) -> list[pd.DataFrame]:
    """Return each table of real rows with its numbers and words as they are written, not clipped to a schema.

    Columns that a person declared keep their kind. Columns of a `learned` schema and undeclared ones are read from
    their cells alone. The target stays as it is compared.
    """
    together = pd.concat(cells, keys=range(len(cells)))
    made = [frame.copy() for frame in compared]
    for name in [n for n in compared[0].columns if n in together.columns and n != target]:
        column = schema.columns.get(name) if schema else None
        if column is not None and (column.dated or (column.categorical and not learned)):
            continue
        values = _read(together[name], None if learned else column)
        for k, frame in enumerate(made):
            frame[name] = values.loc[k]
    return made


def _read(cells: pd.Series, column: Column | None) -> pd.Series:
    """Return the numbers of a declared `column` without codes of missing values, else its numbers or common words."""
    if column is not None:
        return numbers_of(pd.Series(column.cell_values(without_gaps(cells, column)), index=cells.index))
    known = cells.mask(cells.isin(list(missing_codes(cells))), None)
    if is_number(known.dropna()):
        return numbers_of(known)
    return known.where(known.isna() | known.isin(known.value_counts().index[:MOST_WORDS]), RARE)


def patient_numbers(cells: Sequence[pd.DataFrame], schema: Schema | None) -> list[Patients]:
    """Return the number of each row's patient in each table; [] if patients are not the unit, or a table lacks them.

    Real tables share their numbers. The last table, the synthetic rows, has its own. A row without a patient has a
    number of its own.
    """
    *real, synthetic = cells
    if schema is None or schema.unit is None or any(schema.unit not in table for table in real):
        return []
    made = [(table[schema.unit] if schema.unit in table else pd.Series("", table.index)) for table in cells]
    # A mark per side: equal keys in synthetic and real rows belong to different patients.
    marked = [keys + mark for keys, mark in zip(made, [*("r" for _ in real), "s"], strict=True)]
    texts = pd.concat(marked, ignore_index=True)
    known = pd.concat(made, ignore_index=True) != ""
    place = pd.factorize(texts)[0].astype(np.int64)
    place = np.where(known, place, len(place) + np.arange(len(place)))
    return np.split(place, np.cumsum([len(table) for table in cells])[:-1])


def _of_others(rows: Whole, patients: Patients, held: Patients, notes: list[str]) -> Whole:
    """Drop training `rows` whose patient is also held out. `patients`: of all rows of the training table."""
    others = ~np.isin(patients[rows], held)
    if not others.all():
        notes.append(
            f"{int((~others).sum())} rows of the training table were left out, because their patients are also in the "
            "real table. A test needs patients whom the model has not seen."
        )
    if others.sum() < 5:
        raise TableError("`train` and `real` have the same patients. Pass rows of other patients as `real`.")
    return rows[others]


def _compared(
    real: pd.DataFrame, synthetic: pd.DataFrame, train: pd.DataFrame | None, target: str | None, schema: Schema | None,
    notes: list[str],
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame | None, frozenset[str]]:  # fmt: skip
    """Return the tables' values in the columns that they share, and which of these are compared as numbers."""
    tables = [real, synthetic] if train is None else [real, synthetic, train]
    real, synthetic, *rest = without_codes(tables, tables[::2], schema)
    # From all real rows: a column that is empty in one table is read as in the other.
    numbers = number_columns(pd.concat([real, *rest], ignore_index=True)[list(real.columns)].fillna(""), schema)
    real = comparable(real, schema, numbers, "real", notes)
    synthetic = comparable(synthetic, schema, numbers, "synthetic", notes)
    synthetic = _columns(real, synthetic, target, notes)
    real = real[list(synthetic.columns)]
    if rest:
        train = comparable(rest[0], schema, numbers, "train", notes)
        lacking = [name for name in real.columns if name not in train.columns]
        if lacking:
            raise SchemaError(f"`train` lacks columns of `real`: {', '.join(lacking)}. Pass the table that was fitted.")
        train = train[list(real.columns)]
    return real, synthetic, train, numbers & frozenset(real.columns)


def _lost(real: pd.DataFrame, target: str | None, schema: Schema | None, notes: list[str]) -> dict[str, float]:
    """Return the share of real cells that the model has no value for, of each column where it matters.

    Each of these cells is compared as the same value, so that they would look perfect.
    """
    shares = {name: share for name, share in without_own_value(real, schema).items() if share > NOTED}
    lost = [name for name, share in shares.items() if share > LOST and name != target]
    if lost:
        notes.append(
            f"LOST: {', '.join(lost)}. The model has no value for nearly all real cells there, so Fidelity counts a "
            "similarity of 0. Declare such columns in a schema, or remove them from the table."
        )
    if rest := [f"{name} {share:.0%}" for name, share in shares.items() if name not in lost]:
        notes.append(
            f"Of all real cells, empty ones included, the model has no value for these: {', '.join(rest)}. Fidelity "
            "counts them as different. The other comparisons read them as the model does: as missing or another level."
        )
    return shares


def _with_target(frames: Sequence[pd.DataFrame], target: str | None, notes: list[str]) -> list[Whole]:
    """Return the rows with a target in each table: real, training (if given) and synthetic rows.

    All comparisons use these rows of every table. Otherwise a model that draws missing targets, or an attack that sees
    them on one side only, would differ by them alone. Without a target these are all rows. Raises TableError if a table
    has too few.
    """
    if target is None:
        return [np.arange(len(frame)) for frame in frames]
    known = [frame[target].notna().to_numpy() for frame in frames]
    if known[0].sum() < 5:
        raise TableError("`real` has too few rows with a target. Hold out more rows.")
    for rows, where in zip(known[1:], ["training", "synthetic"][-len(known[1:]) :], strict=True):
        if not rows.any():
            raise TableError(f"The {where} table has no value in the target {target!r}. Choose another target.")
    if not all(rows.all() for rows in known):
        names = ("real", "training", "synthetic") if len(known) == 3 else ("real", "synthetic")
        shares = [f"{1 - rows.mean():.1%} of the {name} table" for name, rows in zip(names, known, strict=True)]
        notes.append(f"Rows without the target {target!r} are left out of every comparison: {', '.join(shares)}.")
    return [rows.nonzero()[0] for rows in known]


def _alike(frames: Sequence[pd.DataFrame], target: str | None, *, number: bool) -> list[pd.DataFrame]:
    """Return tables whose targets use the same text for the same class."""
    if target is None:
        return list(frames)
    if not number:
        return [frame.assign(**{target: words(frame[target])}) for frame in frames]
    if len({frame[target].dtype for frame in frames}) == 1:
        return list(frames)
    whole = all(((frame[target] % 1 == 0) & (frame[target].abs() < LARGEST_WHOLE)).all() for frame in frames)
    return [frame.astype({target: np.int64 if whole else np.float64}) for frame in frames]


def _columns(real: pd.DataFrame, synthetic: pd.DataFrame, target: str | None, notes: list[str]) -> pd.DataFrame:
    if target is not None and not (target in real.columns and target in synthetic.columns):
        raise SchemaError(f"The `target` {target!r} must be a column of both the real and the synthetic table.")
    shared = [name for name in real.columns if name in synthetic.columns]
    if len(shared) < 2:
        raise SchemaError("The real and the synthetic table share too few columns to compare. Check the files.")
    for names, where in ((real.columns, "real"), (synthetic.columns, "synthetic")):
        alone = [str(name) for name in names if name not in shared]
        if alone:
            notes.append(f"Only in the {where} table, and left out of every comparison: {', '.join(alone)}.")
    return synthetic[shared]


def _without(train: pd.DataFrame, real: pd.DataFrame, notes: list[str]) -> Whole:
    """Return the rows of `train` that are not in `real`, matching each copy once."""
    mine, theirs = keys(train), keys(real)
    copy = mine.groupby(mine).cumcount()
    held = mine.map(theirs.value_counts()).fillna(0)
    overlap = int((copy < held).sum())
    if overlap:
        notes.append(
            f"{overlap} rows of the training table were left out, because they are also in the real table. To keep "
            "equal rows of different patients, pass the two files that a fit with a hold-out writes."
        )
    left = (copy >= held).to_numpy().nonzero()[0]
    if overlap and len(left) < 5:
        raise TableError("`train` and `real` have the same rows. Pass rows that the model was not fitted to as `real`.")
    return left


def keys(frame: pd.DataFrame) -> pd.Series:
    """Return one text per row. Equal rows have equal texts, whether a whole number was read as 1 or as 1.0."""
    first, *rest = (words(column).fillna("") for _, column in frame.items())
    return first.str.cat(pd.concat(rest, axis=1), sep="\x1f") if rest else first


def _capped(rows: Whole, where: str, rng: Stream, notes: list[str]) -> Whole:
    """Return at most MOST_ROWS of the rows of a table, drawn uniformly."""
    if len(rows) <= MOST_ROWS:
        return rows
    notes.append(f"The {where} table is represented by {MOST_ROWS:,} of its {len(rows):,} rows, drawn uniformly.")
    return rows[np.sort(rng.choice(len(rows), MOST_ROWS, replace=False))]


@dataclass(frozen=True)
class Cells:
    """The cells of every column: `edges` of number columns, `levels` of word columns; the last cell is missing."""

    edges: dict[str, Floats]
    levels: dict[str, list[str]]

    @classmethod
    def of(
        cls, first: pd.DataFrame, others: Sequence[pd.DataFrame | None], numbers: frozenset[str], parts: int = CELLS
    ) -> Cells:
        """Make cells from the rows of the `first` table; levels come from all tables unless there are too many.

        parts: quantile cells of a number column.
        """
        edges, levels = dict[str, Floats](), dict[str, list[str]]()
        tables = [first, *(table for table in others if table is not None)]
        for name in map(str, first):
            if name in numbers:
                known = first[name].dropna().to_numpy(np.float64)
                edges[name] = edges_of(known, parts)
            else:
                found = sorted(set().union(*(set(words(table[name].dropna())) for table in tables)))
                if len(found) > MOST_LEVELS:
                    found = sorted(words(first[name]).value_counts().index[:MOST_LEVELS])
                levels[name] = found
        return cls(edges, levels)

    def count(self, name: str) -> int:
        """Return the number of cells of a column, including the missing one."""
        return count_of(self.edges[name]) if name in self.edges else len(self.levels[name]) + 2

    def column(self, frame: pd.DataFrame, name: str) -> Whole:
        """Return the cell of each row: (rows,)."""
        if name in self.edges:
            return cells_in(frame[name].to_numpy(np.float64), self.edges[name])
        place = {level: k for k, level in enumerate(self.levels[name])}
        text = words(frame[name])
        level = text.map(place).fillna(len(place)).to_numpy(np.int64)
        return np.where(text.isna().to_numpy(), len(place) + 1, level)

    def table(self, frame: pd.DataFrame) -> Whole:
        """Return the cells of every column of `frame`: (rows, columns)."""
        return np.stack([self.column(frame, name) for name in frame.columns], 1)


def points(numbers: frozenset[str], frames: Sequence[pd.DataFrame]) -> list[Floats]:
    """Return each frame as points (rows, dimensions) whose distances are comparable across columns.

    Numbers become ranks over all frames together, from 0 to 1. Words become indicators, so that two levels are as far
    apart as the two ends of a number. A missing number is in the middle and has an indicator of its own.
    """
    together = pd.concat(frames, ignore_index=True)
    blocks: list[Floats] = []
    for name in frames[0]:
        column = together[name]
        if name in numbers:
            value = column.to_numpy(np.float64)
            gone = np.isnan(value)
            rank = np.full(len(value), 0.5)
            if not gone.all():
                rank[~gone] = rankdata(value[~gone]) / (~gone).sum()
            blocks += [rank[:, None], gone[:, None].astype(np.float64)] if gone.any() else [rank[:, None]]
        else:
            codes, uniques = pd.factorize(words(column).fillna(""), sort=True)
            keep = min(len(uniques), MOST_LEVELS)
            common = np.argsort(-np.bincount(codes))[:keep]
            blocks.append((codes[:, None] == common) / np.sqrt(2))
    return _split(np.concatenate(blocks, 1), frames)


def matrices(names: Sequence[str], numbers: frozenset[str], frames: Sequence[pd.DataFrame]) -> list[Floats]:
    """Return each frame as (rows, names) numbers for trees: levels as codes, missing values as NaN."""
    together = pd.concat([frame[list(names)] for frame in frames], ignore_index=True)
    columns = [
        together[name].to_numpy(np.float64)
        if name in numbers
        else np.where(together[name].isna(), np.nan, pd.factorize(words(together[name]), sort=True)[0])
        for name in names
    ]
    return _split(np.stack(columns, 1), frames)


def _split(whole: Floats, frames: Sequence[pd.DataFrame]) -> list[Floats]:
    return np.split(whole, np.cumsum([len(frame) for frame in frames])[:-1])
