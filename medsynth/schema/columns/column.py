"""What every kind of column offers: one class a kind, its public declaration and the code that follows from it."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, NamedTuple, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import pandas_dtype
from pydantic import AfterValidator, BaseModel, ConfigDict, StrictBool, StrictInt, StrictStr, model_validator

from ...errors import UsageError
from ...io.table import MISSING_TOKENS, Kind, whole_text

Level = StrictBool | StrictInt | StrictStr
Texts = NDArray[np.object_]
Mask = NDArray[np.bool_]
Ints = NDArray[np.int64]
Codes = NDArray[np.int32]
Floats = NDArray[np.float64]
Values = Floats | Texts  # of a column, as constraints compare them: numbers with NaN, or levels as text with None
MAX_CODES = 2**31 - 2  # codes are 32-bit; one more is for a missing value
UNREADABLE = np.iinfo(np.int64).min
FLOATS = re.compile(r"[fF]loat(32|64)")
_NUMBERS = r"u?int(8|16|32|64)|float|double|bool"
# What a schema may name: it may come with an artifact from anywhere.
KNOWN_DTYPE = re.compile(
    r"object|category|bool|boolean|u?int(8|16|32|64)|U?Int(8|16|32|64)|[fF]loat(32|64)|string\[\w+\]"
    rf"|datetime64\[(s|ms|us|ns)\]|arrow:({_NUMBERS}|string|large_string)"
)


def _checked(name: str) -> str:
    if not KNOWN_DTYPE.fullmatch(name):
        raise ValueError("dtype must be one of pandas', such as category, Int16, float32 or string[python]")
    return name


Dtype = Annotated[str, AfterValidator(_checked)]


class Fault(NamedTuple):
    """Texts that the schema does not allow, `found`: (texts,), with what is wrong with them and the cure."""

    found: Mask
    what: str
    cure: str


class Reading(NamedTuple):
    """The code of each text, (texts,), UNREADABLE for one that has none, and the faults, the first to report first."""

    codes: Ints
    faults: tuple[Fault, ...]


class Description(NamedTuple):
    """A column for the report's table of variables: its domain, missing values and precision in words."""

    domain: str
    missing: str
    precision: str


