"""Tables read. Every cell is kept as its text; what a cell means is the schema's business."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import TableError
from . import formats, parquet, text, workbook
from .cell_text import frame_texts
from .parquet import OpenParquet
from .text import NUMBER
from .written import WrittenParquet, WrittenText

Kind = Literal["int", "float", "date", "text"]
MISSING_TOKENS = frozenset({"", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "<NA>"})
_INT = re.compile(r"[-+]?[0-9]{1,15}$")
_WHOLE = re.compile(r"[-+]?([0-9]{1,15})(?:\.0*)?$")


@dataclass(frozen=True)
class Table:
    """A table as text: `where` names it in messages; `cells` has one stripped string a cell.

    `form` describes how the file was written, if not as usual; `written` keeps what is needed to write some of its
    rows as they stood there. `expected_rows`: of a part that secret draws took out of a table, how many were expected,
    and `expected_std` the standard deviation of how many there are.
    `before`: of a part that is read by itself, how many rows of the table stand before it. Nothing else is kept: dtypes
    of a frame depend on its cells, and nobody after this could release them.
    """

    where: str
    header: tuple[str, ...]
    cells: pd.DataFrame = field(repr=False)
    form: str = ""
    written: WrittenText | WrittenParquet | None = field(default=None, repr=False)
    expected_rows: int | None = None
    expected_std: float = 0.0
    before: int = 0

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.cells)

    @property
    def digest(self) -> str:
        """What identifies the names and cells: for the private checkpoint alone."""
        found = sha256("\x1f".join(self.header).encode())
        found.update(pd.util.hash_pandas_object(self.cells, index=False).to_numpy().tobytes())
        return found.hexdigest()

    def chunks(self) -> Iterator[Table]:
        """The table in one piece: larger ones come in several."""
        yield self

    def only(self, rows: NDArray[np.int64]) -> Table:
        """Some of the rows, by their positions."""
        return replace(self, cells=self.cells.iloc[rows].reset_index(drop=True))

    @property
    def public_rows(self) -> int:
        """The number of rows that counts as public: never what secret draws left."""
        return len(self.cells) if self.expected_rows is None else self.expected_rows


def read(path: Path | str, encoding: str | None = None) -> Table:
    """The table at `path`: Parquet, a workbook of one sheet, or text with one header line, packed or not.

    Text is UTF-8 or of the `encoding` given.
    The header line decides the delimiter; bytes that are no text are kept in their own cells, escaped. The file is
    read once. Raises TableError, naming the place and the cure and never a cell, for a file that is no such table,
    UsageError for an encoding that does not exist.
    """
    path = Path(path)
    formats.check_encoding(encoding)
    formats.check_regular(path)
    with readable(path):
        if workbook.is_workbook(path):
            table = _read_workbook(path)
        else:
            (table,) = pieces(path, encoding, lambda columns: None)
        check_rows(table.rows, str(path))
        return table


@contextmanager
def readable(path: Path) -> Iterator[None]:
    """Whatever can go wrong while a table's file is read is a TableError that says what, and the cure."""
    try:
        yield
    except FileNotFoundError:
        raise TableError(f"There is no file {path}. Check the name and the folder.") from None
    except IsADirectoryError:
        raise TableError(f"{path} is a folder. Name the table in it.") from None
    except csv.Error:
        raise TableError(f"{path} is not a CSV table. Check that its quotes are closed.") from None
    except formats.DAMAGE_ERRORS:
        raise TableError(f"{path} is packed, and damaged. Copy it again, or pack it anew.") from None
    except OSError as error:
        raise TableError(f"{path} cannot be read ({error.strerror or 'damaged'}).") from None


def pieces(path: Path, encoding: str | None, most: Callable[[int], int | None]) -> Iterator[Table]:
    """The rows of a Parquet or text file in their order, at most `most` of them a piece, given how many columns it has.

    A file that is read whole is one piece. A cell's text does not depend on its piece. Raises TableError.
    """
    before = 0
    with opened(path, encoding) as file:
        header = check_names(file.header, str(path))
        for cells, written in file.rows(most(len(header))):
            yield Table(str(path), header, cells, file.description, written, before=before)
            before += len(cells)


