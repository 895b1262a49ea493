"""Which columns are measured again by class: those whose shares differ, and not those that noise made differ."""

import numpy as np
import pytest
from numpy.typing import NDArray

from medsynth.methods.warm_dp_cgan.marginals.class_marginals import ClassMarginals
from medsynth.methods.warm_dp_cgan.marginals.one_way_marginals import OneWayMarginals

TOTALS = np.array([5000.0, 250.0, 60.0])
SHARES = {  # first and second bin, by class
    "in the rarest class": np.array([[0.9, 0.1], [0.9, 0.1], [0.1, 0.9]]),
    "in the other one": np.array([[0.7, 0.3], [0.32, 0.68], [0.7, 0.3]]),
    "nowhere": np.array([[0.7, 0.3], [0.68, 0.32], [0.7, 0.3]]),
}


def known(std: float, totals: NDArray[np.float64]) -> ClassMarginals:
    """These shares, with noise of standard deviation `std`, of classes of so many rows."""
    return ClassMarginals(
        bins={}, counts={}, std=dict.fromkeys(SHARES, std), totals=totals,
        numbers=OneWayMarginals(grids={}, shares={}, surveys={}, counts={}, std={}, rows=0.0, totals=()),
        base={name: np.log(shares) for name, shares in SHARES.items()}, whole_std={},
    )  # fmt: skip


@pytest.mark.parametrize(
    ("std", "chosen"), [(0.01, ["in the rarest class"]), (40.0, ["in the rarest class", "in the other one"])]
)
def test_a_class_of_few_rows_beside_the_noise_tells_less_of_where_classes_differ(std: float, chosen: list[str]) -> None:
    """The second column's differences add up to 0.47 of the first's. At a standard deviation of 40 classes weigh 0.98,
    0.68 and 0.33, and it is 0.54.
    """
    assert known(std, TOTALS).separating(list(SHARES)) == chosen


def test_without_noise_a_class_without_rows_says_nothing() -> None:
    """Its weight is none, where zero rows over zero noise would choose no column at all."""
    found = known(0.0, np.array([5000.0, 250.0, 0.0])).separating(list(SHARES))
    assert found == ["in the rarest class", "in the other one"]


def test_where_no_column_separates_the_classes_none_is_chosen() -> None:
    """Without the columns that do, what is left of differences is next to nothing."""
    assert known(0.01, TOTALS).separating(["nowhere"]) == []


def test_a_column_is_chosen_by_classes_that_count_in_part() -> None:
    """At a standard deviation of 300 classes weigh 0.85, 0.22 and 0.06, 0.38 on average: a difference of 0.34 is more
    than 0.6 of that, though less than 0.6.
    """
    found = known(300.0, TOTALS)
    assert found.separating(["in the other one", "nowhere"]) == ["in the other one"]
    assert found.separating(["nowhere"]) == []
