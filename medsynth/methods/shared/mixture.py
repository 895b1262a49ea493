"""What rows are drawn from: a mixture of products of column distributions, over a fixed set of latent points.

Given a class and a latent point the columns are independent, so the chance of any values, and rows given any values,
are exact. It is read from a model's tensors and needs no PyTorch, whatever generator was trained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...rng import Stream
from ..protocol import Arrays
from .stratified import choose

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


@dataclass(frozen=True, eq=False)
class Mixture:
    """p(row | class) = mean over latent points of the product over columns of `shares`.

    `shares`: p(bin | latent point, class) of every column, (points, classes, bins); (1, classes, bins) of a column
    that is the same at all points.
    """

    shares: dict[str, Floats]
    points: int
    classes: int

    @classmethod
    def of(cls, tensors: Arrays, names: Sequence[str]) -> Mixture:
        """The mixture that tensors were taken from. `names`: its columns in order, which a file does not keep."""
        shares = {}
        for name in names:
            logits = tensors[f"base.{name}"].astype(np.float64)[None]
            if f"residual.{name}" in tensors:
                logits = logits + tensors[f"residual.{name}"]
            found = np.exp(logits - logits.max(-1, keepdims=True))
            shares[name] = found / found.sum(-1, keepdims=True)
        points = max((len(share) for share in shares.values()), default=1)
        return cls(shares, points, next(share.shape[1] for share in shares.values()))

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
        cumulative = np.cumsum(joint.reshape(len(joint), -1), 1)
        flat = (rng.random((len(joint), 1)) * cumulative[:, -1:] > cumulative).sum(1).clip(max=cumulative.shape[1] - 1)
        points, labels = np.divmod(flat, self.classes)
        return labels, points

    def evidence(self, allowed: dict[str, Floats]) -> Floats:
        """p(the given columns lie on allowed values | latent point, class), (points, classes): exact, by products.

        `allowed`: (classes, bins), the allowed share of each bin of some columns.
        """
        found = np.ones((self.points, self.classes))
        for name, part in allowed.items():
            found = found * (self.shares[name] * part).sum(-1)
        return found
