"""The distribution of one column of a later row given others: a multinomial regression that meets measured tables.

Given contexts x_1, x_2, ..., p(cell | x) is proportional to exp(sum over k of W_k[x_k, cell]). The measured tables of
(x_k, cell) are its sufficient statistics. Of all distributions that meet them it has the largest entropy (Berger, Della
Pietra, Della Pietra 1996, section 3), so it adds nothing unmeasured. It is fitted on simulated rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..arrays import Floats, Mask, Whole
from ..methods.stratified import choose_each
from ..rng import Stream

PRECISION = 0.05  # of the normal prior of a weight, in addition to the noise of its count
STEPS = 60  # of L-BFGS
LARGEST_FACTOR = 4.0  # between the simulated and the measured frequency of a context's group


@dataclass(frozen=True, eq=False)
class Chances:
    """What is known of a column's cells given a context: `counts`, with remaining noise of deviation `std`.

    `tie`: (groups of the context, cells) the index of a count; `region`: (groups of the context,) and `region_of`:
    (counts,) show which counts are of the same rows. `offset`: (groups of the context, cells), known log chances.
    """

    tie: Whole
    counts: Floats
    std: float
    region: Whole
    region_of: Whole
    offset: Floats | None = None

    @classmethod
    def by_group(cls, counts: Floats, std: float, group: Whole) -> Chances:
        """Create chances from `counts`, (groups of the context, groups of cells). `group`: of each cell, (cells,)."""
        one, other = counts.shape
        each = np.arange(one)
        return cls(each[:, None] * other + group, counts.ravel(), std, each, np.repeat(each, other))

    def goal(self, context: Whole, share: Floats, chances: Floats) -> Floats:
        """Return the counts, (counts,), for groups of the context as frequent as in rows of `share`, (rows,).

        Rows that are simulated far more often than they were measured have the `chances`, (cells,), for the rest.
        """
        regions = int(self.region_of.max()) + 1
        rows = np.bincount(context, share, len(self.tie))
        plain = np.bincount(self.tie.ravel(), np.outer(rows, chances).ravel(), len(self.counts))
        simulated = np.bincount(self.region, rows, regions)
        measured = np.bincount(self.region_of, self.counts, regions)
        noise = self.std * np.sqrt(np.bincount(self.region_of, minlength=regions))
        factor = np.minimum(simulated / np.maximum(measured, np.maximum(noise, 1e-9)), LARGEST_FACTOR)
        rest = (simulated - factor * measured) / np.maximum(simulated, 1e-9)
        return np.asarray(self.counts * factor[self.region_of] + plain * rest[self.region_of])


def log_chances(weights: Sequence[Floats], contexts: Sequence[Whole]) -> Floats:
    """Return log chances of cells, (rows, cells), up to a constant per row.

    `weights`: (groups of a context, cells) and `contexts`: (rows,) groups, one of each per context.
    """
    found = weights[0][contexts[0]]
    for weight, context in zip(weights[1:], contexts[1:], strict=True):
        found = found + weight[context]
    return np.asarray(found)


def drawn(logs: Floats, rng: Stream) -> Whole:
    """Draw a cell for each row by its log chances, (rows, cells)."""
    return choose_each(np.exp(logs - logs.max(1, keepdims=True)), rng)


@dataclass(frozen=True, eq=False)
class Fitted:
    """`weights`: as in `log_chances`; `point`: the parameters behind them, to start a later fit."""

    weights: Sequence[Floats]
    point: Floats


def fitted(
    base: Floats, wanted: Sequence[Chances], contexts: Sequence[Whole], rows: float, weights: Floats,
    start: Floats | None = None, allowed: Mask | None = None,
) -> Fitted:  # fmt: skip
    """Fit weights to add to the log chances `base`, (cells,), so that the tables expected over simulated rows of
    `weights`, (rows,), are the wanted ones.

    Counts are met as closely as their noise allows. The fit maximises the likelihood under Gaussian noise of the
    counts, with a prior that favours entropy relative to `base`. That is a normal prior of weights whose precision is
    the variance of the noise (Dudik, Phillips, Schapire 2007, section 4).

    `contexts`: (rows,) groups, one for each of `wanted`. `rows`: the number of rows in the counts. `start`: parameters
    of a fit to the first of `wanted`. `allowed`: (rows, cells) what rules allow; other cells have no chance.
    """
    from scipy.optimize import minimize  # slow to import, and every sample imports this module
    from scipy.sparse import csr_matrix

    share = rows * weights / weights.sum()
    heights = np.cumsum([0, *(len(one.tie) for one in wanted)])
    places = np.concatenate([context + first for context, first in zip(contexts, heights, strict=False)])
    here = np.tile(np.arange(len(share)), len(wanted))
    design = csr_matrix((np.ones(len(here)), (here, places)), (len(share), int(heights[-1])))
    weighted = csr_matrix((share[here], (places, here)), (int(heights[-1]), len(share)))
    ends = np.cumsum([0, *(len(one.counts) for one in wanted)])
    tie = np.concatenate([one.tie + first for one, first in zip(wanted, ends, strict=False)])
    given = base + np.where(True if allowed is None else allowed, np.zeros((len(share), 1)), -np.inf)
    for one, context in zip(wanted, contexts, strict=True):
        if one.offset is not None:
            given = given + one.offset[context]
    plain = np.exp(base - base.max())
    plain /= plain.sum()
    goal = np.concatenate([one.goal(context, share, plain) for one, context in zip(wanted, contexts, strict=True)])
    ridge = np.concatenate([np.full(len(one.counts), PRECISION + one.std**2) for one in wanted])
    scale = np.sqrt(np.maximum(goal, 1.0) + ridge)  # roughly the root of the curvature evens the steps

    def loss(point: Floats) -> tuple[float, Floats]:
        own = point / scale
        logs = given + design @ own[tie]
        top = logs.max(1)
        found = np.exp(logs - top[:, None])
        total = found.sum(1)
        expected = np.bincount(tie.ravel(), (weighted @ (found / total[:, None])).ravel(), len(goal))
        value = float(share @ (top + np.log(total)) - goal @ own + (ridge * own) @ own / 2)
        return value / rows, (expected - goal + ridge * own) / scale / rows

    first = np.zeros(len(goal))
    first[: 0 if start is None else len(start)] = 0.0 if start is None else start
    best = minimize(loss, first * scale, jac=True, method="L-BFGS-B", options={"maxiter": STEPS}).x / scale
    found = [best[part] for part in np.split(tie, heights[1:-1])]
    return Fitted([w if one.offset is None else w + one.offset for w, one in zip(found, wanted, strict=True)], best)
