"""Tables of hundreds of columns: matrices of scores, and a copula whose draws and conditions agree."""

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

import medsynth
from medsynth.methods.sampler import Mixture, copula_shares, low_rank_tensors, mixture_tensors
from medsynth.mixture.constants import MATRIX, MOST_ENTRIES
from medsynth.mixture.matrix import Covariances, latent_points, loadings, normal_scores

ROWS, COLUMNS, FACTORS = 3_000, 105, 3


def test_scores_are_the_means_of_the_parts_of_a_normal_variable() -> None:
    """Of a million draws, cut at the shares: within five standard errors at a part of 0.1 of them. Seed fixed."""
    shares = np.array([[0.5, 0.2, 0.2, 0.1], [0.0, 0.3, 0.6, 0.1]])
    found = normal_scores(shares, 3)
    assert np.allclose((found * shares).sum(1), 0, atol=1e-9) and not found[:, 3].any()
    draws = np.sort(np.random.default_rng(0).standard_normal(1_000_000))
    parts = np.split(draws, [round(1e6 * 5 / 9), round(1e6 * 7 / 9)])
    assert np.allclose(found[0, :3], [part.mean() for part in parts], atol=5 / math.sqrt(1e5))


def test_shares_given_a_point_are_those_of_draws_of_the_copula() -> None:
    """Means over the points are the class's shares, nearly; bins of missing values do not follow the points."""
    shares, loading = np.array([[0.6, 0.25, 0.1, 0.05], [0.1, 0.1, 0.5, 0.3]]), np.array([[0.8, 0.0], [0.3, -0.5]])
    points = latent_points(2048, 2, np.random.default_rng(0))
    assert np.allclose(points.mean(0), 0) and np.allclose(points.T @ points / 2048, np.eye(2))
    found = copula_shares(shares, 3, loading, points)
    assert np.allclose(found.sum(2), 1) and (found >= 0).all()
    assert np.allclose(found.mean(0), shares, atol=5e-3) and np.allclose(found[:, :, 3], shares[:, 3])
    rest = np.random.default_rng(1).standard_normal(100_000) * math.sqrt(1 - 0.64)
    cuts = stats.norm.ppf([0.6 / 0.95, 0.85 / 0.95])
    drawn = np.searchsorted(cuts, points[5] @ loading[0] + rest)
    assert np.allclose(np.bincount(drawn, minlength=3) / 1e5 * 0.95, found[5, 0, :3], atol=0.01)


def mixture(rank: int = 2) -> Mixture:
    rng = np.random.default_rng(4)
    base = {name: np.log(rng.dirichlet(np.ones(4), 2)) for name in "abc"}
    added = low_rank_tensors(
        {name: rng.uniform(-0.6, 0.6, (2, rank)) for name in "ab"}, {"a": 4, "b": 3}, latent_points(64, rank, rng)
    )
    return Mixture.of(mixture_tensors(base, {}) | added, list("abc"))


def test_conditions_are_exact_sums_over_points() -> None:
    made = mixture()
    allowed = {"a": np.array([[1.0, 0.5, 0, 0]] * 2), "c": np.array([[0, 0, 1.0, 1.0]] * 2)}
    found = made.evidence(allowed)
    assert found.shape == (64, 2) and made.points == 64
    brute = (made.shares["a"] * allowed["a"]).sum(-1) * (made.shares["c"] * allowed["c"]).sum(-1)
    assert np.allclose(found, brute) and len(made.shares["c"]) == 1 and set(made.shares) == set("abc")


@pytest.mark.statistical
def test_points_given_bins_have_their_posterior() -> None:
    """40,000 draws of 128 cells, by chi-square; the seed is fixed."""
    made, rows = mixture(), 40_000
    fixed = {"a": np.full(rows, 3), "b": np.full(rows, 0)}
    labels, points = made.draw_points_given(
        np.array([0.5, 0.5]), np.ones((64, 2)), fixed, None, np.random.default_rng(2), {}
    )
    chance = made.shares["a"][:, :, 3] * made.shares["b"][:, :, 0]
    counts = np.bincount(points * 2 + labels, minlength=128)
    expected = rows * (chance / chance.sum()).ravel()
    large = expected > 5
    seen, due = (np.append(one[large], one[~large].sum()).astype(np.float64) for one in (counts, expected))
    assert stats.chisquare(seen, due).pvalue > 1e-4


