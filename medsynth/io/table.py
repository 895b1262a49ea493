"""Tables as text. Every cell is kept as its text; the schema decides its meaning."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Literal, NamedTuple, cast

import numpy as np
import pandas as pd

from ..arrays import Texts, Whole
from ..errors import TableError
from .cell_text import NOT_A_VALUE_CURE, NotAValue, frame_texts, has_floats, texts_of
from .formats import FileForm
from .writer import WrittenText

if TYPE_CHECKING:
    import pyarrow

Kind = Literal["int", "float", "date", "text"]
MISSING_TOKENS = frozenset({"", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "<NA>"})
NUMBER = re.compile(r"[-+]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][-+]?[0-9]{1,3})?$")
_INT = re.compile(r"[-+]?[0-9]{1,15}$")
_WHOLE = re.compile(r"[-+]?([0-9]{1,15})(?:\.0*)?$")


class Categories(NamedTuple):
    """The cells of a table, and the same by column as categories."""

    cells: pd.DataFrame
    columns: Mapping[str, pd.Categorical]


@dataclass(frozen=True)
class Table:
    """A table as text. A frame's dtypes depend on its cells, so no fit may release them.

    Attributes:
        where: Its name in messages.
        cells: One stripped string per cell.
        form: How the file was written, in words, if not as usual.
        written: What is needed to write some of its rows in their original form.
        expected_rows: For a part that secret draws took out of a table, the expected number of rows.
        expected_std: The standard deviation of that number.
        before: For a piece, the number of rows of the table before it.
        file_form: How its file is written, for sampled rows.
        floats: The columns of a frame or a Parquet file that have a type of floats.
        categories: The same cells as categories, if the file was read so: each text becomes a code once.
    """

    where: str
    header: tuple[str, ...]
    cells: pd.DataFrame = field(repr=False)
    form: str = ""
    written: WrittenText | pyarrow.Table | None = field(default=None, repr=False)
    expected_rows: int | None = None
    expected_std: float = 0.0
    before: int = 0
    file_form: FileForm = FileForm()
    floats: frozenset[str] = field(default=frozenset(), repr=False)
    categories: Categories | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        """Drop the categories of other cells, as `replace` copies them."""
        if self.categories and self.categories.cells is not self.cells:
            object.__setattr__(self, "categories", None)

    def of_categories(self, columns: Mapping[str, pd.Categorical]) -> Table:
        """Return the table with these cells."""
        cells = pd.DataFrame({name: texts_of(column) for name, column in columns.items()}, dtype=object)
        return replace(self, cells=cells, categories=Categories(cells, columns))

    def column(self, name: str) -> pd.Series:
        """Return the cells of a column: as categories, if there are any, else as texts."""
        return pd.Series(self.categories.columns[name]) if self.categories else self.cells[name]

    @property
    def rows(self) -> int:
        """The number of rows."""
        return len(self.cells)

    @property
    def digest(self) -> str:
        """The SHA-256 of the names and cells: for the private checkpoint alone."""
        found = sha256("\x1f".join(self.header).encode())
        # The hash of a category is that of its text.
        cells = pd.DataFrame({name: self.column(name) for name in map(str, self.cells)})
        found.update(pd.util.hash_pandas_object(cells, index=False).to_numpy().tobytes())
        return found.hexdigest()

    def chunks(self) -> Iterator[Table]:
        """Yield the table as one piece: larger ones have several."""
        yield self

    def only(self, rows: Whole) -> Table:
        """Return some of the rows, by their positions."""
        return replace(self, cells=self.cells.iloc[rows].reset_index(drop=True))

    @property
    def public_rows(self) -> int:
        """The number of rows that counts as public: never the number that secret draws kept."""
        return len(self.cells) if self.expected_rows is None else self.expected_rows


@dataclass(frozen=True)
class LargeTable:
    """A table in a file with this number of `rows`, which is never whole in memory. `form` as in a Table.

    digest: SHA-256 of the file, for the private checkpoint alone; the last four fields as in a Table.
    """

    where: str
    header: tuple[str, ...]
    rows: int
    form: str
    digest: str = field(repr=False)
    pieces: Callable[[], Iterator[Table]] = field(repr=False)
    expected_rows: int | None = None
    expected_std: float = 0.0
    file_form: FileForm = FileForm()
    floats: frozenset[str] = field(default=frozenset(), repr=False)

    @property
    def public_rows(self) -> int:
        """The number of rows that counts as public: never the number that secret draws kept."""
        return self.rows if self.expected_rows is None else self.expected_rows

    def chunks(self) -> Iterator[Table]:
        """Yield the rows in their order, a piece at a time, read again at each call.

        Raises TableError if the file no longer contains such a table.
        """
        return self.pieces()

    def only(self, rows: Whole) -> LargeTable:
        """Return some of the rows, by their ascending positions."""

        def pieces() -> Iterator[Table]:
            for piece in self.pieces():
                first, last = np.searchsorted(rows, [piece.before, piece.before + piece.rows])
                yield piece.only(rows[first:last] - piece.before)

        return replace(self, rows=len(rows), pieces=pieces)


class OpenTable(NamedTuple):
    """A table's file whose header was read. `form` as in a Table; `rows`: their number, if it is known without reading.

    `pieces`: the remaining rows, at most the given number at a time, or all of them as one piece.
    """

    header: tuple[str, ...]
    form: str
    pieces: Callable[[int | None], Iterator[Table]]
    rows: int | None = None
    file_form: FileForm = FileForm()
    floats: frozenset[str] = frozenset()


def check_names(header: Sequence[object], where: str, levels: int = 1) -> tuple[str, ...]:
    """Return the names of the columns. Raise TableError if one is not a text, or if two are the same.

    `levels`: the number of names that each column has.
    """
    if levels > 1:
        raise TableError(
            f"{where}: each column has {levels} names, one above the other. Join them into one text per column."
        )
    for k, name in enumerate(header, 1):
        if not isinstance(name, str):
            raise TableError(
                f"{where}: the name of column {k} is not a text, but of the type {type(name).__name__}. Sampled rows "
                "have texts as names. Turn the names into texts first, for example with `frame.rename(columns=str)`."
            )
    if len(set(header)) < len(header):
        twice = next(name for k, name in enumerate(header) if name in header[:k])
        places = " and ".join(str(k) for k, name in enumerate(header, 1) if name == twice)
        raise TableError(f"{where}: the columns {places} have the same name. Rename all but one.")
    return tuple(map(str, header))


def check_rows(rows: int, where: str) -> None:
    """Raise TableError for a table of fewer than two rows."""
    if rows < 2:
        raise TableError(f"{where} has a header but too few rows to learn from. Provide two or more.")


def from_frame(frame: pd.DataFrame, where: str = "table") -> Table:
    """Return a pandas frame as a table of text. An index with a name becomes a column, as `to_csv` and Parquet do it.

    Args:
        frame: The rows. Equal values have one text, whatever the dtypes of their columns.
        where: The table's name in messages.

    Raises TableError for fewer than two rows, names that are not texts or occur twice, and cells that are not single
    values, such as lists.
    """
    check_names((), where, frame.columns.nlevels)
    frame = with_index(frame)
    header = check_names(list(frame.columns), where)
    if len(frame) < 2:
        raise TableError(f"{where}: too few rows to learn from. Provide two or more.")
    texts = {name: _texts(frame.iloc[:, k], where) for k, name in enumerate(header)}
    floats = frozenset(name for name, kind in zip(header, frame.dtypes, strict=True) if has_floats(kind))
    return Table(where, header, pd.DataFrame(texts, dtype=object), floats=floats)


def with_index(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a frame whose index is columns before the others, if it has a name or several levels.

    A column has the index' own type: `reset_index` would choose one by all cells.
    """
    index = frame.index
    found = frame.reset_index(drop=True)
    if index.nlevels == 1:
        if index.name is not None:
            found.insert(0, index.name, pd.Series(index.array, dtype=index.dtype), allow_duplicates=True)
        return found
    # pandas keeps each distinct value of a level once, like the categories of a column.
    index = cast(pd.MultiIndex, index)
    for k, (name, codes, level) in enumerate(zip(index.names, index.codes, index.levels, strict=True)):
        known = np.asarray(level.notna())  # `groupby(dropna=False)` makes a level of missing keys
        place = np.append(np.where(known, np.cumsum(known) - 1, -1), -1)[codes]
        column = pd.Series(pd.Categorical.from_codes(place.tolist(), level[known]))
        found.insert(k, f"level_{k}" if name is None else name, column, allow_duplicates=True)
    return found


