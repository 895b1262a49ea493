"""Columns that a rule computes: measured by class, expected exactly, and their inputs learned together."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

import medsynth
from medsynth.methods.shared.bins import Bins
from medsynth.methods.shared.cuts import fine_grid
from medsynth.methods.warm_dp_cgan import beginning
from medsynth.methods.warm_dp_cgan.budget_rule import Allocation
from medsynth.methods.warm_dp_cgan.rules.derived_columns import ExpectedDerived, derived_columns
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


def test_expected_shares_are_those_of_rows_drawn_from_the_mixture(rng: np.random.Generator) -> None:
    """Against two million rows, within 0.012: four standard errors of the 64 points drawn in each of 100 cells of the
    inputs' table. The seed is fixed.
    """
    bins = bins_of_inputs(flat())
    derived = {"mass": derived_columns(SCHEMA.core, bins, 20, rng)["mass"]}
    shares = {name: torch.rand(3, 2, b.cells, generator=torch.Generator().manual_seed(0)) for name, b in bins.items()}
    shares = {name: s / s.sum(-1, keepdim=True) for name, s in shares.items()}
    found = ExpectedDerived(derived, bins, rng, torch.device("cpu")).shares(shares)["mass"][1].numpy()
    count, column = 2_000_000, derived["mass"]
    point = rng.integers(0, 3, count)
    codes = {}
    for name, own in bins.items():
        cumulative = np.cumsum(shares[name][:, 1].numpy().astype(np.float64), 1)
        place = (rng.random((count, 1)) * cumulative[point, -1:] > cumulative[point]).sum(1)
        codes[name] = own.draw(place, np.zeros(count, np.int64), own.shares[None], rng)
    rows = np.stack([codes[name] for name in column.inputs], 1)
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
@pytest.mark.parametrize("factors", [True, False], ids=["as it stands", "planted fault: no factors"])
def test_inputs_of_a_rule_are_learned_together(
    factors: bool, other_defaults: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Independent columns would make the index several times as wide. No two-way marginal is measured: the index's own
    marginal is all that tells. Without factors of the inputs' table it stays about twice as wide.
    The seed is fixed.
    """
    table = narrow(4000)
    schema = Schema.from_dict({**SCHEMA.to_dict(), "rules": list(SCHEMA.rules)})
    few = Allocation(count=0, steps=250)
    other_defaults("warm-dp-cgan", by_rule=lambda config, *facts: few)
    if not factors:
        monkeypatch.setattr(beginning, "pair_factors", lambda *known: [])
    model = medsynth.fit(table, no_dp=True, schema=schema, rows=4000, seed=0)
    drawn = medsynth.sample(model, 4000, seed=0)
    wide = drawn["mass"].std() / table["mass"].std()
    alone = 1e4 * np.random.default_rng(4).permutation(table["weight"]) / table["height"] ** 2
    assert drawn["mass"].std() < 0.6 * alone.std()
    assert drawn["mass"].std() > 0.6 * table["mass"].std()
    assert (0.8 < wide < 1.3) == factors
    short = medsynth.sample(model, 500, seed=0, where="height=100..140")
    assert short["height"].between(100, 140).all()
    assert not factors or abs(short["mass"].mean() - 24) < 1


def test_a_column_computed_from_the_target_is_left_to_sampling(quick: None) -> None:
    """The generator has the columns beside the target; the rule is met by the rows that are drawn."""
    schema = Schema.from_dict({**SCHEMA.to_dict(), "target": "weight", "rules": list(SCHEMA.rules)})
    model = medsynth.fit(narrow(500), schema=schema, epsilon=3.7, rows=500)
    drawn = medsynth.sample(model, 200)
    assert np.allclose(drawn["mass"], 1e4 * drawn["weight"] / drawn["height"] ** 2, atol=0.051)
