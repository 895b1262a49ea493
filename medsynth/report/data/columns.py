"""Turn a table's cells into values to compare: by the schema's column kinds, else as plain numbers and words.

Hospitals write missing values as codes. In an undeclared column `missing_codes` recognises the usual ones. A word is a
code if all other cells are numbers. A number such as -9 or 999 is a code if it lies clearly apart from all other
values. A code in more than half of the cells carries information and stays. `numbers_of` drops infinities, so that
every section can compute with the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from ...arrays import Codes, Mask
from ...io import table as io_table
from ...sampling.draw import MARK, MARKED
from ...schema import Column, Schema
from ...schema.cells import MISSING_NUMBERS, MISSING_WORDS
from ...schema.columns.column import Values, level_text
from ...schema.columns.date import Date, dates_in
from ...schema.columns.number import WrittenNumber

INFINITIES = frozenset(sign + word for sign in ("", "+", "-") for word in ("inf", "infinity"))
WORDS = frozenset(word.lower() for word in MISSING_WORDS) | INFINITIES
NUMBERS = tuple(float(code) for code in MISSING_NUMBERS)
MOST = 0.5  # Share of cells. A more frequent code carries information of its own.
ODD = 0.01  # Share of known cells in a number column that may be something else.
LARGEST = 1e30  # Largest absolute value compared. Trees read float32, which ends at 3e38.

Limits = Mapping[float, str]  # the texts of a column's limits, by the numbers that stand for them
NO_LIMITS: Limits = {}


class Coded(NamedTuple):
    """The codes of a declared column, (rows,), which cells have no valid code, and the faults found in those."""

    codes: Codes
    broken: Mask
    faults: list[str]


def cells_of(table: pd.DataFrame | io_table.Table, where: str = "table") -> pd.DataFrame:
    """Return a table's cells as text, as the fit reads them. Raises TableError for fewer than two rows."""
    return table.cells if isinstance(table, io_table.Table) else io_table.from_frame(table, where).cells


def unmarked(cells: pd.DataFrame, schema: Schema | None) -> pd.DataFrame:
    """Return synthetic rows without the last column that marks them, unless the schema declares that column."""
    last = cells.columns[-1]
    marked = last == MARK and (cells[last] == MARKED).all() and (schema is None or MARK not in schema.columns)
    return cells.iloc[:, :-1] if marked else cells


def number_columns(cells: pd.DataFrame, schema: Schema | None) -> frozenset[str]:
    """Return the columns compared as numbers: declared as numbers, or undeclared and without words."""
    declared = schema.columns if schema else {}
    rest = cells[[name for name in cells.columns if name not in declared]]
    kinds = io_table.dtypes(io_table.Table("", tuple(rest.columns), rest))
    found = [name for name in cells.columns if name in declared and not declared[name].categorical]
    return frozenset([*found, *(name for name, kind in kinds.items() if kind != "text")])


def limits_of(schema: Schema | None) -> dict[str, dict[float, str]]:
    """Return the limits of assays in each column that has any: texts by the numbers that stand for them."""
    columns = schema.columns if schema else {}
    return {n: c.limit_values for n, c in columns.items() if isinstance(c, WrittenNumber) and c.limits}


def dates_of(schema: Schema | None) -> dict[str, Date]:
    """Return the columns of dates, which are compared as years."""
    return dates_in(schema.columns if schema else {})


def levels_in_order(schema: Schema | None) -> dict[str, tuple[str, ...]]:
    """Return the levels of each ordinal column, as words."""
    columns = schema.columns if schema else {}
    return {n: tuple(map(level_text, c.levels)) for n, c in columns.items() if c.categorical and c.ordered}


def by_order(shown: list[str], in_order: Sequence[str]) -> list[str]:
    """Return levels in their declared order, if there is one; others follow."""
    return sorted(shown, key=lambda level: in_order.index(level) if level in in_order else len(in_order))


