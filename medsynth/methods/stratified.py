"""Stratified draws: of rows that share a distribution, each value gets its expected number of them, but for roundings.

Independent draws add multinomial noise that no privacy asks for. Here each row's own draw still has its distribution;
the rows of one group are drawn from as many equal strata of it (stratified sampling; Cochran 1977, chapter 5).
"""

from __future__ import annotations

import numpy as np

from ..privacy.queries.rows import Floats, Whole
from ..rng import Stream

FEWEST_BITS = 32  # that put rows of a group at random: of a million rows some hundred pairs share them
BELOW_ONE = 1 - 1e-9  # uniforms stay below it, so that a sum of a group's number and a uniform never rounds up


def strata(groups: Whole, rng: Stream) -> tuple[Whole, Whole, Floats]:
    """The rows in the order of their groups, at random within one; in that order their groups and numbers in [0, 1).

    Each number is uniform; those of one group ascend, one in each of as many equal strata. All (rows,).
    """
    order, sizes = shuffled(groups, rng), np.bincount(groups)
    ordered, starts = np.repeat(np.arange(len(sizes)), sizes), np.repeat(np.cumsum(sizes) - sizes, sizes)
    return order, ordered, (np.arange(len(groups)) - starts + rng.random(len(groups))) / np.repeat(sizes, sizes)


def shuffled(groups: Whole, rng: Stream) -> Whole:
    """The rows in the order of their groups, at random within one: (rows,).

    Group, random bits and row are sorted as one whole number each, about twice as fast as places are found. Where too
    few bits are left to chance, places are found.
    """
    row, group = len(groups).bit_length(), int(groups.max(initial=1)).bit_length()
    if (chance := 64 - row - group) < FEWEST_BITS:
        return np.argsort(groups + BELOW_ONE * rng.random(len(groups)))
    keys = rng.bit_generator.random_raw(len(groups)) >> np.uint64(64 - chance) << np.uint64(row)
    keys |= np.arange(len(groups), dtype=np.uint64)
    keys |= groups.astype(np.uint64) << np.uint64(row + chance)
    keys.sort()
    return (keys & np.uint64((1 << row) - 1)).astype(np.int64)


def uniforms(groups: Whole, rng: Stream) -> Floats:
    """A number in [0, 1) for each row, (rows,): uniform, and of the rows of one group one in each equal stratum.

    >>> drawn = uniforms(np.zeros(4, np.int64), np.random.default_rng(0))
    >>> np.sort(np.floor(4 * drawn)).tolist()
    [0.0, 1.0, 2.0, 3.0]
    """
    order, _, ranks = strata(groups, rng)
    found = np.empty(len(groups))
    found[order] = ranks
    return found


def choose_each(weights: Floats, rng: Stream) -> Whole:
    """A cell for each row by weights of its own, (rows, cells): (rows,). Draws are independent."""
    below = np.cumsum(weights, 1)
    at = rng.random((len(weights), 1)) * below[:, -1:]
    return np.asarray((at > below).sum(1).clip(max=weights.shape[1] - 1))


def choose(weights: Floats, groups: Whole, rng: Stream) -> Whole:
    """A cell for each row, (rows,), by the `weights` of its group: (groups, cells). No cell of weight zero is drawn."""
    cumulative = np.cumsum(weights, 1)
    cumulative /= np.maximum(cumulative[:, -1:], 1e-300)
    line = (cumulative + np.arange(len(weights))[:, None]).ravel()
    order, ordered, ranks = strata(groups, rng)
    found = np.empty(len(groups), np.int64)
    # Looked up in ascending order, which is several times as fast as at random.
    found[order] = np.searchsorted(line, ordered + BELOW_ONE * ranks, side="right") - ordered * weights.shape[1]
    return found.clip(0, weights.shape[1] - 1)
