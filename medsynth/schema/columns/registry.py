"""The kinds of column by name. Each kind is a class, and a line here."""

from __future__ import annotations

from typing import Annotated, get_args

from pydantic import BeforeValidator, SerializeAsAny
from pydantic_core import PydanticCustomError

from .categorical import Binary, Categorical
from .column import Column
from .date import Date
from .identifier import Identifier
from .number import Continuous, Count
from .open import open_column

KINDS: dict[str, type[Column]] = {}
SHARED = ("parts", "answers")  # kinds of cells that several columns share (parts.py)


def register(kind: type[Column]) -> type[Column]:
    """Register a kind under the names that its `kind` allows. Usable as a decorator of its class."""
    for name in get_args(kind.model_fields["kind"].annotation):
        KINDS[name] = kind
    return kind


for _kind in (Binary, Categorical, Continuous, Count, Date, Identifier):
    register(_kind)


def parse_column(declared: object) -> object:
    """Return the column that a mapping declares, open where an entry that its kind needs is left out or null.

    A column is returned unchanged. Raises pydantic's errors, with their places, for another value.
    """
    if isinstance(declared, Column):
        return declared
    kinds = ", ".join((*KINDS, *SHARED))
    declared = {} if declared is None else declared
    if not isinstance(declared, dict):
        raise PydanticCustomError("column", f"a column must be a mapping with a kind, one of: {kinds}")
    kind = declared.get("kind")
    if kind is not None and (not isinstance(kind, str) or kind not in (*KINDS, "open")):
        raise PydanticCustomError(
            "column", "there is no kind {kind}; the kinds are: {kinds}", {"kind": repr(kind), "kinds": kinds}
        )
    found = open_column(declared, KINDS)
    return found if isinstance(found, Column) else KINDS[str(kind)].model_validate(found)


AnyColumn = Annotated[SerializeAsAny[Column], BeforeValidator(parse_column)]
