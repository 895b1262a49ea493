"""An approved plan: the page to sign, the fit that keeps to it, and the report that shows what came of it."""

import json
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from commands import good, run

import medsynth
from medsynth.errors import BudgetError
from medsynth.fitting.approval import ApprovedPlan
from medsynth.privacy.checkpoint import Checkpoint
from medsynth.report.build import build
from medsynth.report.document import Report
from medsynth.report.page.render import page

pytestmark = pytest.mark.usefixtures("quick")
OPTIONS = ["--epsilon", "3.7", "--method", "independent", "--target", "none"]
FIT = ["fit", "patients.csv", *OPTIONS, "--plan", "plan.json"]
REVIEW = "purpose: teaching\nrecipient: University of <X>\nroles: {age_years: quasi identifier}\n"


@pytest.fixture
def approved(patients_of_few_columns: Path) -> Path:
    """A folder with a table and the plan of its fit."""
    Path("review.yaml").write_text(REVIEW)
    good("plan", "patients.csv", *OPTIONS, "--page", "plan.html", "--review", "review.yaml")
    return patients_of_few_columns.parent


def test_the_page_states_what_is_asked_and_planned(approved: Path, cohort: pd.DataFrame) -> None:
    html, plan = Path("plan.html").read_text(), json.loads(Path("plan.json").read_text())
    assert "University of &lt;X&gt;" in html and "teaching" in html and "quasi identifier" in html
    assert "http://" not in html and "https://" not in html and "<script" not in html
    for one in plan["measurements"]:
        assert one["label"] in html and f"{one['multiplier']:.4f}" in html
    for column in plan["columns"]:
        assert f">{column['name']}<" in html and column["declared"] == "declared"
    assert [one["dimension"] for one in plan["detail"]] == ["who", "what", "when", "where", "how"]
    assert plan["epsilon"] <= plan["epsilon_asked"] == 3.7 and plan["fits"] == 0
    assert not list(approved.glob("*ledger*"))


def test_the_page_depends_on_no_cell(approved: Path, cohort: pd.DataFrame) -> None:
    before = [Path(name).read_bytes() for name in ("plan.html", "plan.json")]
    lines = Path("patients.csv").read_text().splitlines()
    Path("patients.csv").write_text("\n".join([lines[0], *[lines[1]] * (len(lines) - 1)]) + "\n")
    good("plan", "patients.csv", *OPTIONS, "--page", "plan.html", "--review", "review.yaml", "--force")
    assert [Path(name).read_bytes() for name in ("plan.html", "plan.json")] == before


def test_a_look_and_open_columns_are_marked(patients_of_few_columns: Path) -> None:
    text = Path("patients.schema.yaml").read_text().splitlines()
    columns = next(k for k, line in enumerate(text) if line == "columns:")
    text[columns + 1] = text[columns + 1].replace("}", ", seen: true}")
    Path("patients.schema.yaml").write_text("\n".join(text) + "\n")
    good("plan", "patients.csv", *OPTIONS, "--page", "plan.html")
    found = [one["declared"] for one in json.loads(Path("plan.json").read_text())["columns"]]
    assert found[0] == "declared after a look at the table" and set(found[1:]) == {"declared"}
    Path("patients.schema.yaml").unlink()
    good("plan", "patients.csv", *OPTIONS, "--page", "plan.html", "--force")
    assert {one["declared"] for one in json.loads(Path("plan.json").read_text())["columns"]} == {
        "open: learned with noise"
    }


def test_a_fit_under_its_plan_and_the_report(approved: Path, cohort: pd.DataFrame) -> None:
    good(*FIT, "--holdout", "0.25")
    model, plan = medsynth.load("patients.medsynth"), ApprovedPlan.load("plan.json")
    assert any(plan.digest[:16] in note for note in model.ledger.notes)
    rows = medsynth.sample(model, 50, seed=1)
    report = build(synthetic=rows, real=None, model=model, drawn_by_model=True, plan=plan)
    found: Any = report.sections["approval"]
    assert found.checked and all(one.kept is not False for one in found.facts)
    assert "one-way marginals" in {one.what for one in found.facts}
    assert Report.model_validate_json(report.model_dump_json()) == report
    assert "The fit itself kept to this plan" in page(report)
    other = build(synthetic=rows, real=None, model=model, drawn_by_model=True, plan=_changed(plan, delta=1e-9))
    facts: Any = other.sections["approval"]
    assert [one.what for one in facts.facts if one.kept is False] == ["delta, at most"]
    assert build(synthetic=rows, real=None, model=model, drawn_by_model=True).sections["approval"] is None


