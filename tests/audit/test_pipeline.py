"""The whole audit: by the command, on a schema of the user's, without a table and without a budget."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from medsynth_cli.main import app
from typer.testing import CliRunner

from medsynth import audit
from medsynth.audit import inputs, pipeline
from medsynth.audit.mechanisms import CASES, NAMES
from medsynth.audit.whole_fits import audit_end_to_end
from medsynth.errors import UsageError
from medsynth.privacy.noise import noised
from medsynth.privacy.queries import query
from medsynth.privacy.queries.tables import Marginals
from medsynth.rng import SeededEntropy
from medsynth.schema import Schema

EXAMPLE = Schema.from_dict(pipeline.EXAMPLE)
FEW = pipeline.Trials(measurement=32, names=4, fits=4, published=1, drawn=4)


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch, quick: None) -> None:
    """Few trials and odd cells: what is proven is not the point, and `test_inputs.py` tries every cell."""
    monkeypatch.setattr(pipeline, "QUICK", FEW)
    monkeypatch.setattr(inputs, "ODD_CELLS", {name: inputs.ODD_CELLS[name] for name in ("missing", "a decimal")})


@pytest.fixture
def two_cases(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Two mechanisms alone, where it is not they that are tested; the fixture is their names."""
    names = ["marginals", "gradient sum"]
    monkeypatch.setattr(pipeline, "CASES", {name: CASES[name] for name in names})
    return names


def command(*words: str) -> Any:
    return CliRunner().invoke(app, ["audit", *words])


@pytest.mark.nightly
def test_whole_fits_prove_most_of_the_claim_and_never_more() -> None:
    """The seed is fixed; the chance that the bound lies above the truth is 1e-3 by the confidence. Of 60 fits most
    seeds prove 0.37 to 0.49 of the claim, of 120 more than half.
    """
    found = audit_end_to_end("independent", EXAMPLE, 120, 0.999, SeededEntropy(4))
    assert found.claimed_mu is not None and found.proven_mu is not None
    assert 0.5 * found.claimed_mu <= found.proven_mu <= found.claimed_mu and not found.refutes


@pytest.mark.nightly
def test_whole_fits_with_a_third_of_the_noise_are_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """The seed is fixed. 120 fits prove more than half of what there is, which is three times the claim."""
    monkeypatch.setattr(query, "noised", lambda values, std, entropy: noised(values, std / 3, entropy))
    assert audit_end_to_end("independent", EXAMPLE, 120, 0.999, SeededEntropy(5)).refutes


def test_the_default_reaches_its_claim_exactly_and_no_more(quick: None) -> None:
    """Without noise the two tables are as far apart as the claim says: every planned measurement is watched, each
    sensitivity is reached, and no part of the budget is spent on nothing.
    """
    found = audit_end_to_end("mixture", EXAMPLE, 1, 0.9, SeededEntropy(6))
    assert found.claimed_mu is not None and found.claimed_mu > 2 and found.trials == 1
    assert found.reached_mu == pytest.approx(found.claimed_mu, rel=1e-9) and "2.313" in found.worst_case


def test_a_sensitivity_that_is_too_small_is_refuted_by_one_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """By 3 %, which thousands of noisy fits would hardly show."""
    stated = Marginals.sensitivity
    monkeypatch.setattr(Marginals, "sensitivity", lambda query, most: stated(query, most) / 1.03)
    found = audit_end_to_end("independent", EXAMPLE, 1, 0.9, SeededEntropy(6))
    assert found.reached_mu == pytest.approx(1.03 * (found.claimed_mu or 0), rel=1e-6) and found.refutes


@pytest.mark.nightly
@pytest.mark.nightly_for("all mechanisms")
@pytest.mark.parametrize("names", [("marginals", "gradient sum"), tuple(CASES)], ids=["two", "all mechanisms"])
def test_the_command_prints_claims_beside_what_was_proven(
    names: tuple[str, ...], few: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(pipeline, "CASES", {name: CASES[name] for name in names})
    (tmp_path / "s.yaml").write_text(EXAMPLE.to_yaml())
    page = tmp_path / "audit.html"
    done = command("--quick", "--schema", str(tmp_path / "s.yaml"), "--output", str(page))
    assert done.exit_code == 0, done.stderr
    assert all(name in done.stdout for name in names) and "mixture, end to end" in done.stdout
    assert "not a certificate" in done.stdout and "passed" not in done.stdout
    facts = json.loads(page.with_suffix(".json").read_text())
    assert len(facts["findings"]) == len(names) + len(NAMES) + 4 and facts["schema"] == "audit"
    assert not any(f["refutes"] for f in facts["findings"] if not f["published"])
    text = page.read_text()
    assert all(name.replace("'", "&#39;") in text for name in names) and "passed" not in text and "<script" not in text
    assert command("--quick", "--output", str(page)).exit_code != 0  # nothing is overwritten unasked


@pytest.mark.nightly
def test_json_is_one_object(few: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "CASES", {"marginals": CASES["marginals"]})
    facts = json.loads(command("--quick", "--json").stdout)
    assert facts["findings"][0]["name"] == "marginals" and {f["result"] for f in facts["inputs"]} <= {
        "identical",
        "refused",
        "differs",
    }


@pytest.mark.nightly
def test_a_refuted_claim_is_an_error(few: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query, "noised", lambda values, std, entropy: values)
    monkeypatch.setattr(pipeline, "CASES", {"marginals": CASES["marginals"]})
    monkeypatch.setattr(pipeline, "QUICK", replace(FEW, measurement=600))
    done = command("--quick")
    assert done.exit_code == 1 and "Refuted: marginals" in done.stderr and "proven" in done.stdout


@pytest.mark.nightly
@pytest.mark.statistical
def test_the_published_loss_noise_gan_is_convicted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its generator alone tells the target in every fit: 24 fits a side, at 90 %, prove an epsilon above 1."""
    monkeypatch.setattr(pipeline, "CASES", {})
    monkeypatch.setattr(pipeline, "NAMES", ())
    monkeypatch.setattr(pipeline, "QUICK", replace(FEW, published=24))
    done = command("--quick", "--method", "loss-noise", "--confidence", "0.9")
    assert done.exit_code == 1 and "Refuted: loss-noise, as published" in done.stderr


@pytest.mark.nightly
def test_progress_names_what_is_audited(few: None, two_cases: list[str]) -> None:
    seen: list[tuple[str, float, float]] = []
    audit.run(quick=True, progress=lambda *at: seen.append(at))
    assert [what for what, *_ in seen[:2]] == two_cases and len(seen) > 4 and seen[-1][1] == seen[-1][2]
    assert all(before[1] <= after[1] + 1e-9 for before, after in zip(seen, seen[1:], strict=False))


@pytest.mark.nightly
def test_a_method_that_samples_shards_is_watched_in_one_fit(
    few: None, two_cases: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def one_run(name: str, *_: Any, **__: Any) -> Any:
        asked.append(name)
        return audit_end_to_end("independent", EXAMPLE, 4, 0.9)

    monkeypatch.setattr(pipeline, "audit_one_run", one_run)
    audit.run(method="gs-wgan", quick=True)
    assert asked == ["gs-wgan"]
    with pytest.raises(UsageError):
        audit_end_to_end("gs-wgan", EXAMPLE, 4, 0.9)


def test_a_confidence_out_of_range_is_refused() -> None:
    assert command("--confidence", "1").exit_code == 2
    with pytest.raises(UsageError):
        audit.run(confidence=1.0)
