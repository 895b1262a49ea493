"""A table's cells as the values that are compared: by the schema's column kinds, else as plain numbers and words.

Hospitals write missing values as codes. In a column that nobody declared, `missing_codes` recognises the plain ones. A
word is a code if all other cells are numbers; a number such as -9 or 999 is one if it lies clearly apart from every
other value. A code in more than half of the cells says something of its own, and stays. An infinity is a word here, and
`numbers_of` reads cells as numbers that every section can compute with.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ...io import table as io_table
from ...schema import Column, Schema
from ...schema.cells import MISSING_NUMBERS, MISSING_WORDS
from ...schema.columns.categorical import level_text
from ...schema.columns.column import Codes, Mask, Values

INFINITIES = frozenset(sign + word for sign in ("", "+", "-") for word in ("inf", "infinity"))
WORDS = frozenset(word.lower() for word in MISSING_WORDS) | INFINITIES
NUMBERS = tuple(float(code) for code in MISSING_NUMBERS)
MOST = 0.5  # of the cells; a code of more says something of its own
ODD = 0.01  # of the known cells that may be no numbers in a column that is read as numbers
LARGEST = 1e30  # absolute value of a number that is compared: float32, in which trees read, ends at 3e38


class Coded(NamedTuple):
    """A declared column's codes, (rows,), which cells have none, and what is wrong with those."""

    codes: Codes
    broken: Mask
    faults: list[str]


def cells_of(table: pd.DataFrame | io_table.Table, where: str = "table") -> pd.DataFrame:
    """A table's cells as text, as the fit reads them. Raises TableError for fewer than two rows."""
    return table.cells if isinstance(table, io_table.Table) else io_table.from_frame(table, where).cells


def number_columns(cells: pd.DataFrame, schema: Schema | None) -> frozenset[str]:
    """The columns that are compared as numbers: declared so, or undeclared and without a word in them."""
    declared = schema.columns if schema else {}
    rest = cells[[name for name in cells.columns if name not in declared]]
    kinds = io_table.dtypes(io_table.Table("", tuple(rest.columns), rest))
    found = [name for name in cells.columns if name in declared and not declared[name].categorical]
    return frozenset([*found, *(name for name, kind in kinds.items() if kind != "text")])


def without_codes(
    tables: Sequence[pd.DataFrame], real: Sequence[pd.DataFrame], schema: Schema | None
) -> list[pd.DataFrame]:
    """The cells of `tables`, with empty ones in place of codes of missing values in the columns of the first real one.

    The codes of a column are those of all `real` tables together. Columns that the schema declares stay.
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
    """The values of a table's cells, each column as an encoding and decoding by the schema gives it.

    Identifiers are left out, and columns whose cells depend on a column that is not there. Missing values are NaN or
    None; where a column has several kinds of them, a column beside it, "NAME: missing", has the kind. A cell that the
    schema does not allow counts as missing, with a line in `notes`. `where` names the table there.
    """
    declared = schema.columns if schema else {}
    made: dict[str, pd.Series] = {}
    for name in map(str, cells.columns):
        column = declared.get(name)
        if column is None or not column.size:  # undeclared, or levels still to be chosen
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


def known_cells(cells: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """The texts of the declared columns, missing values as None, codes in hierarchies at the declared levels."""
    present = {name: column for name, column in schema.columns.items() if name in cells and column.modelled}
    return pd.DataFrame({n: column.at_levels(without_gaps(cells[n], column)) for n, column in present.items()})


def without_gaps(cells: pd.Series, column: Column) -> pd.Series:
    """A declared column's texts, missing values as None."""
    place, texts = pd.factorize(cells, use_na_sentinel=False)
    gaps, undeclared = column.missing_in(np.asarray(texts, dtype=object))
    return cells.mask(((gaps >= 0) | undeclared)[place], None)


def on_scale(values: NDArray[np.float64], column: Column) -> NDArray[np.float64]:
    """Numbers on the column's scale: of a logarithmic one, logarithms; zero as half of the smallest number above it."""
    if column.dated or column.scale != "log":
        return values
    return np.asarray(np.log(np.maximum(values, 0.5 * 10.0**-column.places)))


def codes_of(cells: pd.DataFrame, columns: Mapping[str, Column], name: str) -> Coded:
    """A declared column's codes: the fit's own, but a cell that the fit refuses gets the code of a missing value.

    The columns that it depends on must be among `cells`.
    """
    column = columns[name]
    related = {other: (columns[other], cells[other]) for other in column.depends_on}
    place, reading = column.read_rows(cells[name], related)
    faults = [fault for fault in reading.faults if fault.found.any()]
    broken = np.any([fault.found for fault in faults], axis=0)[place] if faults else np.zeros(len(cells), np.bool_)
    codes = np.where(broken, column.size, reading.codes[place]).astype(np.int32)
    return Coded(codes, broken, [fault.what for fault in faults])


def _decoded(name: str, column: Column, coded: Coded, related: Mapping[str, Values]) -> dict[str, pd.Series]:
    """A column's values by name, with the kinds of its missing values beside them where there are several."""
    known = coded.codes < column.size
    values = column.decode_values(np.where(known, coded.codes, 0).astype(np.int32), related, "object")
    made = {name: _ordinary(column.compared(values)).mask(~known)}
    if column.gaps > 1:
        labels = np.array([*(word or "empty" for word in column.gap_words), "known"], dtype=object)
        kinds = pd.Series(labels[np.where(known, column.gaps, coded.codes - column.size)], dtype=object)
        made[f"{name}: missing"] = kinds.mask(coded.broken, None)
    return made


def _ordinary(values: pd.Series) -> pd.Series:
    """Values in numpy's dtypes, booleans as words: a classifier reads them as levels."""
    if pd.api.types.is_bool_dtype(values):
        return values.astype(object).map(level_text)
    return values.astype(np.int64) if pd.api.types.is_integer_dtype(values) else values


def _undeclared(cells: pd.Series, number: bool) -> tuple[pd.Series, list[str]]:
    """The numbers or words of a column that no schema declares, and what is wrong with cells that are neither."""
    known = cells.mask(cells.isin(list(io_table.MISSING_TOKENS)), None)
    if number:
        written = pd.to_numeric(known, errors="coerce")
        faults = {"not a number": written.isna() & known.notna(), f"beyond {LARGEST:g}": written.abs() > LARGEST}
        return numbers_of(known), [what for what, found in faults.items() if found.any()]
    truth = set(known.dropna().str.lower()) <= {"true", "false"}
    return (known.str.lower() if truth and known.notna().any() else known), []


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
