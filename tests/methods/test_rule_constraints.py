"""Rules of the schema that no row may break: the generator learns them, so that drawing rows again changes little."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from medsynth_sample_data import hospital

import medsynth
from medsynth.methods.shared.bins import Bins
from medsynth.methods.shared.cuts import fine_grid
from medsynth.methods.warm_dp_cgan.budget_rule import Allocation
from medsynth.methods.warm_dp_cgan.rules.constraints import MOST_CELLS, BrokenRules, chance_of_breaking
from medsynth.sampling.rejection import broken, complete
from medsynth.schema import Schema

COLUMNS: dict[str, Any] = {
    "ward": {"kind": "categorical", "levels": ["medicine", "surgery", "paediatrics"]},
    "age": {"kind": "count", "bounds": [0, 99]},
    "y": {"kind": "binary", "levels": ["no", "yes"]},
}
SCHEMA = Schema.from_dict({
    "name": "t", "target": "y", "columns": COLUMNS, "rules": ["ward = paediatrics implies age < 18"]
})  # fmt: skip


def bins(schema: Schema, most: int = 10) -> dict[str, Bins]:
    flat = {n: None if c.levels else np.ones(fine_grid(c).cells) for n, c in schema.core.columns.items()}
    return {name: Bins.of(column, flat[name], None, most) for name, column in schema.core.columns.items()}


def test_a_core_tells_which_rows_break_a_rule_as_sampling_does(rng: np.random.Generator) -> None:
    """Of the extract's declared rules, those of columns that a rule computes among them."""
    read = {"date_of_birth", "admitted", "age_years", "sex", "pregnant", "systolic_mmhg", "diastolic_mmhg"}
    whole = Schema.load(hospital.SCHEMA)
    columns = {name: column for name, column in whole.columns.items() if name in read}
    columns["ward"] = Schema.from_dict({"name": "t", "columns": COLUMNS}).columns["ward"]
    rules = tuple(rule.text for rule in whole.parsed_rules if rule.columns <= set(columns))
    schema = Schema.model_validate({"name": "t", "columns": columns, "rules": rules})
    core = schema.core
    codes = np.stack([rng.integers(0, column.size, 4000) for column in core.columns.values()], 1).astype(np.int32)
    found = np.zeros(4000, np.bool_)
    for constraint in core.constraints:
        found |= constraint.broken(codes[:, [core.names.index(name) for name in constraint.inputs]])
    assert len(core.constraints) == 4 and 0.1 < found.mean() < 0.99 and not schema.constraints
    assert np.array_equal(found, broken(complete(codes, schema), schema))


def test_the_chance_is_that_of_rows_drawn_from_the_mixture(rng: np.random.Generator) -> None:
    """Against a million rows, within 0.01: four standard errors of these are 0.002, of the points drawn in a cell that
    the bound cuts, less. The seed is fixed.
    """
    own = bins(SCHEMA)
    shares = {n: torch.rand(5, 2, b.cells, generator=torch.Generator().manual_seed(1)) for n, b in own.items()}
    shares = {n: s / s.sum(-1, keepdim=True) for n, s in shares.items()}
    rules = BrokenRules(SCHEMA.core, own, rng, torch.device("cpu"))
    (found,) = rules.chances(shares)
    point, count = rng.integers(0, 5, 1_000_000), 1_000_000
    codes = np.zeros((count, 3), np.int32)
    for k, name in enumerate(("ward", "age")):
        cumulative = np.cumsum(shares[name][:, 1].double().numpy(), 1)
        at = (rng.random((count, 1)) > cumulative[point] / cumulative[point, -1:]).sum(1)
        codes[:, k] = own[name].drawn_inside(at, rng)
    assert rules.read == {"ward", "age"} and found.shape == (2,)
    assert float(found[1]) == pytest.approx(broken(codes, SCHEMA).mean(), abs=0.01)


def test_a_rule_of_one_column_may_cut_a_bin(rng: np.random.Generator) -> None:
    """Ages in bins of ten, at most 14: what breaks it is half of the second bin and all beyond, whatever the point."""
    schema = Schema.from_dict({"name": "t", "target": "y", "columns": COLUMNS, "rules": ["age <= 14"]})
    rules = BrokenRules(schema.core, bins(schema), rng, torch.device("cpu"))
    shares = torch.zeros(3, 2, 10)
    shares[:, 0, 1], shares[:, 1, :2] = 1, 0.5
    (found,) = rules.chances({"age": shares})
    of_the_second_bin = float(found[0])
    assert rules.read == {"age"} and 0.3 < of_the_second_bin < 0.7
    assert float(found[1]) == pytest.approx(of_the_second_bin / 2)


def test_rules_of_the_target_of_many_cells_or_of_what_cannot_be_are_left_to_sampling(rng: np.random.Generator) -> None:
    schema = Schema.from_dict({
        "name": "t", "target": "y",
        "columns": {**COLUMNS, **{n: {"kind": "count", "bounds": [0, 999]} for n in "abc"}},
        "rules": ["y = yes implies age > 3", "age >= 0", "a + b > c"],
    })  # fmt: skip
    large = bins(schema, 100)
    assert np.prod([large[name].cells for name in "abc"]) > MOST_CELLS
    assert not BrokenRules(schema.core, large, rng, torch.device("cpu")).read
    assert BrokenRules(schema.core, bins(schema, 10), rng, torch.device("cpu")).read == {"a", "b", "c"}


def test_a_cell_of_the_rules_table_counts_its_own_rows(rng: np.random.Generator) -> None:
    """Ages in bins of ten: all, some or none of a bin's rows break the rule in the children's ward, none elsewhere."""
    (constraint,) = SCHEMA.core.constraints
    found = chance_of_breaking(constraint, bins(SCHEMA), rng)
    at = list(constraint.inputs).index("ward")
    found = found if at == 0 else found.T
    assert not found[:2].any() and found[2, 0] == 0 and (found[2, 2:] == 1).all()
    assert 0 < found[2, 1] < 0.6  # two of ten ages


def test_a_level_keeps_its_share_where_the_relation_was_not_measured(seeded_entropy: None, other_defaults: Any) -> None:
    """A tenth of the rows are of children, whose ward no two-way marginal or critic saw beside their age: drawing again
    alone would leave about a fiftieth. The seed is fixed.
    """
    rng = np.random.default_rng(0)
    child = rng.random(4000) < 0.1
    frame = pd.DataFrame({
        "ward": np.where(child, "paediatrics", rng.choice(["medicine", "surgery"], 4000)),
        "age": np.where(child, rng.integers(0, 18, 4000), rng.integers(18, 100, 4000)),
        "y": rng.choice(["no", "yes"], 4000),
    })  # fmt: skip
    unmeasured = Allocation(count=0, critic_share=0.0, steps=400)
    other_defaults("warm-dp-cgan", by_rule=lambda config, *facts: unmeasured)
    model = medsynth.fit(frame, epsilon=10, schema=SCHEMA, rows=4000, seed=0)
    drawn = medsynth.sample(model, 4000, seed=0)
    children = drawn["ward"] == "paediatrics"
    assert (drawn["age"][children] < 18).all()
    assert children.mean() == pytest.approx(0.1, abs=0.02)
    assert (drawn["age"] < 18).mean() == pytest.approx(0.1, abs=0.02)