def frame_dtypes(frame: pd.DataFrame) -> dict[str, object]:
    """Return the dtype of each column of `with_index`; of a level of the index, that of its values."""
    shown = dict(with_index(frame).dtypes)
    levels = frame.index.levels if isinstance(frame.index, pd.MultiIndex) else ()
    shown |= {name: level.dtype for name, level in zip(shown, levels, strict=False)}
    return {str(name): dtype for name, dtype in shown.items()}


def _texts(column: pd.Series, where: str) -> Texts:
    """Return the text of each cell of a frame's column, (rows,). Raise TableError if one is not a single value."""
    try:
        return frame_texts(column)
    except NotAValue as error:
        raise TableError(f"{where}, column {column.name!r} contains {error}. {NOT_A_VALUE_CURE}") from None
    except Exception:  # an object in a cell can raise any error when it is turned into text
        raise TableError(
            f"{where}, column {column.name!r}: a cell contains an object that cannot be written as text. Remove it."
        ) from None


def is_number(text: str) -> bool:
    """Return whether a text is a decimal number, of any size; 007 is a name and not a number."""
    return bool(NUMBER.match(text)) and not is_padded(text)


def whole_text(text: str) -> str | None:
    """Return a whole number of at most 15 digits without needless sign or point; None for another text.

    >>> whole_text("+8.0"), whole_text("-0"), whole_text("8.5")
    ('8', '0', None)
    """
    found = _WHOLE.match(text)
    return None if found is None or is_padded(text) else str(int(text.partition(".")[0]))


def dtypes(table: Table) -> dict[str, Kind]:
    """Return the exact kind of each column's cells without missing ones: for drafts and reports, which stay private."""
    return {name: _dtype(table.cells[name]) for name in table.header}


def _dtype(column: pd.Series) -> Kind:
    words = [word for word in column.unique() if word not in MISSING_TOKENS]
    if words and all(_INT.match(word) and not is_padded(word) for word in words):
        return "int"
    return "float" if words and all(NUMBER.match(word) and not is_padded(word) for word in words) else "text"


def is_padded(word: str) -> bool:
    """Return whether a number starts with a zero that would be lost: 007 is a name, not a number."""
    digits = word.lstrip("+-")
    return len(digits) > 1 and digits[0] == "0" and digits[1].isdigit()
