"""Stratified draws: expected numbers of every cell but for roundings, and no cell without weight."""

import numpy as np
import pytest

from medsynth.methods import stratified
from medsynth.methods.stratified import choose, shuffled, uniforms


def test_each_group_gets_the_expected_number_of_every_cell(rng: np.random.Generator) -> None:
    """Within one row of weight times size, whatever the order of rows."""
    weights = rng.dirichlet(np.ones(7), 5) * rng.random((5, 1))
    groups = rng.integers(0, 5, 10_000)
    drawn = choose(weights, groups, rng)
    for k in range(5):
        size = (groups == k).sum()
        found = np.bincount(drawn[groups == k], minlength=7)
        assert np.abs(found - size * weights[k] / weights[k].sum()).max() < 2


def test_no_cell_of_weight_zero_is_drawn(rng: np.random.Generator) -> None:
    """First, last and between."""
    weights = np.array([[0.0, 1, 0, 0, 2, 0]])
    assert set(choose(weights, np.zeros(50_000, np.int64), rng)) == {1, 4}


@pytest.mark.statistical
@pytest.mark.parametrize("fewest", [32, 64], ids=["sorted as numbers", "by places"])
@pytest.mark.parametrize("count", [1, 3, 4000])
def test_rows_of_a_group_stand_in_any_order(
    fewest: int, count: int, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Groups ascend, every row is there, and places within a group have nothing to do with rows. The seed is fixed."""
    monkeypatch.setattr(stratified, "FEWEST_BITS", fewest)
    groups = rng.integers(0, count, 20_000)
    order = shuffled(groups, rng)
    assert (np.diff(groups[order]) >= 0).all() and (np.sort(order) == np.arange(20_000)).all()
    first = order[groups[order] == 0]
    if count < 4:
        assert abs(np.corrcoef(first, np.arange(len(first)))[0, 1]) < 4.5 / np.sqrt(len(first))
    assert len(shuffled(groups[:0], rng)) == 0


@pytest.mark.statistical
def test_a_single_row_is_drawn_by_its_weights(rng: np.random.Generator) -> None:
    """One row a group, 40,000 groups: shares within 4.5 standard errors. The seed is fixed."""
    drawn = choose(np.tile([1.0, 3.0], (40_000, 1)), np.arange(40_000), rng)
    assert abs(drawn.mean() - 0.75) < 4.5 * np.sqrt(0.75 * 0.25 / 40_000)


def test_two_columns_drawn_for_the_same_groups_are_not_tied(rng: np.random.Generator) -> None:
    """Strata are given to rows anew for every column. The seed is fixed: it cannot fail by chance."""
    groups = np.zeros(20_000, np.int64)
    one, other = uniforms(groups, rng), uniforms(groups, rng)
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.032  # 4.5 standard errors
