"""Bounds of the audit: they hold with the stated confidence and are nearly tight where the truth is known."""

import math

import numpy as np
import pytest
from scipy import stats

from medsynth.audit.statistics import MOST_MU, Errors, errors, errors_at, gaussian_mu, one_run_epsilon, upper_rate
from medsynth.privacy.accounting import accountant
from medsynth.privacy.accounting.events import Gaussian


@pytest.mark.parametrize("rate, trials", [(0.02, 500), (0.3, 100), (0.9, 50)])
def test_upper_rates_cover(rate: float, trials: int) -> None:
    """Exactly: the chance that the bound fails is at most the risk, summed over all outcomes."""
    hits = np.arange(trials + 1)
    fails = [upper_rate(int(k), trials, 0.01) < rate for k in hits]
    assert stats.binom.pmf(hits[fails], trials, rate).sum() <= 0.01


@pytest.mark.parametrize("mu, reach", [(0.5, 0.8), (1.0, 0.9), (3.0, 0.93)])
def test_a_gaussian_mechanism_is_found_nearly_whole_and_never_above(mu: float, reach: float) -> None:
    """False-alarm rate 1e-5 by the confidence; the seed is fixed."""
    draw = np.random.default_rng(int(10 * mu))
    found = errors(draw.normal(0, 1, 60_000), draw.normal(mu, 1, 60_000), 1 - 1e-5)
    assert reach * mu <= found.mu() <= mu


@pytest.mark.parametrize("mu, reach", [(0.45, 0.8), (2.3, 0.95)])
def test_one_interval_for_both_kinds_of_errors_proves_more_and_never_too_much(mu: float, reach: float) -> None:
    """False-alarm rate 1e-5 by the confidence; the seed is fixed."""
    draw = np.random.default_rng(int(10 * mu))
    without, present = draw.normal(-mu / 2, 1, 30_000), draw.normal(mu / 2, 1, 30_000)
    found = gaussian_mu(without, present, 1 - 1e-5)
    assert reach * mu <= found <= mu and found > errors_at(0.0, without, present, 1 - 1e-5).mu()


@pytest.mark.parametrize("uneven", [0.0, 0.3])
def test_one_interval_for_both_kinds_of_errors_covers(uneven: float) -> None:
    """Exactly, over all numbers of errors: also where one kind is rarer than the other."""
    trials, mean, risk = 40, 0.35, 0.05
    rates = mean - uneven, mean + uneven
    chance = np.convolve(*(stats.binom.pmf(np.arange(trials + 1), trials, rate) for rate in rates))
    proven = [
        gaussian_mu(np.repeat([1.0, -1.0], [min(k, trials), max(trials - k, 0)]),
                    np.repeat([-1.0, 1.0], [max(k - trials, 0), min(2 * trials - k, trials)]), 1 - risk)
        for k in range(2 * trials + 1)
    ]  # fmt: skip
    assert chance[np.array(proven) > -2 * stats.norm.ppf(mean)].sum() <= risk


def test_one_interval_needs_as_many_trials_on_both_sides() -> None:
    with pytest.raises(ValueError, match="as many trials"):
        gaussian_mu(np.zeros(4), np.ones(5), 0.9)


def test_no_difference_proves_nothing() -> None:
    draw = np.random.default_rng(0)
    found = errors(draw.normal(0, 1, 4000), draw.normal(0, 1, 4000), 0.999)
    assert found.mu() == 0.0 and found.epsilon(1e-5) == 0.0


@pytest.mark.parametrize("multiplier", [0.3, 1.0])
def test_epsilon_lies_below_what_the_accountant_says(multiplier: float) -> None:
    """The bound of the attacker with the Gaussian's exact error rates stays below the mechanism's true curve."""
    for threshold in np.linspace(-3, 1 / multiplier + 3, 40):
        exact = Errors(
            false_positive=float(stats.norm.sf(threshold)),
            false_negative=float(stats.norm.cdf(threshold - 1 / multiplier)),
        )
        truth = accountant.epsilon([(Gaussian(multiplier=multiplier), 1)], 1e-3, "rdp")
        assert exact.epsilon(1e-3) <= truth
        assert exact.mu() == pytest.approx(1 / multiplier, rel=1e-6)


@pytest.mark.parametrize("rate", [0.25, 0.5])
def test_what_takes_part_by_chance_is_found_nearly_whole_and_never_above(rate: float) -> None:
    """False-alarm rate 1e-5 by the confidence; the seed is fixed."""
    draw, mu = np.random.default_rng(7), 3.0
    present = draw.normal(0, 1, 60_000) + mu * (draw.random(60_000) < rate)
    found = errors(draw.normal(0, 1, 60_000), present, 1 - 1e-5, rate)
    assert 0.88 * mu <= found.mu(rate) <= mu


def test_a_target_that_takes_part_too_often_is_beyond_any_mu() -> None:
    assert Errors(false_positive=0.01, false_negative=0.3).mu(0.5) == MOST_MU


def test_randomised_response_is_bounded_by_one_run() -> None:
    """m canaries, each guessed right with the chance of epsilon-private randomised response: the bound is below epsilon
    and reaches most of it. False-alarm rate 1e-4; the seed is fixed."""
    epsilon, canaries = 2.0, 4000
    right = int(np.random.default_rng(1).binomial(canaries, 1 / (1 + math.exp(-epsilon))))
    assert 0.9 * epsilon < one_run_epsilon(right, canaries, canaries, 0.0, 1e-4) <= epsilon
    assert one_run_epsilon(canaries // 2, canaries, canaries, 0.0, 0.05) == 0.0
    assert one_run_epsilon(right, canaries, canaries, 1e-5, 0.05) <= one_run_epsilon(
        right, canaries, canaries, 0.0, 0.05
    )


def test_too_few_trials_are_refused() -> None:
    with pytest.raises(ValueError, match="four trials"):
        errors(np.zeros(2), np.zeros(9), 0.95)
