"""Keep the noisy measurements of a fit with its model: the released values and their noise."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..arrays import Arrays, Floats, Whole
from ..errors import ArtifactError
from ..privacy.accounting.calibration import Plan
from ..privacy.queries.measurements import Measurements
from ..privacy.queries.query import RowQuery
from ..privacy.queries.tables import Marginals
from ..row_count import PARTS_OF_A_ROW
from .constants import VALUES

Result = TypeVar("Result")
PREFIX, PUBLIC = "released.", "released.public"
# Increased when a measurement's numbers change their meaning or their fit. Files with another number are not read.
MEANING = 11
WORD = 1 << 16  # whole numbers are stored in parts below this, which float32 represents exactly
CLEAR_STDS = 3.5  # of the noise: smaller counts of single values are stored as zero, since no frequent value has one


@dataclass(frozen=True, eq=False)
class RecordedRelease:
    """One release: its arrays of numbers, the standard deviation of each array's noise, and the names of the
    tables.
    """

    label: str
    arrays: list[Floats]
    stds: list[float]
    names: list[str]


def shapes(query: RowQuery[Any]) -> list[tuple[int, ...]]:
    """Return the shapes of a query's arrays. Raise TypeError for a kind of query that is not kept."""
    if isinstance(query, Marginals):
        return [tuple(cells.cells for _, cells in axes) for axes in query.tables.values()]
    from ..privacy.queries.vectors import VectorSum  # imports PyTorch

    if isinstance(query, VectorSum):
        return [(query.width,)]
    raise TypeError("Only tables and vector sums are kept.")


def names(query: RowQuery[Any]) -> list[str]:
    """Return the names of a query's tables, if it has any."""
    return list(query.tables) if isinstance(query, Marginals) else []


class Recorded(Measurements):
    """Measurements that are rounded to the precision of a model file, recorded, and passed on."""

    __slots__ = ("_of", "_plan", "releases")

    def __init__(self, of: Measurements, plan: Plan) -> None:
        self._of = of
        self._plan = plan
        self.releases = list[RecordedRelease]()

    @property
    def max_rows(self) -> int | None:
        """The largest number of rows per patient."""
        return self._of.max_rows

    def measure(self, label: str, query: RowQuery[Result]) -> Result:
        """Return the noised answer, with each number rounded to 24 bits."""
        found = self._of.measure(label, query)
        arrays = found.values() if isinstance(found, dict) else [found]
        rounded = [np.asarray(array).astype(np.float32).astype(np.float64) for array in arrays]
        event, _ = self._plan.events[label]
        noise = query.scales(event.multiplier * query.sensitivity(self.max_rows))
        self.releases.append(RecordedRelease(label, rounded, [scale.std for scale in noise], names(query)))
        return query.result(rounded)

    def tensors(self, seed: int) -> Arrays:
        """Return all releases as tensors, and the public numbers that determine the structure again."""
        own = self._plan
        off = 0 if own.rows_std is None else 1 + round(own.rows_std * PARTS_OF_A_ROW)
        found: Arrays = {PUBLIC: _words([MEANING, seed, own.planned_rows or own.rows, off])}
        for k, release in enumerate(self.releases):
            flat = np.concatenate([array.ravel() for array in release.arrays])
            if release.label == VALUES:  # a count for each possible value; only a few are clear
                noise = np.repeat(release.stds, [array.size for array in release.arrays])
                kept = np.flatnonzero(flat > CLEAR_STDS * noise)
                found[f"{PREFIX}{k:02}.places"] = _words(kept.tolist())
                flat = flat[kept]
            head = json.dumps([release.label, release.names]).encode()
            found[f"{PREFIX}{k:02}.head"] = np.frombuffer(head, np.uint8).astype(np.float32)
            found[f"{PREFIX}{k:02}.noisy"] = flat.astype(np.float32)
            found[f"{PREFIX}{k:02}.std"] = np.array(release.stds, np.float32)
        return found


def _words(numbers: Sequence[int]) -> NDArray[np.float32]:
    """Return whole numbers below 2^64 in four parts each, (numbers, 4)."""
    return np.array([[n // WORD**k % WORD for k in range(4)] for n in numbers], np.float32).reshape(-1, 4)


def _numbers(words: NDArray[np.float32]) -> list[int]:
    return [sum(int(part) * WORD**k for k, part in enumerate(row)) for row in words.tolist()]


def public_numbers(tensors: Arrays) -> tuple[int, int, float | None]:
    """Return the public seed of a fit, its planned row count, and the standard deviation of that count, if known.

    Raises ArtifactError for a file without them.
    """
    numbers = _numbers(tensors[PUBLIC])
    if len(numbers) != 4 or numbers[0] != MEANING:
        raise ArtifactError(WRONG)
    _, seed, rows, off = numbers
    return seed, rows, (off - 1) / PARTS_OF_A_ROW if off else None


@dataclass
class Kept(Measurements):
    """Replays a model file's measurements to a refit.

    `noisy`, `stds`, `names`: of each label, in the order of the releases. `asked`: the number returned so far.
    """

    noisy: dict[str, list[tuple[Floats, Whole | None]]] = field(default_factory=dict)
    stds: dict[str, list[list[float]]] = field(default_factory=dict)
    names: dict[str, list[list[str]]] = field(default_factory=dict)
    asked: dict[str, int] = field(default_factory=dict)
    max_rows = None  # models with replicates have one row per patient

    @classmethod
    def of(cls, tensors: Arrays) -> Kept:
        """Return the measurements in tensors that `Recorded.tensors` made."""
        found = cls()
        for key in sorted(key for key in tensors if key.startswith(PREFIX) and key.endswith(".head")):
            stem = key.removesuffix("head")
            label, tables = json.loads(tensors[key].astype(np.uint8).tobytes().decode())
            places = f"{stem}places"
            sparse = np.array(_numbers(tensors[places]), np.int64) if places in tensors else None
            found.noisy.setdefault(label, []).append((tensors[f"{stem}noisy"].astype(np.float64), sparse))
            found.stds.setdefault(label, []).append([float(std) for std in tensors[f"{stem}std"]])
            found.names.setdefault(label, []).append(tables)
        return found

    def again(self) -> Kept:
        """Replay the measurements from the start, for another refit."""
        return Kept(self.noisy, self.stds, self.names)

    def arrays(self, label: str, query: RowQuery[Any]) -> tuple[list[Floats], list[float]]:
        """Return the next release of a label, array by array, and the standard deviations of the noise.

        Raises ArtifactError if the query is not the one that was answered.
        """
        k = self.asked.get(label, 0)
        self.asked[label] = k + 1
        if label not in self.noisy or k >= len(self.noisy[label]) or self.names[label][k] != names(query):
            raise ArtifactError(WRONG)
        (flat, places), own = self.noisy[label][k], shapes(query)
        sizes = [int(np.prod(shape)) for shape in own]
        if places is not None:
            whole = np.zeros(sum(sizes))
            whole[places] = flat
            flat = whole
        if len(flat) != sum(sizes):
            raise ArtifactError(WRONG)
        parts = np.split(flat, np.cumsum(sizes)[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, own, strict=True)], self.stds[label][k]

    def measure(self, label: str, query: RowQuery[Result]) -> Result:
        """Return the noised answer that was released."""
        return query.result(self.arrays(label, query)[0])


WRONG = (
    "This version of medsynth would make other measurements for the model's schema and settings. Install the version "
    "that wrote the model, or fit again."
)
