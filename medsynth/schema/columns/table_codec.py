"""A table's cells of text to whole-number codes and back, column by column. Messages never contain a cell."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

import numpy as np
import pandas as pd

from ...errors import SchemaError, did_you_mean
from ...io.table import LargeTable, Table
from .categorical import Categorical
from .column import Codes, Column, Values


class ColumnSet(Protocol):
    """Columns by name, in a table's order, as a schema, a floor above, declares them."""

    @property
    def name(self) -> str:
        """The schema's name, for messages."""

    @property
    def columns(self) -> Mapping[str, Column]:
        """The columns."""

    @property
    def names(self) -> tuple[str, ...]:
        """Their names in the table's order."""


def encode(table: Table, schema: ColumnSet) -> Codes:
    """The codes of a table's columns that the schema names, (rows, columns) in the schema's order.

    Raises SchemaError for the first cell that the schema does not allow. `check_header` compares the columns.
    """
    return np.column_stack([_encode_column(table, schema, name) for name in schema.columns])


def check_header(table: Table | LargeTable, schema: ColumnSet) -> None:
    """Raises SchemaError unless the table has exactly the schema's columns, in any order."""
    absent = [name for name in schema.names if name not in table.header]
    if absent:
        more = f" (nor {', '.join(map(repr, absent[1:]))})" if len(absent) > 1 else ""
        raise SchemaError(
            f"{table.where}: no column {absent[0]!r}{more}, which the schema {schema.name!r} names."
            f"{did_you_mean(absent[0], table.header)} Rename the table's column, or take it out of the schema."
        )
    extra = [k for k, name in enumerate(table.header, 1) if name not in schema.columns]
    if extra:
        raise SchemaError(
            f"{table.where}: column {extra[0]} is not in the schema {schema.name!r}. Declare it there or leave it "
            "out of the table."
        )


def _encode_column(table: Table, schema: ColumnSet, name: str) -> Codes:
    """The codes of one column. A fault is reported at the first row that has it."""
    column = schema.columns[name]
    related = {other: (schema.columns[other], table.cells[other]) for other in column.depends_on}
    place, reading = column.read_rows(table.cells[name], related)
    for fault in reading.faults:
        if fault.found.any():
            row = table.before + int(np.nonzero(fault.found[place])[0][0]) + 1
            raise SchemaError(f"{table.where}, column {name!r}, row {row}: {fault.what}. {fault.cure}")
    return reading.codes[place].astype(np.int32)


def hierarchy_positions(table: Table, columns: Mapping[str, Categorical]) -> Codes:
    """The position of each code of some columns in their hierarchies, (rows, columns); past all for an unknown one."""
    return np.column_stack([column.hierarchy_positions(table.cells[name]) for name, column in columns.items()])


def column_values(codes: Codes, schema: ColumnSet, name: str) -> Values:
    """One column's values as constraints compare them: numbers with NaN for missing, levels as text with None."""
    return schema.columns[name].values(codes[:, schema.names.index(name)], related_values(codes, schema, name))


def related_values(codes: Codes, schema: ColumnSet, name: str) -> dict[str, Values]:
    """The values of the columns that a column depends on."""
    return {other: column_values(codes, schema, other) for other in schema.columns[name].depends_on}


def decode(codes: Codes, schema: ColumnSet) -> pd.DataFrame:
    """The table of codes, (rows, columns) in the schema's order, each column in its dtype.

    Whole-number levels and counts are int64 (Int64 where values may be missing), booleans bool (boolean),
    measurements float64, words object. Codes of missing values are numbers among the others where all are whole;
    where one is a word, the column's dtype is object. A `dtype` that the schema declares is used where it can
    represent the values.
    """
    made = {}
    for k, (name, column) in enumerate(schema.columns.items()):
        if not column.written:
            continue
        made[name] = column.decode(codes[:, k], related_values(codes, schema, name))
    return pd.DataFrame(made, copy=False)


def csv_cells(codes: Codes, schema: ColumnSet) -> pd.DataFrame:
    """The same as text for a CSV file: exact decimals without trailing zeros, missing values empty."""
    return pd.DataFrame({
        name: column.csv_cells(codes[:, k], related_values(codes, schema, name))
        for k, (name, column) in enumerate(schema.columns.items())
        if column.written
    })  # fmt: skip
