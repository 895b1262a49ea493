"""Delimited text: its header, and its rows some at a time, each distinct field once."""

from __future__ import annotations

import csv
import itertools
import re
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TextIO

import numpy as np
import pandas as pd

from ..errors import TableError
from . import formats
from .written import Rows, WrittenText

NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?$")
_DECIMAL_COMMA = re.compile(r"[-+]?[0-9]+,[0-9]+$")
BLOCK_ROWS = 256  # whose fields are numbered at once


@dataclass(frozen=True)
class OpenText:
    """A text table that is being read. `header`: names; `first`: the header as written."""

    where: str
    header: tuple[str, ...]
    first: tuple[str, ...]
    form: formats.Form
    reader: Any = field(repr=False)
    lines: _Lines = field(repr=False)

    @property
    def description(self) -> str:
        """The form in words where it is not UTF-8 and commas, else nothing."""
        return self.form.description

    def rows(self, most: int | None = None) -> Iterator[Rows]:
        """The rows that are left, at most so many at a time, all at once where no number is given; none are one piece.

        Every record has as many fields as the header: none is padded. Raises TableError for one that has not.
        """
        records, pieces = self._records(), 0
        while pieces == 0 or most is not None:
            columns = [_Column() for _ in self.header]
            piece, count = itertools.islice(records, most), 0
            while block := list(itertools.islice(piece, BLOCK_ROWS)):
                count += len(block)
                for column, texts in zip(columns, zip(*block, strict=True), strict=True):
                    column.codes.extend(map(column.index.__getitem__, texts))
            if count == 0 and pieces:
                return
            pieces += 1
            yield self._rows(columns)

    def _records(self) -> Iterator[list[str]]:
        """The records that are left, each with as many fields as the header, all of them text."""
        fields = len(self.header)
        for row, record in enumerate(filter(None, self.reader), 1):
            self.lines.check_quotes(self.where, self.reader.line_num)
            if "\0" in "".join(record):
                _check_text(record, self.where, self.reader.line_num)
            if len(record) != fields:
                raise TableError(
                    f"{self.where}, row {row} (line {self.reader.line_num}): this row has "
                    f"{'fewer' if len(record) < fields else 'more'} fields than the header's {fields}. "
                    "Mend that line: a delimiter inside a value needs quotes around the value."
                )
            yield record

    def _rows(self, columns: list[_Column]) -> Rows:
        """Columns that were read: fields without blanks around them, decimal commas as points."""
        cells, fields = {}, {}
        for name, column in zip(self.header, columns, strict=True):
            distinct = list(column.index)
            texts = [text.strip() for text in distinct]
            if self.form.delimiter in ";\t":  # where commas may be decimal, 1,5 is 1.5
                texts = [text.replace(",", ".") if _DECIMAL_COMMA.match(text) else text for text in texts]
            cells[name] = column.of(texts)
            if texts != distinct:
                fields[name] = column.of(distinct)
        return Rows(pd.DataFrame(cells), WrittenText(self.first, self.form.delimiter, fields))


class _Numbers(dict[str, int]):
    """The number of each distinct text: a new one gets the next."""

    def __missing__(self, text: str) -> int:
        self[text] = len(self)
        return self[text]


class _Column:
    """A column while it is read: each distinct field once, and the number of each row's field."""

    def __init__(self) -> None:
        self.index = _Numbers()
        self.codes = array("i")

    def of(self, texts: list[str]) -> pd.Series:
        """The rows' texts, (rows,), given one for each distinct field."""
        return pd.Series(np.array(texts, dtype=object)[np.frombuffer(self.codes, np.intc)], dtype=object)


class _Lines:
    """A text's lines, of which those with quotes are kept until the record that they are of is checked.

    Quotes may enclose a field and nothing else. Then a cell that is a lone quote makes an odd number of them, and the
    file is refused: it cannot take the rows between it and another quote for its own.
    """

    def __init__(self, lines: Iterable[str], delimiter: str) -> None:
        self._lines, self._quoted = iter(lines), list[str]()
        one = rf'(?:"[^"]*(?:""[^"]*)*"|[^"{re.escape(delimiter)}\r\n]*)'
        self._record = re.compile(rf"{one}(?:{re.escape(delimiter)}{one})*[\r\n]*")

    def __iter__(self) -> Iterator[str]:
        for line in self._lines:
            if '"' in line or self._quoted:
                self._quoted.append(line)
            yield line

    def check_quotes(self, where: str, line: int) -> None:
        """Raise TableError if a field of the latest record has a quote in it and is not in quotes."""
        if self._quoted and not self._record.fullmatch("".join(self._quoted)):
            raise TableError(
                f"{where}, line {line}: a field has a quote in it and is not in quotes. Write the field in "
                'quotes, and the quote twice: "5\'11""".'
            )
        self._quoted.clear()


@contextmanager
def opened(path: Path, encoding: str | None) -> Iterator[OpenText]:
    """The text table at `path`, UTF-8 or of the `encoding` given, its header read. Raises TableError for none."""
    name = formats.encoding_of(path, encoding)
    try:
        with formats.text(path, name) as file:
            yield _begun(file, name, str(path))
    except UnicodeError:
        raise TableError(f"{path} is no text in {name}. Save it as 'CSV UTF-8', or give its `encoding`.") from None


def _begun(file: TextIO, encoding: str, where: str) -> OpenText:
    start = []
    for line in file:
        start.append(line)
        if line.strip():
            break
    delimiter = formats.delimiter_of(start[-1] if start else "")
    lines = _Lines(itertools.chain(start, file), delimiter)
    reader = csv.reader(lines, strict=True, delimiter=delimiter)
    first = next((record for record in reader if record), None)
    if first is None:
        raise TableError(f"{where} is empty. Export the table again, with a header line.")
    lines.check_quotes(where, reader.line_num)
    _check_text(first, where, reader.line_num)
    if any(formats.ESCAPED.search(name) for name in first):
        raise TableError(f"{where}: the header is no text in {encoding}. Give the file's `encoding`, such as cp1252.")
    header = check_header(tuple(name.strip() for name in first), where)
    return OpenText(where, header, tuple(first), formats.Form(encoding, delimiter), reader, lines)


def _check_text(record: list[str], where: str, line: int) -> None:
    if any("\0" in cell for cell in record):
        raise TableError(f"{where}, line {line}: binary content. This is not a CSV table.")


def check_header(header: tuple[str, ...], where: str) -> tuple[str, ...]:
    """The header, if it can be one. Its cells are never printed: they may be a patient's."""
    empty = [k for k, cell in enumerate(header, 1) if not cell or NUMBER.match(cell)]
    if empty:
        raise TableError(
            f"{where}: no header: column {empty[0]} of the first line is a number or empty. "
            "Put a line of column names on top."
        )
    for k, cell in enumerate(header):
        if cell in header[:k]:
            raise TableError(f"{where}: columns {header.index(cell) + 1} and {k + 1} have one name. Rename one.")
    return header
