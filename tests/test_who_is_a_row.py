"""Who a row is: each place that states a claim follows the declaration, and a fit asks or says what it assumes."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from commands import good, run

import medsynth
from medsynth.artifact import claim, load
from medsynth.errors import SchemaError, UsageError
from medsynth.privacy.accounting.ledger import Ledger
from medsynth.privacy.accounting.unit import PrivacyUnit
from medsynth.schema import Schema

ROWS = 600
OF_A_PATIENT = re.compile(r"(?:one|given|any) (?:person|patient)\b|person's", re.IGNORECASE)
STATES: dict[str, list[str]] = {
    "patients": ["--unit", "patient_id", "--max-rows", "2"], "one row each": ["--one-row-a-patient"], "nothing": [],
}  # fmt: skip
SCHEMA = """name: ward
target: sick
{who}columns:
  patient_id: {{kind: identifier}}
  age: {{kind: count, bounds: [20, 90]}}
  sex: {{kind: binary, levels: [f, m]}}
  sick: {{kind: binary, levels: ["no", "yes"]}}
"""


def table() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    return pd.DataFrame({
        "patient_id": np.arange(ROWS), "age": rng.integers(20, 90, ROWS), "sex": rng.choice(["f", "m"], ROWS),
        "sick": rng.choice(["no", "yes"], ROWS),
    })  # fmt: skip


def words_of(*command: object) -> str:
    done = good(*command)
    return f"{done.stdout}\n{done.stderr}"


def sections_of(html: str) -> str:
    """The text of a report's first page and of its claim."""
    parts = [html[html.index(f'id="{name}"') :].partition("</section>")[0] for name in ("verdicts", "claim", "source")]
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", " ".join(parts)))


def places(state: str) -> dict[str, str]:
    """Fit a table in this folder, and return what each place says of whom the claim covers, by place."""
    words, table_ = STATES[state], ("ward.csv", "--epsilon", "9", "--method", "independent")
    found = {"plan": words_of("plan", *table_, *words), "plan, JSON": good("plan", *table_, *words, "--json").stdout}
    found["fit, quiet"] = good("fit", *table_, *words, "--quiet").stdout
    found["fit, JSON"] = good("fit", *table_, *words, "--json", "--force").stdout
    found["fit"] = words_of("fit", *table_, *words, "--force", "--verbose")
    model = load("ward.medsynth")
    found["file"] = json.dumps(model.ledger.to_json() | {"protects": model.ledger.protects})
    found["repr"], found["notebook"] = repr(model), model._repr_html_()
    found["Python's plan"] = str(medsynth.plan(Path("ward.csv"), epsilon=9, **options(state)))
    for name, command in {
        "sample": ["sample", "-n", "50"], "inspect": ["inspect"], "ledger": ["ledger"],
        "budget": ["ledger", "--table", "ward.csv"], "metadata": ["metadata"],
    }.items():  # fmt: skip
        found[name] = words_of(*command)
    texts = {path.name: path.read_text("utf-8") for path in Path("ward.package").iterdir()}
    found |= {name: text for name, text in texts.items() if "differential privacy" in text}
    assert len(found) > 15
    found["provenance"] = Path("ward.synthetic.csv.provenance.json").read_text()
    good("report", "--shareable")
    found["report"] = sections_of(Path("ward.report.html").read_text())
    twin = json.loads(Path("ward.report.json").read_text())["sections"]
    found["report, JSON"] = json.dumps([twin["claim"], twin["source"], twin["verdicts"]["lines"][:2]])
    return found


def options(state: str) -> dict[str, Any]:
    found: dict[str, dict[str, Any]] = {
        "patients": {"unit": "patient_id", "max_rows": 2},
        "one row each": {"one_row_a_patient": True},
    }
    return found.get(state, {})


