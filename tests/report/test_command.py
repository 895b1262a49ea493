"""`medsynth report` as a person types it."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import small_clinic
from commands import run
from medsynth_cli.report import Inputs, _with_real_rows

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, clinic_with_heldout: Path) -> Iterator[Any]:
    """A copy of the fitted clinic, which these tests add to."""
    path = tmp_path_factory.mktemp("clinic")
    shutil.copytree(clinic_with_heldout, path, dirs_exist_ok=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(path)
        yield path


@pytest.mark.nightly
def test_bare_report(folder: Any) -> None:
    outcome = run("report", "--subgroup", "sex_at_birth")
    assert outcome.exit_code == 0, outcome.stderr
    assert "INTERNAL" in outcome.stderr and "clinic.report.html" in outcome.stdout
    twin = json.loads((folder / "clinic.report.json").read_text())
    assert len(twin["sections"]["verdicts"]["lines"]) >= 6
    assert twin["sections"]["claim"]["epsilon"] <= 3.7 and twin["sections"]["attacks"]["members"] > 100
    assert {g["column"] for g in twin["sections"]["subgroups"]["groups"]} == {"sex_at_birth"}
    assert twin["sections"]["tuning"]["fits_on_this_table"] == 1 and twin["sections"]["tuning"]["counted"] is True
    assert not any("were left out, because" in note for note in twin["notes"])
    assert "<h1>clinic: synthetic rows</h1>" in (folder / "clinic.report.html").read_text()
    again = run("report")
    assert again.exit_code == 1 and "--force" in again.stderr


@pytest.mark.nightly
def test_json_is_one_object_alone(folder: Any) -> None:
    outcome = run("report", "--shareable", "--json", "--output", "other.report.html")
    facts = json.loads(outcome.stdout)
    assert outcome.stderr == "" and facts["report"] == "other.report.html" and len(facts["verdicts"]) == 4


@pytest.mark.nightly
def test_fail_on_decides_the_exit_status(folder: Any) -> None:
    """By what the verdicts say; the page is written in any case, and JSON stays one object."""
    (folder / "strict.yaml").write_text("epsilon: {limit: 1, source: our board}\n")
    words = ("report", "--shareable", "--thresholds", "strict.yaml", "--output", "gate.html", "--force", "--json")
    for wanted, failed in (("beyond", ["epsilon"]), ("epsilon,rules_broken", ["epsilon"]), ("undecided", [])):
        outcome = run(*words, "--fail-on", wanted)
        assert outcome.exit_code == (5 if failed else 0) and json.loads(outcome.stdout)["failed"] == failed
        assert (folder / "gate.html").exists()
    spoken = run(*words[:-1], "--fail-on", "any")
    assert spoken.exit_code == 5 and "BEYOND" in spoken.stdout and "Failed by --fail-on: epsilon." in spoken.stdout
    unknown = run("report", "--fail-on", "nonsense", "--output", "other.html")
    assert unknown.exit_code == 2 and "attack_advantage" in unknown.stderr and not (folder / "other.html").exists()


@pytest.mark.nightly
def test_review_and_thresholds(folder: Any) -> None:
    (folder / "review.yaml").write_text(
        "purpose: teaching\nroles: {diagnosis: sensitive, age_years: quasi identifier}\n"
        "regression: {outcome: diagnosis, predictors: [age_years, tsh_miu_l]}\n"
    )
    (folder / "lines.yaml").write_text("epsilon: {limit: 1, source: our board}\n")
    outcome = run("report", "--review", "review.yaml", "--thresholds", "lines.yaml", "--output", "r.html", "--json")
    assert outcome.exit_code == 0, outcome.stderr
    line = json.loads(outcome.stdout)["verdicts"][0]
    assert line["met"] is False and line["source"] == "our board"
    html = (folder / "r.html").read_text()
    assert "teaching" in html and "quasi identifier" in html and "tsh_miu_l (per standard deviation)" in html
    (folder / "review.yaml").write_text("purpos: teaching\n")
    outcome = run("report", "--review", "review.yaml", "--output", "s.html")
    assert outcome.exit_code == 2 and "purpos" in outcome.stderr and "purpose" in outcome.stderr
    outcome = run("report", "--review", "nowhere.yaml", "--output", "s.html")
    assert outcome.exit_code == 2 and not (folder / "s.html").exists()


@pytest.mark.nightly
def test_a_drafted_review_is_filled_in_and_printed(folder: Any) -> None:
    """Every entry of the draft is read back, the house's thresholds count, and the page is printed to a PDF."""
    (folder / "review.yaml").unlink(missing_ok=True)
    assert run("report", "--review", "draft").exit_code == 0
    refused = run("report", "--review", "draft")
    assert refused.exit_code == 1 and "review.yaml exists already" in refused.stderr
    text = (folder / "review.yaml").read_text()
    text = text.replace("harms:  #", "harms: a wrong dose  #").replace("  people:  #", "  people: two nurses  #")
    text = text.replace("thresholds:  #", "thresholds: {epsilon: {limit: 1, source: our board}}  #")
    (folder / "review.yaml").write_text(text)
    words = ("report", "--shareable", "--review", "review.yaml", "--output", "filled.html", "--json")
    facts = json.loads(run(*words).stdout)
    assert {v["key"]: v["outcome"] for v in facts["verdicts"]}["epsilon"] == "beyond"
    page = (folder / "filled.html").read_text()
    assert "a wrong dose" in page and "two nurses" in page
    if shutil.which("chromium"):
        assert run(*words, "--pdf", "--force").exit_code == 0
        assert (folder / "filled.pdf").read_bytes().startswith(b"%PDF")


