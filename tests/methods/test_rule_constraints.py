"""Rules of the schema that no row may break: the model learns them, so that drawing rows again changes little."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from medsynth_sample_data import hospital

import medsynth
from medsynth.methods.bins import Bins, fine_grid
from medsynth.mixture import stages
from medsynth.mixture.constants import MOST_RULE_CELLS
from medsynth.mixture.rules import chance_of_breaking, chances_of_breaking
from medsynth.sampling.rejection import broken, complete
from medsynth.sampling.tilt import Tilt
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


def test_the_chance_is_that_of_rows_drawn_in_their_bins(rng: np.random.Generator) -> None:
    """Against a million rows, within 0.01: four standard errors of these are 0.002, of the points drawn in a cell that
    the bound cuts, less. The seed is fixed.
    """
    own, count = bins(SCHEMA), 1_000_000
    ((names, chance),) = chances_of_breaking(SCHEMA.core, own, rng)
    shares = {name: rng.dirichlet(np.ones(own[name].cells)) for name in names}
    codes = np.zeros((count, 3), np.int32)
    for name in names:
        place = rng.choice(own[name].cells, count, p=shares[name])
        codes[:, SCHEMA.names.index(name)] = own[name].drawn_inside(place, rng)
    expected = np.einsum("a,b,ab", *(shares[name] for name in names), chance)
    assert set(names) == {"ward", "age"}
    assert expected == pytest.approx(broken(codes, SCHEMA).mean(), abs=0.01)


def test_a_rule_of_one_column_may_cut_a_bin(rng: np.random.Generator) -> None:
    """Ages in bins of ten, at most 14: what breaks it is half of the second bin and all beyond."""
    schema = Schema.from_dict({"name": "t", "target": "y", "columns": COLUMNS, "rules": ["age <= 14"]})
    ((names, chance),) = chances_of_breaking(schema.core, bins(schema), rng)
    assert names == ("age",) and chance[0] == 0 and 0.3 < chance[1] < 0.7 and (chance[2:] == 1).all()


def test_rules_of_the_target_of_many_cells_or_of_what_cannot_be_are_left_to_sampling(rng: np.random.Generator) -> None:
    schema = Schema.from_dict({
        "name": "t", "target": "y",
        "columns": {**COLUMNS, **{n: {"kind": "count", "bounds": [0, 999]} for n in "abc"}},
        "rules": ["y = yes implies age > 3", "age >= 0", "a + b > c"],
    })  # fmt: skip
    large = bins(schema, 100)
    assert np.prod([large[name].cells for name in "abc"]) > MOST_RULE_CELLS
    assert not list(chances_of_breaking(schema.core, large, rng))
    assert [set(names) for names, _ in chances_of_breaking(schema.core, bins(schema, 10), rng)] == [{"a", "b", "c"}]


def test_a_cell_of_the_rules_table_counts_its_own_rows(rng: np.random.Generator) -> None:
    """Ages in bins of ten: all, some or none of a bin's rows break the rule in the children's ward, none elsewhere."""
    (constraint,) = SCHEMA.core.constraints
    found = chance_of_breaking(constraint, bins(SCHEMA), rng)
    at = list(constraint.inputs).index("ward")
    found = found if at == 0 else found.T
    assert not found[:2].any() and found[2, 0] == 0 and (found[2, 2:] == 1).all()
    assert 0 < found[2, 1] < 0.6  # two of ten ages


@pytest.mark.parametrize("known", [True, False], ids=["as it stands", "planted fault: rules not fitted"])
def test_a_level_keeps_its_share_where_the_relation_was_not_measured(
    known: bool, seeded_entropy: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenth of the rows are of children. Their ward by age was measured with so much noise that it tells nothing, and
    drawing rows again would leave about a fiftieth. The seed is fixed.
    """
    rng = np.random.default_rng(0)
    child = rng.random(4000) < 0.1
    frame = pd.DataFrame({
        "ward": np.where(child, "paediatrics", rng.choice(["medicine", "surgery"], 4000)),
        "age": np.where(child, rng.integers(0, 18, 4000), rng.integers(18, 100, 4000)),
        "y": rng.choice(["no", "yes"], 4000),
    })  # fmt: skip
    if not known:
        monkeypatch.setattr(stages, "chances_of_breaking", lambda *known: [])
        monkeypatch.setattr(Tilt, "accepted", lambda self, codes, stream: np.ones(len(codes), np.bool_))
    # Next to nothing is left for pairs.
    shares = {"one_way_share": 0.4, "by_class_share": 0.51999, "strongest_share": 0.0, "inference_share": 1e-6}
    model = medsynth.fit(frame, epsilon=3.7, schema=SCHEMA, rows=4000, seed=0, settings=shares)
    drawn = medsynth.sample(model, 4000, seed=0)
    children = drawn["ward"] == "paediatrics"
    assert (drawn["age"][children] < 18).all()
    assert (children.mean() == pytest.approx(0.1, abs=0.02)) == known
    assert (drawn["age"] < 18).mean() == pytest.approx(0.1, abs=0.02)