class Column(BaseModel, ABC):
    """A column of some kind: declared in public, before any row is read.

    A value is modelled as a whole-number code, 0 to `size` - 1; the codes of missing values follow, one for each of
    the `gap_words`. A new kind derives from this class, gives `kind` a Literal, and is registered.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")
    categorical: ClassVar[bool] = False  # codes are named levels, each a cell of its own
    modelled: ClassVar[bool] = True  # a model learns it; else its values are made fresh
    may_be_target: ClassVar[bool] = True
    dated: ClassVar[bool] = False  # values are written as dates, and no plain reader takes them for numbers
    drafts: ClassVar[Mapping[Kind, str]] = {}  # its line in a drafted schema, by the kind of text it offers itself for

    kind: str
    missing: bool | tuple[StrictInt | StrictStr, ...] = False
    dtype: Dtype | None = None  # of sampled values, where another is wanted than the kind's own

    if TYPE_CHECKING:  # facts that are fields of some kinds and constants of others: a field would shadow a property

        @property
        def levels(self) -> tuple[Level, ...]: ...  # in the order of their codes; none of a kind without
        @property
        def bounds(self) -> tuple[object, object]: ...  # the lowest and highest value as declared
        @property
        def scale(self) -> Literal["linear", "log"]: ...  # on which cells of neighbouring values are even

    def to_dict(self) -> dict[str, object]:
        """Plain data, defaults left out: what a schema declares of the column."""
        return {"kind": self.kind, **self.model_dump(mode="json", exclude_defaults=True)}

    @property
    @abstractmethod
    def size(self) -> int:
        """How many codes the values have; the code of the first kind of missing value is this number."""

    @property
    def units(self) -> tuple[int, int]:
        """The lowest and highest value in whole units of the last decimal place: code 0 is the first."""
        return 0, self.size - 1

    @property
    def places(self) -> int:
        """Decimals kept."""
        return 0

    @property
    def ordered(self) -> bool:
        """Whether neighbouring codes are alike."""
        return not self.categorical

    @property
    def written(self) -> bool:
        """Whether sampled rows have the column."""
        return True

    @property
    def depends_on(self) -> tuple[str, ...]:
        """Other columns without which its codes cannot be read or decoded."""
        return ()

    @property
    def reads_anything(self) -> bool:
        """Whether every cell that the schema does not foresee is read as the value that `unknown` names."""
        return getattr(self, "unknown", None) is not None

    @property
    def gaps(self) -> int:
        """How many kinds of missing values there are: their codes follow those of the values."""
        return len(self.gap_words)

    @property
    def gap_words(self) -> tuple[str, ...]:
        """How each kind of missing value is written, "" for an empty cell."""
        if isinstance(self.missing, tuple):
            return tuple(str(code) for code in self.missing)
        return ("",) if self.missing else ()

    @model_validator(mode="after")
    def _check_missing(self) -> Self:
        if self.missing == () or len(set(self.gap_words)) < self.gaps:
            raise ValueError("missing must be true, or a list of codes that differ from one another")
        if any(word != word.strip() for word in self.gap_words):
            raise ValueError("codes of missing values must not begin or end with blanks")
        return self

    def check_related(self, columns: Mapping[str, Column]) -> None:
        """Raises ValueError unless the columns that this one depends on are there and depend on none."""
        for name in self.depends_on:
            if name not in columns or columns[name].depends_on:
                raise ValueError(f"it depends on {name!r}, which is no column or depends on another")

    # Cells to codes.

    def read(self, texts: Texts) -> Reading:
        """The codes of distinct texts, those of missing values included."""
        gaps, undeclared = self.missing_in(texts)
        return self.joined(gaps, undeclared, self.read_values(texts[(gaps < 0) & ~undeclared]))

    def read_rows(self, cells: pd.Series, related: Mapping[str, tuple[Column, pd.Series]]) -> tuple[Ints, Reading]:
        """The reading of a column's cells, and each row's place in it; `related`: what it depends on, with cells."""
        place, texts = pd.factorize(cells, use_na_sentinel=False)
        return place, self.read(np.asarray(texts, dtype=object))

    @abstractmethod
    def read_values(self, texts: Texts) -> Reading:
        """The codes of distinct texts, none of them a missing value."""

    def gaps_of(self, texts: Sequence[object] | Texts) -> Ints:
        """The number of the kind of missing value that each text is, or -1. -9.0 is read as -9."""
        codes = self.missing if isinstance(self.missing, tuple) else self.gap_words
        declared = {str(level) for level in self.levels}
        return np.array([-1 if str(text) in declared else self._gap_of(str(text), codes) for text in texts], np.int64)

    def _gap_of(self, text: str, codes: Sequence[Level]) -> int:
        for k, word in enumerate(self.gap_words):
            if canonical(text, codes[k]) == word or (word == "" and text in MISSING_TOKENS):
                return k
        return -1

    def missing_in(self, texts: Texts) -> tuple[Ints, Mask]:
        """Which kind of missing value each text is, -1 for none, and which are missing values undeclared."""
        gaps, declared = self.gaps_of(texts), {str(level) for level in self.levels}
        tokens = np.array([text in MISSING_TOKENS and text not in declared for text in texts], np.bool_)
        return gaps, tokens & (gaps < 0) & (not self.reads_anything)

    def joined(self, gaps: Ints, undeclared: Mask, values: Reading) -> Reading:
        """One reading of texts of which some are missing values and the others have been read as `values`."""
        codes, known = self.size + np.maximum(gaps, 0), (gaps < 0) & ~undeclared
        codes[known] = values.codes
        cure = 'Add "" to the codes in `missing`' if self.gaps else "Set `missing: true`"
        faults = [Fault(undeclared, "a missing value, which the schema does not allow", f"{cure}, or fill the cell.")]
        for fault in values.faults:
            found = np.zeros(len(gaps), np.bool_)
            found[known] = fault.found
            faults.append(fault._replace(found=found))
        return Reading(codes, tuple(faults))

    # Codes to cells.

    def decode(self, codes: Codes, related: Mapping[str, Values]) -> pd.Series:
        """The values of codes, (rows,), in the column's dtype. `related`: those of the columns that it depends on."""
        values = self._with_gap_codes(codes, self.decode_values(codes, related, self.dtype))
        return values if self.dtype is None else cast(values, self.dtype, self.category_dtype())

    def _with_gap_codes(self, codes: Codes, values: pd.Series) -> pd.Series:
        """The values with codes of missing values as declared; those that readers take for empty stay missing."""
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
        """The values of codes, (rows,), missing ones as pandas marks them: as `values` has them, or as a kind likes."""
        return pd.Series(self.values(codes, related))

    def csv_cells(self, codes: Codes, related: Mapping[str, Values]) -> pd.Series:
        """Codes, (rows,), as the texts of a CSV file."""
        place, distinct = pd.factorize(codes)
        return pd.Series(np.array([self.text(int(code)) for code in distinct], dtype=object)[place])

    def text(self, code: int) -> str:
        """A code as the text of a CSV cell."""
        if code >= self.size:
            return self.gap_words[code - self.size]
        return with_point(self.value_text(code), self.dtype) if self.places == 0 else self.value_text(code)

    @abstractmethod
    def value_text(self, code: int) -> str:
        """The code of a value as the text of a CSV cell."""

    def category_dtype(self) -> pd.CategoricalDtype:
        """The dtype as a category: whatever values there are, unless levels are declared."""
        return pd.CategoricalDtype()

    def fresh(self, first: int, count: int) -> Codes:
        """Codes of `count` values that no row had, (count,), after the `first` given out: of a kind not modelled."""
        raise UsageError(f"A column of kind {self.kind} is modelled and not made fresh.")

    # Constraints, conditions, and tables read for the report.

    @abstractmethod
    def values(self, codes: Codes, related: Mapping[str, Values]) -> Values:
        """The values of codes as constraints compare them: (rows,)."""

    @abstractmethod
    def cell_values(self, cells: pd.Series) -> Values:
        """The cells of a table as constraints compare them: (rows,)."""

    def ranks(self, cells: pd.Series) -> Floats:
        """Return numbers by which the cells of a column ascend, (rows,): the values that they are read as.

        Each follows from its cell alone, and ascends as the cell's code does. NaN is for a cell without a value.
        """
        place, reading = self.read_rows(cells, {})
        known = (reading.codes >= 0) & (reading.codes < self.size)
        codes = np.where(known, reading.codes, self.size).astype(np.int32)
        return self.values(codes, {}).astype(np.float64)[place]

    def code_computed(self, result: Floats, related: Mapping[str, Values]) -> Codes:
        """The codes of computed numbers, (rows,): cut to the bounds; missing, or the lower bound, for none."""
        raise ValueError(f"a rule computes numbers and dates, and this column is of kind {self.kind}")

    def code_range(self, text: str) -> tuple[int, int]:
        """The codes that a condition's value allows, both ends included; "" allows all that are missing.

        Raises ValueError for a text that is no value of the column.
        """
        if text == "" and not self.gaps:
            raise ValueError("the schema does not have missing values there.")
        if text == "":
            return self.size, self.size + self.gaps - 1
        if text in self.gap_words:
            gap = self.size + self.gap_words.index(text)
            return gap, gap
        return self.value_range(text)

    @abstractmethod
    def value_range(self, text: str) -> tuple[int, int]:
        """The codes that a text allows which is no missing value; ValueError as `code_range`."""

    def at_levels(self, cells: pd.Series) -> pd.Series:
        """A table's cells brought to the declared levels, where these are coarser than the cells."""
        return cells

    def compared(self, cells: pd.Series) -> pd.Series:
        """A table's cells in the form in which two tables are compared."""
        return cells

    def validate_cells(self, cells: pd.Series) -> dict[str, Mask]:
        """Which cells, (rows,), break each declared rule of the column, if it has some, by the rule's words."""
        return {}

    @abstractmethod
    def describe(self) -> Description:
        """The column in words."""

    def describe_missing(self) -> str:
        """The column's missing values in words."""
        if isinstance(self.missing, tuple):
            return "missing values: " + ", ".join(word or "empty" for word in self.gap_words)
        return "may be missing" if self.missing else "never missing"


