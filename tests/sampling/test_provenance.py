"""Provenance: a table is a model's own only where the model draws it again, byte by byte."""

import json
from pathlib import Path

import pandas as pd
import pyreadstat
import pytest
from commands import run

import medsynth
from medsynth.artifact import Model
from medsynth.sampling import Draw, provenance
from medsynth.schema import Schema

Fitted = tuple[Model, Path]


@pytest.fixture(scope="module")
def fitted(fitted_clinic: Path) -> Fitted:
    path = fitted_clinic / "patients.medsynth"
    return medsynth.load(path), path


def sampled(fitted: Fitted, table: Path, where: tuple[str, ...] = ()) -> Path:
    model, path = fitted
    draw = Draw(rows=60, seed=5, where=where)
    provenance.write_sample(model, path, table, draw, force=True)
    return table


@pytest.mark.matrix
@pytest.mark.nightly_for("dta", "xpt")
@pytest.mark.parametrize("ending", ["csv", "csv.gz", "parquet", "sav", "dta", "xpt"])
def test_a_models_own_rows_are_known(fitted: Fitted, tmp_path: Path, ending: str) -> None:
    assert provenance.drawn_by(fitted[0], sampled(fitted, tmp_path / f"rows.{ending}"))


def test_conditions_are_drawn_again(fitted: Fitted, tmp_path: Path) -> None:
    assert provenance.drawn_by(fitted[0], sampled(fitted, tmp_path / "rows.csv", where=("sex_at_birth=F",)))


@pytest.mark.nightly
def test_rows_of_another_model_are_not(fitted: Fitted, tmp_path: Path, cohort: pd.DataFrame, clinic: Schema) -> None:
    """The attack of the red team: rows of a fit without noise beside a model that makes a claim."""
    bare = medsynth.fit(cohort, schema=clinic, no_dp=True, rows=300, method="independent")
    table = sampled((bare, fitted[1]), tmp_path / "rows.csv")
    assert provenance.drawn_by(bare, table) and not provenance.drawn_by(fitted[0], table)


def test_the_real_table_is_not(fitted: Fitted, tmp_path: Path, cohort: pd.DataFrame) -> None:
    table = sampled(fitted, tmp_path / "rows.csv")
    cohort.head(60).to_csv(table, index=False)
    assert not provenance.drawn_by(fitted[0], table)


@pytest.mark.matrix
@pytest.mark.parametrize("ending", ["csv", "parquet", "sav"])
def test_one_changed_cell_is_found(fitted: Fitted, tmp_path: Path, ending: str) -> None:
    table = sampled(fitted, tmp_path / f"rows.{ending}")
    if ending == "sav":
        cells, _ = pyreadstat.read_sav(table, user_missing=True)
        cells.iloc[7, 1] = int(str(cells.iloc[7, 1]).removesuffix(".0")) + 1
        pyreadstat.write_sav(cells, table)
    elif ending == "parquet":
        frame = pd.read_parquet(table)
        frame.iloc[7, 1] = int(str(frame.iloc[7, 1])) + 1
        frame.to_parquet(table, index=False)
    else:
        lines = table.read_text().splitlines()
        table.write_text("\n".join([*lines[:-1], lines[1]]) + "\n")
    assert not provenance.drawn_by(fitted[0], table)


def test_more_rows_or_fewer_are_found(fitted: Fitted, tmp_path: Path) -> None:
    table = sampled(fitted, tmp_path / "rows.csv")
    lines = table.read_text().splitlines()
    for changed in (lines[:-1], [*lines, lines[-1]]):
        table.write_text("\n".join(changed) + "\n")
        assert not provenance.drawn_by(fitted[0], table)


FORGED: list[dict[str, object]] = [
    {"seed": 6}, {"rows": 61}, {"rows": -1}, {"seed": "5"}, {"where": [1]}, {"more": 1}, {"where": ["x=1"]},
    {"balance": 1},
]  # fmt: skip


