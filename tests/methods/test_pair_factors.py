"""Factors of two columns' table: rows are drawn by them exactly, and values inside bins by the computed column."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from medsynth.methods.shared.mixture import Mixture, mixture_tensors
from medsynth.methods.shared.pair_factors import PairFactor
from medsynth.methods.warm_dp_cgan.computed_columns import _Family, likeliest_factors
from medsynth.schema import Schema
from medsynth.transforms.grid import Grid

POINTS, CLASSES = 3, 2
SIZES = {"a": 3, "b": 4, "c": 2}
FEWEST = 5  # rows expected in a cell that chi-square reads by itself


def mixture() -> Mixture:
    """Three columns of which `a` and `b` have factors, and `c`, whose shares are the same at all points, has none."""
    rng = np.random.default_rng(5)
    base = {name: np.log(rng.dirichlet(np.ones(size), CLASSES)) for name, size in SIZES.items()}
    residual = {name: rng.standard_normal((POINTS, CLASSES, SIZES[name])).astype(np.float32) for name in "ab"}
    factor = rng.uniform(0, 2, (CLASSES, 3, 4))
    factor[0, 1, 2] = 0.0
    return Mixture.of(mixture_tensors(base, residual), list("abc"), {("b", "a"): factor.transpose(0, 2, 1)})


def joint(made: Mixture) -> np.ndarray:
    """The chance of every point, class and row, were classes and points even: (points, classes, a, b, c)."""
    pair = np.einsum("zka,zkb,kba->zkab", made.shares["a"], made.shares["b"], made.factors["b", "a"])
    pair /= pair.sum((2, 3), keepdims=True)
    return np.asarray(np.einsum("zkab,kc->zkabc", pair, made.shares["c"][0]))


def alike(counts: np.ndarray, chance: np.ndarray) -> bool:
    """Whether chi-square finds them alike, at 1e-4; rare cells together."""
    expected = counts.sum() * chance.ravel() / chance.sum()
    large = expected > FEWEST
    pairs = (np.append(one[large], one[~large].sum()) for one in (counts.ravel().astype(np.float64), expected))
    seen, due = (one[[*range(len(one) - 1), -1]] if one[-1] else one[:-1] for one in pairs)
    return bool(stats.chisquare(seen, due).pvalue > 1e-4)


ALLOWED = {"a": np.array([[1.0, 0.5, 0.0]] * CLASSES), "c": np.array([[0.25, 1.0]] * CLASSES)}


@pytest.mark.parametrize("allowed", [{}, ALLOWED], ids=["all", "conditions"])
def test_evidence_is_the_sum_over_all_rows(allowed: dict[str, np.ndarray]) -> None:
    made = mixture()
    part = {name: allowed.get(name, np.ones((CLASSES, size))) for name, size in SIZES.items()}
    brute = np.einsum("zkabc,ka,kb,kc->zk", joint(made), part["a"], part["b"], part["c"])
    assert np.allclose(made.evidence(allowed), brute)


@pytest.mark.statistical
@pytest.mark.parametrize("allowed", [{}, ALLOWED], ids=["all", "conditions"])
def test_rows_have_the_chance_of_product_and_factor(allowed: dict[str, np.ndarray]) -> None:
    """100,000 rows of class 0, by chi-square. Draws are stratified, so that they fit better than chance would."""
    made, rows = mixture(), 100_000
    labels = np.zeros(rows, np.int64)
    drawn = made.draw(labels, np.random.default_rng(1), made.evidence(allowed), allowed)
    part = {name: allowed.get(name, np.ones((CLASSES, size))) for name, size in SIZES.items()}
    chance = np.einsum("zabc,a,b,c->abc", joint(made)[:, 0], part["a"][0], part["b"][0], part["c"][0])
    cells = np.ravel_multi_index([drawn[name] for name in "abc"], (3, 4, 2))
    counts = np.bincount(cells, minlength=24).reshape(3, 4, 2)
    assert counts[1, 2].sum() == 0 and alike(counts, chance)


@pytest.mark.statistical
@pytest.mark.parametrize("fixed", [{"a": 1}, {"b": 2}, {"a": 1, "b": 3}, {"c": 1}, {"b": 0, "c": 1}], ids=str)
def test_points_and_rows_given_some_columns_are_exact(fixed: dict[str, int]) -> None:
    """40,000 rows whose bins in some columns are given, classes unknown, by chi-square; the seed is fixed."""
    made, rows, rng = mixture(), 40_000, np.random.default_rng(3)
    known = {name: np.full(rows, at) for name, at in fixed.items()}
    weights = made.evidence({})
    labels, points = made.draw_points_given(np.array([0.5, 0.5]), weights, known, None, rng, {})
    drawn = made.draw_at(labels, points, rng, {}, known)
    places = tuple(fixed.get(name, slice(None)) for name in "abc")
    chance = joint(made)[(slice(None), slice(None), *places)]
    free = [name for name in "abc" if name not in fixed]
    shape = (POINTS, CLASSES, *(SIZES[name] for name in free))
    cells = np.ravel_multi_index([points, labels, *(drawn[name] for name in free)], shape)
    assert all((drawn[name] == at).all() for name, at in fixed.items())
    assert alike(np.bincount(cells, minlength=int(np.prod(shape))), chance)


def known(std: float) -> Any:
    """What was measured of two columns and of a narrow third, whose share in each of their cells is known."""
    one, other, own = (np.full((1, size), 1 / size) for size in (4, 4, 2))
    own = np.array([[0.9, 0.1]])
    base = {name: np.log(shares) for name, shares in zip("abm", (one, other, own), strict=True)}
    every = dict.fromkeys("abm", std)
    return SimpleNamespace(base=base, totals=np.array([1000.0]), std=every, whole_std=every)


def narrow() -> np.ndarray:
    """The computed column is in its first bin where its inputs' bins are neighbours, in its second elsewhere."""
    near = np.abs(np.subtract.outer(np.arange(4), np.arange(4))) < 2
    return np.stack([near, ~near], 2).astype(np.float64)


