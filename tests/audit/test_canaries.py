"""One fit with many canaries: sound methods are not refuted; a fit without noise is."""

import pytest

from medsynth.audit import canaries, pipeline
from medsynth.audit.canaries import audit_one_run
from medsynth.privacy.queries import query
from medsynth.rng import SeededEntropy
from medsynth.schema import Schema

WIDE = Schema.from_dict(
    {
        "name": "canaries",
        "target": "class",
        "columns": {
            **{f"c{k}": {"kind": "categorical", "levels": [f"l{j}" for j in range(12)]} for k in range(4)},
            "class": {"kind": "categorical", "levels": ["a", "b"]},
        },
    }
)


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(canaries, "CANARIES", 120)
    monkeypatch.setattr(canaries, "SETTINGS", {
        "dp-cgan": {"lots": 20, "steps": 20}, "dp-gan": {"lots": 4, "bound_lots": 2},
        "gs-wgan": {"shards": 12, "steps": 2, "gradients": 2},
    })  # fmt: skip


@pytest.mark.nightly_for("dp-gan", "dp-cgan")
@pytest.mark.statistical
@pytest.mark.parametrize("method", canaries.SETTINGS)
def test_a_sound_method_is_not_refuted(method: str) -> None:
    found = audit_one_run(method, Schema.from_dict(pipeline.EXAMPLE), 0.999, SeededEntropy(1))
    assert found.proven_epsilon is not None and found.claimed_epsilon is not None and not found.refutes
    assert found.claimed_epsilon == pytest.approx(canaries.EPSILON, rel=0.01)


@pytest.mark.statistical
def test_a_fit_without_noise_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "noised", lambda values, std, entropy: values)
    monkeypatch.setattr(canaries, "EPSILON", 0.5)
    found = audit_one_run("dp-cgan", WIDE, 0.999, SeededEntropy(2))
    assert found.proven_epsilon is not None and found.proven_epsilon > 0.5 and found.refutes