def test_no_file_a_forged_one_and_a_broken_one(fitted: Fitted, tmp_path: Path) -> None:
    table = sampled(fitted, tmp_path / "rows.csv")
    path = provenance.beside(table)
    content = json.loads(path.read_text())
    assert content["claim"].startswith("(3.") and content["seed"] == 5
    for forged in FORGED:
        path.write_text(json.dumps(content | forged))
        assert not provenance.drawn_by(fitted[0], table), forged
    for broken in ("{", "[" * 100_000):
        path.write_text(broken)
        assert not provenance.drawn_by(fitted[0], table)
    path.unlink()
    assert not provenance.drawn_by(fitted[0], table)


@pytest.mark.nightly
@pytest.mark.usefixtures("few_trees")
@pytest.mark.slow
def test_rows_without_privacy_get_no_claim_from_another_model(patients: Path, quick: None) -> None:
    """Fit without noise, sample, fit with noise over it, report: no variant shows the claim for these rows."""
    assert run("fit", "patients.csv", "--no-dp", "--method", "independent", "--holdout", "0.3").exit_code == 0
    assert run("sample", "-n", "200").exit_code == 0
    assert run("fit", "patients.csv", "--epsilon", "1", "--method", "independent", "--force").exit_code == 0
    for words in ([], ["--shareable"]):
        done = run("report", "--force", *words)
        assert done.exit_code == 0 and "No claim can be made" in done.stderr
        twin, page = json.loads(Path("patients.report.json").read_text()), Path("patients.report.html").read_text()
        assert twin["sections"]["claim"] is None and twin["sections"]["ledger"] is None
        assert "No claim can be made for this table" in page and "-differentially private</strong>" not in page
    assert twin["banner"].startswith("No claim can be made") and "Shareable: every number" not in page


@pytest.mark.nightly
@pytest.mark.usefixtures("few_trees")
@pytest.mark.parametrize("words", ["any", "beyond", "epsilon"])
def test_without_a_claim_the_first_verdict_is_no_guarantee(patients: Path, quick: None, words: str) -> None:
    """In print, on the page and in its twin; every strict --fail-on sees it."""
    assert run("fit", "patients.csv", "--no-dp", "--method", "independent", "--rows", "300").exit_code == 0
    assert run("sample", "-n", "100").exit_code == 0
    done = run("report", "--fail-on", words)
    assert done.exit_code == 5 and done.stdout.startswith("NO GUARANTEE"), done.stdout
    lines = json.loads(Path("patients.report.json").read_text())["sections"]["verdicts"]["lines"]
    assert (lines[0]["key"], lines[0]["outcome"], lines[0]["met"]) == ("epsilon", "no guarantee", False)
    page = Path("patients.report.html").read_text()
    assert page.index("because nothing limits what they reveal") < page.index("No guarantee")
    found = page.index("What was found")
    assert (
        page.index("No guarantee") < found < page.index("Is there a privacy guarantee?") < page.index("Passed", found)
    )


def test_the_real_table_gets_no_claim(fitted_patients: Path) -> None:
    done = run("report", "--shareable", "--synthetic", "patients.csv", "--model", "patients.medsynth")
    assert done.exit_code == 0 and "No claim can be made" in done.stderr
    assert json.loads(Path("patients.report.json").read_text())["sections"]["claim"] is None


def test_the_models_own_rows_get_its_claim(patients: Path, quick: None) -> None:
    assert run("fit", "patients.csv", "--epsilon", "1", "--method", "independent").exit_code == 0
    assert run("sample", "-n", "150").exit_code == 0
    assert run("report", "--shareable").exit_code == 0
    twin = json.loads(Path("patients.report.json").read_text())
    assert twin["sections"]["claim"]["epsilon"] <= 1 and twin["banner"].startswith("Shareable")


def test_one_changed_digit_is_found(fitted: Fitted, tmp_path: Path) -> None:
    """As many bytes as before, and one of them another: first, in the middle and last."""
    table = sampled(fitted, tmp_path / "rows.csv")
    text = table.read_text()
    digits = [k for k, mark in enumerate(text) if mark.isdigit() and k > text.index("\n")]
    for at in (digits[0], digits[len(digits) // 2], digits[-1]):
        table.write_text(text[:at] + str((int(text[at]) + 1) % 10) + text[at + 1 :])
        assert not provenance.drawn_by(fitted[0], table)
    table.write_text(text)
    assert provenance.drawn_by(fitted[0], table)