@pytest.mark.matrix
@pytest.mark.usefixtures("quick", "few_trees")
@pytest.mark.parametrize("state", STATES)
def test_every_place_follows_the_declaration(state: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a declaration no place speaks of a patient whom the claim covers, and each says what follows."""
    monkeypatch.chdir(tmp_path)
    table().to_csv("ward.csv", index=False)
    for place, text in places(state).items():
        if state == "nothing":
            own = text.replace("The column of patients", "")
            assert not OF_A_PATIENT.search(own), (place, OF_A_PATIENT.findall(own), text)
            assert "one row" in text.lower() and "several rows" in text, (place, text)
        else:
            assert re.search("one patient|of a patient", text), (place, text)
            text = text.replace("for one row, and for one patient", "for one patient")
            assert "for one row" not in text and "UNIT: one row" not in text, (place, text)


def test_the_words_of_each_unit() -> None:
    assert [PrivacyUnit(3).noun, PrivacyUnit(None, True).noun, PrivacyUnit().noun] == ["patient", "patient", "row"]
    assert [PrivacyUnit(1).declared, PrivacyUnit(None, True).declared, PrivacyUnit().declared] == [True, True, False]
    assert "several rows is protected less" in PrivacyUnit().protects


def test_a_ledger_of_an_earlier_version_declares_nothing() -> None:
    ledger = Ledger(delta=1e-5, accountant="prv", random_source="x", allowance={}, one_row_a_patient=True)
    content = ledger.to_json()
    assert Ledger.from_json(content).unit == PrivacyUnit(None, True)
    del content["one_row_a_patient"]
    assert Ledger.from_json(content).unit == PrivacyUnit()
    old = load(Path(__file__).parent / "fixtures" / "models" / "bare.medsynth")
    assert not old.ledger.unit.declared and "for one row (a patient with several" in claim(old)


@pytest.mark.parametrize("declared", ["yes", 1, None])
def test_a_ledger_with_another_declaration_is_refused(declared: object) -> None:
    content = Ledger(delta=1e-5, accountant="prv", random_source="x", allowance={}).to_json()
    with pytest.raises(medsynth.errors.ArtifactError):
        Ledger.from_json({**content, "one_row_a_patient": declared})
    patients = Ledger(delta=1e-5, accountant="prv", random_source="x", allowance={}, max_rows=2).to_json()
    with pytest.raises(medsynth.errors.ArtifactError):
        Ledger.from_json({**patients, "one_row_a_patient": True})


# The schema


def test_a_schema_declares_one_row_or_a_column_not_both() -> None:
    schema = Schema.from_yaml(SCHEMA.format(who="one_row_a_patient: true\n"))
    assert schema.one_row_a_patient and not schema.core.one_row_a_patient
    assert Schema.from_yaml(schema.to_yaml()) == schema
    with pytest.raises(SchemaError, match="one of"):
        Schema.from_yaml(SCHEMA.format(who="one_row_a_patient: true\nunit: patient_id\nmax_rows: 2\n"))


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize(
    "who", ["one_row_a_patient: true\n", "unit: patient_id\nmax_rows: 2\n", ""], ids=["one", "unit", "nothing"]
)
def test_what_a_schema_declares_reaches_the_model(who: str) -> None:
    told, schema = list[str](), Schema.from_yaml(SCHEMA.format(who=who))
    model = medsynth.fit(table(), epsilon=9, method="independent", schema=schema, notice=told.append)
    assert model.ledger.unit == PrivacyUnit(2 if "unit" in who else None, "one_row" in who)
    assert told[0].startswith("UNIT: one row") == (not who)
    assert any("reads like a patient's key" in text for text in told) == (not who)
    assert medsynth.plan(table(), epsilon=9, schema=schema).protects == model.ledger.protects


def test_an_option_that_contradicts_the_schema_is_refused() -> None:
    schema = Schema.from_yaml(SCHEMA.format(who="unit: patient_id\nmax_rows: 2\n"))
    with pytest.raises(UsageError, match="names the patients' column"):
        medsynth.plan(table(), epsilon=9, schema=schema, one_row_a_patient=True)


def test_drafts_show_both_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    table().to_csv("ward.csv", index=False)
    Path("book.csv").write_text("column,type,minimum,maximum,codes\nage,integer,20,90,\nsex,categorical,,,f=f|m=m\n")
    good("schema", "draft", "ward.csv")
    draft = Path("ward.schema.yaml").read_text()
    good("schema", "import", "book.csv", "--force", "-o", "ward.schema.yaml")
    for text in (draft, Path("ward.schema.yaml").read_text()):
        assert "\n# unit: COLUMN" in text and "\n# one_row_a_patient: true" in text
        kept = re.sub(r"(?m)^# (one_row_a_patient: true)", r"\1", text)
        assert "\none_row_a_patient: true" in kept


# The budget file


def test_the_total_for_a_patient_needs_one_declaration(tmp_path: Path) -> None:
    from medsynth.budget import Budget
    from medsynth.privacy.accounting.calibration import Charge, make_plan

    plan = make_plan([Charge(label="q", weight=1.0)], epsilon=1.0, delta=1e-5, rows=100)
    each = {"row": plan, "one": replace(plan, one_row_a_patient=True), "unit": replace(plan, max_rows=2)}
    for names, total in {
        ("row",): False, ("one",): True, ("unit",): True, ("one", "one"): True, ("unit", "unit"): True,
        ("one", "row"): False, ("one", "unit"): False, ("row", "unit"): False,
    }.items():  # fmt: skip
        budget = Budget(tmp_path / f"{'-'.join(names)}.medsynth-ledger")
        for name in names:
            budget.reserve(each[name], method="independent", noise=True)
        spent = budget.spent()
        assert (spent.patient().epsilon is not None) == total, names
        assert ("and for one patient" in spent.sentence()) == total
        assert [fit.one_row_a_patient for fit in spent.fits] == [name == "one" for name in names]


# The first line


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("more", [[], ["--holdout", "0.3"], ["--verbose"]], ids=str)
@pytest.mark.parametrize("form", ["commas", "semicolons", "schema"])
def test_the_first_line_says_one_row(
    more: list[str], form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table().to_csv("ward.csv", index=False, sep=";" if form == "semicolons" else ",")
    if form == "schema":
        Path("ward.schema.yaml").write_text(SCHEMA.format(who=""))
    done = good("fit", "ward.csv", "--epsilon", "9", "--method", "independent", *more)
    first, *others = done.stderr.splitlines()
    assert first.startswith("UNIT: one row") and "several rows" in first and "--one-row-a-patient" in first
    assert not any(line.startswith("UNIT") for line in others)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("given", [["--quiet"], ["--json"]], ids=str)
def test_without_messages_the_result_says_it_first(
    given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    table().to_csv("ward.csv", index=False)
    done = good("fit", "ward.csv", "--epsilon", "9", "--method", "independent", *given)
    assert "one row (a patient with several rows" in done.stdout.splitlines()[0] and not done.stderr


def test_no_cell_decides_about_the_question(tmp_path: Path) -> None:
    """Whatever the keys: all the same, all different, empty. Later records that nobody can read do not matter."""
    from medsynth.fitting.private_table import possible_patients
    from medsynth.fitting.settings import FitSettings

    settings, path = FitSettings(epsilon=1), tmp_path / "t.csv"
    lines = [["1,a,1"] * 30, [f"{k},a,1" for k in range(30)], [",,"] * 30, ["1,a,1", "1", '"', "\x00"]]
    for cells in lines:
        path.write_text("\n".join(["patient_id,b,c", *cells]))
        assert possible_patients(path, settings) == (("patient_id", "b", "c"), "patient_id")
        assert possible_patients(path, replace(settings, one_row_a_patient=True)) == ((), None)
        assert possible_patients(path, replace(settings, unit="b")) == ((), None)


def test_a_count_of_rows_is_planned_for_a_patient() -> None:
    planned = json.loads(good("plan", "3000", "--epsilon", "1", "--one-row-a-patient", "--json").stdout)
    assert planned["protects"].startswith("one patient")
    assert run("plan", "3000", "--epsilon", "1", "--one-row-a-patient", "--unit", "a").exit_code == 2


# Keys with repeats


@pytest.mark.usefixtures("quick")
def test_numbers_that_repeat_are_warned_of_by_released_counts() -> None:
    """A release of 1,145 patients' numbers in 2,000 rows. A shift of a count by 30 standard deviations is the limit."""
    from medsynth.schema.magnitudes import MAGNITUDES, like_keys, magnitude_cell

    rng, std = np.random.default_rng(3), 9.0

    def warned(values: np.ndarray) -> bool:
        counts = np.bincount(magnitude_cell(values.astype(float)), minlength=MAGNITUDES)[:MAGNITUDES]
        return like_keys(counts + rng.normal(0, std, MAGNITUDES), std, len(values))[1]

    patients = np.concatenate([np.arange(1, 1146), rng.integers(1, 1146, 855)])
    assert warned(patients)
    assert not warned(np.arange(1, 2001))  # each number once
    assert not warned(rng.integers(20, 90, 2000)) and not warned(rng.poisson(5, 2000))
    assert not warned(rng.integers(10_000, 99_999, 2000)) and not warned(rng.lognormal(5, 1, 2000).round())
