"""Factors of two columns' table: rows are drawn by them exactly, and values inside bins by the computed column."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from medsynth.methods.bins import whole_tensor
from medsynth.methods.sampler import Mixture, PairFactor, mixture_tensors
from medsynth.schema import Schema
from medsynth.schema.columns.grid import Grid

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
    rng = np.random.default_rng(1)
    points = rng.choice(POINTS, rows, p=made.evidence(allowed)[:, 0] / made.evidence(allowed)[:, 0].sum())
    drawn = made.draw_at(labels, points, rng, allowed)
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
    made = pair()
    kept = {"factor.ratio": made.table, "computed.ratio": made.factors, "largest.ratio": made.largest}
    tensors = {name: table.astype(np.float32) for name, table in kept.items()}
    (found,) = PairFactor.of(tensors | {"starts.ratio": whole_tensor(made.bins.edges)}, INDEX)
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
