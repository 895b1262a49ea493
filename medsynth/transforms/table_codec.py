"""Cells of text to whole-number codes and back. Decimals are coded by integer arithmetic.

The code of a level is its place in the schema; of a number, its distance from the lower bound in units of the
last decimal place; of a missing value, past the last, by its kind. Messages give file, column and row, never the cell.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import SchemaError
from ..io.table import MISSING_TOKENS, Table
from ..schema import Binary, Categorical, Schema
from ..schema.constraints import level_text
from .columns import Column, Continuous, Date, Identifier, Level
from .dates import as_days, days, stamps, texts
from .dtypes import cast
from .hierarchies import hierarchy

Codes = NDArray[np.int32]
UNREADABLE = np.iinfo(np.int64).min


def size(column: Column) -> int:
    """How many codes a column's values have; the code of the first kind of missing value is this number.

    >>> from medsynth.schema import Count
    >>> size(Count(bounds=(0, 50)))
    51
    """
    if isinstance(column, Binary | Categorical):
        return len(column.levels)
    if isinstance(column, Identifier):
        return column.capacity
    low, high = column.units
    return high - low + 1


def encode(table: Table, schema: Schema) -> Codes:
    """The codes of a table's columns that the schema names, (rows, columns) in the schema's order.

    Raises SchemaError for the first cell that the schema does not allow. `check_header` compares the columns.
    """
    table = as_days(table, schema)
    return np.column_stack([_encode_column(table, name, column) for name, column in schema.columns.items()])


def check_header(table: Table, schema: Schema) -> None:
    """Raises SchemaError unless the table has exactly the schema's columns, in any order."""
    absent = [name for name in schema.names if name not in table.header]
    if absent:
        raise SchemaError(
            f"{table.where}: no column {absent[0]!r}, which the schema {schema.name!r} names. Rename the table's "
            "column, or take it out of the schema."
        )
    extra = [k for k, name in enumerate(table.header, 1) if name not in schema.columns]
    if extra:
        raise SchemaError(
            f"{table.where}: column {extra[0]} is not in the schema {schema.name!r}. Declare it there or leave it "
            "out of the table."
        )


def _encode_column(table: Table, name: str, column: Column) -> Codes:
    """Each distinct text is coded once. A bad one is reported at the first row that holds it."""
    place, words = pd.factorize(table.cells[name], use_na_sentinel=False)
    declared = {str(level) for level in column.levels} if isinstance(column, Binary | Categorical) else frozenset()
    kind = np.array([gap(word, column) if word not in declared else -1 for word in words], np.int64)
    missing = (kind >= 0) | np.array([word in MISSING_TOKENS and word not in declared for word in words], bool)
    read = size(column) + np.maximum(kind, 0)
    values = np.asarray(words, dtype=object)[~missing]
    read[~missing] = _levels(values, column) if isinstance(column, Binary | Categorical) else _numbers(values, column)

    def refuse(bad: NDArray[np.bool_], what: str, cure: str) -> None:
        if bad.any():
            row = int(np.nonzero(bad[place])[0][0]) + 1
            raise SchemaError(f"{table.where}, column {name!r}, row {row}: {what}. {cure}")

    cure = "Set `missing: true` or fill the cell."
    if column.gaps:
        cure = 'Add "" to the codes in `missing`, or fill the cell.'
    refuse(missing & (kind < 0), "a missing value, which the schema does not allow", cure)
    if isinstance(column, Binary | Categorical):
        cure = "Add the level to the schema or mend the cell."
        refuse(read == UNREADABLE, "a level that the schema does not name", cure)
    elif not isinstance(column, Identifier):
        if isinstance(column, Date):
            cure = "Mend the cell, or the schema's format."
            refuse(read == UNREADABLE, f"not a date in the form {column.format}", cure)
        refuse(read == UNREADABLE, "not a number", "Mend the cell, or declare the column categorical.")
        low, high = column.units
        inside = np.clip(read, low, high)
        if column.out_of_range == "error":
            cure = "Widen the bounds, mend the cell, or set `out_of_range: clip`."
            refuse(~missing & (inside != read), "a value outside the schema's bounds", cure)
        read = np.where(missing, read, inside - low)
    return read[place].astype(np.int32)


