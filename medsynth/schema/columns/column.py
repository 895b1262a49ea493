"""The interface of every kind of column: one class per kind, with its public declaration and the code for it."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, ClassVar, Literal, NamedTuple, Protocol, Self

import numpy as np
import pandas as pd
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainValidator,
    StrictBool,
    StrictInt,
    StrictStr,
    model_validator,
)

from ...arrays import Codes, Floats, Mask, Texts, Whole
from ...errors import EntryError, Problem, UsageError
from ...io.table import MISSING_TOKENS, whole_text
from ..cells import MISSING_NUMBERS
from .dtypes import cast, checked

Level = StrictBool | StrictInt | StrictStr
Values = Floats | Texts  # of a column, for constraints: numbers with NaN, or levels as text with None
Related = Mapping[str, Values]  # of the columns that one depends on
MAX_CODES = 2**31 - 2  # codes have 32 bits; one is for a missing value
UNREADABLE = np.iinfo(np.int64).min
FLOATS = re.compile(r"[fF]loat(32|64)")
LONG = re.compile(r"-?[1-9][0-9]{15,29}")  # whole numbers that a float may not represent
USUAL_CODES = np.array([*map(float, MISSING_NUMBERS)])
APART, LEVEL_APART = 2.0, 4.0  # a usual code is this many times farther from zero than the values; another number
LONGEST_LABEL = 250  # characters: as many as SPSS keeps of a label of a column


def printable(label: str) -> str:
    """Return a label. Raise ValueError if it is empty or contains line ends or control characters."""
    if not label.strip() or not label.isprintable():
        raise ValueError("a label must be one line of text, without control characters")
    return label


def code_texts(labels: object) -> object:
    """Return the labels of values by the codes as text: 1 and "1" are the same code in a table."""
    return {level_text(code): label for code, label in labels.items()} if isinstance(labels, Mapping) else labels


def level_text(level: object) -> str:
    """Return a level as constraints and CSV files write it: booleans in lower case."""
    return str(level).lower() if isinstance(level, bool) else str(level)


Dtype = Annotated[str, AfterValidator(checked)]
Label = Annotated[StrictStr, Field(max_length=LONGEST_LABEL), AfterValidator(printable)]


class Fault(NamedTuple):
    """Texts that the schema does not allow, `found`: (texts,), with what is wrong with them."""

    found: Mask
    problem: Problem


class Reading(NamedTuple):
    """The code of each text, (texts,), UNREADABLE for one without a code, and the faults in order of report."""

    codes: Whole
    faults: tuple[Fault, ...]


class Description(NamedTuple):
    """A column in the report's table of variables: its domain, missing values and precision in words."""

    domain: str
    missing: str
    precision: str


class SharedCell(Protocol):
    """What the columns of one shared cell of a table have in common (parts.py)."""

    together: ClassVar[bool]  # whether all of them are missing if one is

    @property
    def label(self) -> str | None:
        """The label of the whole cell."""

    def split(self, text: str, index: int) -> str | None:
        """Return the text of one column in a cell's text, None if that does not have the form."""

    def join(self, columns: Sequence[Column], codes: Sequence[Codes], related: Sequence[Related]) -> list[str]:
        """Return the cells of rows from the codes of the columns. `related`: as `Column.csv_cells`, for each."""

    def declared(self, columns: Mapping[str, Column]) -> dict[str, object]:
        """Return the declaration of the shared cell, as plain data."""


@dataclass(frozen=True)
class CellPart:
    """The place of a column in a cell that it shares: the table's column, its index among the parts, and the whole."""

    of: str
    index: int
    whole: SharedCell


def _part(given: object) -> CellPart:
    """Return a part. Raise ValueError for anything else: only a schema makes parts."""
    if isinstance(given, CellPart):
        return given
    raise EntryError("part", "a column cannot declare `part`: declare kind `parts` for the whole cell")


