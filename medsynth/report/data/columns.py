"""A table's cells as the values that are compared: by the schema's column kinds, else as plain numbers and words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from ...io import table as io_table
from ...schema import Column, Schema
from ...schema.columns.categorical import level_text
from ...schema.columns.column import Codes, Mask, Values
from .missing_codes import LARGEST, missing_codes, numbers_of


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


def undeclared_codes(real: Sequence[pd.DataFrame], schema: Schema | None) -> dict[str, frozenset[str]]:
    """The codes of missing values in each column of the real tables that no schema declares."""
    declared = schema.columns if schema else {}
    names = [name for name in real[0].columns if name not in declared]
    return {n: missing_codes(pd.concat([t[n] for t in real if n in t], ignore_index=True)) for n in names}


def without_codes(cells: pd.DataFrame, codes: Mapping[str, frozenset[str]]) -> pd.DataFrame:
    """The cells, with empty ones in place of codes of missing values."""
    return cells.assign(**{n: cells[n].mask(cells[n].isin(list(c)), "") for n, c in codes.items() if n in cells})


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
            related = {other: _values(codes_of(cells, declared, other), declared[other]) for other in column.depends_on}
            made |= _decoded(name, column, coded, related)
        else:
            continue
        if faults:
            notes.append(f"{name}: cells of the {where} table count as missing: {'; '.join(faults)}.")
    return pd.DataFrame(made)


def known_cells(cells: pd.DataFrame, schema: Schema) -> pd.DataFrame:
    """The texts of the declared columns, missing values as None, codes in hierarchies at the declared levels."""
    made = {}
    for name, column in schema.columns.items():
        if name in cells and column.modelled:
            place, texts = pd.factorize(cells[name], use_na_sentinel=False)
            gaps, undeclared = column.missing_in(np.asarray(texts, dtype=object))
            made[name] = column.at_levels(cells[name].mask(((gaps >= 0) | undeclared)[place], None))
    return pd.DataFrame(made)


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


def _values(coded: Coded, column: Column) -> Values:
    return column.values(coded.codes, {})


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
