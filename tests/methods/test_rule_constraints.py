"""Rules of the schema that no row may break: what they touch stays as frequent as measured."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from medsynth_sample_data import hospital

import medsynth
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


SPARSE = {"one_way_share": 0.4, "by_class_share": 0.51999, "strongest_share": 0.0, "inference_share": 1e-6}
CASES = {
    "as it stands": (True, SPARSE),
    "planted fault: rows are only drawn again": (False, SPARSE),
    "with pairs, as by default": (True, {}),
}


@pytest.mark.nightly
@pytest.mark.nightly_for("with pairs, as by default")
@pytest.mark.parametrize(("kept", "shares"), CASES.values(), ids=CASES)
def test_a_level_keeps_its_share(
    kept: bool, shares: dict[str, float], seeded_entropy: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenth of the rows are of children. If next to nothing is spent on pairs, their ward by age is noise alone, and
    drawing rows again would leave about a fiftieth. The seed is fixed.
    """
    rng = np.random.default_rng(0)
    child = rng.random(4000) < 0.1
    frame = pd.DataFrame({
        "ward": np.where(child, "paediatrics", rng.choice(["medicine", "surgery"], 4000)),
        "age": np.where(child, rng.integers(0, 18, 4000), rng.integers(18, 100, 4000)),
        "y": rng.choice(["no", "yes"], 4000),
    })  # fmt: skip
    if not kept:
        monkeypatch.setattr(Tilt, "accepted", lambda self, codes, stream: np.ones(len(codes), np.bool_))
    model = medsynth.fit(frame, epsilon=3.7, schema=SCHEMA, rows=4000, seed=0, settings=shares)
    drawn = medsynth.sample(model, 4000, seed=0)
    children = drawn["ward"] == "paediatrics"
    assert (drawn["age"][children] < 18).all()
    assert (children.mean() == pytest.approx(0.1, abs=0.03)) == kept
    assert (drawn["age"] < 18).mean() == pytest.approx(0.1, abs=0.03)
