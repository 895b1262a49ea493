"""Turn cells of text into whole-number codes and back, column by column, and conditions into ranges of codes.

Messages never contain a cell.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from ..arrays import Codes, Mask, Whole
from ..errors import Problem, SchemaError, UsageError, did_you_mean
from ..io.table import LargeTable, Table
from .columns.categorical import Categorical
from .columns.column import Column, Reading, SharedCell, Values, level_text
from .columns.dtypes import cast
from .columns.parts import cells_of, shown, whole_of
from .schema import Schema

Range = tuple[int, int]  # of codes, both ends included
Ranges = dict[str, Range]
Where = str | Sequence[str] | Mapping[str, object]


def encode(table: Table, schema: Schema) -> Codes:
    """Return the codes of the schema's columns in a table, (rows, columns) in the schema's order.

    Raises SchemaError for the first cell that the schema does not allow. `check_header` compares the columns.
    """
    return np.column_stack([_encode_column(table, schema, name) for name in schema.columns])


def check_header(table: Table | LargeTable, schema: Schema, keys: Collection[str] = ()) -> None:
    """Raise SchemaError unless the table has exactly the schema's columns, in any order.

    It may lack columns that no row keeps, as synthetic rows do, unless these are `keys`, the patient or the order.
    """
    used = {schema.unit, schema.order, *keys}
    declared = schema.header
    written = {n for n, own in declared.items() if any(column.written for column in own.values())}
    absent = [n for n in declared if n not in table.header and (n in written or n in used)]
    if absent:
        # In a file without a header line, a patient's cells are in its place: they are never printed.
        is_header = len(absent) < len(declared) / 2
        hint = did_you_mean(absent[0], table.header) if is_header else " If the file has no header line, add one."
        more = f" (nor {', '.join(map(repr, absent[1:]))})" if len(absent) > 1 else ""
        empty = all(column.missing for name in absent for column in declared[name].values())
        raise SchemaError(
            f"{table.where}: no column {absent[0]!r}{more}, but the schema {schema.name!r} declares it."
            f"{hint} Blanks and case are part of a name. "
            f"Rename the table's column, {'add an empty one' if empty else 'add it'}, or remove it from the schema."
        )
    extra = [k for k, name in enumerate(table.header, 1) if name not in declared]
    if extra and schema.other_columns == "refuse":
        # In a file without a header line, the name is a cell, and left out.
        name = f", {table.header[extra[0] - 1][:80]!r}," if set(table.header) & {*declared} else ""
        raise SchemaError(
            f"{table.where}: column {extra[0]}{name} is not in the schema "
            f"{schema.name!r}. Declare it there, set `other_columns` to leave out or to learn, or remove it from the "
            "table."
        )


def known_codes(table: Table, schema: Schema, unknown: int) -> Codes:
    """Return codes as `encode` does, with `unknown` for absent columns and refused cells. Only for public rows."""
    found = np.full((len(table.cells), len(schema.columns)), unknown, np.int32)
    source = {name: header for header, own in schema.header.items() for name in own}
    for place, (name, column) in enumerate(schema.columns.items()):
        if {source[one] for one in (name, *column.depends_on)} <= set(table.header):
            at, reading = _read(table, schema, name, column)
            found[:, place] = reading.codes[at]
            for fault in reading.faults:
                found[fault.found[at], place] = unknown
    return found


def _encode_column(table: Table, schema: Schema, name: str) -> Codes:
    """Return the codes of one column. Raise SchemaError for the first row that has a fault."""
    codes, found = read_column(table, schema, name, schema.columns[name])
    for problem in found:
        raise SchemaError(fault_in(table.where, problem), problem)
    return codes.astype(np.int32)


def read_column(table: Table, schema: Schema, name: str, column: Column) -> tuple[Whole, dict[Problem, int]]:
    """Return the codes of a column, and its faults: each with its first row, and the number of such rows."""
    place, reading = _read(table, schema, name, column)
    rows = [(fault.problem, np.nonzero(fault.found[place])[0]) for fault in reading.faults if fault.found.any()]
    found = {replace(one, column=name, row=table.before + int(at[0]) + 1): len(at) for one, at in rows}
    return reading.codes[place], found


def _read(table: Table, schema: Schema, name: str, column: Column) -> tuple[Whole, Reading]:
    """Return each row's index in a reading of a column, and the reading."""
    related = {
        other: (schema.columns[other], cells_of(table.cells, other, schema.columns[other]))
        for other in column.depends_on
    }
    cells = cells_of(table.cells, name, column) if column.part or related else table.column(name)
    return column.read_rows(cells, related)


