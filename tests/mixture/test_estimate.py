"""The loss equals plain loops over classes, points and cells, and its slopes are those of differences."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray

from medsynth.mixture import constants as k
from medsynth.mixture import estimate as estimator
from medsynth.mixture import model as models
from medsynth.mixture.estimate import Loss, Prior, estimate
from medsynth.mixture.measurement import Measured, Measurement, MomentMeasurement, RuleMeasurement, contrasts
from medsynth.mixture.model import Layout, MixtureModel, wave_features

Floats = NDArray[np.float64]
SIZES = {"age": 5, "sex": 2, "ward": 3}
ORDERED = {"age": 4, "sex": 0, "ward": 0}  # the last bin of age holds missing values
PARTS = {"age": np.arange(5), "sex": np.arange(2), "ward": np.array([0, 1, 1])}  # two wards share a feature
ROWS = np.array([60.0, 40.0])


def mixture(points: int, seed: int = 0) -> MixtureModel:
    middles = {name: np.linspace(0.1, 0.9, count) for name, count in ORDERED.items()}
    features = {name: wave_features(middles[name], 1 + int(PARTS[name].max()), k.WAVES) for name in SIZES}
    model = MixtureModel(Layout(SIZES, ORDERED, PARTS, features), ROWS, points, seed)
    for parameter in model.parameters():
        parameter += 0.5 * np.random.default_rng(seed + 1).standard_normal(parameter.shape)
    return model


def shares_by_loops(model: MixtureModel) -> dict[str, Floats]:
    """p(bin | class, point) of each column, (bins, classes, points), from the parameters, one softmax at a time."""
    base, own, common, by_class = model.parameters()
    found, first = {}, 0
    for name, span in model.layout.spans.items():
        features = model.layout.features[name]
        stop = first + features.shape[1]
        table = np.zeros((SIZES[name], len(ROWS), model.points))
        for c, z in itertools.product(range(len(ROWS)), range(model.points)):
            latent = features[PARTS[name]] @ (0.5 * common[first:stop, 0, z] + 0.5 * by_class[first:stop, c, z])
            weight = np.exp(base[span, 0] + own[span, c] + latent)
            table[:, c, z] = weight / weight.sum()
        found[name], first = table, stop
    return found


def measured() -> list[Measured]:
    """Of each kind: a column, by class, a pair by class, a pair of all classes, two columns and three by a rule."""
    rng = np.random.default_rng(3)

    def table(columns: tuple[str, ...], maps: list[Floats], classes: int) -> Measurement:
        values = rng.normal(10, 3, (classes, *(len(m) for m in maps)))
        return Measurement(columns=columns, maps=tuple(maps), values=values, std=rng.uniform(1, 2, values.shape))

    def column(name: str, classes: int, *, centred: bool = False) -> Measurement:
        values = rng.normal(10, 3, (classes, SIZES[name]))
        return Measurement(columns=(name,), values=values, std=rng.uniform(1, 2, (classes, 1)), centred=centred)

    merged = np.array([[1.0, 1, 0, 0, 0], [0, 0, 1, 1, 0], [0, 0, 0, 0, 1]])
    age, ward = contrasts(3) @ merged, contrasts(3)
    joint = rng.dirichlet(np.ones(4), (5, 3))
    broken = rng.random((5, 2, 3, 1))
    return [
        column("age", 1), column("ward", 1, centred=True), column("sex", 2), column("ward", 2, centred=True),
        table(("age", "ward"), [age, ward], 2), table(("age", "sex"), [age, contrasts(2)], 2),
        table(("age", "ward"), [np.eye(5), ward], 1), table(("age", "ward"), [np.eye(5), ward], 2),
        RuleMeasurement(columns=("age", "ward"), map=joint, values=rng.normal(9, 2, (2, 4)), std=1.5),
        RuleMeasurement(columns=("age", "sex", "ward"), map=broken, values=np.zeros((2, 1)), std=0.7),
        *(moments(classes, rng) for classes in (1, 2)),
    ]  # fmt: skip


def moments(classes: int, rng: np.random.Generator) -> MomentMeasurement:
    """Products of two features, of three, and of one column's with itself."""
    maps = {"age": rng.normal(size=(2, 5)), "ward": rng.normal(size=(1, 3)), "sex": np.ones((1, 2))}
    factors = np.array([[0, 1, 0], [2, 2, 3], [3, 0, 3]])
    return MomentMeasurement(
        maps=maps, factors=factors, values=rng.normal(5, 2, (classes, 3)), std=rng.uniform(1, 2, 3)
    )


