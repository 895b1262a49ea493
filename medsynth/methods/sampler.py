"""Draw rows from a fitted mixture of products of column distributions: class, latent point, bins, values inside bins.

Given a class and a latent point, the columns are independent. So probabilities of values, and draws given values, are
exact. The module reads only a model's tensors and needs no PyTorch. The columns of a wide table have low rank: latent
points are draws of a normal variable, and a Gaussian copula gives the shares of bins.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from ..arrays import Arrays, Codes, Floats, Mask, Whole
from ..errors import UsageError
from ..rng import Stream, numpy_stream
from ..schema import Schema
from ..schema.codec import Ranges
from ..schema.columns.grid import Grid
from ..schema.rules import Definition
from .bins import decoder, restored_grids, whole_numbers
from .registry import Method
from .stratified import choose, choose_each, uniforms

BinsByColumn = dict[str, Whole]  # (rows,) each
Again = Callable[[Collection[str], Whole, Callable[[Codes], Mask]], Whole]  # columns, places, which rows are good
Mend = Callable[[Codes, Again], None]
FIXED_ROWS, FREE_ROWS = 8192, 65536  # rows drawn at once, with fixed values and without
FIXED_CELLS = 1 << 24  # rows times points times classes in memory at once, for rows with fixed values
NEGLIGIBLE_PROBABILITY = 1e-9  # smaller probabilities count as zero
INSIDE_ROUNDS = 20  # rounds of drawing two values inside their bins again; then rows stay as they are
TINY = 1e-300


def mixture_tensors(base: Mapping[str, Floats], residual: Mapping[str, NDArray[np.float32]]) -> Arrays:
    """Return the tensors that `Mixture.of` needs, by name.

    `base`: log shares of every column, (classes, bins). `residual`: terms that latent points add for some columns,
    (points, classes, bins).
    """
    kept = {f"base.{name}": shares.astype(np.float32) for name, shares in base.items()}
    return kept | {f"residual.{name}": added for name, added in residual.items()}


def low_rank_tensors(loadings: Mapping[str, Floats], ordered: Mapping[str, int], latent: Floats) -> Arrays:
    """Return the tensors that `Mixture.of` needs for columns of low rank, in addition to their base.

    `loadings`: of each column, (classes, rank). `ordered`: the number of leading bins that are neighbours in value.
    `latent`: (points, rank).
    """
    kept = {f"loading.{name}": loading.astype(np.float32) for name, loading in loadings.items()}
    kept |= {f"ordered.{name}": np.array([ordered[name]], np.float32) for name in loadings}
    return kept | {"latent": latent.astype(np.float32)}


def normal_cuts(shares: Floats) -> Floats:
    """Return the cuts of a standard normal variable into parts of `shares`, (classes, bins): (classes, bins + 1)."""
    below = np.cumsum(shares, 1) / shares.sum(1, keepdims=True)
    return np.asarray(np.pad(ndtri(below[:, :-1]), ((0, 0), (1, 1)), constant_values=(-np.inf, np.inf)))


def copula_shares(shares: Floats, ordered: int, loading: Floats, latent: Floats) -> Floats:
    """Return p(bin | latent point, class) by a Gaussian copula, (points, classes, bins).

    `shares`: (classes, bins). The first `ordered` bins depend on the points. `loading`: (classes, rank), with norms
    below one.
    """
    found = np.tile(shares, (len(latent), 1, 1))
    rest = np.sqrt(1 - np.square(loading).sum(1))
    below = ndtr((normal_cuts(shares[:, :ordered]) - (latent @ loading.T)[:, :, None]) / rest[:, None])
    found[:, :, :ordered] = np.diff(below) * shares[:, :ordered].sum(1)[:, None]
    return np.asarray(found)


@dataclass(frozen=True, eq=False)
class ColumnShares(Mapping[str, Floats]):
    """p(bin | latent point, class) of each of `names`, computed from a model's tensors one column at a time."""

    tensors: Arrays
    names: Sequence[str]
    _kept: dict[str, Floats] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Floats:
        if name in self._kept:
            return self._kept[name]
        logits = self.tensors[f"base.{name}"].astype(np.float64)[None]
        if f"residual.{name}" in self.tensors:
            logits = logits + self.tensors[f"residual.{name}"]
        found: Floats = np.exp(logits - logits.max(-1, keepdims=True))
        found = found / found.sum(-1, keepdims=True)
        if f"loading.{name}" not in self.tensors:
            self._kept[name] = found
            return found
        # Not kept, because all columns of a wide table would be too large.
        loading, latent = (self.tensors[key].astype(np.float64) for key in (f"loading.{name}", "latent"))
        return copula_shares(found[0], int(self.tensors[f"ordered.{name}"][0]), loading, latent)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, eq=False)