class Column(BaseModel, ABC):
    """A column of some kind, declared in public before any row is read.

    A model learns whole-number codes: 0 to `size` - 1 for values, then one for each of the `gap_words`, the missing
    values. A new kind derives from this class, gives `kind` a Literal, and is registered.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    categorical: ClassVar[bool] = False  # codes are named levels, each in its own cell
    modelled: ClassVar[bool] = True  # a model learns it; otherwise sampled rows get fresh values
    may_be_target: ClassVar[bool] = True
    dated: ClassVar[bool] = False  # values are written as dates, which no plain reader parses as numbers

    kind: str
    missing: bool | tuple[StrictInt | StrictStr, ...] = False
    dtype: Dtype | None = None  # of sampled values, if not the kind's own
    # For people and for files that keep them. No model, measurement or draw depends on labels.
    label: Label | None = None
    value_labels: Annotated[dict[str, Label], BeforeValidator(code_texts)] = {}
    seen: bool = False  # whether a person declared it after a look at its cells
    part: Annotated[CellPart | None, PlainValidator(_part), Field(exclude=True)] = None  # set by the schema alone

    if TYPE_CHECKING:  # fields in some kinds, constants in others: a field would shadow a property

        @property
        def levels(self) -> tuple[Level, ...]: ...  # in the order of their codes; none for a kind without levels
        @property
        def bounds(self) -> tuple[object, object]: ...  # the lowest and highest value as declared
        @property
        def scale(self) -> Literal["linear", "log"]: ...  # on which cells of neighbouring values are even

    def to_dict(self) -> dict[str, object]:
        """Return plain data without defaults: what a schema declares about the column."""
        return {"kind": self.kind, **self.model_dump(mode="json", exclude_defaults=True, by_alias=True)}

    @property
    @abstractmethod
    def size(self) -> int:
        """The number of codes of values, which is also the code of the first kind of missing value."""

    @property
    def units(self) -> tuple[int, int]:
        """The lowest and highest value in units of the last decimal place; code 0 is the lowest."""
        return 0, self.size - 1

    @property
    def number_units(self) -> tuple[int, int]:
        """The lowest and highest number in these units. `units` may include limits of an assay beyond them."""
        return self.units

    @property
    def places(self) -> int:
        """How many digits after the point are kept."""
        return 0

    @property
    def ordered(self) -> bool:
        """Whether neighbouring codes are alike."""
        return not self.categorical

    @property
    def units_of_day(self) -> int:
        """The number of its units in a day of the calendar; zero if its values do not lie in such days."""
        return 0

    @property
    def days(self) -> bool:
        """Whether its values are days without a time."""
        return False

    @property
    def written(self) -> bool:
        """Whether sampled rows have the column."""
        return True

    @property
    def depends_on(self) -> tuple[str, ...]:
        """Other columns that its codes need to be read or decoded."""
        return ()

    @property
    def reads_anything(self) -> bool:
        """Whether every undeclared cell is read as the value that `unknown` names."""
        return getattr(self, "unknown", None) is not None

    @property
    def reads_as_missing(self) -> bool:
        """Whether an unreadable cell is read as missing."""
        return getattr(self, "unknown", None) == "missing" not in self.levels

    @property
    def title(self) -> str:
        """The label, after that of the whole cell for a part of it; "" without any."""
        whole = self.part.whole.label if self.part else None
        return ": ".join(label for label in (whole, self.label) if label)

    @property
    def gaps(self) -> int:
        """The number of kinds of missing values: their codes follow those of the values."""
        return len(self.gap_words)

    @property
    def gap_words(self) -> tuple[str, ...]:
        """The text of each kind of missing value, "" for an empty cell."""
        if isinstance(self.missing, tuple):
            return tuple(str(code) for code in self.missing)
        return ("",) if self.missing else ()

    @property
    def empty_code(self) -> int:
        """The code of a cell without a value: that of an empty cell, else of the first kind of missing value."""
        words = self.gap_words
        return self.size + (words.index("") if "" in words else 0)

    @property
    def long_codes(self) -> bool:
        """Whether a level, a code of missing values or one of a hierarchy may lose digits as a float."""
        words = re.findall(r"[\w.-]+", f"{self.levels} {self.gap_words} {getattr(self, 'hierarchy', '')}")
        return any(map(LONG.fullmatch, words))

    @model_validator(mode="after")
    def _check_missing(self) -> Self:
        if self.missing == () or len(set(self.gap_words)) < self.gaps:
            raise EntryError("missing", "`missing` must be true, or a list of different codes")
        if any(word != word.strip() for word in self.gap_words):
            raise EntryError("missing", "codes of missing values must not begin or end with blanks")
        return self

    @model_validator(mode="after")
    def _check_labels(self) -> Self:
        known = {*map(level_text, self.levels), *self.gap_words}
        if lost := [code for code in self.value_labels if code not in known]:
            raise EntryError(
                "value_labels", f"`value_labels`: {lost[0]!r} is neither a level nor a code of missing values"
            )
        return self

    def day_range(self, text: str) -> tuple[float, float] | None:
        """Return the first and last moment of a condition in days on a date that follows another; else None."""
        return None

    def check_related(self, columns: Mapping[str, Column]) -> None:
        """Raise ValueError unless the columns that this one depends on exist and depend on none."""
        for name in self.depends_on:
            if name not in columns or columns[name].depends_on:
                raise EntryError("after", f"it depends on {name!r}, which is not a column or depends on another")

    # Cells to codes.

    def read(self, texts: Texts) -> Reading:
        """Return the codes of distinct texts, including those of missing values."""
        gaps, undeclared = self.missing_in(texts)
        return self.joined(gaps, undeclared, self.read_values(texts[(gaps < 0) & ~undeclared]))

    def read_rows(self, cells: pd.Series, related: Mapping[str, tuple[Column, pd.Series]]) -> tuple[Whole, Reading]:
        """Return each row's index in a reading, and the reading. `related`: columns it depends on, with cells."""
        place, texts = pd.factorize(cells, use_na_sentinel=False)
        return place, self.read(np.asarray(texts, dtype=object))

    @abstractmethod
    def read_values(self, texts: Texts) -> Reading:
        """Return the codes of distinct texts, none of them a missing value."""

    def gaps_of(self, texts: Sequence[object] | Texts) -> Whole:
        """Return the number of the kind of missing value of each text, or -1. -9.0 is read as -9."""
        codes = self.missing if isinstance(self.missing, tuple) else self.gap_words
        declared = {str(level) for level in self.levels}
        return np.array([-1 if str(text) in declared else self._gap_of(str(text), codes) for text in texts], np.int64)

    def _gap_of(self, text: str, codes: Sequence[Level]) -> int:
        for k, word in enumerate(self.gap_words):
            if canonical(text, codes[k]) == word or (word == "" and text in MISSING_TOKENS):
                return k
        return -1

    def missing_in(self, texts: Texts) -> tuple[Whole, Mask]:
        """Return the kind of missing value of each text, -1 for none, and which texts are undeclared missing values."""
        gaps = self.gaps_of(texts)
        declared = {str(level) for level in self.levels}
        tokens = np.array([text in MISSING_TOKENS and text not in declared for text in texts], np.bool_)
        return gaps, tokens & (gaps < 0) & (not self.reads_anything)

    def joined(self, gaps: Whole, undeclared: Mask, values: Reading) -> Reading:
        """Join the reading of missing texts and that of the others, `values`, in the order of the rows."""
        codes, known = self.size + np.maximum(gaps, 0), (gaps < 0) & ~undeclared
        codes[known] = values.codes
        cure = 'Add "" to the codes in `missing`' if self.gaps else "Set `missing: true`"
        text = "a missing value, but the schema allows none"
        faults = [Fault(undeclared, Problem(text=text, cure=f"{cure}, or fill the cell."))]
        for fault in values.faults:
            found = np.zeros(len(gaps), np.bool_)
            found[known] = fault.found
            faults.append(fault._replace(found=found))
        return Reading(codes, tuple(faults))

    # Codes to cells.

    def decode(self, codes: Codes, related: Mapping[str, Values]) -> pd.Series:
        """Return the values of codes, (rows,), in the column's dtype. `related`: values of columns it depends on."""
        values = self._with_gap_codes(codes, self.decode_values(codes, related, self.dtype))
        return values if self.dtype is None else cast(values, self.dtype, self.category_dtype())

    def _with_gap_codes(self, codes: Codes, values: pd.Series) -> pd.Series:
        """Return values with the declared codes of missing values; codes that readers treat as empty stay missing."""
        if not isinstance(self.missing, tuple):
            return values
        written = {self.size + k: code for k, code in enumerate(self.missing) if code not in MISSING_TOKENS}
        numbers = pd.api.types.is_numeric_dtype(values) and all(isinstance(code, int) for code in written.values())
        found = values if numbers or not written else values.astype(object)
        for gap, code in written.items():
            found = found.mask(codes == gap, code)
        whole = numbers and len(written) == self.gaps and isinstance(values.dtype, pd.Int64Dtype)
        return found.astype("int64") if whole else found

    def decode_values(self, codes: Codes, related: Mapping[str, Values], dtype: str | None) -> pd.Series:
        """Return the values of codes, (rows,), with pandas' marks for missing ones."""
        return pd.Series(self.values(codes, related))

    def csv_cells(self, codes: Codes, related: Mapping[str, Values]) -> pd.Series:
        """Return codes, (rows,), as the texts of a CSV file."""
        place, distinct = pd.factorize(codes)
        return pd.Series(np.array(self.texts(distinct), dtype=object)[place])

    def texts(self, codes: Codes) -> list[str]:
        """Return distinct codes as the texts of CSV cells."""
        return [self.text(int(code)) for code in codes]

    def text(self, code: int) -> str:
        """Return a code as the text of a CSV cell."""
        if code >= self.size:
            return self.gap_words[code - self.size]
        text = self.value_text(code)
        floats = self.places == 0 and self.dtype and FLOATS.fullmatch(self.dtype)  # 8.0 for 8, for readers of the file
        return f"{text}.0" if floats and whole_text(text) == text else text

    @abstractmethod
    def value_text(self, code: int) -> str:
        """Return the code of a value as the text of a CSV cell."""

    def category_dtype(self) -> pd.CategoricalDtype:
        """Return the dtype as a category: of any values, unless levels are declared."""
        return pd.CategoricalDtype()

    def fresh(self, first: int, count: int) -> Codes:
        """Return codes of `count` new values, (count,), after the `first` ones, in a column that no model learns."""
        raise UsageError(f"A column of kind {self.kind} is modelled. It has no fresh values.")

    # Constraints, conditions, and tables read for the report.

    @abstractmethod
    def values(self, codes: Codes, related: Mapping[str, Values]) -> Values:
        """Return the values of codes as constraints compare them: (rows,)."""

    @abstractmethod
    def cell_values(self, cells: pd.Series) -> Values:
        """Return the cells of a table as constraints compare them: (rows,)."""

    def ranks(self, cells: pd.Series) -> Floats:
        """Return numbers by which the cells of a column ascend, (rows,): the values that they are read as.

        Each follows from its cell alone, and ascends as the cell's code does. A cell without a value has NaN.
        """
        place, reading = self.read_rows(cells, {})
        known = (reading.codes >= 0) & (reading.codes < self.size)
        codes = np.where(known, reading.codes, self.size).astype(np.int32)
        return self.values(codes, {}).astype(np.float64)[place]

    def code_computed(self, result: Values, related: Mapping[str, Values]) -> Codes:
        """Return the codes of computed values, (rows,), cut to the bounds; for none missing, or the lowest value."""
        raise ValueError(f"a rule can compute numbers and dates, but this column is of kind {self.kind}")

    def code_range(self, text: str) -> tuple[int, int]:
        """Return the codes that a condition's value allows, both ends included; "" allows all that are missing.

        Raises ValueError for a text that is not a value of the column.
        """
        if text == "" and not self.gaps:
            raise ValueError("the schema declares no missing values for this column.")
        if text == "":
            return self.size, self.size + self.gaps - 1
        if text in self.gap_words:
            gap = self.size + self.gap_words.index(text)
            return gap, gap
        return self.value_range(text)

    @abstractmethod
    def value_range(self, text: str) -> tuple[int, int]:
        """Return the codes that a text allows which is not a missing value; raise ValueError as `code_range`."""

    def at_levels(self, cells: pd.Series) -> pd.Series:
        """Return a table's cells at the declared levels, if these are coarser than the cells."""
        return cells

    def compared(self, cells: pd.Series) -> pd.Series:
        """Return a table's cells in the form in which two tables are compared."""
        return cells

    def validate_cells(self, cells: pd.Series) -> dict[str, Mask]:
        """Return which cells, (rows,), break each declared rule of the column, by the rule's words."""
        return {}

    @abstractmethod
    def describe(self) -> Description:
        """Return the column in words."""

    def describe_missing(self) -> str:
        """Return the column's missing values in words."""
        if isinstance(self.missing, tuple):
            return "missing values: " + ", ".join(word or "empty" for word in self.gap_words)
        return "may be missing" if self.missing else "never missing"


def undeclared_gaps(column: Column, cells: pd.Series) -> dict[str, Mask]:
    """Return the rule that a column without missing values has none; nothing for another column."""
    return {} if column.missing else {"not missing": cells.isna().to_numpy(np.bool_)}


def canonical(word: str, level: object) -> str:
    """Return a text as a level of that type is written: 1.0 as 1, True as true."""
    if isinstance(level, bool):
        return word.lower()
    if isinstance(level, int) and "." in word:
        whole, _, rest = word.partition(".")
        return whole if not rest.strip("0") else word
    return word


def is_apart(numbers: Floats, low: float, high: float, times: float | Floats = APART) -> Mask:
    """Return which numbers are `times` farther from zero than values between `low` and `high`, on either side."""
    below = (numbers < 0) & ((low >= 0) | (numbers < times * low))
    return np.asarray(below | ((high > 0) & (numbers > times * high)), np.bool_)


def numbers_of(texts: Texts) -> Floats:
    """Return the number of each text, NaN for none: (texts,). Each is parsed as a float, whatever the others are."""
    beside = pd.Series([*texts, "0.5"], dtype=object)  # without it, whole numbers alone would be parsed as integers
    return pd.to_numeric(beside, errors="coerce").to_numpy(np.float64)[:-1]
