"""Columns of which something is open: a fit learns it from noisy counts, and replaces them by what it learned.

A column is open because its declaration says so, never because of its cells. In a schema's file, what is open is left
out, or written TODO, which means the same as null.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date
from typing import Annotated, Any, ClassVar, Literal, NoReturn

import numpy as np
import pandas as pd
from pydantic import TypeAdapter, ValidationError
from pydantic.fields import FieldInfo

from ...arrays import Codes, Mask, Texts
from ...errors import EntryError, UsageError, did_you_mean, validators_faults
from .column import Column, Description, Level, Reading, Values, level_text
from .date import Date, check_anchor
from .number import Continuous, WrittenNumber

LEVELS, BOUNDS, FORMAT, AFTER, LIMITS = "levels", "bounds", "format", "after", "limits"
Class = type[Column]


class Open(Column):
    """A column whose kind is open. `given`: what is declared of it, as a schema's mapping.

    Until a fit has learned it, every cell is read as nothing.
    """

    levels: ClassVar[tuple[Level, ...]] = ()
    bounds: ClassVar[tuple[None, None]] = (None, None)
    scale: ClassVar[Literal["linear"]] = "linear"

    kind: Literal["open"] = "open"
    missing: bool = True
    given: dict[str, Any] = {}

    # What a fit measures of the column.
    open_kind: ClassVar[bool] = True
    open_levels: ClassVar[bool] = True
    open_format: ClassVar[bool] = True  # of numbers or of dates, such as their bounds

    @property
    def in_words(self) -> str:
        """What is open, in a word or two."""
        return "kind"

    def plain(self, texts: Texts) -> Texts:
        """Return texts of cells as they are counted."""
        return texts

    def to_dict(self) -> dict[str, object]:
        """Return what is declared; what is open is left out, or null."""
        return dict(self.given)

    @property
    def size(self) -> int:
        return 1

    def read(self, texts: Texts) -> Reading:
        """Read any text as code zero: nothing is known of it yet."""
        return Reading(np.zeros(len(texts), np.int64), ())

    def read_values(self, texts: Texts) -> Reading:
        return self.read(texts)

    def _unknown(self, *arguments: object) -> NoReturn:
        raise UsageError("A column of the schema is open, and only a fit can learn it. Declare it, or name a model.")

    def value_text(self, code: int) -> str:
        self._unknown()

    def values(self, codes: Codes, related: Mapping[str, Values]) -> Values:
        self._unknown()

    def cell_values(self, cells: pd.Series) -> Values:
        self._unknown()

    def value_range(self, text: str) -> tuple[int, int]:
        self._unknown()

    def validate_cells(self, cells: pd.Series) -> dict[str, Mask]:
        self._unknown()

    def describe(self) -> Description:
        return Description(f"{self.in_words} open", "", "")


class OpenLevels(Open):
    """A column with levels, some or all of which are open."""

    categorical: ClassVar[bool] = True
    open_kind: ClassVar[bool] = False
    open_format: ClassVar[bool] = False

    @property
    def in_words(self) -> str:
        return "other levels" if self.declared_levels else "levels"

    @property
    def declared_levels(self) -> tuple[str, ...]:
        """The levels that are declared, as texts."""
        return tuple(map(level_text, self.given.get(LEVELS) or ()))


class OpenNumbers(Open):
    """A column of numbers with open bounds, and perhaps open limits of an assay, such as <0.5."""

    open_kind: ClassVar[bool] = False

    @property
    def open_levels(self) -> bool:  # type: ignore[override]
        return LIMITS in self.given

    def plain(self, texts: Texts) -> Texts:
        """Return texts as plain numbers, if a form is declared; others stay as they are."""
        if self.given.get("text") is None:
            return texts
        form = Continuous.model_validate({"text": self.given["text"], BOUNDS: (0, 1)})
        numbers = [form.form_of(str(text))[1] for text in texts]
        read = zip(texts, numbers, strict=True)
        return np.array([text if np.isnan(number) else f"{number:.15g}" for text, number in read], dtype=object)

    @property
    def in_words(self) -> str:
        return "bounds and limits" if self.open_levels else "bounds"


class OpenDates(Open):
    """A column of dates with open bounds, also days after another date, and an open format if `given` has none."""

    dated: ClassVar[bool] = True
    open_levels: ClassVar[bool] = False

    @property
    def open_kind(self) -> bool:  # type: ignore[override]
        return self.given.get(FORMAT) is None

    @property
    def open_format(self) -> bool:  # type: ignore[override]
        return is_open_range(self.given.get(BOUNDS))

    def plain(self, texts: Texts) -> Texts:
        """Return dates with months or years that only the declaration explains as ISO's."""
        form = {key: self.given[key] for key in ("months", "pivot") if key in self.given}
        if not form:
            return texts
        column = Date.model_validate({BOUNDS: (date.min, date.max), FORMAT: self.given[FORMAT], **form})
        found = zip(texts, column.cell_values(pd.Series(texts)), strict=True)
        plain = [text if np.isnan(day) else date.fromordinal(int(day)).isoformat() for text, day in found]
        return np.array(plain, dtype=object)

    @property
    def depends_on(self) -> tuple[str, ...]:
        return (self.given[AFTER],) if AFTER in self.given else ()

    def check_related(self, columns: Mapping[str, Column]) -> None:
        """Raise ValueError unless `after` names a date that follows none itself."""
        for name in self.depends_on:
            check_anchor(columns.get(name))

    @property
    def in_words(self) -> str:
        return " and ".join(["bounds"] * self.open_format + ["format"] * self.open_kind)


