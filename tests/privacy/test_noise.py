"""Noise from both sides: neither too little nor too much. False-alarm rates are below 1e-4 a test; seeds are fixed."""

import numpy as np
import pytest
from scipy import stats

from medsynth.privacy.noise import GRID_BITS, gaussian, noised
from medsynth.rng import SeededEntropy, SystemEntropy, coins

DRAWS = 200_000


@pytest.mark.statistical
@pytest.mark.parametrize("std", [1e-3, 1.0, 123.0])
def test_gaussian_has_its_distribution(std: float) -> None:
    """The seed is fixed: it cannot fail by chance."""
    draws = gaussian((DRAWS,), std, SeededEntropy(1)) / std
    assert stats.kstest(draws, "norm").pvalue > 1e-4


@pytest.mark.statistical
def test_variance_from_both_sides() -> None:
    """The seed is fixed: it cannot fail by chance."""
    total = float((gaussian((DRAWS,), 2.0, SeededEntropy(2)) ** 2).sum()) / 4
    low, high = (stats.chi2.ppf(share, DRAWS) for share in (5e-5, 1 - 5e-5))
    assert low < total < high


@pytest.mark.statistical
def test_tails_are_there() -> None:
    """The seed is fixed: it cannot fail by chance."""
    beyond = int((np.abs(gaussian((DRAWS,), 1.0, SeededEntropy(3))) > 3).sum())
    assert stats.binomtest(beyond, DRAWS, 2 * stats.norm.sf(3)).pvalue > 1e-4


@pytest.mark.statistical
def test_successive_draws_are_independent() -> None:
    """The seed is fixed: it cannot fail by chance."""
    draws = gaussian((DRAWS,), 1.0, SeededEntropy(4))
    assert stats.pearsonr(draws[:-1], draws[1:]).pvalue > 1e-4
    assert stats.pearsonr(draws[:-1] ** 2, draws[1:] ** 2).pvalue > 1e-4


@pytest.mark.statistical
def test_system_entropy_never_repeats() -> None:
    """Eight draws of 53 bits repeat with a chance below 2^-400: the false-alarm rate."""
    assert not np.array_equal(gaussian((8,), 1.0, SystemEntropy()), gaussian((8,), 1.0, SystemEntropy()))


def test_answers_lie_on_a_public_grid() -> None:
    step = 2.0 ** (1 - GRID_BITS)  # std 3 has a power of two of 2
    steps = noised(np.linspace(0, 1, 1000), 3.0, SeededEntropy(5)) / step
    assert np.array_equal(steps, np.round(steps))


@pytest.mark.statistical
def test_noise_is_centred_on_the_value() -> None:
    """The seed is fixed: it cannot fail by chance."""
    mean = float(noised(np.full(DRAWS, 7.0), 1.0, SeededEntropy(6)).mean())
    assert abs(mean - 7.0) < 4 / np.sqrt(DRAWS)


@pytest.mark.statistical
@pytest.mark.parametrize("probability", [0.001, 0.25, 0.9, 1.0])
def test_coins_are_binomial(probability: float) -> None:
    """The seed is fixed: it cannot fail by chance."""
    heads = int(coins(SeededEntropy(7), DRAWS, probability).sum())
    assert stats.binomtest(heads, DRAWS, probability).pvalue > 1e-4
