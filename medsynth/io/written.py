"""How a table stood in its file, so that some of its rows can be written as they were read."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .formats import Form

if TYPE_CHECKING:
    import pyarrow

Mask = NDArray[np.bool_]


@dataclass(frozen=True)
class WrittenText:
    """Delimited text. `header` as written; `fields`: the columns whose fields differ from the text of their cells."""

    header: tuple[str, ...]
    delimiter: str
    fields: Mapping[str, pd.Series] = field(default_factory=dict, repr=False)

    @property
    def form(self) -> str:
        """That of UTF-8 text with this delimiter, in words where it is not as usual."""
        return Form("utf-8-sig", self.delimiter).description

    def records(self, cells: pd.DataFrame, rows: Mask, *, header: bool) -> bytes:
        """Some rows, (rows,), as UTF-8 text with the same delimiter, fields as they were written."""
        fields = zip(*(self.fields.get(str(name), cells[name])[rows] for name in cells), strict=True)
        return (self._lines([self.header]) if header else b"") + self._lines(fields)

    def _lines(self, records: Iterable[Sequence[str]]) -> bytes:
        text = io.StringIO()
        usual = csv.writer(text, delimiter=self.delimiter, lineterminator="\n")
        quoted = csv.writer(text, delimiter=self.delimiter, lineterminator="\n", quoting=csv.QUOTE_ALL)
        for record in records:  # the writer does not quote a lone carriage return, which a reader takes for a line end
            (quoted if any("\r" in one for one in record) else usual).writerow(record)
        return text.getvalue().encode()


@dataclass(frozen=True)
class WrittenParquet:
    """Rows of a Parquet file, with its types and what pandas noted in it."""

    rows: pyarrow.Table = field(repr=False)
    form: str = ""


class Rows(NamedTuple):
    """Some rows of a file: their cells as text, by column, and how they stood there."""

    cells: pd.DataFrame
    written: WrittenText | WrittenParquet


class Sink:
    """A file of some rows of a table or of its pieces, as they were written: Parquet with its types, or text."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._writer, self._begun = file, ExitStack(), False

    def __enter__(self) -> Sink:
        return self

    def __exit__(self, *error: object) -> None:
        self._writer.close()

    def add(self, written: WrittenText | WrittenParquet, cells: pd.DataFrame, rows: Mask) -> None:
        """Some rows, (rows,), of one more piece, whose text is `cells`."""
        begun, self._begun = self._begun, True
        if isinstance(written, WrittenText):
            self._file.write(written.records(cells, rows, header=not begun))
            return
        if not begun:
            import pyarrow.parquet

            self._parquet = pyarrow.parquet.ParquetWriter(self._file, written.rows.schema)
            self._writer.enter_context(self._parquet)
        self._parquet.write_table(_taken(written.rows, rows))


def _taken(table: pyarrow.Table, rows: Mask) -> pyarrow.Table:
    """Some rows of a table of Arrow, (rows,), in the same types."""
    import pyarrow

    types, whole = pyarrow.types, table
    for k, column in enumerate(table.columns):  # Arrow takes no rows of views.
        if types.is_string_view(column.type) or types.is_binary_view(column.type):
            whole = whole.set_column(k, table.field(k).name, column.cast(pyarrow.large_binary()))
    taken = whole.take(np.flatnonzero(rows))
    if whole is table:
        return taken
    columns = [column.cast(kind) for column, kind in zip(taken.columns, table.schema.types, strict=True)]
    return pyarrow.Table.from_arrays(columns, schema=table.schema)
