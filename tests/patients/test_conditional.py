"""The multinomial regression of later rows: it meets the tables that were measured, and makes nothing else up."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from medsynth.patients.conditional import Chances, drawn, fitted, log_chances

Floats = NDArray[np.float64]
RNG = np.random.default_rng(0)
ROWS = 4000
ONE, OTHER = RNG.integers(0, 3, ROWS), RNG.integers(0, 4, ROWS)


def chances(logs: Floats) -> Floats:
    found = np.exp(logs - logs.max(1, keepdims=True))
    return np.asarray(found / found.sum(1, keepdims=True))


def expected(context: NDArray[np.int64], found: Floats, groups: int) -> Floats:
    return np.stack([found[context == k].sum(0) for k in range(groups)])


def truth() -> Floats:
    """Chances of five cells in each row, by both contexts."""
    return chances(RNG.normal(size=(3, 5))[ONE] + RNG.normal(size=(4, 5))[OTHER])


def test_it_meets_every_table_and_is_the_distribution_of_their_form() -> None:
    """Tables of a distribution of the model's own form determine it: the fit is that distribution."""
    real = truth()
    wanted = [
        Chances.by_group(expected(ONE, real, 3), 0.0, np.arange(5)),
        Chances.by_group(expected(OTHER, real, 4), 0.0, np.arange(5)),
    ]
    found = fitted(np.zeros(5), wanted, [ONE, OTHER], ROWS, np.ones(ROWS))
    mine = chances(log_chances(found.weights, [ONE, OTHER]))
    assert np.abs(expected(ONE, mine, 3) - expected(ONE, real, 3)).max() < 0.01 * ROWS / 15
    assert np.abs(mine - real).max() < 0.01


def test_the_order_of_groups_of_cells_and_ties_are_kept() -> None:
    """Cells of one group keep the shares of the base; a tie over all groups of the context is one table of cells."""
    base = np.log(np.array([0.1, 0.3, 0.2, 0.4]))
    group = np.array([0, 0, 1, 1])
    table = np.array([[900.0, 100.0], [200.0, 800.0], [500.0, 500.0]])
    found = fitted(base, [Chances.by_group(table, 0.0, group)], [ONE], ROWS, np.ones(ROWS))
    mine = chances(base + log_chances(found.weights, [ONE]))[np.flatnonzero(ONE == 0)[0]]
    assert mine == pytest.approx([0.9 / 4, 0.9 * 3 / 4, 0.1 / 3, 0.1 * 2 / 3], abs=0.005)


def test_groups_that_are_simulated_more_often_than_measured_change_no_chances() -> None:
    table = np.array([[90.0, 10.0], [8.0, 32.0], [150.0, 50.0]])
    found = fitted(np.zeros(2), [Chances.by_group(table, 0.0, np.arange(2))], [ONE], 340, np.ones(ROWS))
    mine = chances(log_chances(found.weights, [np.arange(3)]))
    assert mine[:, 0] == pytest.approx([0.9, 0.2, 0.75], abs=0.02)


def test_a_group_that_was_hardly_measured_has_the_chances_of_all() -> None:
    """Ten counts of three thousand rows tell little: the rest of the rows is as the base says."""
    base, table = np.log([0.8, 0.2]), np.array([[0.0, 10.0]])
    where = np.zeros(ROWS, np.int64)
    found = fitted(base, [Chances.by_group(table, 5.0, np.arange(2))], [where], 3000, np.ones(ROWS))
    mine = chances(base + log_chances(found.weights, [where[:1]]))[0]
    assert mine[0] == pytest.approx(0.8 * (1 - 40 / 3000), abs=0.01)


def test_a_count_that_is_lost_in_noise_moves_little() -> None:
    """A cell of one row in ten thousand, which noise makes twelve: beside the noise's variance it stays rare."""
    base = np.log(np.array([0.4999, 0.5, 0.0001]))
    table = np.array([[2000.0, 2000.0, 12.0]])
    where = np.zeros(ROWS, np.int64)
    for std, most in ((0.0, 1.0), (12.0, 2.0e-4)):
        found = fitted(base, [Chances.by_group(table, std, np.arange(3))], [where], ROWS, np.ones(ROWS))
        mine = chances(base + log_chances(found.weights, [where[:1]]))[0]
        assert mine[2] < most
    assert mine[2] < 12 / 4000 / 10


def test_a_fit_goes_on_where_it_ended() -> None:
    real = truth()
    wanted = [Chances.by_group(expected(ONE, real, 3), 1.0, np.arange(5))]
    found = fitted(np.zeros(5), wanted, [ONE], ROWS, np.ones(ROWS))
    more = Chances.by_group(expected(OTHER, real, 4), 1.0, np.arange(5))
    again = fitted(np.zeros(5), [*wanted, more], [ONE, OTHER], ROWS, np.ones(ROWS), found.point)
    fresh = fitted(np.zeros(5), [*wanted, more], [ONE, OTHER], ROWS, np.ones(ROWS))
    mine, other = (chances(log_chances(one.weights, [ONE, OTHER])) for one in (again, fresh))
    assert np.abs(mine - other).max() < 0.01


@pytest.mark.statistical
def test_cells_are_drawn_by_their_chances() -> None:
    """Within 4.5 standard errors of each of three shares; the seed is fixed: it cannot fail by chance."""
    logs = np.tile(np.log([0.7, 0.2, 0.1]) + 3.0, (50_000, 1))
    shares = np.bincount(drawn(logs, np.random.default_rng(1)), minlength=3) / 50_000
    assert np.all(np.abs(shares - [0.7, 0.2, 0.1]) < 4.5 * np.sqrt(np.array([0.21, 0.16, 0.09]) / 50_000))
