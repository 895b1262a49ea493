"""The kinds of public values that queries are made of, by name: dataclasses of plain fields, and functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

Named = TypeVar("Named", bound=Callable[..., Any])
KINDS: dict[str, Any] = {}
LOCAL = {"local": True}  # metadata of a field that says how a value is computed here, and is not written


def kind(name: str) -> Callable[[Named], Named]:
    """Register a frozen dataclass, or a function that needs nothing else, under a name by which it is written.

    Whoever reads the name in a query that somebody else wrote gets this class or function and nothing else.
    """

    def registered(named: Named) -> Named:
        params = getattr(named, "__dataclass_params__", None)
        assert name not in KINDS and (not isinstance(named, type) or (params is not None and params.frozen))
        KINDS[name] = named
        return named

    return registered


def name_of(value: Any) -> str | None:
    """The name of a function, or of the class of a value, or None where it has none."""
    return next((name for name, known in KINDS.items() if known is value or known is type(value)), None)


def written_fields(known: type) -> list[str]:
    """The names of the fields of a registered class that are written."""
    return [field.name for field in dataclasses.fields(known) if not field.metadata.get("local")]
