"""One-way marginals with class-by-bin ones: better than either, no matter how far values spread."""

import numpy as np
import pytest

from medsynth.methods.marginals import Counts, Sums, posterior_mode, posterior_modes
from medsynth.mixture.weights import noise_of_cells, weights_by_size


@pytest.mark.statistical
def test_counts_of_groups_and_of_cells_count_by_their_precision(rng: np.random.Generator) -> None:
    """Twelve cells, counted twice, and four groups of three: errors of groups are those of both measurements.

    400 tables: the mean squared error of the groups within 15 % of 1 / (1 / 150 + 1 / 75). The seed is fixed.
    """
    true, group = rng.integers(200, 400, 12).astype(float), np.repeat(np.arange(4), 3)
    weak, errors = 1e-6 * np.eye(12), []
    for _ in range(400):
        own = Counts.of_cells(true + rng.normal(0, 50**0.5, 12), 50**0.5)
        sums = Counts(group, np.bincount(group, true) + rng.normal(0, 75**0.5, 4), 75**0.5)
        found = true.sum() * np.exp(posterior_mode(Sums([own, sums], true.sum()), np.zeros(12), weak))
        errors.append(np.mean((np.bincount(group, found) - np.bincount(group, true)) ** 2))
    # That all groups add up to the known total takes a quarter of the error away.
    assert np.mean(errors) == pytest.approx(0.75 / (1 / 150 + 1 / 75), rel=0.15)


@pytest.mark.statistical
def test_a_mode_far_from_its_base_is_found(rng: np.random.Generator) -> None:
    """An assay on a log scale: even density puts all rows in the last cells, and steps from there once ended beside the
    mode. Total variation from the truth at most 0.15 in each of 100 tables. The seed is fixed.
    """
    widths = np.exp(np.linspace(0, 10, 80))
    base = np.log(widths / widths.sum())
    curvature = np.diff(np.eye(80), 2, axis=0)
    precision = 1e-3 * np.eye(80) + curvature.T @ curvature
    for _ in range(100):
        place = np.arange(80)
        true = np.exp(-((place - rng.integers(25, 55)) ** 2) / 200.0)
        true /= true.sum()
        counts = Counts.of_cells(4000 * true + rng.normal(0, 8, 80), 8.0)
        found = np.exp(posterior_mode(Sums([counts], 4000), base, precision))
        assert np.abs(found - true).sum() / 2 < 0.15


def test_noise_follows_size_and_its_squares_add_up_to_the_multiplier() -> None:
    """Eight times the cells, half the noise; one over the squares add up to one over that of the multiplier."""
    weights = weights_by_size({"sex": 2, "age": 16})
    noise = noise_of_cells(weights, 3.0)
    assert noise["sex"] == pytest.approx(2 * noise["age"])
    assert sum(1 / std**2 for std in noise.values()) == pytest.approx(1 / 9)


def test_modes_of_several_priors_are_those_of_each() -> None:
    """They are found together, and each stops by itself: a flat prior takes many more steps than a narrow one."""
    rng = np.random.default_rng(5)
    counts = Counts.of_cells(rng.gamma(0.5, 80, 15) + rng.normal(0, 5, 15), 5.0)
    own, base = Sums([counts], 600.0), np.log(rng.dirichlet(np.ones(15)))
    precisions = np.stack([size * np.eye(15) for size in (1e-3, 1.0, 1e4)])
    found = posterior_modes(own, base, precisions)
    alone = [posterior_mode(own, base, precision) for precision in precisions]
    np.testing.assert_allclose(found, alone, rtol=1e-9, atol=1e-9)
    assert np.abs(found[0] - found[2]).max() > 0.5  # the priors matter
