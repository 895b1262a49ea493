"""Noise from both sides: neither too little nor too much. False-alarm rates are below 1e-4 a test; seeds are fixed."""

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from medsynth.errors import BudgetError
from medsynth.privacy import noise
from medsynth.privacy.noise import noise_grid, noised, rarely_exceeded
from medsynth.rng import EXPANDED_BYTES, NoNoise, SeededEntropy, SystemEntropy, coins

DRAWS = 200_000


def drawn(std: float, seed: int) -> Any:
    return noised(np.zeros(DRAWS, np.int64), std, SeededEntropy(seed))


@pytest.mark.statistical
@pytest.mark.parametrize("std", [1e-3, 1.0, 123.0, 1e9])
def test_noise_is_normal(std: float) -> None:
    """The seed is fixed: it cannot fail by chance."""
    assert stats.kstest(drawn(std, 1) / std, "norm").pvalue > 1e-4


@pytest.mark.statistical
def test_variance_from_both_sides() -> None:
    """The seed is fixed: it cannot fail by chance."""
    total = float((drawn(2.0, 2) ** 2).sum()) / 4
    low, high = (stats.chi2.ppf(share, DRAWS) for share in (5e-5, 1 - 5e-5))
    assert low < total < high


@pytest.mark.statistical
def test_system_entropy_never_repeats() -> None:
    """Eight draws of 16 bits and more repeat with a chance below 2^-100: the false-alarm rate."""
    one, two = (noised(np.zeros(8, np.int64), 1.0, SystemEntropy()) for _ in range(2))
    assert not np.array_equal(one, two)


@pytest.mark.parametrize("std", [1e-9, 1e-3, 0.7, 1.0, math.sqrt(2), 3.0, 65_535.0, 65_536.0, 1e7])
def test_the_grid_is_public_and_the_noise_no_less_than_charged(std: float) -> None:
    """Steps in one are a power of two, so that whole numbers lie on the grid; the scale is rounded up."""
    steps, scale = noise_grid(std)
    assert steps & (steps - 1) == 0 and 1 <= steps <= 2**noise.FINEST_BITS
    assert std * steps < scale < std * steps * (1 + 1e-9) + 1.001
    assert scale > 2**noise.GRID_BITS or steps == 2**noise.FINEST_BITS
    found = noised(np.arange(1000), std, SeededEntropy(5)) * steps
    assert np.array_equal(found, np.round(found))


def test_the_support_of_a_release_does_not_depend_on_the_value() -> None:
    """Neighbouring values, the same noise: the releases lie exactly one apart."""
    for std in (1e-3, 0.3, 2.0, 1e5):
        one, two = (noised(np.full(500, value), std, SeededEntropy(4)) for value in (41, 42))
        assert (two - one == 1).all()


def test_the_requests_for_random_bytes_do_not_depend_on_the_values() -> None:
    class Counted(SeededEntropy):
        def __init__(self) -> None:
            super().__init__(9)
            self.sizes = list[int]()

        def bytes(self, count: int) -> bytes:
            self.sizes.append(count)
            return super().bytes(count)

    requests = []
    for values in (np.zeros(20_000, np.int64), np.arange(20_000), np.full(20_000, -(2**40))):
        noised(values, 3.0, entropy := Counted())
        requests.append(entropy.sizes)
    assert requests[0] == requests[1] == requests[2] and max(requests[0]) > EXPANDED_BYTES


@pytest.mark.parametrize("std", [0.01, 1.0, 7.3, 1e6])
@pytest.mark.parametrize("chance", [0.4, 1e-3, 1e-9])
def test_noise_exceeds_its_threshold_as_rarely_as_is_charged(std: float, chance: float) -> None:
    """The rounded noise exceeds t if the normal variable exceeds t less half a step at least."""
    steps, scale = noise_grid(std)
    threshold = rarely_exceeded(std, chance) * steps
    assert 0.9 * chance < stats.norm.sf((threshold + 0.5) / scale) <= stats.norm.sf((threshold - 0.5) / scale) <= chance


def test_only_whole_numbers_are_noised() -> None:
    fractions: Any = np.zeros(3)
    with pytest.raises(BudgetError, match="whole"):
        noised(fractions, 1.0, SystemEntropy())
    assert noised(np.arange(3), 1.0, NoNoise()).tolist() == [0.0, 1.0, 2.0]


@pytest.mark.statistical
def test_noise_is_centred_on_the_value() -> None:
    """The seed is fixed: it cannot fail by chance."""
    mean = float(noised(np.full(DRAWS, 7), 1.0, SeededEntropy(6)).mean())
    assert abs(mean - 7.0) < 4 / np.sqrt(DRAWS)


@pytest.mark.statistical
@pytest.mark.parametrize("probability", [0.001, 0.25, 0.9, 1.0])
def test_coins_are_binomial(probability: float) -> None:
    """The seed is fixed: it cannot fail by chance."""
    heads = int(coins(SeededEntropy(7), DRAWS, probability).sum())
    assert stats.binomtest(heads, DRAWS, probability).pvalue > 1e-4
