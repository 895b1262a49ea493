"""Safe YAML with 1.2's rules for plain words: `yes`, `no` and `on` stay words, `01` keeps its zero."""

from __future__ import annotations

import re
from typing import Any

import yaml

from ..errors import SchemaError


class _Loader(yaml.SafeLoader):
    """SafeLoader with YAML 1.2's plain words. Duplicate keys are errors, which PyYAML itself does not check."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}


_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), list("tf"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^(?:null|~|)$"), ["n", "~", ""])
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^-?(?:0|[1-9]\d*)$"), list("-0123456789"))
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^-?(?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?$|^-?\d+[eE][-+]?\d+$"),
    list("-.0123456789"),
)


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    keys = [loader.construct_object(key) for key, _ in node.value]
    for key in keys:
        if keys.count(key) > 1:
            raise yaml.constructor.ConstructorError(None, None, f"{key!r} is given twice", node.start_mark)
    return loader.construct_mapping(node, deep=True)


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


def parse_yaml(text: str, where: str) -> object:
    """The plain data in `text`. Raises SchemaError, with the line, where it is no YAML."""
    try:
        return yaml.load(text, Loader=_Loader)
    except (yaml.YAMLError, TypeError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "nested too deeply or keyed by a list"
        raise SchemaError(f"{where}{line}: not valid YAML: {problem}.") from None