def gap(word: str, column: Column) -> int:
    """The number of the kind of missing value that a text stands for, or -1. -9.0 stands for -9."""
    codes = column.missing if isinstance(column.missing, tuple) else column.gap_words
    for k, known in enumerate(column.gap_words):
        if _canonical(word, codes[k]) == known or (known == "" and word in MISSING_TOKENS):
            return k
    return -1


def _levels(words: NDArray[np.object_], column: Binary | Categorical) -> NDArray[np.int64]:
    """Level numbers of texts; UNREADABLE for one that is no level and has nowhere to go."""
    if isinstance(column, Categorical) and column.hierarchy is not None:
        return _rolled_up(words, column)
    index = {_canonical(str(level), level): k for k, level in enumerate(column.levels)}
    other = UNREADABLE if column.unknown is None else column.levels.index(column.unknown)
    first = column.levels[0]
    return np.array([index.get(_canonical(word, first), index.get(word, other)) for word in words], dtype=np.int64)


def places(table: Table, columns: Mapping[str, Categorical]) -> Codes:
    """The place of each code of some columns in their hierarchies, (rows, columns); the one past all is unknown."""
    found = []
    for name, column in columns.items():
        known = hierarchy(column.hierarchy or "")
        place, words = pd.factorize(table.cells[name], use_na_sentinel=False)
        chains = [known.chain(str(word)) for word in words]
        found.append(np.array([c[-1].start if c else known.size for c in chains], np.int32)[place])
    return np.column_stack(found)


def _rolled_up(words: NDArray[np.object_], column: Categorical) -> NDArray[np.int64]:
    """Level numbers of codes: the finest level that each belongs to, else `unknown`; zero while none are chosen."""
    if not column.levels:
        return np.zeros(len(words), np.int64)
    index, known = {str(level): k for k, level in enumerate(column.levels)}, hierarchy(column.hierarchy or "")
    other = index[str(column.unknown)]
    chains = ([node.label for node in reversed(known.chain(str(word)))] for word in words)
    return np.array([next((index[c] for c in chain if c in index), other) for chain in chains], np.int64)


def level_of(words: NDArray[np.object_], column: Categorical) -> NDArray[np.object_]:
    """The levels that codes in a hierarchy go to; a code of a missing value stays as it is."""
    levels = np.array([str(level) for level in column.levels], dtype=object)[_rolled_up(words, column)]
    return np.array([w if gap(str(w), column) >= 0 else c for w, c in zip(words, levels, strict=True)], dtype=object)


def _canonical(word: str, level: Level) -> str:
    """A text as a level of that type is written: 1.0 as 1, True as true."""
    if isinstance(level, bool):
        return word.lower()
    if isinstance(level, int) and "." in word:
        whole, _, rest = word.partition(".")
        return whole if not rest.strip("0") else word
    return word


def _numbers(words: NDArray[np.object_], column: Column) -> NDArray[np.int64]:
    """Numbers in units of the last decimal place; UNREADABLE for a text that is no finite number.

    The unit is the nearest to the decimal that was written, so 0.1 is one tenth and not its binary neighbour.
    """
    assert not isinstance(column, Binary | Categorical | Identifier)
    values = pd.to_numeric(pd.Series(words, dtype=object), errors="coerce").to_numpy(np.float64)
    finite = np.isfinite(values)
    low, high = column.units
    scaled = np.rint(np.where(finite, values, 0.0) * 10.0**column.places)
    units = np.clip(scaled, low - 1, high + 1).astype(np.int64)
    return np.where(finite, units, UNREADABLE)


