"""Simulate the measurements of other rows from the same population, with new noise of the same size.

As many independent rows as the table has are drawn from the fitted mixture. The difference between their exact answers
and the expected answers is the joint sampling error of all measurements (the parametric bootstrap; Efron and Tibshirani
1993, chapter 6).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from ..arrays import Arrays, Codes, Floats, Whole
from ..methods.sampler import Sampler
from ..privacy.queries.measurements import Measurements
from ..privacy.queries.query import RowQuery
from ..privacy.queries.rows import CodedRows
from ..rng import Stream
from ..schema import Schema
from .constants import VALUES
from .released import Kept

Result = TypeVar("Result")
MOST_ROWS = 20_000  # drawn for one replicate; deviations of larger tables are scaled
UNCHANGED = {VALUES}  # it only determines which values are frequent


def independent_rows(tensors: Arrays, schema: Schema, rows: int, count: int, rng: Stream) -> Codes:
    """Draw `count` independent rows from a model of `rows` rows, as codes, (count, columns).

    (Rows of an ordinary sample are stratified, and vary less than patients do.)
    """
    sampler = Sampler(tensors, schema, rows, {})
    prior = sampler.prior / sampler.prior.sum()
    labels = rng.choice(len(prior), count, p=prior)
    points = rng.integers(sampler.mixture.points, size=count)
    codes = np.zeros((count, len(schema.names)), np.int32)
    for k, name in enumerate(schema.names):
        if name == schema.target:
            codes[:, k] = sampler.condition.codes(labels.astype(np.int32), rng.random(count))
            continue
        share, bins = sampler.mixture.shares[name], sampler.bins[name]
        groups = points * sampler.mixture.classes + labels if len(share) > 1 else labels
        place = _chosen(share.reshape(-1, share.shape[-1]), groups, rng)
        fine = np.zeros(count, np.int64)
        inside = sampler.inside[name]
        first = np.searchsorted(bins.place, place)
        last = np.searchsorted(bins.place, place, side="right")
        for label in range(len(inside)):
            own = labels == label
            below = np.concatenate([[0.0], np.cumsum(inside[label])])
            at = below[first[own]] + rng.random(own.sum()) * (below[last[own]] - below[first[own]])
            fine[own] = np.clip(np.searchsorted(below, at, side="right") - 1, first[own], last[own] - 1)
        ends = bins.grid.ends
        codes[:, k] = ends[fine] + np.floor(rng.random(count) * np.diff(ends)[fine])
    return codes


def _chosen(weights: Floats, groups: Whole, rng: Stream) -> Whole:
    """Draw a cell for each row by the `weights` of its group, (groups, cells), independently."""
    below = np.cumsum(weights, 1)
    below /= below[:, -1:]
    line = (below + np.arange(len(weights))[:, None]).ravel()
    found = np.searchsorted(line, groups + rng.random(len(groups)), side="right") - groups * weights.shape[1]
    return np.asarray(found.clip(0, weights.shape[1] - 1))


@dataclass(eq=False)
class Population:
    """Rows of a fitted mixture for several replicates, (rows, columns) each, and the `size` of the real table.

    `answers`: exact answers computed so far, by label and the query's place among those with this label.
    """

    rows: list[Codes]
    names: tuple[str, ...]
    size: float
    answers: dict[tuple[str, int], Any] = field(default_factory=dict)

    @classmethod
    def of(cls, tensors: Arrays, schema: Schema, rows: int, replicates: int, rng: Stream) -> Population:
        """Return rows of the mixture in `tensors`, fitted to `rows` rows."""
        count = min(rows, MOST_ROWS)
        drawn = [independent_rows(tensors, schema, rows, count, rng) for _ in range(max(2, replicates))]
        return cls(drawn, schema.names, float(rows))

    @property
    def scale(self) -> float:
        """The factor for deviations from the mean of all replicates.

        It corrects two effects: the mean contains the answer itself, and sums over fewer rows deviate less.
        """
        count = len(self.rows)
        return math.sqrt(count / (count - 1)) * math.sqrt(self.size / len(self.rows[0]))

    def answered(self, key: tuple[str, int], answer: Callable[[], Result]) -> Result:
        """Return an answer. Compute it only once."""
        if key not in self.answers:
            self.answers[key] = answer()
        found: Result = self.answers[key]
        return found

    def deviations(self, label: str, k: int, query: RowQuery[Any], replicate: int) -> list[Floats]:
        """Return the deviation of a replicate's exact answer from the mean over all, scaled to the table's size."""
        every = self.answered((label, k), lambda: [exact(query, rows, self.names) for rows in self.rows])
        means = [sum(parts) / len(every) for parts in zip(*every, strict=True)]
        return [np.asarray(self.scale * (own - mean)) for own, mean in zip(every[replicate], means, strict=True)]


def exact(query: RowQuery[Any], rows: Codes, names: tuple[str, ...]) -> list[Floats]:
    """Return the exact answer of a query on synthetic rows, array by array."""
    coded = CodedRows(rows, names, np.zeros((len(rows), 0), np.uint64))
    scales = query.scales(1.0)
    return [np.asarray(a * scale.unit) for a, scale in zip(query.finished(query.exact(coded)), scales, strict=True)]


class Perturbed(Measurements):
    """The measurements of one replicate: released values plus new noise plus a simulated sampling error."""

    __slots__ = ("_asked", "_kept", "_population", "_replicate", "_rng")
    max_rows = None  # models with replicates have one row per patient

    def __init__(self, kept: Kept, population: Population, replicate: int, rng: Stream) -> None:
        self._kept = kept.again()
        self._population = population
        self._replicate = replicate
        self._rng = rng
        self._asked = dict[str, int]()

    def measure(self, label: str, query: RowQuery[Result]) -> Result:
        """Return the released answer plus new noise and a simulated sampling error."""
        k = self._asked.get(label, 0)
        self._asked[label] = k + 1
        arrays, stds = self._kept.arrays(label, query)
        if label in UNCHANGED:
            return query.result(arrays)
        moved = self._population.deviations(label, k, query, self._replicate)
        return query.result([
            array + std * self._rng.standard_normal(array.shape) + move.reshape(array.shape)
            for array, std, move in zip(arrays, stds, moved, strict=True)
        ])  # fmt: skip