class Mixture:
    """p(row | class) = mean over latent points of the product over columns of `shares`.

    `shares`: p(bin | latent point, class) of every column, (points, classes, bins), or (1, classes, bins) for a column
    that is the same at all points. `factors`: tables of pairs of columns, (classes, bins of one, bins of the other). A
    point's joint table of a pair is multiplied by them and keeps the sum one. A column is in at most one pair.
    """

    shares: Mapping[str, Floats]
    points: int
    classes: int
    factors: Mapping[tuple[str, str], Floats] = field(default_factory=dict)

    @classmethod
    def of(
        cls, tensors: Arrays, names: Sequence[str], factors: Mapping[tuple[str, str], Floats] | None = None
    ) -> Mixture:
        """Return the mixture in a model's tensors. `names`: its columns in order, which the file does not contain."""
        sizes = [len(tensors[f"residual.{name}"]) for name in names if f"residual.{name}" in tensors]
        points = len(tensors["latent"]) if "latent" in tensors else max(sizes, default=1)
        return cls(ColumnShares(tensors, names), points, len(tensors[f"base.{names[0]}"]), factors or {})

    def partners(self, names: Collection[str]) -> set[str]:
        """Return the columns that are in a pair with some columns."""
        return {self._partners[name][0] for name in names if name in self._partners}

    def draw_at(
        self, labels: Whole, points: Whole, rng: Stream, allowed: dict[str, Floats], known: BinsByColumn | None = None,
        names: Collection[str] | None = None,
    ) -> BinsByColumn:  # fmt: skip
        """Draw bins for rows of the classes `labels` at latent `points`, (rows,) each: (rows,) per column.

        `allowed`: factors for the shares of some columns, (classes, bins). `known`: given bins of some columns, which
        are kept. `names`: the columns to draw, by default all.
        """
        drawn: BinsByColumn = dict(known or {})
        for name in names or self.shares:
            if name in drawn:
                continue
            share = self.shares[name]
            weights = share * allowed.get(name, 1.0)
            groups = points * self.classes + labels if len(share) > 1 or name in self._partners else labels
            if name in self._partners:
                other, factor = self._partners[name]
                if other in drawn:
                    weights = weights[:, :, None] * factor.transpose(0, 2, 1)
                    groups = groups * factor.shape[2] + drawn[other]
                else:
                    weights = weights * self._expected(name, allowed)
                weights = np.broadcast_to(weights, (self.points, *weights.shape[1:]))
            drawn[name] = choose(weights.reshape(-1, share.shape[-1]), groups, rng)
        return drawn

    @cached_property
    def _partners(self) -> dict[str, tuple[str, Floats]]:
        """For each column in a pair: the other column, and the factors, (classes, own bins, bins of the other)."""
        found = {one: (other, factor) for (one, other), factor in self.factors.items()}
        return found | {other: (one, factor.transpose(0, 2, 1)) for (one, other), factor in self.factors.items()}

    def draw_points_given(
        self, chance: Floats, weights: Floats, fixed: BinsByColumn, labels: Whole | None, rng: Stream,
        allowed: dict[str, Floats],
    ) -> tuple[Whole, Whole]:  # fmt: skip
        """Draw a class and a latent point, exactly, for each row given its `fixed` bins, (rows,) per column.

        `chance`, (classes,), and `weights`, (points, classes): prior probabilities. `labels`: classes, if known.
        `allowed`: as for `draw_at`, of columns that are not fixed.
        """
        joint = np.asarray(chance * weights)[None]
        for name, bins in fixed.items():
            joint = joint * self.shares[name][:, :, bins].transpose(2, 0, 1)
        for (one, other), factor in self.factors.items():
            known = [name for name in (one, other) if name in fixed]
            if len(known) == 2:
                joint = joint * factor[:, fixed[one], fixed[other]].T[:, None, :]
            elif known:
                joint = joint * self._expected(known[0], allowed)[:, :, fixed[known[0]]].transpose(2, 0, 1)
            if known:  # the weights already contain the allowed part of the pair
                joint = joint / np.maximum(self._pair_evidence(one, allowed), TINY)
        if labels is not None:
            joint = joint * (np.arange(self.classes) == labels[:, None])[:, None, :]
        points, labels = np.divmod(choose_each(joint.reshape(len(joint), -1), rng), self.classes)
        return labels, points

    def evidence(self, allowed: dict[str, Floats]) -> Floats:
        """Return the exact p(columns have allowed values | latent point, class), (points, classes).

        `allowed`: the allowed share of each bin of some columns, (classes, bins).
        """
        found = np.ones((self.points, self.classes))
        for name, part in allowed.items():
            if name not in self._partners:
                found = found * (self.shares[name] * part).sum(-1)
        for one, other in self.factors:
            if one in allowed or other in allowed:
                some = self._pair_evidence(one, allowed)
                found = found * some / np.maximum(self._pair_evidence(one, {}), TINY)
        return found

    def _pair_evidence(self, name: str, allowed: dict[str, Floats]) -> Floats:
        """Return the mean factor of a column's pair over the allowed bins of both columns, (points, classes)."""
        return np.asarray((self.shares[name] * allowed.get(name, 1.0) * self._expected(name, allowed)).sum(-1))

    def _expected(self, name: str, allowed: dict[str, Floats]) -> Floats:
        """Return the mean factor of a column's pair over the other's allowed bins, (points, classes, own bins)."""
        other, factor = self._partners[name]
        return np.asarray(
            np.einsum("kab,zkb->zka", factor, self.shares[other] * allowed.get(other, 1.0), optimize=True)
        )


