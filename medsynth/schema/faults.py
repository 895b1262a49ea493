"""What is wrong with a declared schema, all of it at once and in words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from ..errors import did_you_mean, validators_words
from .columns.registry import KINDS

MOST_FAULTS = 20  # in one message


def faults_text(error: ValidationError, content: object, where: str, schema: type[BaseModel]) -> str:
    """The message for a schema that pydantic refuses: each fault with its place, keys with the nearest known ones."""
    found = [_fault(dict(one), content, schema) for one in error.errors(include_input=False, include_url=False)]
    more = f"\n  and {len(found) - MOST_FAULTS} more" if len(found) > MOST_FAULTS else ""
    advice = "Copy from a bundled schema, such as that of thyroid."
    if len(found) == 1:
        return f"{where}: {found[0]}{'' if found[0][-1] in '.?' else '.'} {advice}"
    return "\n  ".join([f"{where}: {len(found)} faults.", *found[:MOST_FAULTS]]) + f"{more}\n{advice}"


def _fault(one: dict[str, Any], content: object, schema: type[BaseModel]) -> str:
    parts = [str(part) for part in one["loc"]]
    place = ".".join(parts) or "top level"
    if one["type"] == "extra_forbidden":
        known = schema.model_fields
        if len(parts) > 1 and isinstance(content, Mapping):
            columns = content.get("columns")
            declared = columns.get(one["loc"][1]) if isinstance(columns, Mapping) else None
            kind = declared.get("kind") if isinstance(declared, Mapping) else None
            known = KINDS[kind].model_fields if isinstance(kind, str) and kind in KINDS else {}
        return f"at {place}: there is no such key.{did_you_mean(parts[-1], known)}"
    if one["type"] == "column" and "ctx" in one and "kind" in one["ctx"]:
        return f"at {place}: {one['msg']}{_nearest(one['ctx']['kind'].strip(chr(39)))}"
    return f"at {place}: {validators_words(one['msg'])}"


def _nearest(kind: str) -> str:
    near = did_you_mean(kind, KINDS)
    return f".{near}" if "Did you mean" in near else ""
