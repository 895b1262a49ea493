"""What rows are drawn from: a mixture of products of column distributions, over a fixed set of latent points.

Given a class and a latent point the columns are independent, so the chance of any values, and rows given any values,
are exact. It is read from a model's tensors and needs no PyTorch, whatever generator was trained. The columns of a wide
table have low rank: latent points are draws of a normal variable, and a bin's share is that of a Gaussian copula.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

from ...rng import Stream
from ..protocol import Arrays
from .stratified import choose, choose_each

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
BinsByColumn = dict[str, Whole]  # (rows,) each


def mixture_tensors(base: Mapping[str, Floats], residual: Mapping[str, NDArray[np.float32]]) -> Arrays:
    """All that `Mixture.of` needs, by name.

    `base`: log shares of every column, (classes, bins); `residual`: what latent points add to some of them, (points,
    classes, bins).
    """
    kept = {f"base.{name}": shares.astype(np.float32) for name, shares in base.items()}
    return kept | {f"residual.{name}": added for name, added in residual.items()}


def low_rank_tensors(loadings: Mapping[str, Floats], ordered: Mapping[str, int], latent: Floats) -> Arrays:
    """What `Mixture.of` needs, beside their base, of columns of low rank.

    `loadings`: (classes, rank) of each; `ordered`: how many first bins are neighbours in value; `latent`: (points,
    rank).
    """
    kept = {f"loading.{name}": loading.astype(np.float32) for name, loading in loadings.items()}
    kept |= {f"ordered.{name}": np.array([ordered[name]], np.float32) for name in loadings}
    return kept | {"latent": latent.astype(np.float32)}


def normal_cuts(shares: Floats) -> Floats:
    """Where a standard normal variable is cut into parts of `shares`, (classes, bins): (classes, bins + 1)."""
    below = np.cumsum(shares, 1) / shares.sum(1, keepdims=True)
    return np.asarray(np.pad(ndtri(below[:, :-1]), ((0, 0), (1, 1)), constant_values=(-np.inf, np.inf)))


def copula_shares(shares: Floats, ordered: int, loading: Floats, latent: Floats) -> Floats:
    """p(bin | latent point, class), (points, classes, bins): of the part of a normal variable that `loading` leaves.

    `shares`: (classes, bins), of which the first `ordered` follow the points; `loading`: (classes, rank), of norms
    below one.
    """
    found = np.tile(shares, (len(latent), 1, 1))
    rest = np.sqrt(1 - np.square(loading).sum(1))
    below = ndtr((normal_cuts(shares[:, :ordered]) - (latent @ loading.T)[:, :, None]) / rest[:, None])
    found[:, :, :ordered] = np.diff(below) * shares[:, :ordered].sum(1)[:, None]
    return np.asarray(found)


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
    that is the same at all points.
    """

    shares: Mapping[str, Floats]
    points: int
    classes: int

    @classmethod
    def of(cls, tensors: Arrays, names: Sequence[str]) -> Mixture:
        """The mixture that tensors were taken from. `names`: its columns in order, which a file does not keep."""
        sizes = [len(tensors[f"residual.{name}"]) for name in names if f"residual.{name}" in tensors]
        points = len(tensors["latent"]) if "latent" in tensors else max(sizes, default=1)
        return cls(ColumnShares(tensors, names), points, len(tensors[f"base.{names[0]}"]))

    def draw(self, labels: Whole, rng: Stream, weights: Floats, allowed: dict[str, Floats]) -> BinsByColumn:
        """Bins for rows of the classes `labels`, (rows,) a column: a latent point by its weight, then each column.

        `weights`: (points, classes). `allowed`: (classes, bins) factors of some columns' shares.
        """
        return self.draw_at(labels, choose(np.ascontiguousarray(weights.T), labels, rng), rng, allowed)

    def draw_at(self, labels: Whole, points: Whole, rng: Stream, allowed: dict[str, Floats]) -> BinsByColumn:
        """Bins for rows of the classes `labels` at the points `points`, (rows,) each; `allowed` as for `draw`."""
        drawn: BinsByColumn = {}
        for name, share in self.shares.items():
            groups = points * self.classes + labels if len(share) > 1 else labels
            drawn[name] = choose((share * allowed.get(name, 1.0)).reshape(-1, share.shape[-1]), groups, rng)
        return drawn

    def draw_points_given(
        self, chance: Floats, weights: Floats, fixed: BinsByColumn, labels: Whole | None, rng: Stream
    ) -> tuple[Whole, Whole]:
        """A class and a latent point for each row whose bins in some columns are `fixed`, (rows,) a column: exactly.

        `chance`: (classes,) and `weights`: (points, classes) before the bins are known; `labels`: classes, if known.
        """
        joint = np.asarray(chance * weights)[None]
        for name, bins in fixed.items():
            joint = joint * self.shares[name][:, :, bins].transpose(2, 0, 1)
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
            found = found * (self.shares[name] * part).sum(-1)
        return found
