"""Cells that several columns share: two numbers, several answers, or a number or a date in one of several forms.

A schema declares such a cell as one column of the table. It becomes columns of its parts, which a model learns one by
one, and whose cells are joined again in sampled rows. A part is read from its own cell alone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, TypeVar

import numpy as np
import pandas as pd
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StrictInt, StrictStr, TypeAdapter

from ...arrays import Codes, Mask
from ...errors import DeclarationError
from ...io.table import MISSING_TOKENS
from .column import CellPart, Column, Label, Level, Related, SharedCell, code_texts
from .date import Date
from .number import Continuous
from .number_text import spaced
from .registry import SHARED, AnyColumn

FLAGS = {"text": "flag", "format": "format"}  # names of the column of a cell's form, by the key that lists the forms
PLAIN = "plain"  # its level for a number alone
YES, NO = "yes", "no"  # the levels of an answer
NO_FORM = "\N{REPLACEMENT CHARACTER}"  # read in place of a cell that does not have the form: no column has such a value
Value = TypeVar("Value")


class _Whole(BaseModel):
    """The declaration of a shared cell, which its parts have in common."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    label: Label | None = None
    missing: bool | tuple[StrictInt | StrictStr, ...] = False
    unknown: StrictStr | None = None
    seen: bool = False

    @property
    def of_all(self) -> dict[str, object]:
        """The keys that say which cells are missing, and whether it was declared after a look."""
        return {key: value for key in ("missing", "unknown", "seen") if (value := getattr(self, key))}


class Parts(_Whole):
    """Two or more values in a cell: `text` is a template such as {}/{}, with braces for each of the `parts`.

    Parts are named, or numbered from 1 on. All are missing together.
    """

    text: StrictStr
    parts: Annotated[list[dict[str, Any]] | dict[str, dict[str, Any]], Field(min_length=2, max_length=9)]
    together: ClassVar[bool] = True

    def columns(self, name: str) -> dict[str, object]:
        """Return the declarations of the parts, by name."""
        if self.text.count("{}") != len(self.parts) or set("{}") & set(self.text.replace("{}", "")):
            raise DeclarationError(
                f"column {name!r}: `text` must contain {{}} once for each part, such as '{{}}/{{}}'", name, "text"
            )
        named = self.parts.items() if isinstance(self.parts, dict) else enumerate(self.parts, 1)
        # From here on, the columns declare the rest.
        whole = self.model_copy(update={"parts": type(self.parts)(), "missing": False, "unknown": None, "seen": False})
        return {
            f"{name}.{key}": self.of_all | own | {"part": CellPart(name, k, whole)}
            for k, (key, own) in enumerate(named)
        }

    def split(self, text: str, index: int) -> str | None:
        """Return one of the values in a cell's text, None if it does not have the form."""
        found = _values(self.text).fullmatch(text)
        return None if found is None else found.group(index + 1).strip()

    def join(self, columns: Sequence[Column], codes: Sequence[Codes], related: Sequence[Related]) -> list[str]:
        """Return the cells of rows whose parts have these codes; those of the first part if it is missing."""
        texts = [column.csv_cells(own, other) for column, own, other in zip(columns, codes, related, strict=True)]
        gone, pieces = columns[0].gap_words, self.text.split("{}")
        return [
            row[0] if row[0] in gone else "".join(map("".join, zip(pieces, (*row, ""), strict=True)))
            for row in zip(*texts, strict=True)
        ]

    def declared(self, columns: Mapping[str, Column]) -> dict[str, object]:
        """Return the declaration of the whole."""
        own = {name.rpartition(".")[2]: column.to_dict() for name, column in columns.items()}
        parts = own if isinstance(self.parts, dict) else [*own.values()]
        found: dict[str, object] = {"kind": "parts", "text": self.text, "parts": parts}
        return found | ({"label": self.label} if self.label else {})


