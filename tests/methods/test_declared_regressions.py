"""Regressions that a fit is told of: parsed, refused before anything is spent, and their moments exact."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import medsynth
from medsynth.errors import UsageError
from medsynth.fitting.planning import plan_fit
from medsynth.fitting.settings import FitSettings
from medsynth.methods import registry
from medsynth.methods.bins import Bins, fine_grid
from medsynth.methods.regressions import Regression, check_columns, parsed
from medsynth.mixture.constants import DECLARED
from medsynth.mixture.declared import declared_moments
from medsynth.schema import Schema

SCHEMA = Schema.from_dict({
    "name": "t",
    "target": "y",
    "columns": {
        "a": {"kind": "count", "bounds": [0, 99]},
        "b": {"kind": "count", "bounds": [0, 99]},
        "c": {"kind": "categorical", "levels": ["u", "v", "w"]},
        "y": {"kind": "binary", "levels": ["no", "yes"]},
    },
})  # fmt: skip
NAMES = ("a", "b", "c")


class Classes:
    """The target's codes are its classes."""

    cells = 2

    def cell_of(self, codes: Any) -> Any:
        return np.asarray(codes, np.int64)


def bins_of(most: int) -> dict[str, Bins]:
    """Of numbers with a bell of rows about the middle, at most so many bins."""
    found = {}
    for name in NAMES:
        column = SCHEMA.columns[name]
        shares = np.exp(-(((np.arange(100) - 49.5) / 15) ** 2) / 2) if name != "c" else None
        found[name] = Bins.of(column, None if shares is None else shares / shares.sum(), None, most, fine_grid(column))
    return found


def correlated(rows: int, correlation: float) -> "np.ndarray[tuple[int, int], np.dtype[np.int32]]":
    rng = np.random.default_rng(1)
    z = rng.multivariate_normal([0, 0], [[1, correlation], [correlation, 1]], rows)
    numbers = np.clip(np.round(49.5 + 15 * z), 0, 99)
    return np.column_stack([numbers, rng.integers(0, 3, rows), rng.integers(0, 2, rows)]).astype(np.int32)


def test_a_formula_is_read() -> None:
    assert parsed(["y ~ a+ b ", "b~a"]) == [Regression("y", ("a", "b")), Regression("b", ("a",))]
    assert str(Regression("y", ("a", "b"))) == "y ~ a + b" and Regression("y", ("a",)).columns == ("y", "a")


@pytest.mark.matrix
@pytest.mark.parametrize("text", ["y ~ a + b + a:b", "y ~ a*b", "y ~ a : b", "y ~ a + a * b"])
def test_an_interaction_stands_beside_both_columns(text: str) -> None:
    assert Regression.parse(text) == Regression("y", ("a", "b"), (("a", "b"),))
    assert str(Regression.parse(text)) == "y ~ a + b + a:b"


@pytest.mark.matrix
@pytest.mark.parametrize(
    "text",
    ["y", "y ~", "~ a", "y ~ a + ", "y ~ a ~ b", "y ~ a + a", "y ~ y", "y ~ a:", "y ~ a:b:c", "y ~ a:a", "y ~ a:y",
     "y ~ a:b + b*a"],
)  # fmt: skip
def test_a_formula_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="inference"):
        Regression.parse(text)


def test_columns_that_cannot_be_read_are_refused() -> None:
    numeric = Schema.from_dict({"name": "t", "target": "b", "columns": SCHEMA.to_dict()["columns"]})
    with pytest.raises(UsageError, match="is not a column"):
        check_columns(parsed(["y ~ a + d"]), dict(SCHEMA.columns), "y")
    with pytest.raises(UsageError, match="also the target"):
        check_columns(parsed(["b ~ a"]), dict(numeric.columns), "b")
    check_columns(parsed(["y ~ a", "b ~ c"]), dict(SCHEMA.columns), "y")


def test_mistakes_are_refused_before_anything_is_measured() -> None:
    rows = pd.DataFrame({"a": [1] * 50, "b": [2] * 50, "c": ["u"] * 50, "y": ["no", "yes"] * 25})
    with pytest.raises(UsageError, match="is not a column"):
        medsynth.fit(rows, schema=SCHEMA, epsilon=1, delta=1e-5, rows=50, inference=["y ~ zz"])
    with pytest.raises(UsageError, match="belongs to"):
        registry.configured("dp-merf", registry.load("dp-merf"), {"inference": ("y ~ a",)})
    with pytest.raises(UsageError, match="more than 100 columns"):
        plan_fit(100_000, FitSettings(epsilon=10, inference=["y ~ a"]), columns=500)