def without_codes(
    tables: Sequence[pd.DataFrame], real: Sequence[pd.DataFrame], schema: Schema | None
) -> list[pd.DataFrame]:
    """Return the cells of `tables` with codes of missing values emptied, for the columns of the first real table.

    The codes of a column come from all `real` tables together. Columns that the schema declares stay as they are.
    """
    codes = {
        name: list(missing_codes(pd.concat([table[name] for table in real if name in table], ignore_index=True)))
        for name in real[0].columns
        if schema is None or name not in schema.columns
    }
    return [t.assign(**{n: t[n].mask(t[n].isin(c), "") for n, c in codes.items() if n in t}) for t in tables]


def comparable(
    cells: pd.DataFrame, schema: Schema | None, numbers: frozenset[str], where: str, notes: list[str]
) -> pd.DataFrame:
    """Return the values of a table's cells, each column as the schema encodes and decodes it.

    Identifiers are left out, and so are columns that depend on an absent column. Missing values are NaN or None. A
    column with several kinds of missing values gets a second column, "NAME: missing", with the kind. A cell that the
    schema does not allow counts as missing and adds a line to `notes`, in which `where` names the table.
    """
    declared = schema.columns if schema else {}
    made: dict[str, pd.Series] = {}
    for name in map(str, cells.columns):
        column = declared.get(name)
        if column is None or not column.size:  # undeclared, or its levels are not chosen yet
            made[name], faults = _undeclared(cells[name], name in numbers)
        elif column.modelled and set(column.depends_on) <= set(cells.columns):
            coded = codes_of(cells, declared, name)
            faults = coded.faults
            related = {o: declared[o].values(codes_of(cells, declared, o).codes, {}) for o in column.depends_on}
            made |= _decoded(name, column, coded, related)
        else:
            continue
        if faults:
            notes.append(f"{name}: cells of the {where} table count as missing: {'; '.join(faults)}.")
    return pd.DataFrame(made)


def values_alone(cells: pd.DataFrame, schema: Schema | None) -> tuple[pd.DataFrame, frozenset[str]]:
    """Return the values of synthetic rows without a table to compare with, and the columns of numbers among them."""
    numbers = number_columns(cells, schema)
    made = comparable(cells, schema, numbers, "synthetic", [])
    return made, numbers & frozenset(made)