class Answers(_Whole):
    """Several answers in a cell: `levels`, with the text `between` two. `none` is the cell without an answer."""

    levels: Annotated[tuple[Level, ...], Field(min_length=1, max_length=200)]
    between: Annotated[StrictStr, Field(min_length=1)] = ";"
    none: StrictStr = ""
    value_labels: Annotated[dict[str, Label], BeforeValidator(code_texts)] = {}
    together: ClassVar[bool] = False

    @property
    def words(self) -> tuple[str, ...]:
        """The levels as texts."""
        return tuple(map(str, self.levels))

    def columns(self, name: str) -> dict[str, object]:
        """Return the declarations of the answers, by name. The first one knows which cells are missing."""
        words = self.words
        if len({*words, self.none}) <= len(words) or any(self.between.strip() in word for word in words):
            raise DeclarationError(
                f"column {name!r}: `levels` and `none` must differ, and not contain `between`", name, "levels"
            )
        if lost := [word for word in self.value_labels if word not in words]:
            raise DeclarationError(
                f"column {name!r}: `value_labels`: {lost[0]!r} is not one of the `levels`", name, "value_labels"
            )
        made = dict[str, object]()
        for k, word in enumerate(words):
            own = ({} if k else self.of_all) | {"label": self.value_labels.get(word)}
            made[f"{name}.{word}"] = {"kind": "binary", "levels": [NO, YES], "part": CellPart(name, k, self), **own}
        return made

    def split(self, text: str, index: int) -> str | None:
        """Return whether a cell contains an answer; None, for the first one, if something in it is not an answer."""
        words = self.words
        sign = self.between.strip() or " "
        if sign == "," and "." not in "".join(words):
            text = text.replace(".", ",")  # a file with semicolons is read with 1.3 for 1,3
        found = [word.strip() for word in text.split(sign)] if text not in (self.none, "") else []
        if (text == "" != self.none) or not {*found} <= {*words}:
            return NO if index else None
        return YES if words[index] in found else NO

    def join(self, columns: Sequence[Column], codes: Sequence[Codes], related: Sequence[Related]) -> list[str]:
        """Return the cells of rows, with the answers in the declared order."""
        first = columns[0].csv_cells(codes[0], related[0])
        gone = codes[0] >= columns[0].size
        rows = zip(*((own == 1).tolist() for own in codes), strict=True)
        chosen = ([word for word, yes in zip(self.words, row, strict=True) if yes] for row in rows)
        return [
            text if out else self.between.join(words) or self.none
            for text, out, words in zip(first, gone, chosen, strict=True)
        ]

    def declared(self, columns: Mapping[str, Column]) -> dict[str, object]:
        """Return the declaration of the whole."""
        return {"kind": "answers", **self.model_dump(mode="json", exclude_defaults=True)}


@dataclass(frozen=True)
class Flagged:
    """The form that the cell of a number or a date has, of those that its column declares. `reader`: of cells."""

    reader: Continuous | Date
    label: None = None  # the column has it
    together: ClassVar[bool] = False

    @property
    def levels(self) -> tuple[str, ...]:
        """The names of the forms: formats of dates, and what is left of each example without its number."""
        return tuple(" ".join(re.sub(r"\{[^{}]*\}", " ", one).split()) or PLAIN for one in self.reader.examples)

    def split(self, text: str, index: int) -> str | None:
        """Return the name of the first form that a cell has, or of the first one if it has none."""
        return self.levels[self.reader.form_of(text)[0]]

    def join(self, columns: Sequence[Column], codes: Sequence[Codes], related: Sequence[Related]) -> list[str]:
        """Return the cells of values, each in its form."""
        forms = (columns[0].model_copy(update={"written_as": one}) for one in self.reader.examples)
        made = [form.csv_cells(codes[0], related[0]).to_list() for form in forms]
        return [made[form][row] for row, form in enumerate(codes[1].tolist())]

    def declared(self, columns: Mapping[str, Column]) -> dict[str, object]:
        """Return the declaration of the value, which includes the forms."""
        return next(iter(columns.values())).to_dict()


@cache
def _values(template: str) -> re.Pattern[str]:
    first, *rest = template.split("{}")
    between = (r"\s+" if text.isspace() else spaced(text) for text in rest)
    return re.compile(spaced(first) + "".join(f"(.+?){pattern}" for pattern in between))


KINDS: dict[str, TypeAdapter[Any]] = dict(
    zip(SHARED, (TypeAdapter(dict[str, Parts]), TypeAdapter(dict[str, Answers])), strict=True)
)


def expanded(columns: object) -> object:
    """Return columns by name with those of parts in place of shared cells. Other values stay as they are."""
    if not isinstance(columns, Mapping):
        return columns
    found = dict[object, object]()
    for name, declared in columns.items():
        kind = declared.get("kind") if isinstance(declared, Mapping) else None
        if isinstance(kind, str) and kind in KINDS:
            rest = {key: value for key, value in declared.items() if key != "kind"}
            made = KINDS[kind].validate_python({name: rest})[name].columns(str(name))
        else:
            made = {name: declared} | _with_flag(str(name), declared, columns)
        if twice := [one for one in made if one in found or (one != name and one in columns)]:
            raise DeclarationError(
                f"column {twice[0]!r} is a part of {name!r}. Rename the other column of this name", str(name), "kind"
            )
        found |= made
    return found