def test_the_plan_gives_them_their_share() -> None:
    made, *_ = plan_fit(4000, FitSettings(epsilon=3.7, inference=["y ~ a"]))
    plain, *_ = plan_fit(4000, FitSettings(epsilon=3.7))
    assert made.shares()[DECLARED] == pytest.approx(0.25) and DECLARED not in plain.events
    by_text, *_ = plan_fit(4000, FitSettings(epsilon=3.7, settings={"inference": "y ~ a; b ~ a"}))
    assert by_text.events == made.events


@pytest.mark.matrix
@pytest.mark.parametrize("formula", ["b ~ a + c", "b ~ a * c", "c ~ a * b", "y ~ a * b + a * c"])
def test_expectations_are_the_means_over_rows(formula: str) -> None:
    """Where bins are cells, the expected moments of independent columns are the means over all of their rows."""
    bins = {name: Bins.of(SCHEMA.columns[name], None, None, 100, fine_grid(SCHEMA.columns[name])) for name in NAMES}
    moments = declared_moments(parsed([formula]), bins, ("y", Classes()), SCHEMA.names, 1.0, 4000)
    rng = np.random.default_rng(5)
    shares = {name: rng.dirichlet(np.ones(bins[name].cells)) for name in NAMES}
    inside = moments.products.inside(bins)
    means = np.concatenate([shares[name] @ table.double().numpy() for name, table in inside.tables.items()])
    expected = np.prod(means[inside.factors.numpy()], 0) * inside.scales.numpy()
    codes = np.stack([g.ravel() for g in np.meshgrid(np.arange(100), np.arange(100), np.arange(3), indexing="ij")], 1)
    weight = shares["a"][codes[:, 0]] * shares["b"][codes[:, 1]] * shares["c"][codes[:, 2]]
    rows = np.column_stack([codes, np.zeros(len(codes))]).astype(np.int32)
    assert np.allclose(
        (weight @ moments.features(rows).double().numpy())[: moments.products.width], expected, atol=1e-5
    )


def test_an_interaction_adds_its_products() -> None:
    """Least squares of b on a, c and their product follows from the means of the products, with rows of its columns."""
    moments = declared_moments(parsed(["b ~ a * c"]), bins_of(20), ("y", Classes()), SCHEMA.names, 1.0, 4000)
    columns = list(moments.products.tables)
    starts = dict(zip(columns, np.cumsum([0, *(t.shape[1] for t in moments.products.tables.values())]), strict=False))
    (b, a, c), (alone, _, one) = (int(starts[name]) for name in "bac"), range(starts["c"] + 2, starts["c"] + 5)
    found = {tuple(sorted(set(own) - {alone, one})) for own in moments.products.factors.T.tolist()}
    levels = [c, c + 1]
    expected = {(b,), (b + 1,), (a,), (a + 1,), (b, a)} | {(level,) for level in levels}
    expected |= {(b, level) for level in levels} | {(a, level) for level in levels}
    expected |= {(b, a, level) for level in levels} | {(a + 1, level) for level in levels}
    assert found == {tuple(sorted(own)) for own in expected}


@pytest.mark.matrix
@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.6])
def test_clipping_is_corrected(correlation: float) -> None:
    """Sums of clipped rows, corrected, are those of rows as they are, within 8 % of a square's, and slopes within 5 %.

    Of 200,000 rows a mean's standard error is below 0.4 % of a square's mean, and a slope's below 1.2 % of one of 0.3.
    """
    moments = declared_moments(parsed(["b ~ a"]), bins_of(20), ("y", Classes()), SCHEMA.names, 100.0, 4000)
    features = moments.features(correlated(200_000, correlation)).double()
    norms = features.norm(dim=1, keepdim=True)
    clipped = (features / norms.clamp(min=1)).sum(0)
    assert 0.01 < float((norms > 1).double().mean()) < 0.12
    corrected = clipped / torch.from_numpy(moments.kept)
    whole = features.sum(0)
    by_factors = {tuple(own): k for k, own in enumerate(moments.products.factors.T.tolist())}
    b, b_square, a, a_square, alone, one = 0, 1, 5, 6, 7, 9  # each column's value and square, then three constants
    square, product = by_factors[a_square, alone, one], by_factors[b, a, one]
    assert (b_square, alone, one) in by_factors and (a, alone, one) in by_factors and moments.products.width == 5
    assert float((corrected - whole).abs().max()) < 0.08 * abs(float(whole[square]))
    if correlation:
        slopes = [float(sums[product] / sums[square]) for sums in (corrected, whole)]
        assert slopes[0] == pytest.approx(slopes[1], rel=0.05)