def undeclared_gaps(column: Column, cells: pd.Series) -> dict[str, Mask]:
    """The rule that a column without missing values has none; nothing for one that may have some."""
    return {} if column.missing else {"not missing": cells.isna().to_numpy(np.bool_)}


def cast(values: pd.Series, dtype: str, categories: pd.CategoricalDtype) -> pd.Series:
    """Values in the dtype of that name, or as they are where it is unknown or cannot represent them all."""
    if not KNOWN_DTYPE.fullmatch(dtype):
        return values
    try:
        if dtype == "category":
            return values.astype(categories)
        if dtype == "object":
            return values.astype(object).mask(values.isna(), None)
        if dtype.startswith("arrow:"):
            import pyarrow

            found: Any = pd.ArrowDtype(pyarrow.type_for_alias(dtype.removeprefix("arrow:")))
        else:
            found = pandas_dtype(dtype)
        words = isinstance(found, pd.StringDtype) or dtype.endswith("string")
        return (values.map(str, na_action="ignore") if words else values).astype(found)
    except (ValueError, TypeError):
        return values


def dtype_name(dtype: object) -> str | None:
    """The name by which `cast` finds a dtype again, without the values of a category; None for one that it lacks."""
    if isinstance(dtype, pd.ArrowDtype):
        name = f"arrow:{dtype.pyarrow_dtype}"
    else:
        name = f"string[{dtype.storage}]" if isinstance(dtype, pd.StringDtype) else str(dtype)
    return name if KNOWN_DTYPE.fullmatch(name) else None


def canonical(word: str, level: object) -> str:
    """A text as a level of that type is written: 1.0 as 1, True as true."""
    if isinstance(level, bool):
        return word.lower()
    if isinstance(level, int) and "." in word:
        whole, _, rest = word.partition(".")
        return whole if not rest.strip("0") else word
    return word


def with_point(text: str, dtype: str | None) -> str:
    """The text of a value without decimals in a CSV file: 8.0 for 8 in a dtype of floats, which readers find again."""
    return f"{text}.0" if dtype and FLOATS.fullmatch(dtype) and whole_text(text) == text else text


def numbers_of(texts: Texts) -> Floats:
    """The number that each text is, NaN for none: (texts,). Each is parsed as a float, whatever the others are."""
    beside = pd.Series([*texts, "0.5"], dtype=object)  # texts of whole numbers alone would be parsed as integers
    return pd.to_numeric(beside, errors="coerce").to_numpy(np.float64)[:-1]
