"""Tables as text. Every cell is kept as its text; what a cell means is the schema's business."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import TableError
from .cell_text import frame_texts
from .writer import WrittenText

if TYPE_CHECKING:
    import pyarrow

Kind = Literal["int", "float", "date", "text"]
MISSING_TOKENS = frozenset({"", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "<NA>"})
NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?$")
_INT = re.compile(r"[-+]?[0-9]{1,15}$")
_WHOLE = re.compile(r"[-+]?([0-9]{1,15})(?:\.0*)?$")


@dataclass(frozen=True)
class Table:
    """A table as text. Nothing else is kept: a frame's dtypes depend on its cells, and nobody could release them.

    Attributes:
        where: Its name in messages.
        cells: One stripped string per cell.
        form: How the file was written, in words, if not as usual.
        written: What is needed to write some of its rows as they stood there.
        expected_rows: Of a part that secret draws took out of a table, how many were expected.
        expected_std: The standard deviation of how many there are.
        before: Of a piece, how many rows of the table stand before it.
    """

    where: str
    header: tuple[str, ...]
    cells: pd.DataFrame = field(repr=False)
    form: str = ""
    written: WrittenText | pyarrow.Table | None = field(default=None, repr=False)
    expected_rows: int | None = None
    expected_std: float = 0.0
    before: int = 0

    @property
    def rows(self) -> int:
        """How many rows there are."""
        return len(self.cells)

    @property
    def digest(self) -> str:
        """The SHA-256 of the names and cells: for the private checkpoint alone."""
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


class OpenTable(NamedTuple):
    """A table's file whose header is read. `form` as of a Table; `rows`: their number, where it is known unread.

    `pieces`: the rows that are left, at most as many at a time as is asked, or all of them as one piece.
    """

    header: tuple[str, ...]
    form: str
    pieces: Callable[[int | None], Iterator[Table]]
    rows: int | None = None


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
