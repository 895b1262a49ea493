"""Queries that together contain every kind of map and loss, and hostile versions of what they hold."""

import dataclasses
import importlib
import math
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np
import torch

import medsynth
from medsynth.errors import QueryError
from medsynth.methods.adversarial import Indicators, real_loss
from medsynth.methods.digit_preference import DigitKinds
from medsynth.methods.dp_gan import PenalisedPairLoss
from medsynth.methods.encoded_rows import Encoding, FourierFeatures, SpanEncoding
from medsynth.methods.preferred_times import DayKinds, HourKinds
from medsynth.methods.thyroid_study import ScaledRows
from medsynth.mixture.matrix import Scores
from medsynth.mixture.products import Products, ProductsByClass
from medsynth.privacy.clipping import Groups, LocalTraining
from medsynth.privacy.contribution import PrivacyUnits
from medsynth.privacy.networks import Mlp
from medsynth.privacy.queries.cells import ALL_CODES, Beside, Computed, EveryCode, Regrouped
from medsynth.privacy.queries.gradients import GradientSum, NormsBelow, PairGradientSum, minus_output
from medsynth.privacy.queries.moments import SecondMoments
from medsynth.privacy.queries.rows import CodedRows, column_of
from medsynth.privacy.queries.tables import Distances, Marginals, RowsPerPatient
from medsynth.privacy.queries.vectors import VectorSum
from medsynth.schema import Schema
from medsynth.schema.columns.grid import Grid

SCHEMA = Schema.from_dict(
    {
        "name": "t",
        "columns": {
            "a": {"kind": "count", "bounds": [0, 6]},
            "b": {"kind": "count", "bounds": [0, 6]},
            "n": {"kind": "count", "bounds": [0, 39], "missing": True},
            "t": {"kind": "categorical", "levels": ["x", "y", "z"]},
            "d": {"kind": "count", "bounds": [0, 50], "missing": True},
        },
        "rules": ["d = a + n"],
    }
)
SIZES = tuple(column.size + column.gaps for column in SCHEMA.core.columns.values())
NAMES = SCHEMA.core.names

SEVEN = Grid(np.array([0, 2, 3, 7]), 0)
FORTY = Grid(np.array([0, 3, 10, 11, 25, 40]), 1)
HALVES = Regrouped(FORTY, np.array([0, 1, 1, 0, 2, 3]), 4)
LEVELS = EveryCode(3)
PAIR = Beside(SEVEN, np.array([[0, 1, 2], [3, 4, 0], [1, 2, 3]]), np.array([4, 0, 2]), 5)
SUMS = Computed(SCHEMA.core.definitions["d"], Grid(np.array([0, 5, 20, 51]), 1))
TABLES: dict[str, Any] = {
    "n": [("n", HALVES), ("t", LEVELS)],
    "pair": [(("a", "b"), PAIR)],
    "sum": [(("a", "n"), SUMS), ("a", SEVEN)],
    "digits": [("n", DigitKinds(-5, 40))],
    "days": [("n", DayKinds(737_000, 40))],
    "hours": [("n", HourKinds(737_000 * 1440, 40, 1440))],
    "rows": [("", ALL_CODES)],
}
WEIGHTS = {"n": 2.0, "pair": 1.0, "sum": 0.5, "digits": 1.0, "days": 1.0, "hours": 1.0, "rows": 3.0}
GUESSES = {name: np.full([cells.cells for _, cells in axes], 1.25) for name, axes in TABLES.items()}

EDGES = np.array([0, 3, 10, 11, 25, 40])
ENCODING = Encoding(
    (
        SpanEncoding(2, "number", 0, 1, 40, EDGES, np.array([0, 0.1, 0.4, 0.5, 0.9, 1.0])),
        SpanEncoding(3, "levels", 2, None, 3, EDGES[:0], np.empty(0)),
        SpanEncoding(0, "binary", 5, None, 7, EDGES[:0], np.empty(0)),
    ),
    6,
)


