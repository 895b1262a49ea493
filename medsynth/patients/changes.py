"""How far a number moves from one row of a patient to the next: tables of changes, and the values that they imply."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ..arrays import Floats, Whole
from ..privacy.queries.cells import Beside
from .conditional import Chances
from .split_rows import LAST, NOW, named
from .variables import Axis, Variable

STEPS = (0, 1, 2, 4, 8, 16)  # cells from the last value: a change is above one step and up to the next
FEW_STEPS = (0, 2, 8)
FINEST = ((3, STEPS), (1, STEPS), (1, FEW_STEPS))  # parts to start in, and steps: the finest first
DIRECTIONS = 4  # down, about the same, up, from or to a missing value
STARTS = ((0.0, 0.0, 0.0), (2.0, 2.0, 0.0), (0.0, 4.0, 0.0))  # of fits of a kernel
LIMITS = ((-3.0, 7.0), (-3.0, 7.0), (-30.0, 30.0))  # of its logarithms of a and b, and of c


@dataclass(frozen=True, eq=False)
class Changes:
    """Groups of a column's changes: by the number of cells that it moves, above one of the `steps` and up to the next,
    and by which of the `parts` of the column it starts in.
    """

    variable: Variable
    steps: tuple[int, ...]
    parts: int

    @classmethod
    def of(cls, variable: Variable, most: float) -> Changes | None:
        """Return groups, `most` at most or the fewest; None if the column's medium groups contain as much."""
        ordered = variable.ordered(np.arange(variable.values))
        if not variable.repeats or ordered <= int(variable.medium[:ordered].max(initial=-1)) + 1:
            return None
        found = [cls(variable, steps, parts) for parts, steps in FINEST]
        return next((one for one in found if one.parts * one.sizes <= most), found[-1])

    @property
    def ordered(self) -> int:
        """The number of first cells of values that are neighbours in value."""
        return self.variable.ordered(np.arange(self.variable.values))

    @property
    def sizes(self) -> int:
        """The number of groups of changes per part: the last two are missing values and repeated values."""
        return 2 * len(self.steps) + 3

    @cached_property
    def shares(self) -> Floats:
        """The shares of cells that are neighbours in value, (ordered,), with the sum one."""
        found = np.bincount(self.variable.group, self.variable.shares, self.variable.values)[: self.ordered] + 1e-6
        return np.asarray(found / found.sum())

    @cached_property
    def begins(self) -> Whole:
        """Where a change starts, (cells of values,): in which part, or at a missing value."""
        mass = np.cumsum(self.shares)
        part = np.minimum((self.parts * (mass - mass[0] / 2)).astype(np.int64), self.parts - 1)
        return np.append(part, np.full(self.variable.values - self.ordered, self.parts))

    @cached_property
    def apart(self) -> Whole:
        """The number of cells from one cell of values up to another: (cells in the last row, cells in this one)."""
        cells = np.arange(self.variable.values)
        return np.asarray(cells - cells[:, None])

    @cached_property
    def groups(self) -> Whole:
        """The group of each change, (cells of values in the last row, cells in this one)."""
        size = np.searchsorted(self.steps, np.abs(self.apart))
        middle = len(self.steps)
        found = np.where(self.apart < 0, middle - size, middle + size)
        found[self.ordered :] = found[:, self.ordered :] = self.sizes - 2
        found = np.column_stack([found, np.full(self.variable.values, self.sizes - 1)])
        return np.asarray(found + self.sizes * self.begins[:, None])

    def directions(self, counts: Floats) -> Whole:
        """Return the direction of each change, (cells of values in the last row, cells in this one), by `counts`.

        "About the same" means the number of cells that contains closest to a third of the changes.
        """
        middle = len(self.steps)
        sizes = np.maximum(counts, 0)
        near = sizes[middle] + sizes[-1] + np.append(0, np.cumsum(sizes[middle + 1 : -2] + sizes[middle - 1 :: -1]))
        same = self.steps[int(np.abs(near[:-1] / max(near[-1], 1e-9) - 1 / 3).argmin())]
        found = np.where(np.abs(self.apart) <= same, 1, np.where(self.apart < 0, 0, 2))
        found[self.ordered :] = found[:, self.ordered :] = DIRECTIONS - 1
        return np.column_stack([found, np.where(np.arange(len(found)) < self.ordered, 1, DIRECTIONS - 1)])

    def axis(self, groups: Whole) -> Axis:
        """Return the axis of the `groups` or directions of changes in a contingency table."""
        name = self.variable.name
        values = self.variable.map(np.arange(self.variable.values))
        cells = groups.max() + 1
        return (named(NOW, name), named(LAST, name)), Beside(values, groups[:, :-1], groups[:, -1], int(cells))

    def kernel(self, counts: Floats, std: float) -> Floats:
        """Return smooth chances of values, (ordered cells in the last row, in this one), from noisy `counts`, (sizes,).

        They are proportional to a power of the one-way marginal times exp(-a |d| - b d^2 + c d), where d is the change
        in cells, by least squares. A stationary Gaussian autoregression of correlation r has this form, with the power
        1 / (1 + r): its joint density is symmetric, so p(y | x) = sqrt(p(y) / p(x)) K(x, y).
        """
        from scipy.optimize import minimize  # slow to import, and every sample imports this module

        apart = self.apart[: self.ordered, : self.ordered] / self.ordered
        size = self.groups[: self.ordered, : self.ordered] % self.sizes
        cells = np.arange(self.ordered)
        total = max(float(counts[:-2].sum()), 1.0)

        def chances(point: Floats, power: float) -> Floats:
            tilt = point[2] * apart - np.exp(point[0]) * np.abs(apart) - np.exp(point[1]) * apart**2
            logs = power * np.log(self.shares) + tilt
            found = np.exp(logs - logs.max(1, keepdims=True))
            return np.asarray(found / found.sum(1, keepdims=True))

        def loss(point: Floats, power: float) -> float:
            joint = self.shares[:, None] * chances(point, power)
            found = np.bincount(size.ravel(), joint.ravel(), self.sizes)[:-2]
            return float((((counts[:-2] - total * found) / std) ** 2).sum() + 0.01 * (point**2).sum())

        power = 1.0
        found = np.empty(0)
        for _ in range(2):
            fits = [minimize(loss, start, (power,), method="L-BFGS-B", bounds=LIMITS) for start in STARTS]
            found = chances(min(fits, key=lambda fit: float(fit.fun)).x, power)
            joint = self.shares[:, None] * found
            one, other = cells - self.shares @ cells, cells - joint.sum(0) @ cells
            spread = np.sqrt((self.shares @ one**2) * (joint.sum(0) @ other**2))
            power = 1 / (1 + max(0.0, float(one @ joint @ other / max(spread, 1e-9))))
        return found

    def offset(self, kernel: Floats) -> Floats:
        """Return what a kernel adds to the base log chances of cells, (cells of values in the last row, cells)."""
        found = np.zeros((self.variable.values, self.variable.cells))
        base = self.variable.base[: self.ordered]
        logs = np.log(np.maximum(kernel, 1e-12))
        found[: self.ordered, : self.ordered] = logs + np.log(np.exp(base).sum()) - base
        return found

    def expected_values(self, kernel: Floats, table: Floats, part: Whole) -> Floats:
        """Return a table, (groups of the last value, of this one), that follows a kernel if both have a value."""
        groups = int(part[: self.ordered].max()) + 1
        inside = np.eye(groups)[part[: self.ordered]]
        joint = inside.T @ (self.shares[:, None] * kernel) @ inside
        found = table.copy()
        rows = table[:groups, :groups].sum(1, keepdims=True)
        found[:groups, :groups] = joint / joint.sum(1, keepdims=True) * rows
        return found

    def expected_sizes(self, kernel: Floats, sizes: Floats) -> Floats:
        """Return shares of sizes of changes, (sizes,), that follow a kernel if both rows have a value."""
        groups = self.groups[: self.ordered, : self.ordered] % self.sizes
        found = np.bincount(groups.ravel(), (self.shares[:, None] * kernel).ravel(), self.sizes)
        return np.append(found[:-2] * sizes[:-2].sum(), sizes[-2:])


def moved(counts: Floats, std: float, directions: Whole) -> Chances:
    """Return chances given context and last cell, from `counts`, (groups of a context, directions)."""
    groups, count = counts.shape
    tie = (count * np.arange(groups)[:, None, None] + directions).reshape(-1, directions.shape[1])
    each = np.arange(groups)
    return Chances(tie, counts.ravel(), std, np.repeat(each, len(directions)), np.repeat(each, count))