@dataclass(frozen=True, eq=False, kw_only=True)
class PairFactor:
    """Factors for the inputs `one` and `other` of the column `computed`.

    `table`: means over the values inside the bins, (classes, bins of one, bins of the other). `factors`: (classes, bins
    of the computed column). `largest`: the largest factor in each cell of the table. `bins`: the codes at which the
    computed column's bins start; missing values have their own bins.
    """

    one: str
    other: str
    computed: str
    table: Floats
    factors: Floats
    largest: Floats
    bins: Grid

    @classmethod
    def of(cls, tensors: Arrays, schema: Schema) -> list[PairFactor]:
        """Return the factors in a model's tensors, for the columns that a core `schema` computes."""
        found = []
        for name, definition in schema.definitions.items():
            if f"factor.{name}" in tensors:
                one, other = definition.inputs
                some = [tensors[f"{kind}.{name}"].astype(np.float64) for kind in ("factor", "computed", "largest")]
                bins = Grid(whole_numbers(tensors[f"starts.{name}"]), definition.column.gaps)
                found.append(cls(one=one, other=other, computed=name, table=some[0], factors=some[1],
                                 largest=some[2], bins=bins))  # fmt: skip
        return found

    def refused(
        self, definition: Definition, codes: Codes, labels: Whole, cells: tuple[Whole, Whole], rng: Stream
    ) -> Mask:
        """Return which rows draw their two values again, (rows,): by the factor relative to the cell's largest.

        `codes`: of the inputs in order, (rows, 2). `cells`: bins of each input, (rows,). `labels`: classes, (rows,).
        """
        own = self.factors[labels, self.bins.cell_of(definition.codes(codes))]
        return np.asarray(rng.random(len(codes)) * self.largest[labels, *cells] > own)


