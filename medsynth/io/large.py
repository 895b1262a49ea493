"""Tables larger than memory: read from their files a piece at a time, as often as is asked."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import TableError
from . import formats, text, workbook
from .table import Table, check_parquet, check_rows, parquet_errors, readable, texts_of, with_index
from .written import WrittenBatch, WrittenText

CHUNK_CELLS = 1 << 22  # of a piece: some tens of MB as text
LARGE_CELLS = 1 << 25  # of a Parquet file, from which on it is read in pieces
LARGE_BYTES = 1 << 28  # of a text file; packed ones are some five times as large as they look
PACKED = 5


@dataclass(frozen=True)
class LargeTable:
    """A table in a file, of so many `rows`, which is never whole in memory. `form` as of a Table.

    digest: SHA-256 of the file, for the private checkpoint alone; expected_rows and expected_std as of a Table.
    """

    where: str
    header: tuple[str, ...]
    rows: int
    form: str
    digest: str = field(repr=False)
    pieces: Callable[[], Iterator[Table]] = field(repr=False)
    expected_rows: int | None = None
    expected_std: float = 0.0

    @property
    def public_rows(self) -> int:
        """The number of rows that counts as public: never what secret draws left."""
        return self.rows if self.expected_rows is None else self.expected_rows

    def chunks(self) -> Iterator[Table]:
        """The rows in their order, a piece at a time, read anew at each call.

        Raises TableError where the file is no such table any more.
        """
        return self.pieces()

    def only(self, rows: NDArray[np.int64]) -> LargeTable:
        """Some of the rows, by their positions, ascending."""

        def pieces() -> Iterator[Table]:
            for piece in self.pieces():
                first, last = np.searchsorted(rows, [piece.before, piece.before + piece.rows])
                yield piece.only(rows[first:last] - piece.before)

        return replace(self, rows=len(rows), pieces=pieces)


def is_large(path: Path) -> bool:
    """Whether the file is a table that is read in pieces: by its size and, of Parquet, by its rows and columns."""
    if not path.is_file() or workbook.is_workbook(path):
        return False
    if formats.is_parquet(path):
        import pyarrow.parquet

        with parquet_errors(path):
            facts = pyarrow.parquet.read_metadata(path)
            return bool(facts.num_rows * facts.num_columns > LARGE_CELLS)
    with readable(path), path.open("rb") as file, formats.unpacked(path) as raw:
        packed = file.read(4) != raw.read(4)
    return path.stat().st_size * (PACKED if packed else 1) > LARGE_BYTES


def read_large(path: Path, encoding: str | None = None) -> LargeTable:
    """The table at `path`, of a form that `io.table.read` reads: gone through once, and counted.

    Raises TableError and UsageError as that does.
    """
    formats.check_encoding(encoding)
    stamp = _stamp(path)

    def pieces() -> Iterator[Table]:
        with readable(path):
            if _stamp(path) != stamp:
                raise TableError(f"{path} was changed while it was read. Fit it again when nobody writes to it.")
            yield from _parquet(path) if formats.is_parquet(path) else _text(path, encoding)
            if _stamp(path) != stamp:
                raise TableError(f"{path} was changed while it was read. Fit it again when nobody writes to it.")

    with readable(path):
        header, form, rows = _facts_of_parquet(path) if formats.is_parquet(path) else _facts_of_text(path, encoding)
        check_rows(rows, str(path))
        return LargeTable(str(path), header, rows, form, _digest(path), pieces)


def _stamp(path: Path) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _facts_of_parquet(path: Path) -> tuple[tuple[str, ...], str, int]:
    import pyarrow.parquet

    with parquet_errors(path):
        check_parquet(path)
        file = pyarrow.parquet.ParquetFile(path)
        empty = with_index(file.schema_arrow.empty_table().to_pandas())
        return tuple(map(str, empty.columns)), "", file.metadata.num_rows


def _facts_of_text(path: Path, encoding: str | None) -> tuple[tuple[str, ...], str, int]:
    with text.opened(path, encoding) as file:
        rows = sum(piece.size for piece in file.rows(_rows_of_a_chunk(len(file.header))))
        return file.header, file.form.description, rows


def _rows_of_a_chunk(columns: int) -> int:
    return max(1, CHUNK_CELLS // columns)


def _parquet(path: Path) -> Iterator[Table]:
    import pyarrow
    import pyarrow.parquet

    # Whole numbers among which some are missing stay whole.
    nullable = {pyarrow.from_numpy_dtype(kind().type): kind() for kind in _WHOLE}
    before = 0
    # A buffer that reads ahead would hold the whole file.
    with parquet_errors(path), pyarrow.parquet.ParquetFile(path, pre_buffer=False) as file:
        for batch in file.iter_batches(_rows_of_a_chunk(file.metadata.num_columns)):
            frame = pyarrow.Table.from_batches([batch]).to_pandas(types_mapper=nullable.get)
            cells = texts_of(with_index(frame), str(path))
            yield Table(str(path), tuple(map(str, cells.columns)), cells, written=WrittenBatch(batch), before=before)
            before += len(cells)


_WHOLE = (
    pd.Int8Dtype, pd.Int16Dtype, pd.Int32Dtype, pd.Int64Dtype, pd.UInt8Dtype, pd.UInt16Dtype, pd.UInt32Dtype,
    pd.UInt64Dtype,
)  # fmt: skip


def _text(path: Path, encoding: str | None) -> Iterator[Table]:
    before = 0
    with text.opened(path, encoding) as file:
        for piece in file.rows(_rows_of_a_chunk(len(file.header))):
            written = WrittenText(file.first, file.form.delimiter, piece.fields)
            yield Table(str(path), file.header, piece.cells, file.form.description, written, before=before)
            before += piece.size
