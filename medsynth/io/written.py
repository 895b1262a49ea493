"""How a table stood in its file, so that some of its rows can be written as they were read."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from .formats import Form

if TYPE_CHECKING:
    import pyarrow

Mask = NDArray[np.bool_]


class Written(Protocol):
    """A file's form and what of its rows the text of their cells does not keep."""

    @property
    def suffix(self) -> str:
        """The ending of a file in this form."""

    @property
    def form(self) -> str:
        """The form of such a file in words, where it is not as usual."""

    def content(self, cells: pd.DataFrame, rows: Mask) -> bytes:
        """A file of some rows, (rows,), of the table whose text is `cells`."""


@dataclass(frozen=True)
class WrittenText:
    """Delimited text. `header` as written; `fields`: the columns whose fields differ from the text of their cells."""

    header: tuple[str, ...]
    delimiter: str
    fields: Mapping[str, pd.Series] = field(default_factory=dict, repr=False)
    suffix: str = ".csv"

    @property
    def form(self) -> str:
        """That of UTF-8 text with this delimiter."""
        return Form("utf-8-sig", self.delimiter).description

    def content(self, cells: pd.DataFrame, rows: Mask) -> bytes:
        """UTF-8 text with the same delimiter, fields as they were written."""
        return self._lines([self.header]) + self.records(cells, rows)

    def records(self, cells: pd.DataFrame, rows: Mask) -> bytes:
        """The same without the header."""
        return self._lines(zip(*(self.fields.get(str(name), cells[name])[rows] for name in cells), strict=True))

    def _lines(self, records: Iterable[Sequence[str]]) -> bytes:
        text = io.StringIO()
        csv.writer(text, delimiter=self.delimiter, lineterminator="\n").writerows(records)
        return text.getvalue().encode()


@dataclass(frozen=True)
class WrittenBatch:
    """A piece of a large Parquet file, with its types: a file of them begins with their schema."""

    batch: pyarrow.RecordBatch = field(repr=False)


@dataclass(frozen=True)
class WrittenParquet:
    """Parquet: the frame with its types and index."""

    frame: pd.DataFrame = field(repr=False)
    suffix: str = ".parquet"
    form: str = ""

    def content(self, cells: pd.DataFrame, rows: Mask) -> bytes:
        """Parquet of the same types."""
        part: bytes = self.frame[rows].to_parquet(index=None if self.frame.index.names != [None] else False)
        return part