class Sampler:
    """A mixture with its decoder, and the ranges that rows must lie in.

    `prior`: probabilities of classes, (classes,), zero outside the target's range. `inside`: weights of fine cells by
    class, (classes, cells) per column. `allowed`: the part of each bin inside the ranges, (classes, bins) per column.
    """

    def __init__(self, tensors: Arrays, schema: Schema, rows: int, where: Ranges) -> None:
        """Read a model's tensors, and apply the conditions `where`."""
        mark, target = "histogram.", schema.target
        shares = {k.removeprefix(mark): t.astype(np.float64) for k, t in tensors.items() if k.startswith(mark)}
        columns = [name for name in schema.names if name != target]
        bins, self.condition = decoder(schema, shares, rows, grids=restored_grids(tensors, schema))
        bins |= {name: replace(bins[name], place=tensors[f"place.{name}"].astype(np.int64)) for name in columns}
        self.schema = schema
        self.where = where
        self.bins = bins
        self.pairs = PairFactor.of(tensors, schema)
        self.mixture = Mixture.of(tensors, columns, {(pair.one, pair.other): pair.table for pair in self.pairs})
        self.prior = tensors["prior"].astype(np.float64)
        if target in where:
            self.prior = self.prior * self.condition.allowed(*where[target])
        inside = {name: bins[name].inside(tensors[f"base.{name}"].astype(np.float64)) for name in columns}
        spans = {name: bins[name].overlap(*span) for name, span in where.items() if name != target}
        self.allowed = {name: bins[name].shares_of(inside[name], span) for name, span in spans.items()}
        self.inside = inside | {name: inside[name] * span for name, span in spans.items()}

    def draw(self, labels: Whole, weights: Floats, rng: Stream, mend: Mend | None = None) -> Codes:
        """Draw rows of the classes `labels`, (rows,), as codes, (rows, columns). `weights`: (points, classes).

        `mend` gets the rows, and a function that draws some columns of the rows at some places again, in place where
        the new row is good; it returns the other places. A place that comes several times has as many tries.
        """
        points = choose(np.ascontiguousarray(weights.T), labels, rng)
        drawn = self.mixture.draw_at(labels, points, rng, self.allowed)
        codes = self._decode(labels, drawn, {}, rng)

        def again(names: Collection[str], places: Whole, is_good: Callable[[Codes], Mask]) -> Whole:
            known = {name: drawn[name][places] for name in self.mixture.partners(names) if name not in names}
            bins = self.mixture.draw_at(labels[places], points[places], rng, self.allowed, known, names)
            rows = self._decode(labels[places], bins, {}, rng, codes[places], names)
            good = is_good(rows)
            codes[places[good]] = rows[good]
            for name in names:
                drawn[name][places[good]] = bins[name][good]
            return np.setdiff1d(places, places[good])

        if mend is not None:
            mend(codes, again)
        return codes

    def draw_given(self, fixed: dict[str, Codes], chance: Floats, weights: Floats, rng: Stream) -> Codes:
        """Draw rows with `fixed` codes of some columns, (rows,) each. `chance`: (classes,); `weights` as for `draw`."""
        target = self.schema.target
        known = {name: self.bins[name].cell_of(codes) for name, codes in fixed.items() if name != target}
        own = self.condition.cell_of(fixed[target]).astype(np.int64) if target in fixed else None
        prior = chance / np.maximum(weights.mean(0), 1e-300)
        labels, points = self.mixture.draw_points_given(prior, weights, known, own, rng, self.allowed)
        return self._decode(labels, self.mixture.draw_at(labels, points, rng, self.allowed, known), fixed, rng)

    def _decode(
        self, labels: Whole, drawn: dict[str, Whole], fixed: dict[str, Codes], rng: Stream, rows: Codes | None = None,
        names: Collection[str] | None = None,
    ) -> Codes:  # fmt: skip
        """Return the codes of rows with these bins, and `fixed` codes. `names`: the columns to draw in `rows`."""
        codes = np.zeros((len(labels), len(self.schema.columns)), np.int32) if rows is None else rows
        for k, name in enumerate(self.schema.names):
            span = self.where.get(name)
            if names is not None and name not in names:
                continue
            if name == self.schema.target:
                codes[:, k] = self.condition.codes(labels.astype(np.int32), uniforms(labels, rng), span)
            else:
                codes[:, k] = self.bins[name].draw(drawn[name], labels, self.inside[name], rng, span)
            codes[:, k] = fixed.get(name, codes[:, k])
        for pair in self.pairs:
            free = [n for n in (pair.one, pair.other) if n not in fixed and (names is None or n in names)]
            self._draw_inside(pair, codes, labels, drawn, free, rng)
        return codes

    def _draw_inside(
        self, pair: PairFactor, codes: Codes, labels: Whole, drawn: BinsByColumn, free: list[str], rng: Stream
    ) -> None:
        """Draw values of the `free` columns of a pair again inside their bins, by the pair's factors, in place."""
        at = [self.schema.names.index(n) for n in (pair.one, pair.other)]
        definition = self.schema.definitions
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


class MixtureMethod(Method):
    """A method whose models are mixtures, however they were fitted."""

    def generate(
        self, tensors: Arrays, config: Any, schema: Schema, rows: int, count: int, seed: int | None,
        where: Ranges | None = None, balance: bool = False, fixed: dict[str, Codes] | None = None,
        mend: Mend | None = None,
    ) -> Codes:  # fmt: skip
        """Draw `count` synthetic rows as codes, (count, columns): class, latent point, bins, values inside bins.

        `where` conditions exactly, without rejection. Columns are independent given class and latent point, so each
        latent point is weighted by the probability of the given values. `balance` draws classes evenly. `fixed` gives
        each row its values of some columns, (count,) codes per column. The rest is drawn given these. `mend`, for rows
        without fixed values: see `Sampler.draw`. Raises UsageError for conditions that no row meets.
        """
        sampler = Sampler(tensors, schema, rows, dict(where or {}))
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
            return np.concatenate([sampler.draw(labels[part], weights, rng, mend) for part in parts])
        some = [{name: codes[part] for name, codes in fixed.items()} for part in parts]
        return np.concatenate([sampler.draw_given(given, chance, weights, rng) for given in some])
