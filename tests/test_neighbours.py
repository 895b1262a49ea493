"""If every measurement is of zeros, fits on neighbouring tables release the same: nothing else depends on the rows.

The measurements keep their noise and their ledger lines; only the values that depend on rows are replaced by zero.
Entropy is a function of the number of the call, so that tables of different length meet the same noise.
"""

import io
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from medsynth_sample_data.visits import SCHEMA as VISITS
from medsynth_sample_data.visits import simulate

import medsynth
from medsynth.methods.registry import CLAIMING, METHODS
from medsynth.privacy import noise, partition_selection, shards
from medsynth.privacy.queries import query
from medsynth.rng import SeededEntropy
from medsynth.sampling import Draw, sample_csv
from medsynth.schema import Schema
from medsynth.schema.cells import CellKinds
from tests.benchmarks.tables import PARTS, opened

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def blind(monkeypatch: pytest.MonkeyPatch, fixed_entropy: None) -> None:
    for module in (query, shards):
        monkeypatch.setattr(
            module, "noised", lambda values, std, entropy: noise.noised(np.zeros_like(values), std, entropy)
        )
    monkeypatch.setattr(
        partition_selection, "noised", lambda values, std, entropy: noise.noised(_same(values), std, entropy)
    )


KINDS = CellKinds()


def _same(values: Any) -> Any:
    """Zeros; for the kinds of a column's cells, whole numbers alone: a target without levels must be a number."""
    found = np.zeros_like(values)
    if found.shape == (len(KINDS.names),):
        found[KINDS.names.index("whole")] = 1e4
    return found


