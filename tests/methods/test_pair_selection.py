"""Two-way marginals are measured where the generator is wrong."""

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest

import medsynth
from medsynth.methods.shared.labels import SELECTION, TWO_WAY
from medsynth.methods.warm_dp_cgan.budget_rule import Allocation, allocate
from medsynth.methods.warm_dp_cgan.two_way_marginals import expected_tables
from medsynth.privacy.vault import Vault
from medsynth.schema import Schema


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The query of the two-way marginals of each release of a fit, in order."""
    found, true = list[Any](), Vault.measure

    def watched(self: Vault, label: str, query: Any) -> Any:
        if label == TWO_WAY:
            found.append(query)
        return true(self, label, query)

    monkeypatch.setattr(Vault, "measure", watched)
    return found


@pytest.mark.statistical
def test_the_pair_that_is_fitted_worst_is_measured(
    seeded_entropy: None, measured: list[Any], other_defaults: Any
) -> None:
    """Of four columns two are equal and the others independent: without noise and without a critic these two are the
    first pair. The seed is fixed: it cannot fail by chance.
    """
    other_defaults("warm-dp-cgan", by_rule=lambda config, *facts: Allocation(count=3, steps=10))
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({name: rng.choice(["u", "v", "w"], 600) for name in ("a", "b", "c", "d")})
    frame["d"] = frame["b"]
    frame["y"] = rng.choice(["no", "yes"], 600)
    columns: dict[str, Any] = {name: {"kind": "categorical", "levels": ["u", "v", "w"]} for name in "abcd"}
    schema = Schema.from_dict({"name": "t", "target": "y", "columns": columns | {
        "y": {"kind": "binary", "levels": ["no", "yes"]}}})  # fmt: skip
    medsynth.fit(frame, no_dp=True, schema=schema, rows=600, seed=0)
    assert list(measured[0].tables) == ["b x d"]


def test_a_critic_of_pairs_selects_and_nothing_is_paid_for_selection(
    seeded_entropy: None, measured: list[Any], other_defaults: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of eight columns two are equal and two more nearly so: these are the first of the pairs that are measured.

    By the plan of a real fit at epsilon 3.7, with its noise; the seed is fixed, it cannot fail by chance.
    """
    rng, names = np.random.default_rng(0), list("abcdefgh")
    frame = pd.DataFrame({name: rng.choice(["u", "v", "w"], 4000) for name in names})
    frame["h"] = frame["b"]
    frame["g"] = np.where(rng.random(4000) < 0.6, frame["a"], frame["g"])
    frame["y"] = rng.choice(["no", "yes"], 4000)
    columns: dict[str, Any] = {name: {"kind": "categorical", "levels": ["u", "v", "w"]} for name in names}
    schema = Schema.from_dict({"name": "t", "target": "y", "columns": columns | {
        "y": {"kind": "binary", "levels": ["no", "yes"]}}})  # fmt: skip
    found = allocate(4000, 9, 3.7)
    few = replace(found, count=2, steps=400, latent_points=16)
    other_defaults("warm-dp-cgan", by_rule=lambda config, *facts: few)
    expected = list[dict[str, Any]]()

    def watched(*facts: Any) -> Any:
        expected.append(expected_tables(*facts))
        return expected[-1]

    monkeypatch.setattr("medsynth.methods.warm_dp_cgan.training.expected_tables", watched)
    model = medsynth.fit(frame, epsilon=3.7, schema=schema, rows=4000, seed=0)
    assert found.pairs_read and found.rounds == 1
    assert [list(query.tables) for query in measured] == [["b x h", "a x g"]]
    assert SELECTION not in {entry.label for entry in model.ledger.entries}
    # When they are measured, the generator follows the critic: of independent columns a third would lie there.
    (tables,) = expected
    assert np.trace(tables["b x h"][0]) > 0.8 * 4000 and np.trace(tables["a x g"][0]) > 0.5 * 4000


def test_a_larger_two_way_marginal_has_less_noise_and_is_trusted_by_it(
    measured: list[Any], other_defaults: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The generator is fitted by the noise that each table was given, whose cells count by their third root."""
    fitted = list[Any]()
    monkeypatch.setattr("medsynth.methods.warm_dp_cgan.training.fit", lambda *facts: fitted.append(facts[2]))
    rule = Allocation(count=3, all_pairs=True, steps=1, column_bins=8)
    other_defaults("warm-dp-cgan", by_rule=lambda config, *facts: rule)
    frame = pd.DataFrame({"a": ["u", "v"] * 60, "b": list("uvwxyz") * 20, "c": list("uvw") * 40, "y": ["n", "m"] * 60})
    columns = {name: {"kind": "categorical", "levels": sorted(set(frame[name]))} for name in "abcy"}
    schema = Schema.from_dict({"name": "t", "target": "y", "columns": columns})
    model = medsynth.fit(frame, epsilon=3.7, schema=schema, rows=120)
    (query,), (tables,) = measured, fitted
    multiplier = next(entry.event.multiplier for entry in model.ledger.entries if entry.label == TWO_WAY)
    weights = np.array([query.weights[table.pair.key] for table in tables])
    assert weights == pytest.approx(np.array([table.table.size for table in tables]) ** (1 / 3)) and len(tables) == 3
    assert [table.std for table in tables] == pytest.approx(multiplier * np.linalg.norm(weights) / weights)
