"""Columns that a rule computes: measured by class, expected exactly, and their inputs learned together."""

import numpy as np
import pandas as pd
import pytest

import medsynth
from medsynth.methods.bins import Bins, fine_grid
from medsynth.mixture import stages
from medsynth.mixture.rules import derived_columns
from medsynth.schema import Schema

NUMBER = {"kind": "continuous", "decimals": 0}
WEIGHT, HEIGHT = {**NUMBER, "bounds": [20, 219]}, {**NUMBER, "bounds": [100, 219]}
SCHEMA = Schema.from_dict({
    "name": "t", "target": "y",
    "columns": {"weight": WEIGHT, "height": HEIGHT, "sum": {**NUMBER, "bounds": [0, 500]},
                "mass": {"kind": "continuous", "decimals": 1, "bounds": [0, 300]},
                "y": {"kind": "binary", "levels": [0, 1]}},
    "rules": ["mass = 10000 * weight / height / height", "sum = weight + height + height - height"],
})  # fmt: skip


def bins_of_inputs(mass: dict[str, np.ndarray]) -> dict[str, Bins]:
    """Ten bins of weight and of height, by the shares of their fine cells."""
    core = SCHEMA.core
    return {name: Bins.of(core.columns[name], shares, None, 10) for name, shares in mass.items()}


def flat() -> dict[str, np.ndarray]:
    core = SCHEMA.core
    return {name: np.ones(fine_grid(core.columns[name]).cells) for name in ("weight", "height")}


def test_a_core_names_what_follows_from_its_columns_and_a_schema_does_not() -> None:
    """And computes it as a sample's rows are: 80 kg at 200 cm are 20.0."""
    core = SCHEMA.core
    assert set(core.definitions) == {"mass", "sum"} and not SCHEMA.definitions
    definition = core.definitions["mass"]
    at = {"weight": 80 - 20, "height": 200 - 100}
    assert definition.codes(np.array([[at[name] for name in definition.inputs]], np.int32)).tolist() == [200]


@pytest.mark.nightly
def test_the_table_of_the_inputs_is_that_of_rows_drawn_in_their_bins(rng: np.random.Generator) -> None:
    """Against two million rows, within 0.012: four standard errors of the 64 points drawn in each of 100 cells of the
    inputs' table. The seed is fixed.
    """
    bins = bins_of_inputs(flat())
    column, count = derived_columns(SCHEMA.core, bins, 20, rng)["mass"], 2_000_000
    shares = {name: rng.dirichlet(np.ones(own.cells)) for name, own in bins.items()}
    one, other = (shares[name] for name in column.inputs)
    found = np.einsum("a,b,abc->c", one, other, column.of_inputs(bins, rng))
    place = {name: rng.choice(bins[name].cells, count, p=share) for name, share in shares.items()}
    rows = np.stack([bins[name].drawn_inside(place[name], rng) for name in column.inputs], 1)
    drawn = np.bincount(column.cell_of(rows), minlength=column.cells) / count
    assert np.abs(found - drawn).max() < 0.012


def test_bins_of_a_derived_column_hold_about_even_mass(rng: np.random.Generator) -> None:
    """They are cut by what independent inputs would give: no look at the rows."""
    bins = bins_of_inputs(flat())
    column = derived_columns(SCHEMA.core, bins, 20, rng)["mass"]
    codes = np.stack([rng.integers(0, SCHEMA.columns[name].size, 100_000) for name in column.inputs], 1)
    shares = np.bincount(column.cell_of(codes.astype(np.int32)), minlength=column.cells) / 100_000
    assert column.cells <= 20 and shares.max() < 0.12


def narrow(rows: int) -> pd.DataFrame:
    """Height decides weight, so that the body-mass index is narrow; `sum` reads the same columns."""
    rng = np.random.default_rng(3)
    height = np.clip(np.rint(rng.normal(160, 18, rows)), 100, 219)
    mass = rng.normal(24, 1.0, rows)
    table = pd.DataFrame({"weight": np.rint(mass * height**2 / 1e4), "height": height, "mass": mass.round(1)})
    table["sum"], table["y"] = table["weight"] + table["height"], rng.integers(0, 2, rows)
    return table


@pytest.mark.statistical
@pytest.mark.parametrize("followed", [True, False], ids=["as it stands", "planted fault: not followed"])
def test_inputs_of_a_rule_are_learned_together(followed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Independent columns would make the index several times as wide. The index's own counts tell how wide it is: bins
    of height and weight alone leave it wider. The seed is fixed.
    """
    table = narrow(4000)
    schema = Schema.from_dict({**SCHEMA.to_dict(), "rules": list(SCHEMA.rules)})
    if not followed:
        monkeypatch.setattr(stages, "derived_columns", lambda *known: {})
    # Next to nothing is left for pairs.
    shares = {"one_way_share": 0.4, "by_class_share": 0.51999, "strongest_share": 0.0, "inference_share": 1e-6}
    model = medsynth.fit(table, epsilon=3.7, schema=schema, rows=4000, seed=0, settings=shares)
    drawn = medsynth.sample(model, 4000, seed=0)
    wide = drawn["mass"].std() / table["mass"].std()
    short = medsynth.sample(model, 500, seed=0, where="height=100..140")
    assert short["height"].between(100, 140).all()
    assert (0.8 < wide < 1.8) == followed, wide
    assert not followed or abs(short["mass"].mean() - 24) < 1


def test_a_column_computed_from_the_target_is_left_to_sampling(quick: None) -> None:
    """The generator has the columns beside the target; the rule is met by the rows that are drawn."""
    schema = Schema.from_dict({**SCHEMA.to_dict(), "target": "weight", "rules": list(SCHEMA.rules)})
    model = medsynth.fit(narrow(500), schema=schema, epsilon=3.7, rows=500)
    drawn = medsynth.sample(model, 200)
    assert np.allclose(drawn["mass"], 1e4 * drawn["weight"] / drawn["height"] ** 2, atol=0.051)
