"""Shares by class from noisy counts of bins and of runs of them: the width of the prior is learned, and its evidence is
what integration says.
"""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.integrate import quad
from scipy.special import expit, logit

from medsynth.methods.warm_dp_cgan.marginals import class_ratios
from medsynth.methods.warm_dp_cgan.marginals.class_ratios import (
    LOG_RATIO_STD,
    WIDTHS,
    ClassCounts,
    conditionals,
    noise_of_a_bin,
)

Floats = NDArray[np.float64]
TOTALS = np.array([4000.0, 90.0])


def integrated(row: Floats, std: float, total: float, share: float, width: float) -> float:
    """Logarithm of the density of a binary column's noisy counts, but for a constant: the log odds ratio integrated."""
    scale = np.sqrt(2) * LOG_RATIO_STD * width

    def density(ratio: float) -> float:
        p = float(expit(logit(share) + ratio))
        gap = (row - total * np.array([1 - p, p])) / std
        return float(np.exp(-(gap @ gap) / 2 - ratio**2 / scale**2 / 2) / scale)

    return float(np.log(quad(density, -8 * scale, 8 * scale, points=[0.0], limit=500)[0]))


def chances(evidence: Floats) -> Floats:
    """How likely each width is, were all alike beforehand."""
    found = np.exp(evidence - evidence.max())
    return np.asarray(found / found.sum())


@pytest.mark.parametrize("row", [(83.0, 7.0), (86.0, 3.0), (95.0, -6.0), (70.0, 20.0), (60.0, 28.0), (20.0, 75.0)])
def test_evidence_of_widths_is_the_integral(row: tuple[float, float]) -> None:
    table = np.stack([[3700.0, 300.0], row])
    _, found = class_ratios._by_width([ClassCounts.of_bins(table, 5.0)], TOTALS, 0, np.array([0.92, 0.08]))
    exact = np.array([integrated(np.array(row), 5.0, 90.0, 0.08, width) for width in WIDTHS])
    assert chances(found[:, 1]) == pytest.approx(chances(exact), abs=0.1)


@pytest.mark.parametrize("width", WIDTHS)
def test_evidence_finds_the_width_that_counts_were_drawn_with(width: float) -> None:
    """Counts drawn from the prior are likelier under its width than under others, on the mean (Gibbs' inequality)."""
    rng = np.random.default_rng(3)
    bins, whole = 8, np.full(8, 1 / 8)
    precision = class_ratios.prior_precision(bins, bins)
    tilts = np.linalg.cholesky(np.linalg.inv(precision / width**2)) @ rng.standard_normal((bins, 60))
    shares = np.exp(tilts) / np.exp(tilts).sum(0)
    tables = 4000 * shares.T + rng.normal(0, 5.0, (60, bins))
    _, found = class_ratios._by_width([ClassCounts.of_bins(tables, 5.0)], np.full(60, 4000.0), bins, whole)
    assert WIDTHS[int(found.mean(1).argmax())] == width


@pytest.mark.statistical
def test_columns_that_say_nothing_of_the_class_are_told_from_one_that_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """The seed is fixed: it cannot fail by chance."""
    whole = {f"c{k}": np.array([0.9, 0.1]) for k in range(15)} | {"x": np.array([0.5, 0.3, 0.15, 0.05])}
    own = whole | {"x": np.array([0.05, 0.1, 0.25, 0.6])}
    known = {name: (TOTALS[0] * whole[name] + TOTALS[1] * own[name]) / TOTALS.sum() for name in whole}
    ordered = {name: 4 if name == "x" else 0 for name in whole}

    def errors() -> tuple[float, float]:
        rng = np.random.default_rng(5)
        sums = np.zeros(2)
        for _ in range(20):
            noisy = {}
            for name in whole:
                table = TOTALS[:, None] * np.stack([whole[name], own[name]])
                noisy[name] = [ClassCounts.of_bins(table + rng.normal(0, 8.0, table.shape), 8.0)]
            found = conditionals(noisy, TOTALS, ordered, known)
            far = {name: np.abs(np.exp(found[name][1]) - own[name]).sum() / 2 for name in whole}
            sums += far["x"], np.mean([far[name] for name in whole if name != "x"])
        return float(sums[0]) / 20, float(sums[1]) / 20

    clear, none = errors()
    monkeypatch.setattr(class_ratios, "WIDTHS", (1.0,))
    clear_before, none_before = errors()
    assert none < none_before / 2
    assert clear < clear_before + 0.01


@pytest.mark.statistical
@pytest.mark.parametrize("shape", [np.exp(0.15 * np.arange(24)), np.exp(-((np.arange(24) - 20.0) ** 2) / 8)])
def test_counts_of_runs_tell_where_a_rare_class_lies(shape: Floats) -> None:
    """Ninety rows that grow along twenty-four bins or lie about one: counts of the bins, noise of four each, and counts
    of runs of six as well, with more noise by the root of two, which is the same cost. Total variation of the shares,
    the mean of twenty tables. The seed is fixed: it cannot fail by chance.
    """
    rng, whole, std = np.random.default_rng(7), np.full(24, 1 / 24), 4.0
    own = shape / shape.sum()
    table, runs = np.stack([4000 * whole, 90 * own]), np.arange(24) // 6
    sums = np.stack([np.bincount(runs, row) for row in table])

    def error(measured: list[ClassCounts]) -> float:
        found = conditionals({"x": measured}, TOTALS, {"x": 24}, {"x": table.sum(0) / table.sum()})["x"]
        return float(np.abs(np.exp(found[1]) - own).sum() / 2)

    alone, both, more = [], [], std * 2**0.5
    for _ in range(20):
        alone.append(error([ClassCounts.of_bins(table + rng.normal(0, std, table.shape), std)]))
        bins = ClassCounts.of_bins(table + rng.normal(0, more, table.shape), more)
        both.append(error([bins, ClassCounts(runs, sums + rng.normal(0, more, sums.shape), more)]))
    assert np.mean(both) < np.mean(alone) - 0.003


def test_a_range_may_be_as_far_from_the_whole_table_however_finely_it_is_cut() -> None:
    """A class with no rows in half of a column: the same prior, but for a little, of 8 bins and of 64."""

    def cost(bins: int) -> float:
        precision = class_ratios.prior_precision(bins, bins)
        tilt = np.repeat([-3.0, 3.0], bins // 2)
        return float(tilt @ precision @ tilt)

    assert cost(64) == pytest.approx(cost(8))


def test_noise_of_a_bin_is_that_of_least_squares() -> None:
    """One measurement: its own. Bins and their pairs, noise of two each: two numbers by themselves and by their sum."""
    table = np.zeros((2, 4))
    bins = ClassCounts.of_bins(table, 2.0)
    pairs = ClassCounts(np.array([0, 0, 1, 1]), np.zeros((2, 2)), 2.0)
    assert noise_of_a_bin([bins]) == 2.0
    # Precision (1 / 4) [[2, 1], [1, 2]] of each pair: variance 4 * 2 / 3.
    assert noise_of_a_bin([bins, pairs]) == pytest.approx((8 / 3) ** 0.5)


def test_counts_inside_finer_cells_and_over_classes() -> None:
    one = ClassCounts(np.array([0, 1]), np.array([[5.0, 7.0], [1.0, 2.0]]), 3.0)
    finer = one.inside(np.array([0, 0, 1]))
    assert finer.group.tolist() == [0, 0, 1] and finer.table is one.table
    assert one.of_all.counts.tolist() == [6.0, 9.0] and one.of_all.std == pytest.approx(3 * 2**0.5)
    assert one.of_class(1).counts.tolist() == [1.0, 2.0]
