"""Draw stratified: among rows with the same distribution, each value gets its expected number of rows, up to rounding.

Independent draws would add multinomial noise that privacy does not need. Here each row's draw still follows its
distribution. The n rows of a group are drawn from n equal strata (stratified sampling; Cochran 1977, chapter 5).
"""

from __future__ import annotations

import numpy as np

from ..arrays import Floats, Whole
from ..rng import Stream

FEWEST_BITS = 32  # random bits to shuffle rows of a group; among a million rows, about a hundred pairs share them
BELOW_ONE = 1 - 1e-9  # bound on uniforms, so that a group's number plus a uniform never rounds up


def strata(groups: Whole, rng: Stream) -> tuple[Whole, Whole, Floats]:
    """Return rows ordered by group and shuffled within groups, and in that order their groups and uniform numbers.

    Numbers lie in [0, 1). The n numbers of a group ascend, with one in each of n equal strata. All (rows,).
    """
    order = shuffled(groups, rng)
    sizes = np.bincount(groups)
    ordered, starts = np.repeat(np.arange(len(sizes)), sizes), np.repeat(np.cumsum(sizes) - sizes, sizes)
    return order, ordered, (np.arange(len(groups)) - starts + rng.random(len(groups))) / np.repeat(sizes, sizes)


def shuffled(groups: Whole, rng: Stream) -> Whole:
    """Return rows ordered by group and shuffled within groups: (rows,).

    Group, random bits and row are packed into one integer and sorted, about twice as fast as `argsort`. If too few
    random bits are left, use `argsort`.
    """
    row = len(groups).bit_length()
    group = int(groups.max(initial=1)).bit_length()
    if (chance := 64 - row - group) < FEWEST_BITS:
        return np.argsort(groups + BELOW_ONE * rng.random(len(groups)))
    keys = rng.bit_generator.random_raw(len(groups)) >> np.uint64(64 - chance) << np.uint64(row)
    keys |= np.arange(len(groups), dtype=np.uint64)
    keys |= groups.astype(np.uint64) << np.uint64(row + chance)
    keys.sort()
    return (keys & np.uint64((1 << row) - 1)).astype(np.int64)


def uniforms(groups: Whole, rng: Stream) -> Floats:
    """Draw a uniform number in [0, 1) for each row, (rows,). A group of n rows has one in each of n equal strata.

    >>> drawn = uniforms(np.zeros(4, np.int64), np.random.default_rng(0))
    >>> np.sort(np.floor(4 * drawn)).tolist()
    [0.0, 1.0, 2.0, 3.0]
    """
    order, _, ranks = strata(groups, rng)
    found = np.empty(len(groups))
    found[order] = ranks
    return found


def choose_each(weights: Floats, rng: Stream) -> Whole:
    """Draw a cell for each row, (rows,), by its own weights, (rows, cells). Draws are independent."""
    below = np.cumsum(weights, 1)
    at = rng.random((len(weights), 1)) * below[:, -1:]
    return np.asarray((at > below).sum(1).clip(max=weights.shape[1] - 1))


def choose(weights: Floats, groups: Whole, rng: Stream) -> Whole:
    """Draw a cell for each row, (rows,), by its group's `weights`, (groups, cells); never one of weight zero."""
    cumulative = np.cumsum(weights, 1)
    cumulative /= np.maximum(cumulative[:, -1:], 1e-300)
    line = (cumulative + np.arange(len(weights))[:, None]).ravel()
    order, ordered, ranks = strata(groups, rng)
    found = np.empty(len(groups), np.int64)
    # Ascending lookups are several times as fast as random ones.
    found[order] = np.searchsorted(line, ordered + BELOW_ONE * ranks, side="right") - ordered * weights.shape[1]
    return found.clip(0, weights.shape[1] - 1)
