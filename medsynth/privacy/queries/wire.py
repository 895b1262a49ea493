"""Queries as bytes and back, for those who answer them elsewhere: safetensors and JSON, no pickle.

What is read may come from somebody who is not trusted. It is made of registered kinds alone, its fields have the types
that these declare, its numbers are finite, and each value checks its content as it does here (docs/decisions/0059).
Then it is tried on public rows, so that shapes which do not fit one another are refused. The plan states its cost.
"""

from __future__ import annotations

import json
import math
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Union, get_args, get_origin, get_type_hints

import numpy as np
import torch
from safetensors.numpy import load, save
from torch import Tensor

from ...errors import QueryError
from ...schema import Schema
from ...schema.definitions import Definition
from ..contribution import PrivacyUnits
from ..networks import ACTIVATIONS, Mlp
from ..pair_clipping import Groups, LocalTraining
from . import cells as cells
from .gradients import GradientSum, NormsBelow, PairGradientSum
from .kinds import KINDS, kind, name_of, written_fields
from .measurements import QUERIES
from .query import RowQuery
from .rows import CodedRows, Codes, Features, column_of
from .tables import Distances, Marginals

FORMAT = 1
TRIED_CODES = 1 << 16  # of a column: all of them where there are no more, else so many with both ends
TRIED_GRADIENTS = 256  # rows at which gradients are tried
ARRAYS = (np.dtype(np.int64), np.dtype(np.int32), np.dtype(np.float64), np.dtype(np.float32), np.dtype(np.bool_))

for _query in QUERIES:
    kind(_query.__name__)(_query)
kind("groups")(Groups)
kind("local training")(LocalTraining)


@dataclass(frozen=True)
class Columns:
    """What is public of the coded columns: how many codes each has, in order, and the columns computed from these."""

    sizes: Mapping[str, int]
    definitions: Mapping[str, Definition] = field(default_factory=dict)

    @classmethod
    def of(cls, schema: Schema) -> Columns:
        """Those of a schema without computed columns and identifiers, as a vault's rows are coded."""
        sizes = {name: column.size + column.gaps for name, column in schema.columns.items()}
        return cls(sizes, schema.definitions)


def write(query: RowQuery[Any] | Features, columns: Columns) -> bytes:
    """A query of rows of these columns, or a map from their codes to features, as bytes.

    Raises QueryError for a query with a map or a loss that is of no registered kind, or a number that is not finite.
    """
    arrays = dict[str, np.ndarray[Any, Any]]()
    content = json.dumps({"format": FORMAT, "query": _plain(query, columns, arrays)}, allow_nan=False)
    return save(arrays, {"content": content})


def _plain(value: Any, columns: Columns, arrays: dict[str, np.ndarray[Any, Any]]) -> Any:
    """A value as JSON; arrays are put into `arrays` and named."""
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return _finite(value)
    if isinstance(value, np.ndarray | Tensor):
        array = value.detach().cpu().numpy() if isinstance(value, Tensor) else value
        arrays[str(len(arrays))] = np.array(_finite(array), order="C")
        return {"tensor" if isinstance(value, Tensor) else "array": str(len(arrays) - 1)}
    if isinstance(value, Mapping):
        return {"map": [[key, _plain(each, columns, arrays)] for key, each in value.items()]}
    if isinstance(value, list | tuple):
        return {"list": [_plain(each, columns, arrays) for each in value]}
    if isinstance(value, Mlp):
        return {"network": value.activation, "weights": [_plain(p, columns, arrays) for p in value.parameters()]}
    if isinstance(value, Definition):
        return {"definition": next(name for name, other in columns.definitions.items() if other == value)}
    known = name_of(value)
    if known is None and hasattr(value, "plain"):
        return _plain(value.plain(), columns, arrays)
    if known is None:
        raise QueryError("The query reads rows by a map or a loss that is not registered, so that none can write it.")
    if not isinstance(KINDS[known], type):
        return {"function": known}
    fields = {name: _plain(getattr(value, name), columns, arrays) for name in written_fields(KINDS[known])}
    return {"kind": known, "fields": fields}


def _finite(value: Any) -> Any:
    if isinstance(value, np.ndarray) and value.dtype not in ARRAYS:
        raise QueryError("The query holds an array of a type that is not written.")
    if not np.isfinite(value).all():
        raise QueryError("The query holds a number that is not finite.")
    return value


def read(content: bytes, columns: Columns) -> RowQuery[Any]:
    """The query that was written, of rows of these columns, tried on public rows that hold the codes of each.

    Raises QueryError for bytes that are no query of this version, or one that such rows cannot answer.
    """
    with _doubted():
        query = _decoded(content, columns)
        if not isinstance(query, QUERIES):
            raise QueryError("These bytes hold no query.")
        _try(query, columns)
        return query


def read_features(content: bytes, columns: Columns) -> Features:
    """The map from codes to features that was written, tried on public rows like a query.

    Raises QueryError for bytes that are no such map of this version.
    """
    with _doubted():
        features: Features = _decoded(content, columns)
        codes = public_rows(columns)
        found = features(codes)
        if found.dim() != 2 or len(found) != len(codes) or not bool(torch.isfinite(found).all()):
            raise QueryError("These bytes hold no map to features of a row.")
        return features


@contextmanager
def _doubted() -> Iterator[None]:
    """Any error over what somebody else wrote is a QueryError."""
    try:
        yield
    except QueryError:
        raise
    except Exception as error:
        raise QueryError(f"These bytes are no query that the rows could answer ({type(error).__name__}).") from None