def _changed(plan: ApprovedPlan, **entries: Any) -> ApprovedPlan:
    claim = plan.claim.model_copy(update=entries)
    return ApprovedPlan(name=plan.name, digest="0" * 64, claim=claim)


REFUSED = {
    "epsilon": (["--epsilon", "3.8"], 3, "approves epsilon 3.7"),
    "delta": (["--delta", "1e-4"], 3, "at delta 0.0001"),
    "method": (["--method", "mixture"], 2, "the method is independent"),
    "no noise": (["--no-dp"], 2, "with noise"),
    "unit": (["--one-row-a-patient"], 2, "the claim is for"),
}


@pytest.mark.parametrize("holdout", [[], ["--holdout", "0.25"]], ids=["whole", "split"])
@pytest.mark.parametrize("name", REFUSED)
def test_a_fit_beyond_its_plan_stops_before_it_spends(approved: Path, name: str, holdout: list[str]) -> None:
    words, code, reason = REFUSED[name]
    Path("patients.schema.yaml").write_text(
        Path("patients.schema.yaml").read_text().replace("one_row_a_patient: true\n", "")
    )
    good("plan", "patients.csv", *OPTIONS, "--page", "plan.html", "--force")
    before = sorted(os.listdir())
    given = [word for word in OPTIONS if not (name == "no noise" and word in ("--epsilon", "3.7"))]
    result = run("fit", "patients.csv", *given, *words, "--plan", "plan.json", *holdout)
    assert result.exit_code == code and reason in result.stderr, result.stderr
    assert sorted(os.listdir()) == before


@pytest.mark.parametrize("change", ["bounds", "column", "rule", "target"])
def test_another_schema_is_refused(approved: Path, change: str) -> None:
    schema, table = Path("patients.schema.yaml"), pd.read_csv("patients.csv", dtype=str)
    options = list(FIT)
    if change == "bounds":
        schema.write_text(schema.read_text().replace("bounds: [18, 110]", "bounds: [17, 110]"))
    elif change == "column":
        table.drop(columns=table.columns[-1]).to_csv("patients.csv", index=False)
        kept = [line for line in schema.read_text().splitlines() if not line.strip().startswith(table.columns[-1])]
        schema.write_text("\n".join(line for line in kept if not line.startswith("target")) + "\n")
    elif change == "rule":
        schema.write_text(f"{schema.read_text()}rules: [age_years >= 18]\n")
    else:
        options = [*FIT[:2], "--epsilon", "3.7", "--plan", "plan.json"]
    result = run(*options)
    assert result.exit_code != 0 and "is not the" in result.stderr, result.stderr
    assert not list(approved.glob("*ledger*")) and not list(approved.glob("*.medsynth"))


def test_one_plan_approves_one_fit(approved: Path) -> None:
    good(*FIT)
    result = run(*FIT, "--force")
    assert result.exit_code == 3 and "has had 1 fit" in result.stderr
    assert len(json.loads(good("ledger", "--table", "patients.csv", "--json").stdout)["fits"]) == 1


class Killed(BaseException):
    """Stands for the end of the process."""


def test_an_interrupted_fit_goes_on_under_its_plan(approved: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"epsilon": 3.7, "method": "independent", "target": "none", "plan": "plan.json",
                               "checkpoint": Path("c")}  # fmt: skip
    store = Checkpoint.store

    def storing(self: Any, label: Any, arrays: Any, names: Any) -> None:
        store(self, label, arrays, names)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoint, "store", storing)
        with pytest.raises(Killed):
            medsynth.fit("patients.csv", **options)
    Path("copy").write_bytes(Path("c").read_bytes())
    assert medsynth.fit("patients.csv", resume=True, **options).claims
    with pytest.raises(BudgetError, match="was approved when it had 0"):  # a copy would spend the budget again
        medsynth.fit("patients.csv", resume=True, **options | {"checkpoint": Path("copy")})


@pytest.mark.parametrize("content", ["", "{}", "[1]", '{"kind": "medsynth plan", "format": 2}', "\0"])
def test_what_is_not_a_plan_is_refused(approved: Path, content: str) -> None:
    Path("plan.json").write_text(content)
    result = run(*FIT)
    assert result.exit_code == 2 and "is not the plan of a fit" in result.stderr
    assert run("plan", "300", *OPTIONS[:2], "--page", "p.html").exit_code == 2
    assert run("plan", "patients.csv", *OPTIONS, "--review", "review.yaml").exit_code == 2
    assert run("plan", "patients.csv", *OPTIONS, "--page", "plan.html").exit_code == 1  # never over another file
