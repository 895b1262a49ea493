"""YAML files that a person declares: read safely, with one message for all faults.

YAML has 1.2's rules for plain words: `yes`, `no` and `on` stay words, `01` keeps its zero. A word with TODO that is not
in quotes is null: what it stands for is open.
"""

from __future__ import annotations

import re
import stat
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar, Self

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from ..errors import NEEDS_SCHEMA, Problem, SchemaError, did_you_mean, nearest, validators_faults
from .columns.open import entries
from .columns.registry import KINDS

ENDING = ".tables.yaml"  # of a file that declares several tables
MAX_BYTES = 1 << 24  # of a file
MOST_FAULTS = 20  # per message
MAX_VALUES = 1_000_000  # of a text, with aliases followed
MAX_DEPTH = 100  # of nested brackets
UNFINISHED = re.compile(r"\bTODO\b")


def bundled_files(folder: str = "") -> dict[str, Path]:
    """Return the files of a folder that come with medsynth, by name without ending: of all schemas if not given."""
    place = Path(str(resources.files("medsynth_schemas"))) / folder
    return {path.name.partition(".")[0]: path for path in sorted(place.glob("*.yaml"))}


class Declaration(BaseModel):
    """A model that a mapping, a YAML text or a file declares; `called` is its name in messages."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    called: ClassVar[str]

    @classmethod
    def from_dict(cls, content: object, where: str | None = None) -> Self:
        """Return what a mapping declares. `where` is its name in messages. Raise SchemaError for none."""
        where = where or cls.called
        try:
            return cls.model_validate(content)
        except ValidationError as error:
            faults = validators_faults(error)
            found = [_fault(one, content, cls) for one in faults]
            raise SchemaError(_faults_text(found, [one["loc"] for one in faults], where), *found) from None
        except (ArithmeticError, RecursionError):
            raise SchemaError(f"{where}: a number is too large, or values are nested too deeply. Correct it.") from None

    @classmethod
    def from_yaml(cls, text: str, where: str | None = None) -> Self:
        """Return what a YAML text declares; `where` is its name in messages.

        Raises SchemaError for text that is not YAML, and for unknown keys or kinds.
        """
        where = where or cls.called
        return cls.from_dict(parse_yaml(text, where), where)

    @classmethod
    def load(cls, path: Path | str) -> Self:
        """Return what the YAML file `path` declares. Raise SchemaError, as `from_yaml`, also for an unreadable file."""
        path = Path(path)
        try:
            found = path.stat()
            if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_BYTES:
                raise SchemaError(f"The {cls.called} {path} must be a file of at most {MAX_BYTES} bytes.")
            text = path.read_text(encoding="utf-8-sig")
        except FileNotFoundError:
            needs = [NEEDS_SCHEMA] if cls.called == "schema" else []
            raise SchemaError(f"There is no {cls.called} {path}. Draft a {cls.called} first.", *needs) from None
        except (OSError, ValueError):
            raise SchemaError(f"The {cls.called} {path} cannot be read as UTF-8 text. Save it as UTF-8.") from None
        return cls.from_yaml(text, str(path))


def _faults_text(found: Sequence[Problem], places: Iterable[Sequence[int | str]], where: str) -> str:
    """Return the message for a declaration that pydantic refuses: each fault with its place."""
    more = f"\n  and {len(found) - MOST_FAULTS} more" if len(found) > MOST_FAULTS else ""
    advice = "For an example see a bundled schema, such as thyroid."
    named = [".".join(map(str, place)) or "top level" for place in places]
    lines = [f"at {place}: {one.text}{one.cure}" for place, one in zip(named, found[:MOST_FAULTS], strict=False)]
    if len(found) == 1:
        return f"{where}: {lines[0]}{'' if lines[0][-1] in '.?' else '.'} {advice}"
    return "\n  ".join([f"{where}: {len(found)} faults.", *lines]) + f"{more}\n{advice}"


def _fault(one: dict[str, Any], content: object, schema: type[BaseModel]) -> Problem:
    """Return a fault that pydantic found, and the nearest known key or kind for an unknown one."""
    first, column, entry = (*(str(part) for part in one["loc"][:3]), "", "", "")[:3]
    context = one.get("ctx", {})
    if first != "columns":
        column, entry = "", first
    column, entry = (own or getattr(context.get("error"), name, "")
                     for name, own in (("column", column), ("entry", entry)))  # fmt: skip
    text, cure = one["msg"], ""
    if one["type"] == "extra_forbidden":
        known = schema.model_fields
        if len(one["loc"]) > 1 and isinstance(content, Mapping):
            columns = content.get("columns")
            declared = columns.get(one["loc"][1]) if isinstance(columns, Mapping) else None
            kind = declared.get("kind") if isinstance(declared, Mapping) else None
            known = entries(KINDS[kind]) if isinstance(kind, str) and kind in KINDS else {}
        text = "there is no such key."
        cure = did_you_mean(str(one["loc"][-1]), known)
    if one["type"] == "column":
        near, entry = nearest(context.get("kind", "").strip("'"), KINDS), "kind"
        cure = f". Did you mean {near!r}?" if near else ""
    return Problem(kind=one["type"], column=column, entry=entry, text=text, cure=cure)


class _Loader(yaml.SafeLoader):
    """SafeLoader with YAML 1.2's plain words. It refuses duplicate keys, which PyYAML accepts.

    It also refuses a text nested deeper than MAX_DEPTH: the scanner's time grows with the square of the depth.
    """

    def fetch_flow_collection_start(self, token: Any) -> None:
        """Scan an opening bracket, unless there are too many."""
        if self.flow_level >= MAX_DEPTH:
            raise yaml.scanner.ScannerError(None, None, "nested too deeply", self.get_mark())
        super().fetch_flow_collection_start(token)

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}


_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile(r"^(?:true|false)$"), list("tf"))
_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(r"^(?:null|~|)$"), ["n", "~", ""])
_Loader.add_implicit_resolver("tag:yaml.org,2002:null", re.compile(rf"(?s:.*){UNFINISHED.pattern}"), None)
_Loader.add_implicit_resolver("tag:yaml.org,2002:int", re.compile(r"^-?(?:0|[1-9]\d*)$"), list("-0123456789"))
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:float",
    re.compile(r"^-?(?:\d+\.\d*|\.\d+)(?:[eE][-+]?\d+)?$|^-?\d+[eE][-+]?\d+$"),
    list("-.0123456789"),
)


class _Dumper(yaml.SafeDumper):
    """SafeDumper that puts a text in quotes if _Loader would not read it as itself."""

    def represent_str(self, text: str) -> yaml.ScalarNode:
        """Return a node in which signs such as line separators, which PyYAML folds, are escaped."""
        return self.represent_scalar("tag:yaml.org,2002:str", text, None if text.isprintable() else '"')


for _sign, _resolvers in _Loader.yaml_implicit_resolvers.items():
    for _tag, _words in _resolvers:
        _Dumper.add_implicit_resolver(_tag, _words, [_sign])
_Dumper.add_representer(str, _Dumper.represent_str)


def _mapping(loader: _Loader, node: yaml.MappingNode) -> dict[Any, Any]:
    seen = set()
    for key in [loader.construct_object(key) for key, _ in node.value]:
        if key in seen:
            raise yaml.constructor.ConstructorError(None, None, f"{key!r} is given twice", node.start_mark)
        seen.add(key)
    return loader.construct_mapping(node, deep=True)


_Loader.add_constructor("tag:yaml.org,2002:map", _mapping)


# The same for files of the package, several times as fast if PyYAML has its C library.
_BundledLoader: Any = type(
    "_BundledLoader",
    (getattr(yaml, "CSafeLoader", yaml.SafeLoader),),
    {"yaml_implicit_resolvers": _Loader.yaml_implicit_resolvers},
)
_BundledLoader.add_constructor("tag:yaml.org,2002:map", _mapping)


def parse_yaml(text: str, where: str) -> object:
    """Return the plain data in `text`. Raise SchemaError with the line if it is not YAML.

    Aliases are counted before they are followed: nested ones can mean more values than any memory can store.
    """
    return _parsed(text, where, _Loader)


def bundled_yaml(text: str, where: str) -> object:
    """Return the plain data in the `text` of a file of the package, as `parse_yaml` does."""
    return _parsed(text, where, _BundledLoader)


def _parsed(text: str, where: str, of: Any) -> object:
    try:
        loader = of(text)
        node = loader.get_single_node()
        if node is None:
            return None
        if _values_in(node, {}) > MAX_VALUES:
            raise yaml.constructor.ConstructorError(None, None, f"more than {MAX_VALUES} values", node.start_mark)
        return loader.construct_document(node)
    except (yaml.YAMLError, ArithmeticError, LookupError, TypeError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        line = f", line {mark.line + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "nested too deeply, keyed by a list, or not a value"
        raise SchemaError(
            f"{where}{line}: not valid YAML: {problem}. Put words that begin with a sign in quotes."
        ) from None


def _values_in(node: yaml.Node, known: dict[int, int]) -> int:
    """Return the number of values of a node with its aliases followed. Raise ConstructorError if that has no end."""
    if id(node) in known:
        if not known[id(node)]:
            raise yaml.constructor.ConstructorError(None, None, "a value that contains itself", node.start_mark)
        return known[id(node)]
    known[id(node)] = 0
    inner = []
    if isinstance(node, yaml.SequenceNode):
        inner = node.value
    elif isinstance(node, yaml.MappingNode):
        inner = [part for pair in node.value for part in pair]
    known[id(node)] = 1 + sum(_values_in(part, known) for part in inner)
    return known[id(node)]


def yaml_text(content: object, *, flow: bool = False) -> str:
    """Return plain data as YAML that `parse_yaml` reads back; with `flow`, in brackets on one line."""
    text: str = yaml.dump(content, Dumper=_Dumper, default_flow_style=flow, sort_keys=False, allow_unicode=True,
                          width=MAX_BYTES)  # fmt: skip
    return text.strip() if flow else text


def yaml_key(name: str) -> str:
    """Return a name as a YAML key on one line."""
    return yaml_text([name], flow=True)[1:-1]
