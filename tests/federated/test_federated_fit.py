"""A fit over sites is what its trust says: the same sums as pooled rows, one model, ledgers within plan."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from three_sites import SCHEMA, Federation, table

import medsynth
from medsynth import rng
from medsynth.budget import Budget
from medsynth.errors import UsageError
from medsynth.federated import server as server_module
from medsynth.federated.study import study_of
from medsynth.schema import Schema

Make = Callable[..., Federation]
TRUSTS = ("none", "server", "secure-sum")


@pytest.mark.nightly_for("secure-sum-dp-cgan", "none-mixture", "server-mixture", "none-independent")
@pytest.mark.nightly_for("none-dp-cgan", "server-dp-cgan", "none-dp-gan", "server-dp-gan", "secure-sum-dp-gan")
@pytest.mark.parametrize("method", ["independent", "mixture", "dp-cgan", "dp-gan"])
@pytest.mark.parametrize("trust", TRUSTS)
def test_a_fit_ends_in_a_model_and_every_ledger_is_the_plan(
    federation: Make, trust: str, method: str, quick: None, tmp_path: Path
) -> None:
    settings = dict[str, object]()
    preset = "federated-averaging" if method == "dp-gan" else None
    made = federation(trust=trust, method=method, preset=preset, settings=settings).start()
    lines: list[str] = []
    model = made.fit(told=lines.append)
    assert model.ledger.complete and model.claims and model.epsilon is not None and 0.9 * 3.7 < model.epsilon <= 3.7
    planned = sum(times for _, times in made.study.plan().events.values())
    assert len(lines) == planned and all("3 sites" in line for line in lines)
    assert any(f"Trust: {trust}" in note for note in model.ledger.notes)
    assert any(made.study.digest in note for note in model.ledger.notes)
    model.save(tmp_path / "m.medsynth")
    sampled = medsynth.load(tmp_path / "m.medsynth").sample(50)
    assert list(sampled.columns) == list(SCHEMA["columns"]) and set(sampled["y"]) <= set("abc")
    for name, site in made.sites.items():
        assert site.ledger.complete and site.finished
        (fit,) = Budget.of(tmp_path / name / "t.csv").spent().fits
        assert fit.model is not None and fit.epsilon == pytest.approx(model.epsilon, rel=1e-3)


@pytest.mark.nightly_for("none")
@pytest.mark.parametrize("trust", TRUSTS)
def test_without_noise_all_trusts_add_up_to_the_pooled_counts(
    federation: Make, trust: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = federation(trust=trust)
    monkeypatch.setattr(rng, "system_entropy", rng.NoNoise)
    made.start()
    seen: list[tuple[Any, Any]] = []
    combined = server_module.FederatedMeasurements._combined

    def watching(self: Any, query: Any, answers: Any, std: float) -> Any:
        found = combined(self, query, answers, std)
        seen.append((query, found))
        return found

    monkeypatch.setattr(server_module.FederatedMeasurements, "_combined", watching)
    made.fit()
    pooled = pd.concat(made.tables.values())
    codes = _codes(pooled, made.study.table_schema)
    assert len(seen) > 1
    for query, found in seen:
        exact = query.finished(query.exact(codes))
        for whole, scale, other in zip(exact, query.scales(1.0), found, strict=True):
            assert np.allclose(whole * scale.unit, other, rtol=1e-12, atol=1e-9)


def _codes(frame: pd.DataFrame, schema: Schema) -> Any:
    from medsynth.io.table import from_frame
    from medsynth.privacy.queries.rows import CodedRows
    from medsynth.schema.codec import encode

    codes = encode(from_frame(frame), schema.core)
    return CodedRows(codes, schema.core.names, np.zeros((len(codes), 0), np.uint64))


@pytest.mark.parametrize("trust", ["none", "secure-sum"])
def test_microbatches_are_refused_where_no_exact_sum_is_seen(federation: Make, trust: str) -> None:
    content = federation(trust=trust).content
    with pytest.raises(UsageError, match="microbatches"):
        study_of({**content, "method": "dp-cgan", "settings": {"microbatches": 2}}).plan()


@pytest.mark.nightly_for("none", "server")
@pytest.mark.parametrize("trust", TRUSTS)
def test_patients_are_counted_at_their_own_sites(federation: Make, trust: str) -> None:
    frames = {}
    for seed, name in enumerate(("north", "south")):
        frames[name] = table(90, seed)
        frames[name].insert(0, "who", np.arange(90) // 3)  # the same numbers at both: they are other patients
    columns = {"who": {"kind": "identifier"}, **SCHEMA["columns"]}
    schema = {**SCHEMA, "columns": columns, "unit": "who", "max_rows": 2}
    made = federation(frames, schema=schema, rows=180, trust=trust)
    model = made.start().fit()
    assert model.ledger.max_rows == 2 and model.ledger.complete and 2 <= model.rows <= 180


@pytest.mark.parametrize(("trust", "copies"), [("none", 3.0), ("server", 1.0), ("secure-sum", 1.5)])
def test_the_plan_knows_the_noise_of_a_sum(federation: Make, trust: str, copies: float) -> None:
    """Three sites' whole noise, one noise, or three shares of which two are relied on."""
    plan = federation(trust=trust).study.plan()
    label, (event, _) = next(iter(plan.events.items()))
    assert plan.noise(label) == pytest.approx(event.multiplier * copies**0.5)
    assert plan.equivalent_rows == int(300 / copies**0.5) and plan.delta == 1e-5
