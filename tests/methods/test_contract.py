"""One contract for every method: the ledger is as planned, rows obey the schema, public seeds repeat."""

import dataclasses
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import medsynth
from medsynth.methods.marginals import cleaned
from medsynth.methods.registry import CLAIMING, METHODS, presets
from medsynth.sampling import Draw, sample_codes
from medsynth.schema import Schema
from medsynth.schema.codec import encode

pytestmark = pytest.mark.usefixtures("quick")
PLAIN: dict[str, dict[str, Any]] = {
    "age": {"kind": "count", "bounds": [0, 120]},
    "dose": {"kind": "continuous", "bounds": [0, 100], "decimals": 1, "scale": "log"},
    "sick": {"kind": "binary", "levels": ["no", "yes"]},
    "y": {"kind": "categorical", "levels": ["a", "b", "c"]},
}
MIXED: dict[str, dict[str, Any]] = {name: {**column, "missing": True} for name, column in PLAIN.items()} | {
    "site": {"kind": "categorical", "levels": ["n", "e", "s", "w"], "missing": True},
    "y": PLAIN["y"],
}


def table(columns: dict[str, dict[str, Any]], rows: int = 80) -> Any:
    rng, frame = np.random.default_rng(0), {}
    for name, c in columns.items():
        levels = c.get("levels")
        values = rng.choice(levels, rows) if levels else rng.integers(0, 90, rows)
        frame[name] = pd.Series(values, dtype=object).mask(rng.random(rows) < (0.2 if c.get("missing") else 0), None)
    return pd.DataFrame(frame)


def fit(columns: dict[str, dict[str, Any]], target: str = "y", rows: int = 80, **options: Any) -> Any:
    schema = Schema.from_dict({"name": "t", "target": target, "columns": columns})
    return medsynth.fit(table(columns, rows), epsilon=3.7, schema=schema, rows=rows, **options)


def check(model: Any, n: int = 200) -> Any:
    assert model.ledger.complete and model.claims
    assert 0.9 * 3.7 < model.epsilon <= 3.7 and model.ledger.epsilon() == pytest.approx(model.epsilon, rel=1e-9)
    codes = sample_codes(model, Draw(rows=n, seed=0))
    for k, column in enumerate(model.schema.columns.values()):
        assert codes[:, k].min() >= 0 and codes[:, k].max() < column.size + column.missing
    frame = medsynth.sample(model, n, seed=0)
    assert list(frame.columns) == list(model.schema.names) and len(frame) == n
    return frame


SLOW = ("dp-gan", "dp-cgan", "gs-wgan")


@pytest.mark.nightly_for(*(f"plain-{method}" for method in CLAIMING))
@pytest.mark.nightly_for("plain-dp-gan", "mixed-dp-gan")
@pytest.mark.parametrize("method", CLAIMING)
@pytest.mark.parametrize("columns", [PLAIN, MIXED], ids=["plain", "mixed"])
def test_contract(method: str, columns: dict[str, dict[str, Any]]) -> None:
    frame = check(fit(columns, method=method))
    assert set(frame["sick"].dropna()) <= {"no", "yes"}


def test_microbatches() -> None:
    check(fit(MIXED, method="dp-cgan", microbatches=8))
    with pytest.raises(medsynth.MedsynthError, match="dp-cgan"):
        fit(MIXED, microbatches=8)


@pytest.mark.nightly_for(*SLOW)
@pytest.mark.parametrize("method", CLAIMING)
def test_a_model_from_a_file_samples_as_it_did(method: str, tmp_path: Path) -> None:
    """A file does not keep the order of tensors: whatever it comes in, seeded rows are the same."""
    model = fit(MIXED, method=method)
    before = sample_codes(model, Draw(rows=50, seed=1))
    loaded = medsynth.load(model.save(tmp_path / "m.medsynth"))
    assert np.array_equal(sample_codes(loaded, Draw(rows=50, seed=1)), before)
    turned = dataclasses.replace(loaded, tensors=dict(reversed(loaded.tensors.items())))
    assert np.array_equal(sample_codes(turned, Draw(rows=50, seed=1)), before)


@pytest.mark.parametrize("method", ["gs-wgan", "pate-gan", "g-pate"])
def test_a_model_holds_no_network_that_was_not_trained(method: str) -> None:
    """These train the bins' logits alone: a network's part of the rows would be zeros, points times as large."""
    tensors = fit(PLAIN, method=method).tensors
    assert not [name for name in tensors if name.startswith("residual.")]
    assert {len(tensors[f"base.{name}"]) for name in ("age", "dose", "sick")} == {3}


@pytest.mark.nightly
def test_the_preset_of_the_study(other_defaults: Any) -> None:
    other_defaults("dp-cgan", "thyroid-study", steps=20)
    for microbatches in (None, 8):
        check(fit(PLAIN, preset="thyroid-study", microbatches=microbatches))
    with pytest.raises(medsynth.MedsynthError, match="thyroid-study"):
        fit(MIXED, preset="thyroid-study")