def is_open_range(bounds: object) -> bool:
    """Return whether one of two bounds, or both, are open."""
    return bounds is None or (isinstance(bounds, list) and None in bounds)


def entries(own: Class) -> dict[str, FieldInfo]:
    """Return the entries that a class of columns has in a schema, by name."""
    return {field.alias or name: field for name, field in own.model_fields.items() if name != "part"}


def open_column(declared: Mapping[str, Any], kinds: Mapping[str, Class]) -> Open | dict[str, Any]:
    """Return the open column that a mapping declares; if nothing is open, the mapping without its empty entries.

    `kinds`: the classes by kind. Raises ValueError for an entry that no column, or none of its kind, can have.
    """
    own = kinds.get(declared.get("kind") or "")
    given = {key: _plain(value) for key, value in declared.items() if value is not None or (own, key) == (Date, FORMAT)}
    learn = given.get("others") == "learn"
    if "others" in given and not learn:
        raise EntryError("others", "`others` can only be learn: then a fit learns levels other than the declared ones")
    numbers = own is not None and issubclass(own, WrittenNumber) and is_open_range(given.get(BOUNDS))
    if LIMITS in given and (given[LIMITS] != "learn" or not numbers):
        raise EntryError(
            "limits", "`limits` can only be learn, for numbers with open bounds. Or declare `below` and `above`"
        )
    if own is None:
        return _checked(Open, {key: value for key, value in given.items() if key != "kind"}, kinds.values())
    if "part" in given and (given.get(LEVELS) is None and is_open_range(given.get(BOUNDS))):
        raise EntryError("bounds", "a part of a cell with several values must have `bounds`, or `levels`")
    fields = entries(own)
    if LEVELS in fields and given.get("hierarchy") is None:
        levels = given.get(LEVELS)
        found = [level for level in levels if level is not None] if isinstance(levels, list) else levels
        if learn or not found or len(found) < len(levels or ()):
            rest = {key: value for key, value in given.items() if key not in (LEVELS, "others")}
            some = {LEVELS: found, "others": "learn"} if found else {}
            return _checked(OpenLevels, {**rest, **some}, [own])
    if own is Date and isinstance(given.get(FORMAT), list) and is_open_range(given.get(BOUNDS)):
        raise EntryError("bounds", "a list in `format` needs `bounds`")
    if BOUNDS in fields and (is_open_range(given.get(BOUNDS)) or (own is Date and given.get(FORMAT, "") is None)):
        bounds = given.get(BOUNDS)
        if given.get(AFTER) is not None and (bounds is not None or given.get("resolution", "day") != "day"):
            raise EntryError("bounds", "with `after`, declare two `bounds`, or none: then a fit learns the days")
        ends = bounds if isinstance(bounds, list) and len(bounds) == 2 else (None, None)
        if any(given.get(key) and end is None for key, end in zip(("below", "above"), ends, strict=True)):
            raise EntryError("bounds", "limits in `below` need the lower bound, and those in `above` the upper one")
        if isinstance(bounds, list) and len(bounds) != 2:
            raise EntryError("bounds", "`bounds` must be two, of which one or both may be TODO")
        if isinstance(bounds, list) and not any(end is not None for end in bounds):
            del given[BOUNDS]
        return _checked(OpenDates if own is Date else OpenNumbers, given, [own])
    return {key: value for key, value in given.items() if value is not None}


def _plain(value: Any) -> Any:
    """Return plain data: days as texts, and lists."""
    if isinstance(value, list | tuple):
        return [_plain(one) for one in value]
    return value.isoformat() if isinstance(value, date) else value


def _checked(form: type[Open], given: dict[str, Any], classes: Iterable[Class]) -> Open:
    """Return an open column whose entries have the types that one of these classes asks for. Raise ValueError."""
    own = [*classes]
    for key, value in given.items():
        if key in ("kind", "others", LIMITS) or value is None:
            continue
        if key == BOUNDS and isinstance(value, list):
            ends = [end for end in value if end is not None]
            value = [*ends, *ends][:2] if len(value) == 2 else value
        adapters = [_adapter(one, key) for one in own if key in entries(one)]
        if not adapters:
            known = dict.fromkeys(name for one in own for name in entries(one))
            raise EntryError(key, f"{key!r} is not a key of such a column.{did_you_mean(key, known)}")
        faults = [fault for adapter in adapters if (fault := _fault(adapter, value)) is not None]
        if len(faults) == len(adapters):
            raise EntryError(key, f"`{key}`: {faults[0]}")
    if form is OpenDates and given.get(FORMAT) is not None:
        kept = {key: given[key] for key in (FORMAT, "resolution") if key in given}
        Date.model_validate({BOUNDS: (date(2000, 1, 1), date(2001, 1, 1)), **kept})
    return form(given=given)


def _adapter(own: Class, key: str) -> TypeAdapter[Any]:
    if key == LEVELS:
        return TypeAdapter(tuple[Level, ...])  # some of them
    field = entries(own)[key]
    form: Any = field.annotation
    return TypeAdapter(Annotated[form, *field.metadata] if field.metadata else form)


def _fault(adapter: TypeAdapter[Any], value: object) -> str | None:
    try:
        adapter.validate_python(value)
    except ValidationError as error:
        return str(validators_faults(error)[0]["msg"])
    return None