def fault_in(where: str, one: Problem) -> str:
    """Return the message of a cell that the schema does not allow: its place and the cure, never its text."""
    second = " If row 1 is a second header row, such as units, set `skip_rows=1`." if one.row == 1 else ""
    return f"{where}, column {one.column!r}, row {one.row}: {one.text}. {one.cure}{second}"


def hierarchy_positions(table: Table, columns: Mapping[str, Categorical]) -> Codes:
    """Return the hierarchy position of each code in `columns`, (rows, columns); unknown codes come after all others."""
    return np.column_stack([column.hierarchy_positions(table.cells[name]) for name, column in columns.items()])


def column_values(codes: Codes, schema: Schema, name: str) -> Values:
    """Return a column's values as constraints compare them: numbers with NaN, or levels as text with None."""
    return schema.columns[name].values(codes[:, schema.names.index(name)], related_values(codes, schema, name))


def related_values(codes: Codes, schema: Schema, name: str) -> dict[str, Values]:
    """Return the values of the columns that a column depends on."""
    return {other: column_values(codes, schema, other) for other in schema.columns[name].depends_on}


def decode(codes: Codes, schema: Schema) -> pd.DataFrame:
    """Return the table of codes, (rows, columns) in the schema's order, each column in its dtype.

    Whole-number levels and counts are int64 (Int64 if values may be missing), booleans bool (boolean), measurements
    float64, words object. Codes of missing values stay numbers if all are whole; if one is a word, the column's dtype
    is object. A `dtype` that the schema declares is used if it can represent the values.
    """
    made = dict[str, pd.Series]()
    for name, own in schema.header.items():
        column = own.get(name)
        if whole := whole_of(own):
            one = next(iter(own.values()))
            values = shown(_shared_cells(codes, schema, own, whole), one)
            made[name] = values if one.dtype is None else cast(values, one.dtype, pd.CategoricalDtype())
        elif column is not None and column.written:
            made[name] = column.decode(codes[:, schema.names.index(name)], related_values(codes, schema, name))
    return pd.DataFrame(made, copy=False)


def csv_cells(codes: Codes, schema: Schema) -> pd.DataFrame:
    """Return the table of codes as text for a CSV file: exact decimals without trailing zeros, missing values empty."""
    made = dict[str, pd.Series]()
    for name, own in schema.header.items():
        column = own.get(name)
        if whole := whole_of(own):
            made[name] = pd.Series(_shared_cells(codes, schema, own, whole), dtype=object)
        elif column is not None and column.written:
            made[name] = column.csv_cells(codes[:, schema.names.index(name)], related_values(codes, schema, name))
    return pd.DataFrame(made)


def _shared_cells(codes: Codes, schema: Schema, own: Mapping[str, Column], whole: SharedCell) -> list[str]:
    """Return the cells that columns have together."""
    parts = [codes[:, schema.names.index(name)] for name in own]
    return whole.join([*own.values()], parts, [related_values(codes, schema, name) for name in own])


def words(where: Where) -> tuple[str, ...]:
    """Return conditions as texts: one text, several, or a mapping of columns to a value, a list or a pair of bounds.

    >>> words({"sex": ["F", "M"], "age": (60, None), "smokes": True, "visits": None})
    ('sex=F,M', 'age=60..', 'smokes=true', 'visits=')
    """
    if isinstance(where, str):
        return (where,)
    if isinstance(where, Mapping):
        return tuple(f"{name}={_text(value)}" for name, value in where.items())
    if not all(isinstance(word, str) for word in where):
        raise UsageError("`where` must be a text such as 'sex=F', a list of texts, or a mapping of columns to values.")
    return tuple(where)