def covariances(std: float, rows: Any = (5_000.0, 5_000.0)) -> tuple[Any, Covariances]:
    rng = np.random.default_rng(0)
    true = rng.uniform(-0.5, 0.5, (COLUMNS, FACTORS))
    squares = np.full((2, COLUMNS), 0.9)
    noise = rng.standard_normal((2, COLUMNS, COLUMNS)) * std
    exact = 0.81 * true @ true.T
    np.fill_diagonal(exact, 0.9)
    noisy = exact + (np.triu(noise) + np.transpose(np.triu(noise, 1), (0, 2, 1)))
    return true @ true.T, Covariances(squares, noisy, np.full(2, std), np.array(rows))


def test_loadings_give_back_correlations_and_noise_alone_gives_none() -> None:
    true, found = covariances(0.01)
    made = loadings(found)
    off = np.triu_indices(COLUMNS, 1)
    for own in made:
        assert np.abs((own @ own.T - true)[off]).mean() < 0.01 and np.square(own).sum(1).max() < 1
    _, noise = covariances(0.01)
    only = Covariances(noise.squares, noise.matrices * 0 + np.eye(COLUMNS) * 0.9, noise.std, noise.rows)
    assert not loadings(only).any()


def test_a_class_that_shows_nothing_has_the_loadings_of_all() -> None:
    true, found = covariances(0.01)
    found.matrices[1] = 0.9 * np.eye(COLUMNS)
    made = loadings(Covariances(found.squares, found.matrices, np.array([0.01, 5.0]), np.array([9_900.0, 100.0])))
    assert np.abs((made[1] @ made[1].T - true)[np.triu_indices(COLUMNS, 1)]).mean() < 0.05


@pytest.fixture(scope="module")
def wide() -> Any:
    """Columns that follow three factors; one of levels, one of two values."""
    rng = np.random.default_rng(0)
    latent = rng.standard_normal((ROWS, FACTORS)) @ rng.uniform(-0.6, 0.6, (FACTORS, COLUMNS))
    values = latent + rng.standard_normal((ROWS, COLUMNS)) * 0.5
    names = [f"v{k}" for k in range(COLUMNS)]
    frame = pd.DataFrame(np.clip(np.rint(values * 3 + 8), 0, 15).astype(int), columns=names)
    frame["v0"] = np.clip(np.rint(values[:, 0] * 20 + 100), 0, 200).astype(int)  # on a fine grid; the others by value
    columns: dict[str, Any] = {name: {"kind": "count", "bounds": [0, 15]} for name in names}
    columns["v0"]["bounds"] = [0, 200]
    columns |= {"two": {"kind": "binary", "levels": ["no", "yes"]}, "site": {"kind": "categorical", "levels": [*"abc"]}}
    columns["y"] = {"kind": "binary", "levels": ["A", "B"]}
    frame = frame.assign(two=np.where(latent[:, 0] > 0.5, "yes", "no"), site=rng.choice([*"abc"], ROWS))
    frame["y"] = np.where(rng.random(ROWS) < 0.6, "A", "B")
    schema = medsynth.Schema.from_dict({"name": "wide", "target": "y", "columns": columns})
    model = medsynth.fit(frame, epsilon=30.0, delta=1e-5, schema=schema, rows=ROWS)
    return frame, model, medsynth.sample(model, ROWS, seed=1)


@pytest.mark.nightly
def test_a_wide_table_keeps_its_correlations(wide: Any) -> None:
    """Three factors, 105 columns, a generous epsilon. 5,460 correlations of 3,000 rows: their own error is 0.018."""
    frame, model, made = wide
    numbers = [name for name in frame if name.startswith("v")]
    off = np.triu_indices(COLUMNS, 1)
    real, synthetic = (np.corrcoef(table[numbers].to_numpy(float).T)[off] for table in (frame, made))
    assert np.corrcoef(real, synthetic)[0, 1] > 0.95 and np.abs(real - synthetic).mean() < 0.06
    assert 0.85 < np.polyfit(real, synthetic, 1)[0] < 1.15
    yes = [np.corrcoef((table["two"] == "yes"), table["v0"])[0, 1] for table in (frame, made)]
    assert abs(yes[0] - yes[1]) < 0.15
    assert MATRIX in {entry.label for entry in model.ledger.entries}


@pytest.mark.nightly
def test_conditions_on_a_wide_model_are_met(wide: Any) -> None:
    _, model, _ = wide
    high = medsynth.sample(model, 300, seed=2, where={"v0": (120, 200), "y": "B"})
    assert (high["v0"] >= 120).all() and (high["y"] == "B").all()


@pytest.mark.nightly
def test_the_model_keeps_no_shares_by_point(wide: Any) -> None:
    _, model, _ = wide
    assert max(tensor.size for tensor in model.tensors.values()) < 1 << 16
    assert 2 * MOST_ENTRIES > 10 * 784 * 785  # MNIST is read whole