def errors_by_loops(shares: dict[str, Floats], tables: list[Measured]) -> float:
    """Half the squared errors, each expected cell a sum over classes, points and bins."""
    total, points = 0.0, next(iter(shares.values())).shape[-1]
    for t in tables:
        expected = np.zeros(t.values.shape)
        for c, z in itertools.product(range(len(ROWS)), range(points)):
            if isinstance(t, MomentMeasurement):
                means = np.concatenate([own @ shares[name][:, c, z] for name, own in t.maps.items()])
                expected[c if len(t.values) > 1 else 0] += ROWS[c] * np.prod(means[t.factors], 0) / points
                continue
            chances = [shares[name][:, c, z] for name in t.columns]
            if isinstance(t, Measurement) and len(t.columns) == 1:
                one = chances[0]
            elif isinstance(t, Measurement):
                cells = [m @ chance for m, chance in zip(t.maps, chances, strict=True)]
                one = np.outer(cells[0], cells[1])
            else:
                one = np.zeros(t.values.shape[1])
                for bins in itertools.product(*(range(len(chance)) for chance in chances)):
                    one += np.prod([ch[b] for ch, b in zip(chances, bins, strict=True)]) * t.map[bins]
            expected[c if len(t.values) > 1 else 0] += ROWS[c] * one / points
        gap = t.values - expected
        if isinstance(t, Measurement) and t.centred:
            gap = gap - gap.mean(1, keepdims=True)
        total += float((np.square(gap) / np.square(t.std)).sum()) / 2
    return total


@pytest.mark.parametrize("points", [1, 3])
def test_the_loss_is_that_of_plain_loops(points: int) -> None:
    model, tables = mixture(points), measured()
    shares = shares_by_loops(model)
    for name, span in model.layout.spans.items():
        assert np.allclose(model.shares()[span], shares[name], atol=1e-6)
    prior = Loss(model, []).slopes()[0]
    for some in ([t] for t in tables):
        assert Loss(model, some).slopes()[0] - prior == pytest.approx(
            errors_by_loops(shares, some), rel=1e-3, abs=1e-2
        ), type(some[0])
    assert Loss(model, tables).slopes()[0] == pytest.approx(prior + errors_by_loops(shares, tables), rel=1e-4)


def test_the_prior_is_that_of_plain_loops() -> None:
    model = mixture(2)
    base, own = model.base.astype(np.float64)[:, 0], model.by_class.astype(np.float64)
    total = float((base**2).sum()) / k.RIDGE_STD**2
    for c in range(2):
        total += sum((own[b + 1, c] - own[b, c]) ** 2 for b in range(3)) / k.CLASS_STD**2
        total += float((own[4:, c] ** 2).sum()) / k.CLASS_STD**2
    coefficients = float(np.square(model.common).sum() + np.square(model.own).sum())
    whole = total + k.LATENT_WEIGHT / (2 * k.LATENT_FLOOR) * coefficients / model.points
    loss = Loss(model, [])
    assert loss.slopes()[0] == pytest.approx(whole / 2, rel=1e-5)
    loss.prior.learn(model)
    whole = total
    for latent in (own.reshape(len(own), -1).astype(np.float64) for own in model.parameters()[2:]):
        covariance = latent @ latent.T / latent.shape[1] + k.LATENT_FLOOR * np.eye(len(latent))
        whole += k.LATENT_WEIGHT / model.points * np.trace(latent.T @ np.linalg.solve(covariance, latent))
    assert loss.slopes()[0] == pytest.approx(whole / 2, rel=1e-5)


