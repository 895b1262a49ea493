"""Write rows into a file in parts: synthetic rows in the format of its name, held-out rows as they were read."""

from __future__ import annotations

import bz2
import codecs
import csv
import gzip
import io
import lzma
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype

from ..arrays import Mask
from ..errors import UsageError
from . import statistical_writer
from .formats import is_hashed
from .statistical_writer import DeclaredColumn

if TYPE_CHECKING:
    import pyarrow

# Endings of tables that can be written.
WRITTEN = ("", ".csv", ".tsv", ".txt", ".gz", ".bz2", ".xz", ".parquet", ".pq", *statistical_writer.ENDINGS)
NUMBER = re.compile(r"[-+]?[0-9]*[.,]?[0-9]*(?:[eE][-+]?[0-9]+)?")
BETWEEN = "; "  # items in one cell of a dictionary
QUOTED = '"\r\n'  # texts with one of these, or with the delimiter, may need quotes
PACKED: dict[str, Callable[..., Any]] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}


def check(path: Path) -> None:
    """Raise UsageError for a name whose ending is not that of a table that can be written, such as .xlsx.

    Raises it as well for an ending that needs a package that is not installed.
    """
    if (suffix := path.suffix.lower()) not in WRITTEN:
        what = "Excel files" if suffix in (".xls", ".xlsx", ".xlsm", ".xlsb", ".ods") else f"{suffix} files"
        raise UsageError(f"{path}: {what} cannot be written. Use .csv, .csv.gz, .parquet, .sav, .dta or .xpt.")
    if suffix in statistical_writer.ENDINGS:
        statistical_writer.check_package(path)


def runs_as_formula(text: str) -> bool:
    """Return whether a spreadsheet that opens a CSV file would run a cell of this text as a formula.

    >>> [runs_as_formula(text) for text in ("=cmd|' /C calc'!A0", "@SUM(1)", "+1+cmd", "-5.5", "yes", "")]
    [True, True, True, False, False, False]
    """
    return text[:1] in ("=", "+", "-", "@", "\t", "\r") and not NUMBER.fullmatch(text)


def inert(text: str) -> str:
    """Return a cell that no spreadsheet evaluates: names, units and levels come from somebody's dictionary.

    >>> [inert(text) for text in ("mmHg", "=1+1", "-1+cmd", "-9; refused", "-9=refused")]
    ['mmHg', "'=1+1", "'-1+cmd", '-9; refused', "'-9=refused"]
    """
    return f"'{text}" if runs_as_formula(text.partition(BETWEEN)[0]) else text


def write(
    files: Mapping[str, BinaryIO], path: Path, frames: Iterable[Mapping[str, pd.DataFrame]],
    texts: Iterable[Mapping[str, bytes]], days: Mapping[str, Collection[str]], facts: Mapping[str, str] | None = None,
    declared: Mapping[str, Mapping[str, DeclaredColumn]] | None = None,
) -> None:  # fmt: skip
    """Fill the open `files` of tables in the format that the name `path` gives, part by part, in constant memory.

    Parquet is written from `frames`, with dates in the columns `days` and `facts` in its metadata. Text is written from
    `texts`. Only the one that is used is sampled. Files of SPSS, Stata and SAS are written from `frames` at once, with
    what the schema has `declared` of each column. All but `path` and `facts` are by table.
    """
    suffix = path.suffix.lower()
    if suffix in (".parquet", ".pq"):
        parts = {name: ParquetParts(file, days[name], facts) for name, file in files.items()}
        for part in frames:
            for name, frame in part.items():
                parts[name].add(frame)
        for one in parts.values():
            one.close()
    elif suffix in statistical_writer.ENDINGS:
        rows = list(frames)
        columns = declared or {}
        for name, file in files.items():
            own = (part[name] for part in rows)
            statistical_writer.write(file, path, own, days[name], columns.get(name, {}))
    else:
        with ExitStack() as packed:
            into = dict(files)
            if suffix in PACKED:
                into = {name: packed.enter_context(PACKED[suffix](file, "wb")) for name, file in files.items()}
            for text in texts:
                for name, content in text.items():
                    into[name].write(content)


def encoded(texts: Iterable[Mapping[str, str]], encoding: str) -> Iterator[dict[str, bytes]]:
    """Yield the texts of tables in an encoding, after its mark. Raise UsageError for a character that it lacks."""
    encoders = defaultdict[str, codecs.IncrementalEncoder](codecs.getincrementalencoder(encoding))
    try:
        for part in texts:
            yield {name: encoders[name].encode(text) for name, text in part.items()}
    except UnicodeEncodeError:
        raise UsageError(
            f"A name or a level has a character that the table's encoding, {encoding}, does not have. Use .parquet."
        ) from None


def csv_text(cells: pd.DataFrame, *, header: bool, delimiter: str = ",") -> str:
    r"""Return a table of texts as lines of a CSV file, as pandas and `csv` write them, in less than half of their time.

    >>> csv_text(pd.DataFrame({"age": ["7", ""], "ward": ["A, B", "C"]}), header=True)
    'age,ward\n7,"A, B"\n,C\n'
    """
    alone = cells.shape[1] == 1
    columns = [_quoted(cells.iloc[:, k].tolist(), alone, delimiter) for k in range(cells.shape[1])]
    names = [_header_line([str(name) for name in cells.columns], delimiter)] if header else []
    return "".join(line + "\n" for line in (*names, *map(delimiter.join, zip(*columns, strict=True))))


