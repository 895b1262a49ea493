"""Safe YAML with 1.2's rules for plain words: `yes`, `no` and `on` stay words, `01` keeps its zero."""

from __future__ import annotations

import re
from typing import Any

import yaml

from ..errors import SchemaError

MAX_VALUES = 1_000_000  # of a text, aliases followed
MAX_DEPTH = 100  # of brackets within brackets
UNFINISHED = re.compile(r"\bTODO\b")


class _Loader(yaml.SafeLoader):
    """SafeLoader with YAML 1.2's plain words. Duplicate keys are errors, which PyYAML itself does not check.

    So is a text nested more than MAX_DEPTH deep: the scanner takes time by the square of the depth.
    """

    def fetch_flow_collection_start(self, token: Any) -> None:
        """Take an opening bracket, if they are not too many."""
        if self.flow_level >= MAX_DEPTH:
            raise yaml.scanner.ScannerError(None, None, "nested too deeply", self.get_mark())
        super().fetch_flow_collection_start(token)

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
    seen = set()
    for key in [loader.construct_object(key) for key, _ in node.value]:
        if key in seen:
            raise yaml.constructor.ConstructorError(None, None, f"{key!r} is given twice", node.start_mark)
        seen.add(key)
    return loader.construct_mapping(node, deep=True)


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


def parse_yaml(text: str, where: str) -> object:
    """The plain data in `text`. Raises SchemaError, with the line, where it is no YAML.

    Aliases are counted before they are followed: nested ones stand for more values than any memory holds.
    """
    try:
        loader = _Loader(text)
        node = loader.get_single_node()
        if node is None:
            return None
        if _values_in(node, {}) > MAX_VALUES:
            raise yaml.constructor.ConstructorError(None, None, f"more than {MAX_VALUES} values", node.start_mark)
        return loader.construct_document(node)
    except (yaml.YAMLError, ArithmeticError, LookupError, TypeError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "nested too deeply, keyed by a list, or a value that is none"
        raise SchemaError(f"{where}{line}: not valid YAML: {problem}.") from None


def _values_in(node: yaml.Node, known: dict[int, int]) -> int:
    """How many values a node stands for once its aliases are followed. Raises ConstructorError for an endless one."""
    if id(node) in known:
        if not known[id(node)]:
            raise yaml.constructor.ConstructorError(None, None, "a value that contains itself", node.start_mark)
        return known[id(node)]
    known[id(node)], inner = 0, []
    if isinstance(node, yaml.SequenceNode):
        inner = node.value
    elif isinstance(node, yaml.MappingNode):
        inner = [part for pair in node.value for part in pair]
    known[id(node)] = 1 + sum(_values_in(part, known) for part in inner)
    return known[id(node)]


def unfinished_lines(text: str) -> list[int]:
    """The lines in which a value is still TODO; what a comment says does not count."""
    if not UNFINISHED.search(text):
        return []  # a second pass over the text takes as long as the first
    try:
        tokens = [token for token in yaml.scan(text, Loader=_Loader) if isinstance(token, yaml.ScalarToken)]
    except yaml.YAMLError:
        return []  # parse_yaml names the place
    return list(dict.fromkeys(t.start_mark.line + 1 for t in tokens if t.plain and UNFINISHED.search(t.value)))