def opened(path: Path, encoding: str | None) -> AbstractContextManager[OpenParquet | text.OpenText]:
    """The Parquet or text file at `path`, its header read."""
    return parquet.opened(path) if formats.is_parquet(path) else text.opened(path, encoding)


def _read_workbook(path: Path) -> Table:
    head, *rows = workbook.cells_of(path)
    header = text.check_header(tuple(head), str(path))
    cells = pd.DataFrame(rows, columns=list(header), dtype=object)
    return Table(str(path), header, cells, "of a workbook", WrittenText(header, ","))


def check_names(header: tuple[str, ...], where: str) -> tuple[str, ...]:
    """The names of the columns. Raises TableError where two are the same."""
    if len(set(header)) < len(header):
        raise TableError(f"{where}: two columns have one name. Rename one.")
    return header


def check_rows(rows: int, where: str) -> None:
    """Raises TableError for a table of fewer than two rows."""
    if rows < 2:
        raise TableError(f"{where} has a header but too few rows to learn from: at least two are needed.")


def from_frame(frame: pd.DataFrame, where: str = "table") -> Table:
    """A pandas frame as a table of text. Raises TableError for repeated column names or fewer than two rows.

    Args:
        frame: The rows. A whole number of more than 15 digits keeps them all in columns of text, `Int64` and Arrow
            types. In others it is rounded to the nearest float, as pandas does once a cell of its column is missing.
        where: The table's name in messages.
    """
    header = check_names(tuple(str(name) for name in frame.columns), where)
    if len(frame) < 2:
        raise TableError(f"{where}: too few rows to learn from: at least two are needed.")
    try:
        texts = {name: frame_texts(frame.iloc[:, k]) for k, name in enumerate(header)}
    except Exception:  # whatever an object in a cell does when it is asked for its text
        raise TableError(f"{where}: a cell holds an object that cannot be written as text. Take it out.") from None
    return Table(where, header, pd.DataFrame(texts, dtype=object))


def with_keys(table: Table, frame: pd.DataFrame, name: str) -> Table:
    """A frame's table in which one column keeps all digits: that of patients, whose keys must differ as they do there.

    Its dtype depends on no cell: a table in which one of these is missing is refused.
    """
    texts = frame_texts(frame.iloc[:, table.header.index(name)], exact=True)
    return replace(table, cells=table.cells.assign(**{name: texts}))


def is_number(text: str) -> bool:
    """Whether a text is a decimal number, of any size; 007 is a name and no number."""
    return bool(NUMBER.match(text)) and not is_padded(text)


def whole_text(text: str) -> str | None:
    """A whole number of at most 15 digits without sign or point that it can do without; None for another text.

    >>> whole_text("+8.0"), whole_text("-0"), whole_text("8.5")
    ('8', '0', None)
    """
    found = _WHOLE.match(text)
    return None if found is None or is_padded(text) else str(int(text.partition(".")[0]))


def dtypes(table: Table) -> dict[str, Kind]:
    """What each column's cells are, missing ones aside, exactly: for drafts and reports, which a person keeps back."""
    return {name: _dtype(table.cells[name]) for name in table.header}


def _dtype(column: pd.Series) -> Kind:
    words = [word for word in column.unique() if word not in MISSING_TOKENS]
    if words and all(_INT.match(word) and not is_padded(word) for word in words):
        return "int"
    return "float" if words and all(NUMBER.match(word) and not is_padded(word) for word in words) else "text"


def is_padded(word: str) -> bool:
    """Whether a number starts with a zero that would be lost: 007 is a name, not a number."""
    digits = word.lstrip("+-")
    return len(digits) > 1 and digits[0] == "0" and digits[1].isdigit()