@pytest.mark.parametrize("points", [1, 40])
def test_slopes_are_those_of_differences(points: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In float64, along random directions of each parameter, for each kind of measurement and for drawn priors."""
    for module in (models, estimator):
        monkeypatch.setattr(module, "NUMBERS", np.float64)
    model, rng = mixture(points), np.random.default_rng(8)
    tables = measured()
    for some in (*([table] for table in tables), tables, [*tables[4:7], *tables[4:7]]):
        loss = Loss(model, some, Prior(model, rng))
        loss.prior.learn(model)
        slopes = loss.slopes()[1]
        for parameter, slope in zip(model.parameters(), slopes, strict=True):
            start, step = parameter.copy(), 1e-5 * rng.standard_normal(parameter.shape)
            values = []
            for sign in (1, -1):
                parameter[:] = start + sign * step
                values.append(loss.slopes()[0])
            parameter[:] = start
            along = float((slope * step).sum())
            assert (values[0] - values[1]) / 2 == pytest.approx(along, rel=1e-5, abs=1e-9), type(some[0])


def test_a_fit_meets_the_tables_of_another_mixture() -> None:
    """Counts without noise, of a mixture that has relations: their cells are met to a hundredth of the rows."""
    true, model = mixture(4, 5), mixture(64, 9)
    shares = shares_by_loops(true)
    tables = list[Measured]()
    for names in [*itertools.combinations(SIZES, 1), *itertools.combinations(SIZES, 2)]:
        maps = tuple(np.eye(SIZES[name]) for name in names)
        axes = "ibz" if len(names) == 1 else "iz,jz->ij"
        values = np.stack([
            ROWS[c] * (shares[names[0]][:, c].mean(-1) if axes == "ibz"
                       else np.einsum(axes, shares[names[0]][:, c], shares[names[1]][:, c]) / 4)
            for c in range(2)
        ])  # fmt: skip
        maps = maps if len(names) > 1 else ()
        tables.append(Measurement(columns=names, maps=maps, values=values, std=np.array(0.05)))
    steps = list[int]()
    estimate(model, tables, 300, lambda done, of: steps.append(done))
    assert steps == list(range(1, 301))
    found = shares_by_loops(model)
    for table in tables:
        assert isinstance(table, Measurement)
        some = [found[name] for name in table.columns]
        for c in range(2):
            own = some[0][:, c].mean(-1) if len(some) == 1 else some[0][:, c] @ some[1][:, c].T / 64
            assert np.abs(ROWS[c] * own - table.values[c]).max() < 1.0


@pytest.mark.nightly
def test_a_drawn_prior_alone_is_met_by_its_draws() -> None:
    """With no measurement the fit is what the prior draws: base and class logits vary as the prior says they do."""
    found = []
    for seed in range(10):
        model = mixture(4)
        estimate(model, [], 300, lambda done, of: None, np.random.default_rng(seed))
        assert np.abs(model.common).max() < 0.5 and np.abs(model.own).max() < 0.5
        found.append(model.by_class[model.layout.spans["sex"]])
    spread = np.std(found) / k.CLASS_STD
    assert abs(spread - 1) < 0.4  # of 40 draws of fixed seeds the standard error is .11


def test_contrasts_are_orthonormal_and_sum_to_zero() -> None:
    for cells in (1, 2, 5, 20):
        basis = contrasts(cells)
        assert basis.shape == (cells - 1, cells)
        assert np.allclose(basis @ basis.T, np.eye(cells - 1)) and np.allclose(basis.sum(1), 0)


def test_waves_lie_along_ordered_bins_alone() -> None:
    features = wave_features(np.linspace(0.05, 0.95, 10), 12, 4)
    assert features.shape == (12, 4 + 2)
    assert np.array_equal(features[10:], np.eye(6)[4:]) and not features[:10, 4:].any()
    assert features[0, 3] == pytest.approx(np.sqrt(2) * np.cos(np.pi * 0.05 * 4) / 4**k.DECAY)
    assert np.array_equal(wave_features(np.empty(0), 3, 4), np.eye(3))
    gaps = wave_features(np.linspace(0.05, 0.95, 10), 12, 4, 1)
    assert np.array_equal(gaps[:11], features[:11]) and np.array_equal(gaps[11], k.GAP_SIZE * features[11])