def test_factors_give_the_computed_column_its_shares_and_leave_its_inputs_theirs() -> None:
    joint, inside = np.full((1, 4, 4), 1 / 16), narrow()
    table, factors = likeliest_factors(joint, inside, ("a", "b", "m"), known(1.0))
    made = joint * table
    assert np.isclose(made.sum(), 1) and np.allclose(made.sum(1), 0.25, atol=0.002)
    assert np.allclose(made.sum(2), 0.25, atol=0.002)
    assert np.isclose((made * inside[..., 0]).sum(), 0.9, atol=0.002) and factors[0, 0] > factors[0, 1]


def test_noise_alone_makes_no_factors() -> None:
    """Where the noise is as large as the table, factors stay close to one: nothing was told."""
    table, factors = likeliest_factors(np.full((1, 4, 4), 1 / 16), narrow(), ("a", "b", "m"), known(1e4))
    assert np.allclose(table, 1, atol=0.02) and np.allclose(factors, 1, atol=0.02)


INDEX = Schema.from_dict({
    "name": "t", "target": "y",
    "columns": {"one": {"kind": "count", "bounds": [1, 9]}, "other": {"kind": "count", "bounds": [1, 9]},
                "ratio": {"kind": "continuous", "decimals": 1, "bounds": [0, 9], "missing": True},
                "y": {"kind": "binary", "levels": [0, 1]}},
    "rules": ["ratio = one / other"],
}).core  # fmt: skip


def pair() -> PairFactor:
    starts = np.array([0, 10, 65_600, 65_601])  # beyond 2^16, which float32 would round
    return PairFactor(one="one", other="other", computed="ratio", table=np.ones((2, 9, 9)),
                      factors=np.array([[1.0, 0.25, 0.5, 1.0]] * 2), largest=np.ones((2, 9, 9)),
                      bins=Grid(starts, 1))  # fmt: skip


def test_tensors_give_the_factors_back() -> None:
    (found,) = PairFactor.of(pair().tensors(), INDEX)
    assert (found.one, found.other, found.computed) == ("one", "other", "ratio")
    assert found.bins.edges.tolist() == pair().bins.edges.tolist() and found.bins.gaps == 1
    assert np.array_equal(found.factors, pair().factors) and not PairFactor.of({}, INDEX)


@pytest.mark.statistical
def test_values_are_refused_by_the_factor_of_what_they_give(rng: np.random.Generator) -> None:
    """100,000 rows each: a ratio below one is never refused, one above it in three of four (standard error 0.0014)."""
    definition, rows = INDEX.definitions["ratio"], 100_000
    labels, cells = np.zeros(rows, np.int64), (np.zeros(rows, np.int64), np.zeros(rows, np.int64))
    low, high = (np.tile(np.array(codes, np.int32), (rows, 1)) for codes in ([0, 8], [8, 0]))
    assert not pair().refused(definition, low, labels, cells, rng).any()
    assert abs(pair().refused(definition, high, labels, cells, rng).mean() - 0.75) < 0.007


def test_the_covariance_is_the_derivative_of_the_shares(rng: np.random.Generator) -> None:
    """By differences of a thousandth: what Gauss and Newton's steps rest on."""
    inside = rng.dirichlet(np.ones(2), (4, 4))
    family = _Family(rng.dirichlet(np.ones(16), 2).reshape(2, 4, 4), inside)
    logs, moved = rng.standard_normal((2, 10)), np.zeros((2, 10))
    moved[:, 5] = 5e-4
    slopes = (family.means(logs + moved)[0] - family.means(logs - moved)[0]) / 1e-3
    assert np.allclose(family.means(logs)[1][:, 5], slopes, atol=1e-6)
    assert np.allclose(family.means(logs)[0].sum(1), 3)