def decode(codes: Codes, schema: Schema, dtypes: Mapping[str, str] | None = None) -> pd.DataFrame:
    """The table that codes, (rows, columns) in the schema's order, stand for, each column in its dtype.

    Whole-number levels and counts are int64 (Int64 where values may be missing), booleans bool (boolean),
    measurements float64, words object. Codes of missing values stand among the numbers where all are whole numbers;
    where one is a word, the column's dtype is object. `dtypes`, those of the frame that was fitted, are taken up where
    they hold the values.
    """
    made = {}
    for k, (name, column) in enumerate(schema.columns.items()):
        asked = (dtypes or {}).get(name)
        if isinstance(column, Date):
            known = days(codes, schema, name)
            words = asked is not None and not asked.startswith("datetime64")
            dates = texts(known, column).mask(np.isnan(known), None) if words else stamps(known)
            made[name] = _with_gaps(dates, codes[:, k], column)
        elif not (isinstance(column, Identifier) and column.drop):
            made[name] = _with_gaps(_decode(codes[:, k], column), codes[:, k], column)
        if asked is not None and name in made:
            made[name] = cast(made[name], asked, column)
    return pd.DataFrame(made)


def _with_gaps(values: pd.Series, codes: Codes, column: Column) -> pd.Series:
    """Decoded values with the codes of missing ones that the schema names in their places."""
    if not isinstance(column.missing, tuple):
        return values
    numbers = pd.api.types.is_numeric_dtype(values) and all(isinstance(code, int) for code in column.missing)
    found = values if numbers else values.astype(object)
    for k, code in enumerate(column.missing):
        found = found.mask(codes == size(column) + k, None if code == "" else code)
    return found.astype("int64") if numbers and isinstance(values.dtype, pd.Int64Dtype) else found


def _decode(codes: Codes, column: Column) -> pd.Series:
    if isinstance(column, Identifier):
        return pd.Series([column.key(int(code)) for code in codes], dtype=object)
    missing = codes >= size(column)
    if isinstance(column, Continuous):
        scale = 10**column.places
        places, units = np.unique(np.where(missing, 0, codes), return_inverse=True)
        # Division by a power of ten rounds to the nearest float: the one that the decimal text reads as.
        values = np.array([(int(p) + column.units[0]) / scale for p in places])[units]
        return pd.Series(np.where(missing, np.nan, values))
    if not isinstance(column, Binary | Categorical):
        whole = pd.Series(codes.astype(np.int64) + column.units[0])
        return whole.astype("Int64").mask(missing) if column.missing else whole
    levels = pd.Series([column.levels[k] for k in np.where(missing, 0, codes)], dtype=object)
    if all(isinstance(level, bool) for level in column.levels):
        return levels.astype("boolean").mask(missing) if column.missing else levels.astype(bool)
    if all(isinstance(level, int) and not isinstance(level, bool) for level in column.levels):
        return levels.astype("Int64").mask(missing) if column.missing else levels.astype("int64")
    return levels.mask(missing, None) if column.missing else levels


def csv_cells(codes: Codes, schema: Schema) -> pd.DataFrame:
    """The same as text for a CSV file: exact decimals without trailing zeros, missing values empty."""
    made = {}
    for k, (name, column) in enumerate(schema.columns.items()):
        if isinstance(column, Date):
            known = texts(days(codes, schema, name), column)
            gone = codes[:, k] - size(column)
            for kind, word in enumerate(column.gap_words):  # the date that it comes after may be missing too
                known = known.mask((gone == kind) | ((gone < 0) & (known == "") & (kind == 0)), word)
            made[name] = known
        elif not (isinstance(column, Identifier) and column.drop):
            made[name] = _texts(codes[:, k], column)
    return pd.DataFrame(made)


def _texts(codes: Codes, column: Column) -> pd.Series:
    distinct, place = np.unique(codes, return_inverse=True)
    words = [_text(int(code), column) for code in distinct]
    return pd.Series(np.array(words, dtype=object)[place])


def _text(code: int, column: Column) -> str:
    if code >= size(column):
        return column.gap_words[code - size(column)]
    if isinstance(column, Binary | Categorical):
        return level_text(column.levels[code])
    if isinstance(column, Identifier):
        return column.key(code)
    text = format(Decimal(code + column.units[0]).scaleb(-column.places), "f")
    return text.rstrip("0").rstrip(".") if "." in text else text