def _text(value: object) -> str:
    if isinstance(value, tuple) and len(value) == 2:
        return "..".join(_text(end) for end in value)
    if isinstance(value, list | tuple | set | frozenset):
        return ",".join(sorted(map(_text, value)) if isinstance(value, set | frozenset) else map(_text, value))
    return "" if value is None else level_text(value)


def parse(
    where: Where, schema: Schema, parameter: str = "where", *, days: bool = False
) -> dict[str, tuple[Range, ...]]:
    """Return the codes that each condition allows: one range, or several if commas separate values.

    A range includes both ends, and may leave out one. Nothing after the sign means missing. `parameter`: the name of
    the conditions in messages. `days`: whether a date that follows another may have days, which `day_ranges` returns;
    they allow all codes. Raises UsageError for text that is not a condition, unknown columns or levels, and
    ranges without a value.

    >>> from medsynth.schema import Schema
    >>> schema = Schema.from_dict({"name": "t", "columns": {"age": {"kind": "count", "bounds": [18, 99]}}})
    >>> parse(["age=20..30"], schema), parse("age=90..", schema), parse({"age": [18, 20]}, schema)
    ({'age': ((2, 12),)}, {'age': ((72, 81),)}, {'age': ((0, 0), (2, 2))})
    """
    found: dict[str, tuple[Range, ...]] = {}
    for word in words(where):
        fitting = [name for name in schema.columns if word.startswith(f"{name}=")]
        if not fitting:
            given = word.partition("=")[0][:80]
            raise UsageError(
                f"`{parameter}` takes COLUMN=VALUE, COLUMN=VALUE,VALUE or COLUMN=LOW..HIGH; "
                f"{given!r} is not a column of the model.{did_you_mean(given, schema.columns)}"
            )
        name = max(fitting, key=len)  # a name may contain the sign itself
        if name in found:
            raise UsageError(f"`{parameter}` names {name!r} twice. Give one condition per column.")
        if days and name in day_ranges(word, schema):
            found[name] = ((0, schema.columns[name].size - 1),)
            continue
        try:
            found[name] = _ranges(word[len(name) + 1 :].strip(), schema, name)
        except ValueError as error:
            raise UsageError(f"`{parameter}` {name}: {error}") from None
    return found


def day_ranges(where: Where, schema: Schema) -> dict[str, tuple[float, float]]:
    """Return the first and last day of each condition in days on a date that follows another."""
    found = {}
    for name, column in schema.columns.items():
        for word in words(where):
            if word.startswith(f"{name}="):
                found[name] = column.day_range(word[len(name) + 1 :].strip())
    return {name: days for name, days in found.items() if days}


def within_days(codes: Codes, schema: Schema, days: Mapping[str, tuple[float, float]]) -> Mask:
    """Return which rows of codes are within the days of all conditions: (rows,)."""
    values = {name: column_values(codes, schema, name).astype(np.float64) for name in days}
    inside = [(values[name] >= low) & (values[name] <= high) for name, (low, high) in days.items()]
    return np.asarray(np.all(inside, axis=0)) if inside else np.ones(len(codes), np.bool_)


def _ranges(value: str, schema: Schema, name: str) -> tuple[Range, ...]:
    """Return the ranges of one condition's value: of all of it, as a level may contain commas, else of its parts."""
    column = schema.columns[name]
    try:
        return (column.code_range(value),)
    except ValueError:
        if "," not in value:
            raise
    return tuple(sorted({column.code_range(part.strip()) for part in value.split(",")}))


def hull(ranges: Sequence[Range]) -> Range:
    """Return the smallest range that contains some ranges."""
    return min(first for first, _ in ranges), max(last for _, last in ranges)


def met(codes: Codes, ranges: Sequence[Range]) -> Mask:
    """Return which codes, (rows,), are in one of the ranges."""
    return np.asarray(np.any([(codes >= first) & (codes <= last) for first, last in ranges], axis=0))
