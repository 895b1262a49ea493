"""The whole audit: by the command, on a schema of the user's, without a table and without a budget."""

import json
from pathlib import Path
from typing import Any

import pytest
from medsynth_cli.app import app
from typer.testing import CliRunner

from medsynth import audit
from medsynth.audit import pipeline
from medsynth.audit.end_to_end import audit_end_to_end
from medsynth.audit.mechanisms import CASES, audit_mechanism
from medsynth.errors import UsageError
from medsynth.privacy import vault
from medsynth.privacy.noise import noised
from medsynth.rng import SeededEntropy
from medsynth.schema import Schema

EXAMPLE = Schema.from_dict(pipeline.EXAMPLE)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few trials: what is proven is not the point."""
    monkeypatch.setattr(
        pipeline, "audit_mechanism", lambda case, trials, confidence: audit_mechanism(case, 20, confidence)
    )
    monkeypatch.setattr(
        pipeline,
        "audit_end_to_end",
        lambda name, schema, trials, *rest, **more: audit_end_to_end(name, schema, 4, *rest, **more),
    )


def command(*words: str) -> Any:
    return CliRunner().invoke(app, ["audit", *words])


def test_whole_fits_prove_most_of_the_claim_and_never_more() -> None:
    """The seed is fixed; the chance that the bound lies above the truth is 1e-3 by the confidence."""
    found = audit_end_to_end("independent", EXAMPLE, 200, 0.999, SeededEntropy(4))
    assert 0.7 * found.claimed_mu <= found.proven_mu <= found.claimed_mu and not found.refutes


def test_whole_fits_with_half_the_noise_are_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vault, "noised", lambda values, std, entropy: noised(values, std / 2, entropy))
    assert audit_end_to_end("independent", EXAMPLE, 100, 0.999, SeededEntropy(5)).refutes


def test_the_default_is_watched_to_its_last_measurement(quick: None) -> None:
    """Every planned measurement enters the statistic: with all noise known its information is the claim's own."""
    found = audit_end_to_end("warm-dp-cgan", EXAMPLE, 1, 0.9, SeededEntropy(6))
    assert found.claimed_mu > 2 and found.trials == 1


def test_the_command_prints_claims_beside_what_was_proven(few: None, tmp_path: Path) -> None:
    (tmp_path / "s.yaml").write_text(EXAMPLE.to_yaml())
    done = command("--quick", "--schema", str(tmp_path / "s.yaml"))
    assert done.exit_code == 0, done.stderr
    assert all(name in done.stdout for name in CASES) and "independent, end to end" in done.stdout
    assert "not a certificate" in done.stdout and "passed" not in done.stdout
    facts = json.loads(command("--quick", "--json").stdout)
    assert len(facts["findings"]) == len(CASES) + 1
    assert all(f["proven_mu"] <= f["claimed_mu"] and not f["refutes"] for f in facts["findings"])


def test_a_refuted_claim_is_an_error(few: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vault, "noised", lambda values, std, entropy: values)
    monkeypatch.setattr(pipeline, "CASES", {"marginals": CASES["marginals"]})
    monkeypatch.setattr(pipeline, "audit_mechanism", lambda case, trials, at: audit_mechanism(case, 600, at))
    done = command("--quick")
    assert done.exit_code == 1 and "Refuted: marginals" in done.stderr and "proven mu" in done.stdout


def test_progress_names_what_is_audited(few: None) -> None:
    seen: list[str] = []
    audit.run(quick=True, progress=lambda what, done, total: seen.append(what))
    assert seen[: len(CASES)] == list(CASES) and "independent, fit" in seen[-1]


@pytest.mark.parametrize("method", ["dp-cgan", "gs-wgan", "loss-noise"])
def test_methods_that_cannot_be_watched_are_refused(few: None, method: str) -> None:
    with pytest.raises(UsageError):
        audit.run(method=method, quick=True)


def test_a_confidence_out_of_range_is_refused() -> None:
    assert command("--confidence", "1").exit_code == 2