def known_cells(cells: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """Return the texts of the declared columns: missing values as None, hierarchy codes at the declared levels."""
    present = {name: column for name, column in schema.columns.items() if name in cells and column.modelled}
    return pd.DataFrame({n: column.at_levels(without_gaps(cells[n], column)) for n, column in present.items()})


def without_gaps(cells: pd.Series, column: Column) -> pd.Series:
    """Return a declared column's texts, missing values as None."""
    place, texts = pd.factorize(cells, use_na_sentinel=False)
    gaps, undeclared = column.missing_in(np.asarray(texts, dtype=object))
    return cells.mask(((gaps >= 0) | undeclared)[place], None)


def codes_of(cells: pd.DataFrame, columns: Mapping[str, Column], name: str) -> Coded:
    """Return a declared column's codes as the fit does, but with a missing code for a cell that the fit would refuse.

    `cells` must contain the columns that this one depends on.
    """
    column = columns[name]
    related = {other: (columns[other], cells[other]) for other in column.depends_on}
    place, reading = column.read_rows(cells[name], related)
    faults = [fault for fault in reading.faults if fault.found.any()]
    broken = np.any([fault.found for fault in faults], axis=0)[place] if faults else np.zeros(len(cells), np.bool_)
    codes = np.where(broken, column.size, reading.codes[place]).astype(np.int32)
    return Coded(codes, broken, [fault.problem.text for fault in faults])


def without_own_value(cells: pd.DataFrame, schema: Schema | None) -> dict[str, float]:
    """Return for each column of the schema the share of cells that are read as `unknown`.

    Both tables of a comparison have that value there, so the comparison cannot show what the model has lost. Codes of a
    hierarchy are left out: the model has groups of them.
    """
    declared = schema.columns if schema else {}
    found = dict[str, float]()
    for name in (n for n in map(str, cells) if n in declared and declared[n].modelled):
        column = declared[name]
        if getattr(column, "unknown", None) is None or getattr(column, "hierarchy", None) is not None:
            continue
        if set(column.depends_on) <= set(cells.columns):
            strict = column.model_copy(update={"unknown": None})
            found[name] = float(codes_of(cells, {**declared, name: strict}, name).broken.mean())
    return found


def _decoded(name: str, column: Column, coded: Coded, related: Mapping[str, Values]) -> dict[str, pd.Series]:
    """Return a column's values by name, and the kinds of its missing values if there are several."""
    known = coded.codes < column.size
    values = column.decode_values(np.where(known, coded.codes, 0).astype(np.int32), related, "object")
    made = {name: _ordinary(column.compared(values)).mask(~known)}
    if column.gaps > 1:
        labels = np.array([*(word or "empty" for word in column.gap_words), "known"], dtype=object)
        kinds = pd.Series(labels[np.where(known, column.gaps, coded.codes - column.size)], dtype=object)
        made[f"{name}: missing"] = kinds.mask(coded.broken, None)
    return made


def _ordinary(values: pd.Series) -> pd.Series:
    """Return values in numpy's dtypes. Booleans become words, which classifiers read as levels."""
    if pd.api.types.is_bool_dtype(values):
        return values.astype(object).map(level_text)
    return values.astype(np.int64) if pd.api.types.is_integer_dtype(values) else values


def _undeclared(cells: pd.Series, number: bool) -> tuple[pd.Series, list[str]]:
    """Return the numbers or words of an undeclared column, and the faults of cells that are neither."""
    known = cells.mask(cells.isin(list(io_table.MISSING_TOKENS)), None)
    if number:
        written = pd.to_numeric(known, errors="coerce")
        faults = {"not a number": written.isna() & known.notna(), f"beyond {LARGEST:g}": written.abs() > LARGEST}
        return _within(written), [what for what, found in faults.items() if found.any()]
    truth = set(known.dropna().str.lower()) <= {"true", "false"}
    return (known.str.lower() if truth and known.notna().any() else known), []


def missing_codes(column: pd.Series) -> frozenset[str]:
    """Return the texts in a column that mean a missing value, including empty cells."""
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
    """Return whether nearly all known cells are numbers. A text with a leading zero, such as 007, is a name."""
    counts = cells[~cells.isin(io_table.MISSING_TOKENS)].value_counts()
    numeric = [io_table.is_number(str(text)) for text in counts.index]
    return bool(len(counts)) and bool(counts[numeric].sum() >= (1 - ODD) * counts.sum())


def numbers_of(cells: pd.Series) -> pd.Series:
    """Return the number in each cell; NaN for a text that is not a number, an infinity, or a number beyond LARGEST."""
    return _within(pd.to_numeric(cells, errors="coerce"))


def _within(numbers: pd.Series) -> pd.Series:
    return numbers.where(numbers.abs() <= LARGEST, np.nan) if (numbers.abs() > LARGEST).any() else numbers


def _apart(value: float, low: float, high: float) -> bool:
    """Return whether a code is further from the range `low` to `high` of the other values than that range is wide.

    A negative code among values that are never negative is apart too.
    """
    return (value < 0 <= low) or max(low - value, value - high) > high - low


def words(column: pd.Series) -> pd.Series:
    """Return a column's levels as text, missing ones as None."""
    place, values = pd.factorize(column)
    texts = np.array([*map(_word, values), None], dtype=object)
    return pd.Series(texts[place], index=column.index, dtype=object)


def _word(value: object) -> str:
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)