@pytest.mark.nightly_for("thyroid-study", "federated-averaging")
@pytest.mark.parametrize("preset", presets())
def test_a_preset_belongs_to_its_method(preset: str) -> None:
    owner = presets()[preset].name
    check(fit(PLAIN, preset=preset, method=owner))
    with pytest.raises(medsynth.MedsynthError, match=f"belongs to {owner}"):
        fit(PLAIN, preset=preset, method="independent")


@pytest.mark.matrix
@pytest.mark.nightly_for(*(f"{target}-{name}" for target in ("age", "dose", "sick", "site") for name in SLOW))
@pytest.mark.parametrize("method", CLAIMING)
@pytest.mark.parametrize("target", ["age", "dose", "sick", "site"])
def test_any_column_can_be_the_target(method: str, target: str) -> None:
    check(fit(MIXED, target=target, method=method))


def test_levels_alone_and_no_target_at_all() -> None:
    """Without a number column there is no histogram to measure; a table without a target has one class."""
    check(fit({name: PLAIN[name] for name in ("sick", "y")}))


def test_a_table_without_a_rare_class_and_tiny_tables() -> None:
    check(fit(PLAIN, rows=5, anyway=True, notice=list[str]().append))
    frame = check(fit({**PLAIN, "y": {"kind": "categorical", "levels": ["a", "b", "c"]}}, rows=2, anyway=True,
                      notice=list[str]().append), n=50)  # fmt: skip
    assert set(frame["y"]) <= {"a", "b", "c"}


@pytest.mark.statistical
def test_public_seeds_repeat_only_what_is_public(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise on a grid of 2^-16 of its scale repeats in three classes with a chance of 1e-15: the false-alarm rate."""
    from medsynth import rng

    one, two = (fit(PLAIN, seed=1) for _ in range(2))
    assert not np.array_equal(one.tensors["prior"], two.tensors["prior"])  # noise is fresh
    monkeypatch.setattr(rng, "system_entropy", lambda: rng.SeededEntropy(3))
    one, two = (fit(PLAIN, seed=1) for _ in range(2))
    assert all(np.array_equal(one.tensors[k], two.tensors[k]) for k in one.tensors)
    assert not one.claims


@pytest.mark.statistical
@pytest.mark.nightly_for("dp-gan", "dp-merf", "gs-wgan", "dp-cgan", "pate-gan")
@pytest.mark.parametrize("method", [name for name in CLAIMING if not METHODS[name].ignores_target])
def test_the_classes_are_learned(
    method: str, monkeypatch: pytest.MonkeyPatch, other_defaults: Any, request: pytest.FixtureRequest
) -> None:
    """With ample budget and rows, what separates the classes in the table separates them in the sample.

    The seed is fixed: it cannot fail by chance.
    """
    monkeypatch.undo()  # the quick settings
    request.getfixturevalue("seeded_entropy")
    other_defaults("dp-cgan", lots=40)
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 4000)
    frame = pd.DataFrame({"x": np.clip(np.rint(50 + 15 * (2 * y - 1) + 5 * rng.standard_normal(4000)), 0, 100), "y": y})
    columns = {"x": {"kind": "count", "bounds": [0, 100]}, "y": {"kind": "binary", "levels": [0, 1]}}
    schema = Schema.from_dict({"name": "t", "target": "y", "columns": columns})
    model = medsynth.fit(frame, epsilon=50, schema=schema, rows=4000, seed=0, method=method)
    means = medsynth.sample(model, 4000, seed=0).groupby("y")["x"].mean()
    assert abs(means[0] - 35) < 5 and abs(means[1] - 65) < 5


def test_encoding_reads_each_row_alone(clinic: Schema, cohort: pd.DataFrame) -> None:
    """A row's features depend on that row alone: per-row gradients could not be bounded otherwise."""
    from medsynth.io.table import from_frame
    from medsynth.methods.encoded_rows import EncodedRows
    from medsynth.methods.marginals import GRID_CELLS
    from medsynth.schema.columns.grid import grid

    codes = encode(from_frame(cohort), clinic)
    counts = {n: np.ones(grid(c, GRID_CELLS).cells) for n, c in clinic.columns.items()}
    rows = EncodedRows.of(clinic, counts, 300)
    other = codes.copy()
    other[7] = codes[8]
    same = np.arange(300) != 7
    assert np.array_equal(rows.encode(codes).numpy()[same], rows.encode(other).numpy()[same])


@pytest.mark.parametrize("total", [0.0, 1.0, 50.0, 1e6])
def test_cleaned_counts_are_shares(total: float, rng: np.random.Generator) -> None:
    shares = cleaned(rng.normal(10, 30, 40), total)
    assert shares.min() > 0 and abs(shares.sum() - 1) < 1e-12
