"""Without noise each stage gives the exact tables of the rows; with noise, as much as is stated."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from medsynth.errors import UsageError
from medsynth.mixture import constants as k
from medsynth.mixture.config import MixtureConfig
from medsynth.mixture.constants import BY_CLASS, CROSSED, MATRIX, PAIRS, STRONGEST
from medsynth.mixture.crossed import column_features, crossed_moments
from medsynth.mixture.measurement import Measurement, MomentMeasurement, RuleMeasurement
from medsynth.mixture.method import LatentMixture
from medsynth.mixture.stages import Stages, bins_by_noise
from medsynth.mixture.weights import weights_by_size
from medsynth.privacy.accounting.calibration import make_plan
from medsynth.privacy.release import Releases
from medsynth.privacy.vault import Vault
from medsynth.rng import Entropy, NoNoise, SeededEntropy
from medsynth.schema import Schema

Codes = NDArray[np.int32]
COLUMNS = {
    "age": {"kind": "count", "bounds": [0, 99], "missing": True},
    "sex": {"kind": "binary", "levels": ["f", "m"]},
    "ward": {"kind": "categorical", "levels": list("abcdefghijkl")},
    "ill": {"kind": "categorical", "levels": ["no", "mild", "severe"]},
}
SCHEMA = Schema.from_dict({
    "name": "t", "target": "ill", "columns": COLUMNS, "rules": ["ward = a implies sex = f"],
})  # fmt: skip
MIXTURE = LatentMixture()
ROWS = 3000


def table(seed: int = 0) -> Codes:
    """Ages by class, wards by sex, and missing ages; no man is on the first ward."""
    rng = np.random.default_rng(seed)
    ill, sex = rng.choice(3, ROWS, p=[0.7, 0.2, 0.1]), rng.integers(0, 2, ROWS)
    age = np.clip(rng.normal(40 + 10 * ill, 12), 0, 99).astype(int)
    ward = np.minimum(rng.geometric(0.3, ROWS) - 1 + sex, 11)
    return np.stack([np.where(rng.random(ROWS) < 0.1, 100, age), sex, ward, ill], 1).astype(np.int32)


def stages(
    codes: Codes,
    entropy: Entropy,
    epsilon: float = 3.7,
    config: MixtureConfig | None = None,
    like: Stages | None = None,
) -> Stages:  # fmt: skip
    config = config or MixtureConfig()
    plan = make_plan(MIXTURE.queries(config, ROWS, len(COLUMNS), epsilon), epsilon=epsilon, delta=1e-5, rows=ROWS)
    vault = Vault(codes, SCHEMA.names, Releases(plan.ledger("test"), entropy))
    return Stages(schema=SCHEMA, vault=vault, plan=plan, seed=0, regressions=config.regressions, like=like)


def test_few_rows_are_counted_by_class_rather_than_in_pairs() -> None:
    few, many = (
        {charge.label: charge.weight**-2 for charge in MIXTURE.queries(MixtureConfig(), rows, 20, 1.0)}
        for rows in (k.FEW_ROWS - 1, k.FEW_ROWS)
    )
    assert sum(few.values()) == pytest.approx(1) and few[PAIRS] == pytest.approx(0.21)
    assert {label for label in many if few[label] != pytest.approx(many[label])} == {BY_CLASS, PAIRS}


def counts(own: Stages, codes: Codes, names: tuple[str, ...], classes: int) -> NDArray[np.float64]:
    """Exact rows of each class in each bin of some columns, (classes, bins, ...)."""
    place = [codes[:, 3] if classes > 1 else np.zeros(len(codes), np.int64)]
    place += [own.bins[name].cell_of(codes[:, SCHEMA.names.index(name)]) for name in names]
    found = np.zeros((classes, *(own.bins[name].cells for name in names)))
    np.add.at(found, tuple(place), 1.0)
    return found


def exact(own: Stages, codes: Codes, one: Measurement) -> NDArray[np.float64]:
    """What a measurement would be without noise, by the rows; a centred one less its mean."""
    found = counts(own, codes, one.columns, len(one.values))
    for axis, maps in enumerate(one.maps):
        found = np.moveaxis(np.tensordot(maps, found, (1, 1 + axis)), 0, 1 + axis)
    return np.asarray(found - found.mean(1, keepdims=True) * one.centred)


def test_without_noise_every_table_is_the_exact_one() -> None:
    codes = table()
    own = stages(codes, NoNoise())
    found = own.measured()
    kinds = [(one.columns, len(one.values)) for one in found if isinstance(one, Measurement)]
    singles, pairs = [("age",), ("sex",), ("ward",)], [("age", "sex"), ("age", "ward"), ("sex", "ward")]
    assert kinds[:9] == [*((s, 1) for s in singles), *((s, 3) for s in singles), *((p, 3) for p in pairs)]
    assert sorted(kinds[9:]) == sorted((p, 1) for p in pairs)
    for one in found:
        assert not isinstance(one, MomentMeasurement)  # no regression is declared
        if isinstance(one, RuleMeasurement):
            assert one.columns == ("sex", "ward") or one.columns == ("ward", "sex")
            assert not one.values.any() and set(np.unique(one.map)) == {0.0, 1.0}
            continue
        values = one.values - one.values.mean(1, keepdims=True) * one.centred
        assert np.allclose(values, exact(own, codes, one), atol=1e-6), one.columns
    assert own.rows == pytest.approx(ROWS) and own.sizes == pytest.approx(np.bincount(codes[:, 3]))


@pytest.mark.statistical
def test_the_noise_is_as_large_as_stated() -> None:
    """Released less exact numbers in stated deviations, 30 fits: their mean square is one. The seeds are fixed."""
    codes, squares = table(), list[float]()
    for seed in range(30):
        own = stages(codes, SeededEntropy(seed))
        for one in own.measured():
            if isinstance(one, Measurement) and len(one.values) == 3:
                squares += (np.square(one.values - exact(own, codes, one)) / one.std**2).ravel().tolist()
    # The mean square of as many normal numbers lies within 5 standard deviations of one, but for one time in a million.
    assert np.mean(squares) == pytest.approx(1.0, abs=5 * np.sqrt(2 / len(squares)))


@pytest.mark.parametrize(
    ("config", "classes"),
    [(MixtureConfig(inference=("ill ~ age + sex", "age ~ sex")), 3), (MixtureConfig(products=0.05), 1)],
    ids=["declared", "crossed"],
)
def test_moments_are_sums_of_products_of_the_rows(config: MixtureConfig, classes: int) -> None:
    """Without noise they are the sums over rows of products of features, by class, up to what clipping took."""
    codes = table()
    own = stages(codes, NoNoise(), config=config)
    (found,) = [one for one in own.measured() if isinstance(one, MomentMeasurement)]
    place = {name: own.bins[name].cell_of(codes[:, SCHEMA.names.index(name)]) for name in found.maps}
    each = np.concatenate([maps[:, place[name]] for name, maps in found.maps.items()])
    products = np.prod(each[found.factors], 0)
    labels = codes[:, 3] if classes > 1 else np.zeros(len(codes))
    sums = np.stack([products[:, labels == label].sum(1) for label in range(classes)])
    size = np.sqrt(np.square(products).sum(1)) * np.sqrt(ROWS)
    assert found.values.shape == sums.shape and found.std.shape == sums.shape[1:]
    assert (np.abs(found.values - sums).max(0) < 0.02 * size).all()


@pytest.mark.nightly
def test_features_of_columns_are_standard() -> None:
    """By the released shares: mean zero, and variance one but for what is clipped. Nearly one level gives none."""
    own = stages(table(), SeededEntropy(3))
    own.measured()
    for bins in own.weighed().values():
        features, share = column_features(bins), bins.shares
        assert features is not None and (features[:, 2] == 1).all()
        assert share @ features[:, :2] / share.sum() == pytest.approx(0, abs=1e-9)
        assert 0.7 < share @ features[:, 0] ** 2 / share.sum() <= 1 + 1e-9
        assert np.abs(features).max() < k.FEATURE_CLIP + 1
    sex = replace(own.bins["sex"], shares=np.array([0.98, 0.02]))
    assert column_features(sex) is None and crossed_moments({"sex": sex}, ("sex",), 1.0, ROWS) is None
    names = [f"x{place}" for place in range(40)]
    for count, products in ((5, 10 + 10), (40, 40 * 39 // 2)):  # a wide table has none of three columns
        found = crossed_moments(dict.fromkeys(names[:count], own.bins["sex"]), names, 1.0, ROWS)
        assert found is not None and found.products.width == products


def test_a_table_without_pairs_is_measured_as_planned() -> None:
    """Columns that turn out to have one value leave no pair, and the ledger is the plan all the same."""
    one: dict[str, object] = {"kind": "categorical", "levels": ["a"]}
    schema = Schema.from_dict({"name": "t", "target": "ill", "columns": {**COLUMNS, "sex": one, "ward": one}})
    codes = table() * np.array([1, 0, 0, 1], np.int32)
    config = MixtureConfig(products=0.05)
    plan = make_plan(MIXTURE.queries(config, ROWS, 4, 3.7), epsilon=3.7, delta=1e-5, rows=ROWS)
    ledger = plan.ledger("test")
    own = Stages(schema=schema, vault=Vault(codes, schema.names, Releases(ledger, NoNoise())), plan=plan, seed=0)
    found = own.measured()
    assert ledger.complete and {PAIRS, STRONGEST, CROSSED} <= {entry.label for entry in ledger.entries}
    assert {one.columns for one in found if isinstance(one, Measurement)} == {("age",), ("sex",), ("ward",)}


def test_stages_like_others_keep_their_bins_and_choices() -> None:
    """Of other rows, in which other columns are related, they ask the same queries."""
    config = MixtureConfig(products=0.05)
    own = stages(table(), SeededEntropy(1), config=config)
    first = own.measured()
    codes = table(5)
    codes[:, 2] = codes[:, 0] // 10  # wards by age, no more by sex
    codes = codes[: len(codes) // 8]  # for so few rows pairs would have fewer bins
    same, other = (stages(rows, NoNoise(), config=config, like=own) for rows in (table(), codes))
    for again in (same, other):
        found = again.measured()
        assert again.chosen == own.chosen and [type(one) for one in found] == [type(one) for one in first]
        for one, before in zip(found, first, strict=True):
            if isinstance(one, Measurement) and isinstance(before, Measurement):
                assert one.columns == before.columns and one.values.shape == before.values.shape
                assert all(np.array_equal(*maps) for maps in zip(one.maps, before.maps, strict=True))
            if isinstance(one, MomentMeasurement) and isinstance(before, MomentMeasurement):
                assert np.array_equal(one.factors, before.factors) and np.array_equal(one.std, before.std)
    shares = np.bincount(codes[:, 3], minlength=len(other.sizes)) / len(codes)
    assert other.sizes / other.sizes.sum() == pytest.approx(shares, abs=0.01)


def test_a_wide_table_has_matrices_in_place_of_pairs() -> None:
    labels = {query.label for query in MIXTURE.queries(MixtureConfig(), 300, k.WIDE_COLUMNS + 1, 1.0)}
    assert MATRIX in labels and not labels & {PAIRS, STRONGEST}
    with pytest.raises(UsageError, match="more than 100 columns"):
        MIXTURE.queries(MixtureConfig(inference=("a ~ b",)), 300, k.WIDE_COLUMNS + 1, 1.0)


def test_a_plan_has_the_pairs_that_there_are() -> None:
    two = {query.label for query in MIXTURE.queries(MixtureConfig(), 300, 2, 1.0)}
    assert PAIRS not in two and STRONGEST not in two
    shares = {query.label: query.weight**-2 for query in MIXTURE.queries(MixtureConfig(), 300, 5, 1.0)}
    assert sum(shares.values()) == pytest.approx(1) and shares[STRONGEST] == pytest.approx(k.STRONG_SHARE)
    assert CROSSED not in shares
    more = {query.label: query.weight**-2 for query in MIXTURE.queries(MixtureConfig(products=0.1), 300, 5, 1.0)}
    assert more == pytest.approx({label: 0.9 * share for label, share in shares.items()} | {CROSSED: 0.1})
    assert STRONGEST not in {query.label for query in MIXTURE.queries(MixtureConfig(strongest_share=0), 300, 5, 1.0)}


def test_bins_follow_the_noise() -> None:
    grid = [bins_by_noise(4000, std, 3) for std in (0.0, 1, 10, 20, 40, 80, 1e6)]
    assert grid == sorted(grid, reverse=True) and grid[0] == k.BINS and grid[-1] == k.FEWEST_BINS
    assert bins_by_noise(4000, 20, 1) >= bins_by_noise(4000, 20, 4) and bins_by_noise(8000, 40, 1) == bins_by_noise(
        4000, 20, 1
    )
    assert weights_by_size({"one": 1, "eight": 8}) == {"one": 1.0, "eight": 2.0}
