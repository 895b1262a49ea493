"""Tables larger than memory: read from their files a piece at a time, as often as is asked."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from ..errors import TableError
from . import formats, parquet, table, workbook
from .parquet import OpenParquet
from .table import Table, check_names, check_rows, opened, readable

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

        with parquet.errors(path):
            facts = pyarrow.parquet.read_metadata(path)
            return bool(facts.num_rows * facts.num_columns > LARGE_CELLS)
    with readable(path), path.open("rb") as file, formats.unpacked(path) as raw:
        packed = file.read(4) != raw.read(4)
    return path.stat().st_size * (PACKED if packed else 1) > LARGE_BYTES


def read_large(path: Path, encoding: str | None = None, *, part: bool = False) -> LargeTable:
    """The table at `path`, of a form that `io.table.read` reads: gone through once, and counted.

    A `part` of a table may have no row. Raises TableError and UsageError as that does.
    """
    formats.check_encoding(encoding)
    stamp = _stamp(path)
    with readable(path):
        header, form, rows = _facts(path, encoding)
        if not part:
            check_rows(rows, str(path))
        return LargeTable(str(path), header, rows, form, _digest(path), partial(_pieces, path, encoding, stamp))


def _pieces(path: Path, encoding: str | None, stamp: tuple[int, int]) -> Iterator[Table]:
    with readable(path):
        if _stamp(path) != stamp:
            raise TableError(f"{path} was changed while it was read. Fit it again when nobody writes to it.")
        yield from table.pieces(path, encoding, _rows_of_a_chunk)
        if _stamp(path) != stamp:
            raise TableError(f"{path} was changed while it was read. Fit it again when nobody writes to it.")


def _stamp(path: Path) -> tuple[int, int]:
    found = os.stat(path)
    return found.st_size, found.st_mtime_ns


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _facts(path: Path, encoding: str | None) -> tuple[tuple[str, ...], str, int]:
    """The header, the form and the number of rows: of text once all are gone through."""
    with opened(path, encoding) as file:
        header = check_names(file.header, str(path))
        if isinstance(file, OpenParquet):
            return header, file.description, file.file.metadata.num_rows
        return header, file.description, sum(len(piece.cells) for piece in file.rows(_rows_of_a_chunk(len(header))))


def _rows_of_a_chunk(columns: int) -> int:
    return max(1, CHUNK_CELLS // columns)