def _with_flag(name: str, declared: object, columns: Mapping[object, object]) -> dict[str, object]:
    """Return the column of a number's flag, if its `text` is a list and nothing has added that column."""
    content: Any = declared.to_dict() if isinstance(declared, Column) else declared
    key = "format" if isinstance(content, Mapping) and content.get("kind") == "date" else "text"
    given = content.get(key) if isinstance(content, Mapping) else None
    flag = f"{name}.{FLAGS[key]}"
    known = columns.get(flag)
    if not isinstance(given, list) or (isinstance(known, Column) and known.part):
        return {}
    if len({*map(str, given)}) < max(2, len(given)) or not all(isinstance(one, str) for one in given):
        raise DeclarationError(
            f"column {name!r}: a list in `{key}` must contain two or more different examples", name, key
        )
    own = {"months": content.get("months", "en"), "pivot": content.get("pivot")} if key == "format" else {}
    reader = (Date if key == "format" else Continuous).model_construct(written_as=tuple(given), **own)
    whole = Flagged(reader)
    return {flag: {"kind": "categorical", "levels": [*whole.levels], "part": CellPart(name, 1, whole)}}


Columns = Annotated[dict[str, AnyColumn], BeforeValidator(expanded)]


def file_columns(columns: Mapping[str, Value]) -> dict[str, dict[str, Value]]:
    """Return columns, or parts, by the name of the table's column that contains them, in the table's order."""
    found = dict[str, dict[str, Value]]()
    for name, column in columns.items():
        part = getattr(column, "part", None)
        found.setdefault(part.of if part else name, {})[name] = column
    return found


def missing_alone(codes: Codes, columns: Mapping[str, Column]) -> Mask:
    """Return in which rows, (rows, columns), a part is missing and the others are not: sampled rows have none."""
    found = np.zeros(len(codes), np.bool_)
    place = {name: k for k, name in enumerate(columns)}
    for own in file_columns(columns).values():
        if any(column.part and column.part.whole.together and column.gaps for column in own.values()):
            kinds = [np.maximum(codes[:, place[name]] - column.size, -1) for name, column in own.items()]
            found |= np.any([kind != kinds[0] for kind in kinds], axis=0)
    return found


def to_dict(columns: Mapping[str, Column]) -> dict[str, dict[str, object]]:
    """Return plain data that declares columns and shared cells."""
    found = dict[str, dict[str, object]]()
    for name, own in file_columns(columns).items():
        whole = whole_of(own)
        found[name] = whole.declared(own) if whole else own[name].to_dict()
    return found


def cells_of(cells: pd.DataFrame, name: str, column: Column) -> pd.Series:
    """Return the cells that a column reads: its part of each cell that it shares."""
    part = column.part
    if part is None or name in cells:
        return cells[name]
    place, texts = pd.factorize(cells[part.of], use_na_sentinel=False)
    gaps, undeclared = column.missing_in(np.asarray(texts, dtype=object))
    split = []
    for text, gap, token in zip(map(str, texts), gaps, undeclared, strict=True):
        found = text if gap >= 0 else part.whole.split(text, part.index)
        split.append(found if found is not None else text if token else NO_FORM)
    return pd.Series(np.array(split, dtype=object)[place], index=cells.index, dtype=object)


def apart(cells: pd.DataFrame, columns: Mapping[str, Column]) -> pd.DataFrame:
    """Return a table of texts with columns of parts in place of shared cells."""
    shared = {name: own for name, own in file_columns(columns).items() if whole_of(own)}
    if not {*shared} & {*cells}:
        return cells
    made = dict[str, pd.Series]()
    for name in map(str, cells):
        own = shared.get(name)
        made |= {one: cells_of(cells, one, column) for one, column in own.items()} if own else {name: cells[name]}
    return pd.DataFrame(made)


def whole_of(columns: Mapping[str, Column]) -> SharedCell | None:
    """Return what columns of one shared cell have in common; None for the column of a plain cell."""
    return next((column.part.whole for column in columns.values() if column.part), None)


def shown(cells: Sequence[str], first: Column) -> pd.Series:
    """Return joined cells as values of a frame: missing values that readers treat as empty are None."""
    gone = MISSING_TOKENS.intersection(first.gap_words)
    return pd.Series([None if text in gone else text for text in cells], dtype=object)