def test_fewer_rows_are_clipped_where_the_noise_allows() -> None:
    """The bound is the largest at which a product's noise is within its sampling error, sqrt(rows)."""

    def bound(noise: float) -> float:
        moments = declared_moments(parsed(["b ~ a"]), bins_of(20), ("y", Classes()), SCHEMA.names, noise, 4000)
        return -1 / moments.products.scales.item()

    wide, narrow = bound(0.1), bound(1e3)
    between = bound(4000**0.5 / wide * 1.01)
    assert wide > between > narrow and bound(4000**0.5 / wide * 0.99) == wide


@pytest.mark.nightly
def test_columns_of_many_levels_and_of_one_are_bounded() -> None:
    """Of many levels the commonest are measured; of columns of one level how many rows there are."""
    schema = Schema.from_dict({
        "name": "t",
        "target": "y",
        "columns": {
            "h": {"kind": "categorical", "levels": [f"h{k}" for k in range(300)]},
            "g": {"kind": "categorical", "levels": [f"g{k}" for k in range(50)]},
            "one": {"kind": "categorical", "levels": ["x"]},
            "y": {"kind": "binary", "levels": ["no", "yes"]},
        },
    })  # fmt: skip
    bins = {n: Bins.of(schema.columns[n], None, None, 300, fine_grid(schema.columns[n])) for n in ("h", "g", "one")}
    both = declared_moments(parsed(["y ~ h * g"]), bins, ("y", Classes()), schema.names, 1.0, 4000)
    assert both.products.width < 6000
    alone = declared_moments(parsed(["y ~ one"]), bins, ("y", Classes()), schema.names, 1.0, 4000)
    codes = np.zeros((7, 4), np.int32)
    assert alone.products.width == 1 and np.allclose(alone.features(codes)[:, 0], -1.0)


def test_a_regression_of_the_target_is_measured_by_class() -> None:
    both = declared_moments(parsed(["y ~ a", "b ~ a"]), bins_of(20), ("y", Classes()), SCHEMA.names, 1.0, 4000)
    assert both.features(correlated(10, 0)).shape == (10, 2 * both.products.width) and set(both.products.tables) == {
        "a",
        "b",
    }
    alone = declared_moments(parsed(["b ~ a"]), bins_of(20), ("y", Classes()), SCHEMA.names, 1.0, 4000)
    assert alone.features(correlated(10, 0)).shape == (10, alone.products.width)


OF_PATIENTS = {
    "several rows, declared": {"unit": "who", "max_rows": 3},
    "several rows, in order": {"unit": "who", "max_rows": 2, "order": "day"},
    "several rows, some columns constant": {"unit": "who", "max_rows": 4, "constant": ["a"]},
}
COLUMNS_OF_PATIENTS = {
    "who": {"kind": "identifier"},
    "day": {"kind": "count", "bounds": [0, 99]},
    "a": {"kind": "count", "bounds": [0, 9]},
    "y": {"kind": "binary", "levels": ["n", "y"]},
}


def visits_of(patients: int, each: int) -> pd.DataFrame:
    rows = np.arange(patients * each)
    return pd.DataFrame(
        {"who": rows // each, "day": rows % 99, "a": rows // each % 10, "y": np.where(rows % 3, "n", "y")}
    )


@pytest.mark.matrix
@pytest.mark.parametrize("method", ["mixture", "independent"])
@pytest.mark.parametrize("case", [*OF_PATIENTS, "named by an option", "by a setting of the method"])
def test_regressions_that_no_replicate_could_estimate_are_refused_before_anything_is_spent(
    case: str, method: str, tmp_path: Path
) -> None:
    visits_of(40, 3).to_csv(table := tmp_path / "t.csv", index=False)
    options: dict[str, Any] = {"epsilon": 5.0, "rows": 120, "method": method, "inference": ["y ~ a"]}
    keys = OF_PATIENTS.get(case, {"unit": "who", "max_rows": 3})
    if case == "named by an option":
        options |= {"unit": "who", "max_rows": 3}
    else:
        options["schema"] = {"name": "t", "target": "y", "columns": COLUMNS_OF_PATIENTS, **keys}
    if case == "by a setting of the method":
        options["settings"] = {"inference": options.pop("inference")}
    for run in (medsynth.plan, medsynth.fit):
        with pytest.raises(UsageError, match="one row per patient.*max_rows.*Nothing was spent"):
            run(table, **options)
    assert [path.name for path in tmp_path.iterdir()] == ["t.csv"]


def test_regressions_of_one_row_per_patient_are_planned(tmp_path: Path) -> None:
    visits_of(90, 1).to_csv(table := tmp_path / "t.csv", index=False)
    schema = {"name": "t", "target": "y", "columns": COLUMNS_OF_PATIENTS, "unit": "who", "max_rows": 1}
    made = medsynth.plan(table, epsilon=5.0, rows=90, schema=schema, inference=["y ~ a"])
    assert DECLARED in list(made.measurements["measurement"])
