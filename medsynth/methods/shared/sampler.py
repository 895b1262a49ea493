"""Rows from a fitted mixture: class, latent point, bins, values inside bins; conditions are met exactly."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import UsageError
from ...rng import Stream, numpy_stream
from ...schema import Schema
from ...schema.codec import Ranges
from ..protocol import Arrays
from .bins import Bins
from .decoder import decoder, restored_grids
from .marginals import Condition
from .mixture import BinsByColumn, Mixture
from .pair_factors import PairFactor
from .stratified import choose, uniforms

FIXED_ROWS, FREE_ROWS = 8192, 65536  # rows drawn at once, with values of their own and without
FIXED_CELLS = 1 << 24  # of rows with values of their own, points and classes, in memory at once
NEGLIGIBLE_PROBABILITY = 1e-9  # a chance below this is taken for zero
INSIDE_ROUNDS = 20  # of drawing two values inside their bins again; those that are left then stay
Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Codes = NDArray[np.int32]


@dataclass(kw_only=True)
class Sampler:
    """A mixture with its decoder, and the ranges that rows must lie in.

    `prior`: (classes,) chances of the classes, those outside the target's range at zero. `inside`: weights of fine
    cells by class, and `allowed`: the factor of each bin that the ranges leave, (classes, cells or bins) a column.
    """

    schema: Schema
    bins: dict[str, Bins]
    condition: Condition
    mixture: Mixture
    prior: Floats
    where: Ranges
    inside: dict[str, Floats]
    allowed: dict[str, Floats]
    pairs: list[PairFactor]

    @classmethod
    def of(cls, tensors: Arrays, schema: Schema, rows: int, where: Ranges) -> Sampler:
        """From a model's tensors, on the conditions `where`."""
        histograms = {
            k.removeprefix("histogram."): t.astype(np.float64) for k, t in tensors.items() if k[:5] == "histo"
        }
        columns = [name for name in schema.names if name != schema.target]
        bins, condition = decoder(schema, histograms, rows, grids=restored_grids(tensors, schema))
        bins |= {name: replace(bins[name], place=tensors[f"place.{name}"].astype(np.int64)) for name in columns}
        pairs, prior = PairFactor.of(tensors, schema), tensors["prior"].astype(np.float64)
        mixture = Mixture.of(tensors, columns, {(pair.one, pair.other): pair.table for pair in pairs})
        if schema.target in where:
            prior = prior * condition.allowed(*where[schema.target])
        inside = {name: bins[name].inside(tensors[f"base.{name}"].astype(np.float64)) for name in columns}
        spans = {name: bins[name].overlap(*span) for name, span in where.items() if name != schema.target}
        allowed = {name: bins[name].shares_of(inside[name], span) for name, span in spans.items()}
        inside |= {name: inside[name] * span for name, span in spans.items()}
        return cls(
            schema=schema,
            bins=bins,
            condition=condition,
            mixture=mixture,
            prior=prior,
            where=where,
            inside=inside,
            allowed=allowed,
            pairs=pairs,
        )

    def draw(self, labels: NDArray[np.int64], weights: Floats, rng: Stream) -> Codes:
        """Rows of the classes `labels`, (rows,), as codes, (rows, columns); `weights`: (points, classes)."""
        return self._decode(labels, self.mixture.draw(labels, rng, weights, self.allowed), {}, rng)

    def draw_given(self, fixed: dict[str, Codes], chance: Floats, weights: Floats, rng: Stream) -> Codes:
        """Rows with given codes of some columns, (rows,) each; `chance`: (classes,), `weights`: (points, classes)."""
        target = self.schema.target
        known = {name: self.bins[name].cell_of(codes) for name, codes in fixed.items() if name != target}
        own = self.condition.cell_of(fixed[target]).astype(np.int64) if target in fixed else None
        prior = chance / np.maximum(weights.mean(0), 1e-300)
        labels, points = self.mixture.draw_points_given(prior, weights, known, own, rng, self.allowed)
        return self._decode(labels, self.mixture.draw_at(labels, points, rng, self.allowed, known), fixed, rng)

    def _decode(
        self, labels: NDArray[np.int64], drawn: dict[str, NDArray[np.int64]], fixed: dict[str, Codes], rng: Stream
    ) -> Codes:
        codes = np.zeros((len(labels), len(self.schema.columns)), np.int32)
        for k, name in enumerate(self.schema.names):
            span = self.where.get(name)
            if name == self.schema.target:
                codes[:, k] = self.condition.codes(labels.astype(np.int32), uniforms(labels, rng), span)
            else:
                codes[:, k] = self.bins[name].draw(drawn[name], labels, self.inside[name], rng, span)
            codes[:, k] = fixed.get(name, codes[:, k])
        for pair in self.pairs:
            self._draw_inside(pair, codes, labels, drawn, [n for n in (pair.one, pair.other) if n not in fixed], rng)
        return codes

    def _draw_inside(
        self, pair: PairFactor, codes: Codes, labels: Whole, drawn: BinsByColumn, free: list[str], rng: Stream
    ) -> None:
        """Draw values of the `free` columns of a pair again inside their bins, by its factors, in place."""
        at, definition = [self.schema.names.index(n) for n in (pair.one, pair.other)], self.schema.definitions
        left = np.arange(len(codes) if free else 0)
        for _ in range(INSIDE_ROUNDS):
            if not len(left):
                return
            cells = (drawn[pair.one][left], drawn[pair.other][left])
            left = left[pair.refused(definition[pair.computed], codes[left][:, at], labels[left], cells, rng)]
            for name in free:
                codes[left, self.schema.names.index(name)] = self.bins[name].draw(
                    drawn[name][left], labels[left], self.inside[name], rng, self.where.get(name)
                )


def generate(
    tensors: Arrays, config: Any, schema: Schema, rows: int, count: int, seed: int | None,
    where: Ranges | None = None, balance: bool = False, fixed: dict[str, Codes] | None = None,
) -> Codes:  # fmt: skip
    """`count` synthetic rows as codes, (count, columns): class, latent point, bins, values inside bins.

    `where` conditions exactly, without rejection: given class and latent point columns are independent, so each
    latent point is weighed by the probability of the given values. `balance` draws classes evenly. `fixed` gives each
    row its own values of some columns, (count,) codes a column, and the rest is drawn given these. Raises UsageError
    for conditions that no row meets.
    """
    sampler = Sampler.of(tensors, schema, rows, dict(where or {}))
    weights = sampler.mixture.evidence(sampler.allowed)
    chance = sampler.prior * weights.mean(0)
    if chance.sum() < NEGLIGIBLE_PROBABILITY:
        raise UsageError("No row meets these conditions together. Leave one out or widen a range.")
    if balance:
        chance = (chance > NEGLIGIBLE_PROBABILITY).astype(np.float64)
    rng = numpy_stream(seed, "sample")
    labels = choose(chance[None], np.zeros(count, np.int64), rng)
    fixed_rows = max(1, min(FIXED_ROWS, FIXED_CELLS // weights.size))
    parts = np.array_split(np.arange(count), max(1, count // (fixed_rows if fixed else FREE_ROWS)))
    if not fixed:
        return np.concatenate([sampler.draw(labels[part], weights, rng) for part in parts])
    some = [{name: codes[part] for name, codes in fixed.items()} for part in parts]
    return np.concatenate([sampler.draw_given(given, chance, weights, rng) for given in some])
