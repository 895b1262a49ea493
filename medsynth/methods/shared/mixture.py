"""What rows are drawn from: a mixture of products of column distributions, over a fixed set of latent points.

Given a class and a latent point the columns are independent, so the chance of any values, and rows given any values,
are exact. It is read from a model's tensors and needs no PyTorch, whatever generator was trained. The columns of a wide
table have low rank: latent points are draws of a normal variable, and a bin's share is that of a Gaussian copula.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...rng import Stream
from ..protocol import Arrays
from .copula import copula_shares
from .stratified import choose, choose_each

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
BinsByColumn = dict[str, Whole]  # (rows,) each
TINY = 1e-300


def mixture_tensors(base: Mapping[str, Floats], residual: Mapping[str, NDArray[np.float32]]) -> Arrays:
    """All that `Mixture.of` needs, by name.

    `base`: log shares of every column, (classes, bins); `residual`: what latent points add to some of them, (points,
    classes, bins).
    """
    kept = {f"base.{name}": shares.astype(np.float32) for name, shares in base.items()}
    return kept | {f"residual.{name}": added for name, added in residual.items()}


@dataclass(frozen=True, eq=False)
class ColumnShares(Mapping[str, Floats]):
    """p(bin | latent point, class) of each of `names`, from a model's tensors, one column at a time."""

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
        # Not kept: all columns of a wide table together would be too large.
        loading, latent = (self.tensors[key].astype(np.float64) for key in (f"loading.{name}", "latent"))
        return copula_shares(found[0], int(self.tensors[f"ordered.{name}"][0]), loading, latent)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __len__(self) -> int:
        return len(self.names)


@dataclass(frozen=True, eq=False)
class Mixture:
    """p(row | class) = mean over latent points of the product over columns of `shares`.

    `shares`: p(bin | latent point, class) of every column, (points, classes, bins); (1, classes, bins) of a column
    that is the same at all points. `factors`: of tables of two columns, (classes, bins of the one, of the other), by
    which a point's table of both is multiplied, its sum staying one; a column is in one of them at most.
    """

    shares: Mapping[str, Floats]
    points: int
    classes: int
    factors: Mapping[tuple[str, str], Floats] = field(default_factory=dict)

    @classmethod
    def of(
        cls, tensors: Arrays, names: Sequence[str], factors: Mapping[tuple[str, str], Floats] | None = None
    ) -> Mixture:
        """The mixture that tensors were taken from. `names`: its columns in order, which a file does not keep."""
        sizes = [len(tensors[f"residual.{name}"]) for name in names if f"residual.{name}" in tensors]
        points = len(tensors["latent"]) if "latent" in tensors else max(sizes, default=1)
        return cls(ColumnShares(tensors, names), points, len(tensors[f"base.{names[0]}"]), factors or {})

    def draw(self, labels: Whole, rng: Stream, weights: Floats, allowed: dict[str, Floats]) -> BinsByColumn:
        """Bins for rows of the classes `labels`, (rows,) a column: a latent point by its weight, then each column.

        `weights`: (points, classes). `allowed`: (classes, bins) factors of some columns' shares.
        """
        return self.draw_at(labels, choose(np.ascontiguousarray(weights.T), labels, rng), rng, allowed)

    def draw_at(
        self, labels: Whole, points: Whole, rng: Stream, allowed: dict[str, Floats], known: BinsByColumn | None = None
    ) -> BinsByColumn:
        """Bins for rows of the classes `labels` at the points `points`, (rows,) each; `allowed` as for `draw`.

        `known`: those of some columns, which stay.
        """
        drawn: BinsByColumn = dict(known or {})
        for name, share in self.shares.items():
            if name in drawn:
                continue
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
        """The other column of its pair, and the factors, (classes, own bins, bins of the other), of those in one."""
        found = {one: (other, factor) for (one, other), factor in self.factors.items()}
        return found | {other: (one, factor.transpose(0, 2, 1)) for (one, other), factor in self.factors.items()}

    def draw_points_given(
        self, chance: Floats, weights: Floats, fixed: BinsByColumn, labels: Whole | None, rng: Stream,
        allowed: dict[str, Floats],
    ) -> tuple[Whole, Whole]:  # fmt: skip
        """A class and a latent point for each row whose bins in some columns are `fixed`, (rows,) a column: exactly.

        `chance`: (classes,) and `weights`: (points, classes) before the bins are known; `labels`: classes, if known;
        `allowed`: as for `draw`, of columns that are not fixed.
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
            if known:  # before they were, the weights held what is allowed of the pair
                joint = joint / np.maximum(self._pair_evidence(one, allowed), TINY)
        if labels is not None:
            joint = joint * (np.arange(self.classes) == labels[:, None])[:, None, :]
        points, labels = np.divmod(choose_each(joint.reshape(len(joint), -1), rng), self.classes)
        return labels, points

    def evidence(self, allowed: dict[str, Floats]) -> Floats:
        """p(the given columns lie on allowed values | latent point, class), (points, classes): exact, by products.

        `allowed`: (classes, bins), the allowed share of each bin of some columns.
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
        """The mean of the factors of a column's pair over what is allowed of both columns, (points, classes)."""
        return np.asarray((self.shares[name] * allowed.get(name, 1.0) * self._expected(name, allowed)).sum(-1))

    def _expected(self, name: str, allowed: dict[str, Floats]) -> Floats:
        """The mean of the factors of a column's pair over what is allowed of the other, (points, classes, own bins)."""
        other, factor = self._partners[name]
        return np.asarray(
            np.einsum("kab,zkb->zka", factor, self.shares[other] * allowed.get(other, 1.0), optimize=True)
        )
