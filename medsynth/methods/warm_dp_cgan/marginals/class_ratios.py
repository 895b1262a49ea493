"""Shares of a column's bins by class: from noisy counts by class, and how far classes differ in all columns."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...shared.conditionals import Counts, difference_precision, log_evidence, posterior_mode

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
LOG_RATIO_STD = 4.0  # prior standard deviation of a class's log ratio to the whole table, a level or one of few bins
FEW_BINS = 4  # of more neighbouring ones it grows as their root: how finely a range is cut must not bring it nearer
NEIGHBOUR_STD = 1.0  # of the difference of such log ratios between neighbouring bins of a number
WIDTHS = (0.03, 0.1, 0.3, 1.0)  # parts of both: at the narrowest the class says nothing of the column
WIDTH_ROUNDS = 100  # of expectation and maximisation
FITTING_ROUNDS = 20  # of iterative proportional fitting


@dataclass(frozen=True)
class ClassCounts:
    """Noisy counts by class of groups of a column's bins: `group` (bins,) is the group of each bin, `table` is
    (classes, groups), with noise of standard deviation `std`.
    """

    group: Whole
    table: Floats
    std: float

    @classmethod
    def of_bins(cls, table: Floats, std: float) -> ClassCounts:
        """Counts of the bins themselves, (classes, bins)."""
        return cls(np.arange(table.shape[1]), table, std)

    def of_class(self, k: int) -> Counts:
        """Those of one class."""
        return Counts(self.group, self.table[k], self.std)

    @property
    def of_all(self) -> Counts:
        """The sums over classes."""
        return Counts(self.group, self.table.sum(0), self.std * math.sqrt(len(self.table)))

    def inside(self, bin_of: Whole) -> ClassCounts:
        """The same counts where bins are cut into finer cells, (cells,): `bin_of` is the bin of each."""
        return ClassCounts(self.group[bin_of], self.table, self.std)


def noise_of_a_bin(measured: Sequence[ClassCounts]) -> float:
    """The standard deviation, on the mean over bins, of a bin's count of one class by all of its measurements."""
    if len(measured) == 1:
        return measured[0].std
    precision = sum(counts.T @ counts for counts in (one.of_class(0).matrix for one in measured))
    return float(np.sqrt(np.diag(np.linalg.inv(precision)).mean()))


def conditionals(
    measured: Mapping[str, Sequence[ClassCounts]],
    totals: Floats,
    ordered: Mapping[str, int],
    whole: Mapping[str, Floats],
) -> dict[str, Floats]:
    """Log p(bin | class), (classes, bins) a column, near the whole table's shares unless the counts differ clearly.

    `ordered`: how many first bins of a column are neighbours in value. `whole`: the whole table's shares of bins,
    (bins,) a column, to which the classes add up. How many columns have something to do with the class is learned from
    the noisy counts: a class's log ratios in a column have one of a few WIDTHS, each with a weight, and shares are
    averaged over widths by how likely each is (adaptive shrinkage, Stephens 2017).
    """
    found = {n: _by_width(counts, totals, ordered[n], whole[n]) for n, counts in measured.items()}
    chances = _width_chances(np.stack([evidence for _, evidence in found.values()]))
    return {
        name: _adding_up((chance[..., None] * shares).sum(0), totals / totals.sum(), whole[name])
        for (name, (shares, _)), chance in zip(found.items(), chances, strict=True)
    }


def prior_precision(bins: int, ordered: int) -> Floats:
    """Precision, (bins, bins), of the prior of a class's log ratios where it is widest; the first `ordered` bins are
    neighbours.
    """
    std = LOG_RATIO_STD * math.sqrt(max(1.0, ordered / FEW_BINS))
    return np.eye(bins) / std**2 + difference_precision(bins, ordered, 1, NEIGHBOUR_STD)


def _by_width(measured: Sequence[ClassCounts], totals: Floats, ordered: int, whole: Floats) -> tuple[Floats, Floats]:
    """Likeliest shares of a column, (widths, classes, bins), and the logarithm of each width's evidence."""
    base, widest = np.log(whole), prior_precision(len(whole), ordered)
    shares = np.empty((len(WIDTHS), len(totals), len(whole)))
    evidence = np.empty(shares.shape[:2])
    for c, total in enumerate(totals):
        counts = [one.of_class(c) for one in measured]
        for k, width in enumerate(WIDTHS):
            precision = widest / width**2
            found = posterior_mode(counts, total, base, precision)
            shares[k, c] = np.exp(found)
            evidence[k, c] = log_evidence(counts, total, shares[k, c], found - base, precision)
    return shares, evidence


def _width_chances(evidence: Floats) -> Floats:
    """How likely each width is, (columns, widths, classes), by the logarithms of their evidence. The weights of widths
    are the likeliest for all columns and classes, were each width seen once more.
    """
    columns, widths, classes = evidence.shape
    likelihood = np.exp(evidence - evidence.max(1, keepdims=True))
    weights = np.full(widths, 1 / widths)
    for _ in range(WIDTH_ROUNDS):
        chance = likelihood * weights[:, None]
        chance /= chance.sum(1, keepdims=True)
        weights = (chance.sum((0, 2)) + 1) / (columns * classes + widths)
    return np.asarray(chance)


def _adding_up(shares: Floats, classes: Floats, whole: Floats) -> Floats:
    """Log shares, (classes, bins), near the given ones that add up to `whole` (bins,) by the shares of `classes`."""
    for _ in range(FITTING_ROUNDS):
        shares = shares * (whole / np.maximum(classes @ shares, 1e-12))
        shares = shares / shares.sum(1, keepdims=True)
    return np.asarray(np.log(np.maximum(shares, 1e-12)))