def _stream(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


TURNS = (torch.randn(6, 2, generator=_stream(1)) * 2**18).double().round()
FOURIER = FourierFeatures(ENCODING, 3, LEVELS, TURNS, torch.tensor([5, -7]))
INDICATORS = Indicators(NAMES, {"a": SEVEN, "n": HALVES}, ("t", LEVELS))
FEW_INDICATORS = Indicators(NAMES, {"a": SEVEN}, ("t", LEVELS))
SCALED = ScaledRows((0, 2), (np.linspace(-1, 1, 7), np.linspace(-1, 1, 41)), 3, 3)
FEATURES = {"a": torch.randn(3, 2, generator=_stream(2)), "n": torch.randn(4, 2, generator=_stream(3))}
PRODUCTS = Products({"a": SEVEN, "n": HALVES}, NAMES, FEATURES, torch.tensor([[0, 1, 0], [2, 3, 3]]), torch.ones(3))
SCORES = Scores({"a": SEVEN, "n": HALVES}, NAMES, ("t", LEVELS), {
    "a": np.linspace(-1.9, 1.8, 9).reshape(3, 3), "n": np.linspace(-1.5, 1.7, 12).reshape(3, 4),
})  # fmt: skip
PAIR_LOSS = PenalisedPairLoss(torch.tensor([1.0, 0.5, 0.7]), 10.0)


def critic(inputs: int, activation: str = "leaky_relu", seed: int = 4) -> Mlp:
    """A critic of a row's numbers, with a hidden layer."""
    return Mlp([inputs, 3, 1], activation, _stream(seed))


def _pairs(kind: Any, local: LocalTraining) -> Any:
    net, width = critic(3 * 10), 10
    groups = Groups(torch.arange(sum(p.numel() for p in net.parameters())) % 2, (0.3, 2.0))
    pool = torch.rand(4, 3 * width, generator=_stream(5))
    return kind(net, PAIR_LOSS, INDICATORS, pool, groups, local)


CASES: dict[str, Any] = {
    "marginals": Marginals(TABLES, WEIGHTS, centred=("n",)),
    "averaged marginals": Marginals(TABLES, averaged=True, centred=("pair",)),
    "distances": Distances(TABLES, GUESSES),
    "averaged distances": Distances(TABLES, GUESSES, averaged=True),
    "rows per patient": RowsPerPatient(3),
    "second moments": SecondMoments(SCORES, ("t", LEVELS), 2),
    "random features": GradientSum(critic(12, "tanh"), real_loss, FOURIER, 0.4),
    "products by class": VectorSum(ProductsByClass(PRODUCTS, ("t", LEVELS)), 9),
    "products": VectorSum(PRODUCTS, 3),
    "long products": VectorSum(dataclasses.replace(PRODUCTS, scales=torch.full((3,), 40.0)), 3),
    "scaled rows": GradientSum(critic(5, "tanh"), real_loss, SCALED, 0.4, 3),
    "blocks of classes": GradientSum(critic(18, "relu"), real_loss, FEW_INDICATORS, 0.4, given=("t", LEVELS)),
    "microbatches of blocks": GradientSum(critic(18), real_loss, FEW_INDICATORS, 0.4, 3, ("t", LEVELS)),
    "pair gradients": _pairs(PairGradientSum, LocalTraining(2, 0.25)),
    "norms below": _pairs(NormsBelow, LocalTraining()),
}


def kinds() -> set[type]:
    """Every class of medsynth that is a map from codes to cells, a map to features or a loss, as queries hold them."""
    found = set()
    for module in pkgutil.walk_packages(medsynth.__path__, "medsynth."):
        if module.name.split(".")[1] in ("methods", "mixture", "privacy", "schema"):
            for value in vars(importlib.import_module(module.name)).values():
                own = isinstance(value, type) and dataclasses.is_dataclass(value) and value.__module__ == module.name
                if own and (hasattr(value, "cell_of") or "__call__" in vars(value)) and not hasattr(value, "plain"):
                    found.add(value)
    return found


def held(value: Any) -> set[type]:
    """The classes of all that a query holds."""
    inner = value.values() if isinstance(value, Mapping) else value if isinstance(value, list | tuple) else ()
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        inner = [getattr(value, field.name) for field in dataclasses.fields(value)]
    return {type(value)}.union(*map(held, inner))


def _set(at: int, value: Any) -> Callable[[Any], Any]:
    def changed(array: Any) -> Any:
        found = array.copy()
        if found.size:
            whole = found.dtype.kind != "f"
            found.flat[at % found.size] = min(max(int(value), -(2**63)), 2**63 - 1) if whole else value
        return found

    return changed


def _swapped(array: Any) -> Any:
    found = array.copy()
    if found.size > 2:
        found.flat[1], found.flat[found.size - 2] = array.flat[found.size - 2], array.flat[1]
    return found


def _repeated(array: Any) -> Any:
    found = array.copy()
    if found.size > 2:
        found.flat[found.size - 2] = found.flat[found.size - 1]
    return found


# Of an array: order, repeats, places beyond a table, numbers that overflow, shapes, types.
ARRAY_CHANGES: dict[str, Callable[[Any], Any]] = {
    "reversed": lambda array: array[::-1],
    "swapped": _swapped,
    "repeated": _repeated,
    "below zero": _set(1, -1),
    "beyond": _set(1, 121),
    "beyond at the end": _set(-1, 121),
    "far beyond": _set(-2, 2.0**31),
    "largest": _set(-1, 2.0**63),
    "smallest": _set(1, -(2.0**63)),
    "overflowing": _set(0, 1e300),
    "a fraction more": lambda array: array + (0.25 if array.dtype.kind == "f" else 1),
    "times a million": lambda array: array * np.array(10**6, array.dtype),
    "shorter": lambda array: array[:-1],
    "longer": lambda array: np.concatenate([array, array[-1:]]) if array.size else np.zeros(2, array.dtype),
    "empty": lambda array: array[:0],
    "flat": lambda array: array.reshape(-1)[None],
    "a type": lambda array: array.astype(np.float32 if array.dtype == np.float64 else np.int32),
    "not a number": lambda array: array * np.nan if array.dtype.kind == "f" else array,
}
LEAVES: tuple[Any, ...] = (
    -1, 0, 1, 2, 7, 41, 2**20, 2**31, 2**62, 2**70, -0.5, 0.0, 1e-300, 1e300, 1e18, "", "a", "number", True, None,
    minus_output, EveryCode(2**30), (),
)  # fmt: skip
Path = tuple[Any, ...]


def parts(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Where a query has a number, a word, an array, a map or a list that can be replaced, and what stands there."""
    yield path, value
    if isinstance(value, Mlp):
        inner: Any = list(enumerate(value.parameters()))
    elif dataclasses.is_dataclass(value) and not isinstance(value, Schema):
        inner = [(field.name, getattr(value, field.name)) for field in dataclasses.fields(value) if field.init]
    elif isinstance(value, Mapping):
        inner = list(value.items())
    else:
        inner = list(enumerate(value)) if isinstance(value, list | tuple) else []
    for key, each in inner:
        if key not in ("definition", "device"):  # of the schema, and of this machine
            yield from parts(each, (*path, key))


def with_part(value: Any, path: Path, new: Any) -> Any:
    """A query with another thing at a place, made anew: it is checked as any other is. Raises what that raises."""
    if not path:
        return new
    key, *rest = path
    if isinstance(value, Mlp):
        layers: Any = list(value.layers)
        made = Mlp([layers[0].in_features, *(len(layer.weight) for layer in layers)], value.activation)
        for own, parameter in zip(made.parameters(), value.parameters(), strict=True):
            own.data = parameter.data
        list(made.parameters())[key].data = new
        return made
    if isinstance(value, Mapping):
        return {**value, key: with_part(value[key], tuple(rest), new)}
    if isinstance(value, list | tuple):
        return tuple(with_part(each, tuple(rest), new) if k == key else each for k, each in enumerate(value))
    return dataclasses.replace(value, **{key: with_part(getattr(value, key), tuple(rest), new)})


def changed_arrays(query: Any, *, critic: bool) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Makers of the query with each array changed in each way, those of a critic's weights included or not."""
    for path, value in parts(query):
        if isinstance(value, np.ndarray | torch.Tensor) and (critic or "critic" not in path):
            array = value if isinstance(value, np.ndarray) else value.detach().numpy()
            for change, make in ARRAY_CHANGES.items():
                with np.errstate(all="ignore"):
                    new: Any = np.ascontiguousarray(make(array))
                new = new if isinstance(value, np.ndarray) else torch.from_numpy(new.copy())
                yield f"{change}, at {path}", partial(with_part, query, path, new)


def changed_leaves(query: Any, count: int, rng: np.random.Generator) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Makers of the query with some of its numbers, words and lists replaced, each by itself."""
    paths = sorted((path for path, _ in parts(query) if path), key=str)
    for _ in range(count):
        path, value = paths[rng.integers(len(paths))], LEAVES[rng.integers(len(LEAVES))]
        yield f"{value!r} at {path}", partial(with_part, query, path, value)


def public_rows() -> Any:
    """Rows, (rows, columns), that hold every code of every column."""
    found = np.zeros((max(SIZES), len(SIZES)), np.int32)
    for k, size in enumerate(SIZES):
        found[:, k] = np.resize(np.arange(size), len(found))
    return found


def tried(query: Any) -> Any:
    """The query, once public rows have answered it. Raises whatever it likes for one that they cannot answer."""
    codes = public_rows()
    for axes in query.tables.values() if isinstance(query, Marginals | Distances) else ():
        for name, one in axes:
            found = one.cell_of(column_of(codes, NAMES, name))
            if not 0 <= found.min() <= found.max() < one.cells:
                raise QueryError("a code has no cell")
    if not query.sensitivity(1) < math.inf:
        raise QueryError("the sensitivity is not finite")
    draws = np.zeros((len(codes), query.draws), np.uint64)
    rows = CodedRows(codes, NAMES, draws, PrivacyUnits(np.arange(len(codes)), len(codes)))
    finished = query.finished(query.exact(rows))
    scales = query.scales(1.0)
    if not all(0 < scale.std < math.inf and 0 < scale.unit < math.inf for scale in scales):
        raise QueryError("the noise has no scale")
    query.result([array.astype(np.float64) for array in finished])
    return query
