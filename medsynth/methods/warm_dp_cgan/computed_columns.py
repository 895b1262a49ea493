"""Factors of two columns' table by what was measured of a column that a rule computes from both.

A few smooth functions of either input follow a narrow computed column only roughly: an index of small weights by small
heights. The factors are the likeliest under the noise of the three columns' measurements and a normal prior of their
logarithms: an exponential tilt of the table that the generator expects (Csiszar 1975), which keeps the inputs' shares.
A latent point keeps its weight, and other columns their relations. How wide the prior is, is learned: where the latent
points follow the computed column already, factors would follow the noise.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ...rng import Stream
from ...transforms.grid import Grid
from ..shared.pair_factors import PairFactor
from .generator import Generator
from .marginals.class_marginals import ClassMarginals
from .rules.derived_columns import DerivedColumn

Floats = NDArray[np.float64]
PRIOR_STDS = (0.1, 0.25, 0.5, 1.0, 2.0)  # of the logarithms of a computed column's factors: the likeliest is taken
OWN = 0.1  # the part of that variance that each class has by itself; the rest is common to all
INPUT_STD = 0.3  # of the logarithms of the inputs' factors
MOST_STEPS, PARTS_OF_A_STEP = 50, (1.0, 0.5, 0.25, 0.1, 0.01)
ROUNDS = 5  # of fitting the factors, and weighing points so that a point's table keeps its sum
TINY = 1e-12
CLOSE = 1e-3  # of the logarithm of a likelihood: a step that gains less is the last
MOST_CELLS = 1 << 23  # points by classes by bins of both: for a larger table there are no factors
MOST_FACTORS = 1500  # of all classes: their covariance is a matrix of so many rows


def pair_factors(
    generator: Generator, start: ClassMarginals, derived: Mapping[str, DerivedColumn], rng: Stream
) -> list[PairFactor]:
    """Of the fitted `generator`, for each derived column; a column that is an input of two, for the first of these."""
    found, taken = list[PairFactor](), set[str]()
    for name, column in derived.items():
        one, other = column.inputs
        sizes = [start.bins[some].cells for some in column.inputs]
        small = generator.points * generator.classes * math.prod(sizes) <= MOST_CELLS
        if taken & {one, other} or not small or generator.classes * (sum(sizes) + column.cells) > MOST_FACTORS:
            continue
        taken |= {one, other}
        part = generator.part([one, other])
        shares = part.by_bin().detach().double().cpu().numpy()
        first, second = shares[part.spans[one]], shares[part.spans[other]]
        inside, weights = column.of_inputs(start.bins, rng), np.full(first.shape[1:], 1 / generator.points)
        for _ in range(ROUNDS):
            joint = np.einsum("akz,bkz,kz->kab", first, second, weights, optimize=True)
            table, factors = likeliest_factors(joint, inside, (one, other, name), start)
            sums = np.einsum("akz,bkz,kab->kz", first, second, table, optimize=True)
            weights = 1 / (generator.points * np.maximum(sums, TINY))
        largest = np.stack([np.where(inside > 0, own, 0.0).max(-1) for own in factors])
        starts = np.searchsorted(column.bins.place, np.arange(column.bins.ordered + 1))
        bins = Grid(column.bins.grid.ends[starts], column.bins.column.gaps)
        found.append(PairFactor(one=one, other=other, computed=name, table=table, factors=factors,
                                largest=largest, bins=bins))  # fmt: skip
    return found


def likeliest_factors(
    joint: Floats, inside: Floats, names: tuple[str, str, str], known: ClassMarginals
) -> tuple[Floats, Floats]:
    """The factors of `joint`, the table of two columns by class, (classes, bins of the one, of the other), whose sums
    stay one; and those of the computed column's bins, (classes, bins).

    `inside`: the share of each of its bins in the table's cells, (bins of the one, of the other, its own); `names`: of
    the two and of the computed one; `known`: what was measured of them.
    """
    family = _Family(joint, inside)
    wanted = np.concatenate([np.exp(known.base[name]) for name in names], 1)
    precision = _precision(known, names)
    found = [_likeliest(family, wanted, precision, _prior(family, std)) for std in PRIOR_STDS]
    logs, _ = max(found, key=lambda one: one[1])
    one, other, own = np.split(np.exp(logs), family.parts, 1)
    table = one[:, :, None] * other[:, None, :] * np.einsum("abc,kc->kab", inside, own)
    return table / (joint * table).sum((1, 2), keepdims=True), own


def _prior(family: _Family, std: float) -> Floats:
    """The covariance of the logarithms of factors, (classes, bins, classes, bins)."""
    bins, classes = sum(family.sizes), family.classes
    found = np.zeros((classes, bins, classes, bins))
    of_inputs, computed = np.arange(family.parts[1]), np.arange(family.parts[1], bins)
    found[:, computed, :, computed] = std**2 * (1 - OWN)
    for k in range(classes):
        found[k, computed, k, computed] += std**2 * OWN
        found[k, of_inputs, k, of_inputs] = INPUT_STD**2
    return found


class _Family:
    """Distributions of a cell and a bin inside it, by logarithms of factors, (classes, bins of all three columns)."""

    def __init__(self, joint: Floats, inside: Floats) -> None:
        self._before, self.sizes = joint[..., None] * inside, inside.shape
        self.parts = np.cumsum(self.sizes)[:2]
        self.classes = len(joint)

    def means(self, logs: Floats) -> tuple[Floats, Floats]:
        """Shares of the three columns' bins, (classes, bins), and the covariance of a row's indicators of them."""
        one, other, own = np.split(np.exp(logs - logs.max(1, keepdims=True)), self.parts, 1)
        chance = self._before * one[:, :, None, None] * other[:, None, :, None] * own[:, None, None, :]
        chance /= chance.sum((1, 2, 3), keepdims=True)
        pairs = [[chance.sum(tuple({1, 2, 3} - {i, j})) for j in (1, 2, 3)] for i in (1, 2, 3)]
        blocks = [
            [
                pairs[i][j][:, :, None] * np.eye(self.sizes[i]) if i == j
                else pairs[i][j] if i < j else pairs[i][j].transpose(0, 2, 1)
                for j in range(3)
            ]
            for i in range(3)
        ]  # fmt: skip
        shares = np.concatenate([pairs[i][i] for i in range(3)], 1)
        return shares, np.block(blocks) - shares[:, :, None] * shares[:, None, :]


def _precision(known: ClassMarginals, names: tuple[str, str, str]) -> Floats:
    """Inverse variances of shares by class, (classes, bins, classes, bins): by the noise of each, and of their sum."""
    sizes = [known.base[name].shape[1] for name in names]
    std, whole = (
        np.concatenate([np.broadcast_to(some[n], size) for n, size in zip(names, sizes, strict=True)])
        for some in (known.std, known.whole_std)
    )
    rows, classes = known.totals, len(known.totals)
    by_class = np.outer(rows, rows)[:, None, :, None] * np.diag(whole**-2.0)[None, :, None, :]
    for k in range(classes):
        by_class[k, :, k, :] += rows[k] ** 2 * np.diag(std**-2.0)
    return np.asarray(by_class)


def _likeliest(family: _Family, wanted: Floats, precision: Floats, prior: Floats) -> tuple[Floats, float]:
    """The likeliest logarithms of factors under a normal prior of covariance `prior`, and that of the evidence.

    Gauss and Newton's steps, shortened until the loss falls; Laplace's approximation of the evidence.
    """
    size = wanted.size
    weights, covariance = precision.reshape(size, size), prior.reshape(size, size)
    root = np.linalg.cholesky(covariance + 1e-9 * np.eye(size))  # factors are this times independent numbers

    def state(values: Floats) -> tuple[float, Floats, Floats]:
        """The loss, its gradient, and what the measurements add to its second derivative."""
        shares, covariances = family.means((root @ values).reshape(wanted.shape))
        slope = np.zeros((*wanted.shape, *wanted.shape))
        for k in range(family.classes):
            slope[k, :, k, :] = covariances[k]
        slope, gap = slope.reshape(size, size) @ root, (shares - wanted).ravel()
        pulled = weights @ gap
        return float(gap @ pulled + values @ values) / 2, slope.T @ pulled + values, slope.T @ weights @ slope

    values = np.zeros(size)
    now, gradient, curvature = state(values)
    for _ in range(MOST_STEPS):
        step = np.linalg.solve(curvature + np.eye(size), gradient)
        for part in PARTS_OF_A_STEP:
            after = state(values - part * step)
            if after[0] < now:
                break
        else:
            break
        gain, values, (now, gradient, curvature) = now - after[0], values - part * step, after
        if gain < CLOSE:
            break
    evidence = -now - np.linalg.slogdet(np.eye(size) + curvature)[1] / 2
    return (root @ values).reshape(wanted.shape), float(evidence)
