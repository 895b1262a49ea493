"""The slice of each column in the encoded row: every slice is computed here, once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from ...schema import Schema


@dataclass(frozen=True, kw_only=True)
class Span:
    """One column's slice of the encoded row. `flag` is the index of its missing flag, or None.

    kind: "number" (one normal score), "binary" (one indicator of the second level), "levels" (one-hot).
    """

    name: str
    index: int  # of the column in the code matrix
    kind: Literal["number", "binary", "levels"]
    start: int
    stop: int
    flag: int | None


@dataclass(frozen=True, kw_only=True)
class Layout:
    """The spans of all columns but the target, and the encoded row's width."""

    spans: tuple[Span, ...]
    width: int

    @classmethod
    def of(cls, schema: Schema) -> Layout:
        """The layout that a schema implies.

        >>> from medsynth.schema import Schema
        >>> schema = Schema.from_dict({"name": "t", "target": "y", "columns": {
        ...     "age": {"kind": "count", "bounds": [0, 120], "missing": True},
        ...     "y": {"kind": "binary", "levels": [0, 1]}}})
        >>> Layout.of(schema).width
        2
        """
        spans, at = [], 0
        for index, (name, column) in enumerate(schema.columns.items()):
            if name == schema.target:
                continue
            if not column.categorical:
                kind, wide = "number", 1
            elif column.size == 2:
                kind, wide = "binary", 1
            else:
                kind, wide = "levels", column.size
            flag = at + wide if column.missing else None
            spans.append(Span(name=name, index=index, kind=kind, start=at, stop=at + wide, flag=flag))  # type: ignore[arg-type]
            at += wide + bool(column.missing)
        return cls(spans=tuple(spans), width=at)