def _decoded(content: bytes, columns: Columns) -> Any:
    """What was written, of registered kinds and declared types, and not tried yet."""
    size = int.from_bytes(content[:8], "little")
    plain = json.loads(json.loads(content[8 : 8 + size])["__metadata__"]["content"])
    if plain["format"] != FORMAT:
        raise QueryError("The query was written by another version of medsynth.")
    return _Reader(load(content), columns).value(plain["query"])


class _Reader:
    """Plain values as what they stand for. Raises whatever it likes for what stands for nothing."""

    def __init__(self, arrays: dict[str, np.ndarray[Any, Any]], columns: Columns) -> None:
        self._arrays, self._columns = arrays, columns

    def value(self, plain: Any) -> Any:
        """The value of a plain one."""
        if plain is None or isinstance(plain, bool | int | float | str):
            return plain
        (what, *_), first = plain, next(iter(plain.values()))
        if what in ("array", "tensor"):
            array = _finite(self._arrays[first])
            return torch.from_numpy(array.copy()) if what == "tensor" else array
        if what == "map":
            return {key: self.value(each) for key, each in first}
        if what == "list":
            return tuple(self.value(each) for each in first)
        if what == "network":
            return self._network(first, [self.value(each) for each in plain["weights"]])
        if what == "definition":
            return self._columns.definitions[first]
        known = KINDS[first]
        if what == "function" and not isinstance(known, type):
            return known
        fields = {name: self.value(each) for name, each in plain["fields"].items()}
        return _made(known, fields)

    @staticmethod
    def _network(activation: str, weights: list[Tensor]) -> Mlp:
        """A network of linear layers, with biases or without."""
        matrices = [weight for weight in weights if weight.dim() == 2]
        bias = len(weights) > len(matrices)
        network = Mlp([matrices[0].shape[1], *(len(weight) for weight in matrices)], activation, bias=bias)
        if activation not in ACTIVATIONS or [p.shape for p in network.parameters()] != [w.shape for w in weights]:
            raise QueryError("The query's network is of no known form.")
        with torch.no_grad():
            for parameter, weight in zip(network.parameters(), weights, strict=True):
                parameter.copy_(weight)
        return network


def _made(known: type, fields: dict[str, Any]) -> Any:
    """A value of a registered class, of fields that have the declared types."""
    hints = get_type_hints(known)
    if list(fields) != written_fields(known):
        raise QueryError(f"A {known.__name__} of a query has other fields than this version's.")
    for name, value in fields.items():
        if not _fits(value, hints[name]):
            raise QueryError(f"The field {name!r} of a {known.__name__} is not of its type.")
    return known(**fields)


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a declared type."""
    origin, inner = get_origin(hint), get_args(hint)
    if origin in (Union, types.UnionType):
        return any(_fits(value, one) for one in inner)
    if hint is float:
        return type(value) in (int, float) and math.isfinite(value)
    if hint in (int, bool, str, types.NoneType):
        return type(value) is hint
    if origin is np.ndarray:
        return isinstance(value, np.ndarray) and value.dtype == np.dtype(get_args(inner[1])[0])
    if origin is Mapping:
        return isinstance(value, dict) and all(_fits(k, inner[0]) and _fits(v, inner[1]) for k, v in value.items())
    if origin is Sequence or (origin is tuple and inner[1:] == (Ellipsis,)):
        return isinstance(value, tuple) and all(_fits(each, inner[0]) for each in value)
    if origin is tuple:
        return isinstance(value, tuple) and len(value) == len(inner) and all(map(_fits, value, inner))
    if origin is Callable:
        return callable(value) and name_of(value) is not None
    if getattr(hint, "_is_protocol", False):
        return type(value) is not type and all(hasattr(value, name) for name in ("cells", "cell_of"))
    return isinstance(value, hint)


def _try(query: RowQuery[Any], columns: Columns) -> None:
    """Answer the query of public rows without noise: its maps take all codes, and its arrays fit one another."""
    codes = public_rows(columns)
    for axes in query.tables.values() if isinstance(query, Marginals | Distances) else ():
        for name, one in axes:
            found = one.cell_of(column_of(codes, tuple(columns.sizes), name))
            if len(found) and not 0 <= found.min() <= found.max() < one.cells:
                raise QueryError("These bytes hold no query of these columns: a code has no cell.")
    if isinstance(query, GradientSum | PairGradientSum | NormsBelow):
        # Its map takes all codes; what a critic makes of the map's numbers fails on no row, and takes longer.
        query.features(codes)
        codes = codes[:: -(-len(codes) // TRIED_GRADIENTS)]
    draws = np.zeros((len(codes), query.draws), np.uint64)
    units = PrivacyUnits(np.arange(len(codes)), 1)
    if not query.sensitivity(1) < math.inf:
        raise QueryError("The query's sensitivity is not finite.")
    # None, the row on which a vault decides whether a fault is the query's own (`query.answered`), and all of them.
    for some in (slice(0), slice(1), slice(None)):
        mask = np.zeros(len(codes), np.bool_)
        mask[some] = True
        rows = CodedRows(codes[some], tuple(columns.sizes), draws[some], units.of_rows(mask))
        finished = query.finished(query.exact(rows))
        for scale, _ in zip(query.scales(1.0), finished, strict=True):
            if not (0 < scale.std < math.inf and 0 < scale.unit < math.inf):
                raise QueryError("The query's noise has no scale.")
        query.result([array.astype(np.float64) for array in finished])


def public_rows(columns: Columns) -> Codes:
    """Rows, (rows, columns), that hold every code of every column; of a column of very many, some and both ends."""
    each = [np.linspace(0, size - 1, min(size, TRIED_CODES)).round() for size in columns.sizes.values()]
    most = max((len(own) for own in each), default=1)
    found = np.zeros((most, len(each)), np.int32)
    for k, own in enumerate(each):
        found[:, k] = np.resize(own, most)
    return found