def neighbours(cohort: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """The table, one row replaced by an extreme one, and one row gone."""
    other = cohort.copy()
    for name in other:
        known = other[name].dropna()
        other.loc[7, name] = known.max() if pd.api.types.is_numeric_dtype(known) else sorted(known)[-1]
    return cohort, other, cohort.drop(index=7).reset_index(drop=True)


def released(frame: Any, schema: Any, method: Any, target: Any = None) -> Any:
    """Everything a fit releases: artifact, notices, progress, and a sample drawn from it."""
    texts: list[Any] = []
    model = medsynth.fit(
        frame,
        epsilon=3.7,
        schema=schema,
        method=method,
        target=target,
        rows=300,
        seed=1,
        anyway=True,
        notice=texts.append,
        progress=lambda plan, *facts: texts.append(facts),
    )
    facts = model.describe()
    tensors = {name: tensor.tobytes() for name, tensor in model.tensors.items()}
    return json.dumps(facts), tensors, texts, sample_csv(model, Draw(rows=50, seed=2))


@pytest.mark.matrix
@pytest.mark.nightly_for("learned-dp-gan", "schema-dp-gan", "learned-dp-cgan", "learned-gs-wgan")
@pytest.mark.parametrize("method", CLAIMING)
@pytest.mark.parametrize("declared", [True, False], ids=["schema", "learned"])
def test_blinded_measurements_leave_no_difference(
    method: Any, declared: bool, cohort: pd.DataFrame, clinic: Schema, blind: Any
) -> None:
    # Blinded, no level is ever learned, and a target without two levels is refused: take a number there.
    schema = clinic if declared else None
    target = None if declared or METHODS[method].ignores_target else "age_years"
    one, *others = (released(frame, schema, method, target) for frame in neighbours(cohort))
    for other in others:
        assert other == one


@pytest.mark.nightly_for(*(f"{part}-mixture" for part in PARTS), *(f"{part}-independent" for part in PARTS[:3]))
@pytest.mark.parametrize("method", ["mixture", "independent"])
@pytest.mark.parametrize("part", PARTS)
def test_blinded_measurements_of_open_columns_leave_no_difference(
    part: str, method: Any, cohort: pd.DataFrame, clinic: Schema, blind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Odd cells in open columns, extreme ones in others: neither plan, schema, message nor error shows them.

    How many names there are to draw noise for follows from the cells, so these draws have entropy of their own.
    """
    monkeypatch.setattr(
        partition_selection, "noised", lambda values, std, entropy: noise.noised(_same(values), std, SeededEntropy(0))
    )
    schema = opened(clinic, part)
    one, *others = (texts(frame) for frame in neighbours(cohort))
    for k, name in enumerate(schema.open):
        others[0].loc[7, name] = ("x-1 (see note)", "31.31.2020", "1e400", "-", "<0.5")[k % 5]
    target = None if schema.target not in schema.open else "age_years" if part != "kinds" else "tt4_nmol_l"
    first = released(one, schema, method, target)
    for other in others:
        assert released(other, schema, method, target) == first


def texts(frame: pd.DataFrame) -> pd.DataFrame:
    """The cells as a file has them."""
    return pd.read_csv(io.StringIO(frame.to_csv(index=False)), dtype=str, keep_default_na=False)


def patients_over_time() -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """The table, one patient's rows replaced by as extreme ones as the schema allows, and that patient gone."""
    table = simulate(60, seed=0)
    worst = table["patient_id"].value_counts().index[0]
    other, whose = table.copy(), table["patient_id"] == worst
    for name in other.columns.difference(["patient_id", "visit_date"]):
        known = other[name].dropna()
        other.loc[whose, name] = known.max() if pd.api.types.is_numeric_dtype(known) else sorted(known)[-1]
    other.loc[whose, "metformin"] = "no"
    other.loc[whose, "visit_date"] = other["visit_date"].max()
    return table, other, table[~whose].reset_index(drop=True)


@pytest.mark.nightly
@pytest.mark.nightly_for("mixture")
@pytest.mark.parametrize("method", ["mixture", "independent"])
def test_blinded_measurements_of_patients_over_time_leave_no_difference(method: Any, blind: Any) -> None:
    one, *others = (released(frame, VISITS, method) for frame in patients_over_time())
    for other in others:
        assert other == one


@pytest.mark.matrix
@pytest.mark.nightly_for("dp-gan", "dp-cgan", "pate-gan", "g-pate", "dp-merf")
@pytest.mark.parametrize("method", CLAIMING)
def test_measurements_that_are_not_blinded_do_differ(
    method: Any, cohort: pd.DataFrame, clinic: Schema, fixed_entropy: Any
) -> None:
    """The test above can fail: with its measurements, the same fit differs."""
    one, other, _ = (released(frame, clinic, method) for frame in neighbours(cohort))
    assert one[1] != other[1]
    # What is counted again, or in how many cells, follows from noisy measurements, and so do these sensitivities.
    follows = ("re-measured marginals", "pairs of columns by class", "strongest pairs of columns")
    facts = [json.loads(side[0]) for side in (one, other)]
    for side in facts:
        for entry in side["ledger"]["events"]:
            if entry["label"] in follows:
                del entry["sensitivity"]
    assert facts[0] == facts[1]


@pytest.mark.parametrize("levels", [["1", "2", "3"], None], ids=["declared", "open"])
def test_blinded_pairs_of_codes_and_labels_leave_no_difference(
    levels: Any, cohort: pd.DataFrame, blind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rule `ward determines floor`, which the extreme row breaks."""
    monkeypatch.setattr(
        partition_selection, "noised", lambda values, std, entropy: noise.noised(_same(values), std, SeededEntropy(0))
    )
    ward = pd.Series(np.resize(["1", "2", "1"], len(cohort)))
    frame = pd.DataFrame({"ward": ward, "floor": ward.replace({"2": "3"}), "sick": np.resize(["no", "yes"], len(ward))})
    frame.loc[7] = ["1", "1", "no"]
    other = frame.copy()
    other.loc[7, ["ward", "floor"]] = ["3", "2"]
    one = {"kind": "categorical"} if levels is None else {"kind": "categorical", "levels": levels}
    columns = {"ward": one, "floor": one, "sick": {"kind": "binary", "levels": ["no", "yes"]}}
    schema = Schema.from_dict({"name": "t", "columns": columns, "rules": ["ward determines floor"]})
    first, *others = (
        released(some, schema, "independent", "sick")
        for some in (frame, other, frame.drop(index=7).reset_index(drop=True))
    )
    assert others == [first, first]
