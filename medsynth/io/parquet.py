"""Parquet: the columns by name, and their rows in pieces, each cell as text by its Arrow type."""

from __future__ import annotations

import importlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from ..errors import TableError
from .cell_text import NOT_A_VALUE_CURE, NotAValue, arrow_categories, check_type, frame_text, has_floats, value_text
from .table import OpenTable, Table, check_names

if TYPE_CHECKING:
    import pyarrow

TEXT_NAMES = ("unicode", "string", "categorical", "empty")  # the types of columns' names that pandas stores
# Decimals have no zeros at their end then: pandas gives all of a column the places of the longest.
BY_PANDAS = "that pandas wrote: the types of its columns count as public, as pandas may have chosen them from all rows"
PERIODS = "pandas.core.arrays.arrow.extension_types"  # Its import registers pandas' months and intervals with Arrow.


@contextmanager
def _errors(path: Path) -> Iterator[None]:
    """Turn the errors of a damaged Parquet file into TableError."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, ValueError, KeyError):
        raise TableError(f"{path} starts as a Parquet file but is damaged. Copy it again.") from None


def count_cells(path: Path) -> int:
    """Return the number of cells of the Parquet file at `path`."""
    import pyarrow.parquet

    with _errors(path):
        facts = pyarrow.parquet.read_metadata(path)
        return int(facts.num_rows * facts.num_columns)


@contextmanager
def opened(path: Path) -> Iterator[OpenTable]:
    """Open the Parquet file at `path`. An index that pandas stored in it is a column if it has a name.

    Raises TableError for a damaged file, and for columns without single values.
    """
    import pyarrow.parquet

    importlib.import_module(PERIODS)
    # Reading ahead would buffer the whole file.
    with _errors(path), pyarrow.parquet.ParquetFile(path, pre_buffer=False) as file:
        _check_types(file.schema_arrow, str(path))
        columns = _columns(file.schema_arrow, file.metadata.num_rows)
        header = check_names(tuple(name for name, _ in columns), str(path))
        kinds = file.schema_arrow.types
        floats = frozenset(name for name, place in columns if isinstance(place, int) and has_floats(kinds[place]))
        by_pandas = file.schema_arrow.pandas_metadata is not None
        form = BY_PANDAS if by_pandas else ""

        def pieces(most: int | None) -> Iterator[Table]:
            before = 0
            for batch in [None] if most is None else file.iter_batches(most):
                table = file.read() if batch is None else pyarrow.Table.from_batches([batch])
                cells = {}
                for name, source in columns:
                    if isinstance(source, range):
                        table = table.append_column(name, pyarrow.array(source[before : before + len(table)]))
                        cells[name] = arrow_categories(table.columns[-1])
                    else:
                        short = by_pandas and pyarrow.types.is_decimal(kinds[source])
                        cells[name] = arrow_categories(table.columns[source], frame_text if short else value_text)
                numbered = [name for name, source in columns if isinstance(source, range)]
                written = _with_index(table, numbered)
                piece = Table(str(path), header, pd.DataFrame(), form, written, before=before, floats=floats)
                yield piece.of_categories(cells)
                before += len(table)

        yield OpenTable(header, form, pieces, file.metadata.num_rows, floats=floats)


def _check_types(schema: pyarrow.Schema, where: str) -> None:
    """Raise TableError for a column whose type has no single values, such as lists, and for names as a frame has them.

    Types and names are public: they are the form of the file.
    """
    levels = (schema.pandas_metadata or {}).get("column_indexes") or [{}]
    check_names((), where, len(levels))
    if (kind := levels[0].get("pandas_type", "unicode")) not in TEXT_NAMES:
        raise TableError(
            f"{where}: the names of its columns are not texts, but of the pandas type {kind}. Sampled rows have texts "
            "as names. Turn the names into texts first, for example with `frame.rename(columns=str)`."
        )
    for column in schema:
        try:
            check_type(column.type)
        except NotAValue as error:
            raise TableError(f"{where}, column {column.name!r} contains {error}. {NOT_A_VALUE_CURE}") from None


def _columns(schema: pyarrow.Schema, rows: int) -> list[tuple[str, int | range]]:
    """Return each column's name and its place in the file; or its row numbers, which pandas does not store."""
    facts = schema.pandas_metadata or {}
    names = {entry["field_name"]: entry["name"] for entry in facts.get("columns", ())}
    index = list[tuple[Any, int | range]]()
    for level in facts.get("index_columns", ()):
        if not isinstance(level, dict):
            index += [(names.get(level), schema.names.index(level))] if level in schema.names else []
        elif len(numbers := range(level["start"], level["stop"], level["step"])) == rows:
            index.append((level["name"], numbers))
    places = {place for _, place in index if isinstance(place, int)}
    unnamed = [name for name, _ in index] == [None]
    shown = [] if unnamed else [(f"level_{k}" if n is None else str(n), p) for k, (n, p) in enumerate(index)]
    return [*shown, *((name, k) for k, name in enumerate(schema.names) if k not in places)]


def _with_index(table: pyarrow.Table, numbered: list[str]) -> pyarrow.Table:
    """Return the rows with a schema that lists an index of row numbers as a column."""
    if not numbered:
        return table
    facts = table.schema.pandas_metadata
    levels = [level["name"] if isinstance(level, dict) else level for level in facts["index_columns"]]
    entries = [{"name": name, "field_name": name, "pandas_type": "int64", "numpy_type": "int64", "metadata": None}
               for name in numbered]  # fmt: skip
    changed = {**facts, "index_columns": levels, "columns": [*facts["columns"], *entries]}
    return table.replace_schema_metadata({**(table.schema.metadata or {}), b"pandas": json.dumps(changed).encode()})