def test_shareable_reads_no_real_row(folder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    held = folder / "clinic.heldout.csv"
    hidden = held.rename(folder / "away.csv")
    outcome = run("report", "--shareable", "--output", "open.html")
    hidden.rename(held)
    assert outcome.exit_code == 0, outcome.stderr
    assert "INTERNAL" not in outcome.stderr
    assert run("report", "--shareable", "--real", "clinic.heldout.csv", "--output", "x.html").exit_code == 2


@pytest.mark.nightly
def test_any_tools_table(folder: Any) -> None:
    pd.read_csv("clinic.synthetic.csv").to_csv("foreign.csv", index=False)
    outcome = run("report", "--synthetic", "foreign.csv", "--real", "clinic.heldout.csv", "--target", "diagnosis")
    assert outcome.exit_code == 0, outcome.stderr
    twin = json.loads((folder / "foreign.report.json").read_text())["sections"]
    assert twin["claim"] is None and twin["attacks"] is None and "cross-validation" in twin["utility"]["train_rows"]


def test_rows_held_out_by_hand_are_attacked_with_the_fitted_table(folder: Any) -> None:
    """As in the demo, whose two tables come from a simulation. A fit with --holdout leaves the two parts of a split."""
    held, fitted, train = (folder / f"clinic{part}.csv" for part in (".heldout", "", ".train"))

    def found(real: Path | None = None) -> Any:
        return _with_real_rows(Inputs(folder, "clinic", folder / "clinic.medsynth", None), real, None, False, False)

    hidden = train.rename(folder / "away.csv") if train.exists() else None
    assert found()[4:6] == (held, fitted) and found(fitted)[4:6] == (fitted, None)
    shutil.copy(fitted, train)
    assert found()[4:6] == (held, train)
    train.unlink() if hidden is None else hidden.replace(train)


@pytest.mark.nightly
def test_without_held_out_rows_nothing_is_judged_by_the_fitted_ones(folder: Any) -> None:
    held = folder / "clinic.heldout.csv"
    hidden = held.rename(folder / "away.csv")
    outcome = run("report", "--output", "y.html")
    (folder / "clinic.csv").rename(folder / "gone.csv")
    nothing = run("report", "--output", "n.html")
    (folder / "gone.csv").rename(folder / "clinic.csv")
    hidden.rename(held)
    assert outcome.exit_code == 0 and "NOTHING HELD OUT" in outcome.stderr and "clinic.csv" in outcome.stderr
    twin, page = json.loads((folder / "y.json").read_text()), (folder / "y.html").read_text()
    lines = {line["key"]: line["outcome"] for line in twin["sections"]["verdicts"]["lines"]}
    judged = {key for key, found in lines.items() if found == "within"}
    assert (
        judged <= {"epsilon", "delta_times_rows", "rules_broken", "impossible_rows"}
        and lines["attack_advantage"] == "not measured"
    )
    assert twin["fitted_rows"] and twin["sections"]["attacks"] is None and "No row was held out." in twin["notes"][0]
    assert "the model was fitted to all of these" in page and "fitted rows</th>" in page
    assert "held-out rows</th>" not in page and "real held-out rows" not in page
    assert nothing.exit_code == 1 and "--holdout 0.25" in nothing.stderr and not (folder / "n.html").exists()


@pytest.mark.nightly_for("--subgroup nothing")
@pytest.mark.parametrize(
    "words",
    [
        "--real nowhere.csv",
        "--subgroup nothing",
        "--target nothing",
        "--model nowhere.medsynth",
        "--synthetic none.csv",
    ],
)
def test_mistakes_are_one_message(folder: Any, words: str) -> None:
    outcome = run("report", *words.split(), "--output", "z.html")
    assert outcome.exit_code in (1, 2, 4) and "Traceback" not in outcome.stderr and outcome.stderr.count("Error:") == 1
    assert not (folder / "z.html").exists() and not (folder / "z.json").exists()


def test_a_fresh_sample_is_reported(folder: Any) -> None:
    made = (folder / "clinic.synthetic.csv").rename(folder / "kept.csv")
    outcome = run("report", "--shareable", "--output", "fresh.html")
    made.rename(folder / "clinic.synthetic.csv")
    assert outcome.exit_code == 0 and "sampled from the model" in outcome.stderr
    assert "sampled from the model" in (folder / "fresh.html").read_text()


@pytest.mark.nightly_for(
    "--method dp-cgan-Poisson sampling",
    "--method gs-wgan-draws a new shard to measure and keeps it secret",
    "--preset public-order-measured in a public order",
)
@pytest.mark.parametrize(
    ("words", "way_taken"),
    [
        ("--method gs-wgan", "draws a new shard to measure and keeps it secret"),
        ("--preset public-order", "measured in a public order"),
        ("--method dp-cgan", "Poisson sampling"),
        ("--method independent", None),
    ],
)
def test_the_ledger_says_how_rows_were_drawn(quick: None, patients: Path, words: str, way_taken: str | None) -> None:
    """And names each way only where it was taken."""
    for line in (f"fit patients.csv --epsilon 3.7 {words}", "sample -n 300", "report --shareable"):
        outcome = run(*line.split())
        assert outcome.exit_code == 0, outcome.stderr
    page = patients.with_name("patients.report.html").read_text()
    for way in ("draws a new shard to measure and keeps it secret", "measured in a public order", "Poisson sampling"):
        assert (way in page) == (way == way_taken)


@pytest.mark.nightly
@pytest.mark.parametrize("ending", [".xlsx", ".tsv"])
def test_the_fitted_table_is_found_in_its_own_form(
    ending: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows, table = small_clinic.cohort(150, 3), Path(f"clinic{ending}")
    if ending == ".xlsx":
        pytest.importorskip("openpyxl", reason="pip install -c constraints.txt 'medsynth[excel]'")
        rows.to_excel(table, index=False)
    else:
        rows.to_csv(table, sep="\t", index=False)
    Path("clinic.schema.yaml").write_text(small_clinic.schema().to_yaml())
    assert run("fit", str(table), "--epsilon", "3.7", "--method", "independent").exit_code == 0
    outcome = run("report", "--json")
    assert outcome.exit_code == 0 and table.name in outcome.stderr and Path("clinic.report.html").exists()