def _header_line(names: list[str], delimiter: str) -> str:
    """Return a header as `csv` writes it. All names get quotes if a reader would take the line for a comment or two."""
    line = delimiter.join(_quoted(names, len(names) == 1, delimiter))
    if is_hashed(line) or "\r" in line:
        return delimiter.join('"{}"'.format(name.replace('"', '""')) for name in names)
    return line


def _quoted(texts: list[str], alone: bool, delimiter: str) -> list[str]:
    """Return texts as `csv` writes them: most need no quotes. An empty text `alone` in its line gets quotes."""
    joined = "".join(texts)
    if not alone and not any(sign in joined for sign in QUOTED + delimiter):
        return texts
    known: dict[str, str] = {}
    for text in dict.fromkeys(texts):
        line = io.StringIO()
        csv.writer(line, lineterminator="\n", delimiter=delimiter).writerow([text] if alone else [text, "-"])
        known[text] = line.getvalue().removesuffix("\n" if alone else f"{delimiter}-\n")
    return [known[text] for text in texts]


class ParquetParts:
    """A Parquet file that is written part by part, in the types of the first part.

    `days` are columns of dates, and `facts` are texts of the file's metadata, by key.
    """

    def __init__(
        self, file: BinaryIO, days: Collection[str] = (), facts: Mapping[str, str] | None = None
    ) -> None:  # fmt: skip
        self._file = file
        self._days = days
        self._facts = facts or {}
        self._writer = cast(Any, None)

    def add(self, frame: pd.DataFrame) -> None:
        """Add a part in the same columns."""
        import pyarrow

        table = pyarrow.Table.from_pandas(_storable(frame), preserve_index=False)
        types = _settled(table.schema, self._days, self._facts) if self._writer is None else self._writer.schema
        self.add_table(table.cast(types), types)

    def add_table(self, table: pyarrow.Table, types: pyarrow.Schema) -> None:
        """Add a part. Raise ValueError unless it has the `types` of the first part."""
        import pyarrow.parquet

        if self._writer is None:
            self._writer = pyarrow.parquet.ParquetWriter(self._file, types)
        self._writer.write_table(table)

    def close(self) -> None:
        """Finish the file, if it was started."""
        if self._writer is not None:
            self._writer.close()


def _storable(frame: pd.DataFrame) -> pd.DataFrame:
    """Return numbers next to codes that are words as words: Parquet's columns have one type."""
    words = [name for name in frame if frame[name].dtype == object]
    mixed = [name for name in words if infer_dtype(frame[name], skipna=True).startswith("mixed")]
    if not mixed:
        return frame
    return frame.assign(**{str(name): frame[name].map(str, na_action="ignore") for name in mixed})


def _settled(schema: pyarrow.Schema, days: Collection[str], more: Mapping[str, str]) -> pyarrow.Schema:
    """Return the first part's types, with dates in the columns `days`, unless codes make words of these; and `more`
    texts in its metadata.

    A column that is all missing there may contain words later. pandas cannot read its own name of a dictionary.
    """
    import pyarrow

    fields = []
    for one in schema:
        if pyarrow.types.is_null(one.type):
            one = one.with_type(pyarrow.string())
        elif one.name in days and pyarrow.types.is_timestamp(one.type):
            one = one.with_type(pyarrow.date32())
        fields.append(one)
    facts = {key: re.sub(rb'"dictionary<[^"]*"', b'"object"', text) for key, text in (schema.metadata or {}).items()}
    return pyarrow.schema(fields, facts | {key.encode(): text.encode() for key, text in more.items()})


@dataclass(frozen=True)
class WrittenText:
    """The original form of rows of text. `header` as written; `fields`: columns that differ from their cells."""

    header: tuple[str, ...]
    delimiter: str
    fields: Mapping[str, pd.Series] = field(default_factory=dict, repr=False)


class Sink:
    """A file of some rows of a table or of its pieces, as they were written: Parquet with its types, or UTF-8 text."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._parquet = ParquetParts(file)
        self._begun = False

    def add(self, cells: pd.DataFrame, written: WrittenText | pyarrow.Table, rows: Mask) -> None:
        """Add some rows, (rows,), of one more piece, whose text is `cells`."""
        if not isinstance(written, WrittenText):
            self._parquet.add_table(_taken(written, rows), written.schema)
            return
        fields = zip(*(written.fields.get(str(name), cells[name])[rows] for name in cells), strict=True)
        text = io.StringIO()
        if not self._begun:
            text.write(_header_line([*written.header], written.delimiter) + "\n")
        self._begun = True
        usual = csv.writer(text, delimiter=written.delimiter, lineterminator="\n")
        quoted = csv.writer(text, delimiter=written.delimiter, lineterminator="\n", quoting=csv.QUOTE_ALL)
        for record in fields:  # usual does not quote a lone carriage return, a line end to readers
            (quoted if any("\r" in one for one in record) else usual).writerow(record)
        self._file.write(text.getvalue().encode())

    def close(self) -> None:
        """Finish the file."""
        self._parquet.close()


def _taken(table: pyarrow.Table, rows: Mask) -> pyarrow.Table:
    """Return some rows of an Arrow table, (rows,), in the same types."""
    import pyarrow

    types, whole = pyarrow.types, table
    for k, column in enumerate(table.columns):  # Arrow cannot take rows of views.
        if types.is_string_view(column.type) or types.is_binary_view(column.type):
            whole = whole.set_column(k, table.field(k).name, column.cast(pyarrow.large_binary()))
    taken = whole.take(np.flatnonzero(rows))
    if whole is table:
        return taken
    columns = [column.cast(kind) for column, kind in zip(taken.columns, table.schema.types, strict=True)]
    return pyarrow.Table.from_arrays(columns, schema=table.schema)
