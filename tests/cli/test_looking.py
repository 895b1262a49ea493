"""What a person sees of cells before a fit, on a terminal alone, and what of it becomes public."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from medsynth_cli.main import app
from typer.testing import CliRunner

import medsynth
from medsynth.fitting.looking import looks, rules_that_hold, table_to_look_at
from medsynth.schema import Schema

pytestmark = pytest.mark.filterwarnings("ignore::medsynth.errors.MedsynthWarning")  # few rows, on purpose
N = 120


@pytest.fixture
def table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Doses in milligrams, two dates in order, a blood pressure, a sex, and a sentence."""
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(0)
    start = pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 500, N), unit="D")
    stop = start + pd.to_timedelta(rng.integers(0, 30, N), unit="D")
    weight, height = rng.uniform(50, 99, N).round(1), rng.integers(150, 199, N)
    pd.DataFrame({
        "dose": [f"{x} mg" for x in rng.integers(11, 97, N)], "sex": rng.choice(["m", "w"], N),
        "start": start.strftime("%d.%m.%Y"), "stop": stop.strftime("%d.%m.%Y"),
        "weight (kg)": weight, "height (cm)": height, "BMI (kg/m2)": (weight / (height / 100) ** 2).round(1),
        "crp": np.where(rng.random(N) < 0.2, "<5", rng.integers(5, 90, N).astype(str)),
        "told": [f"was told on day {k} to come again after lunch" for k in range(N)],
        "sick": rng.choice(["yes", "no"], N),
    }).to_csv("t.csv", index=False)  # fmt: skip
    return tmp_path / "t.csv"


def drafted(*words: str, answers: str = "") -> Any:
    result = CliRunner().invoke(app, ["schema", "draft", "t.csv", *words], input=answers)
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if standard input and error were a terminal."""
    stream = SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr("medsynth_cli.schema.sys", SimpleNamespace(stdin=stream, stderr=stream))


def test_a_person_decides_entry_by_entry(table: Path, terminal: None) -> None:
    shown = drafted(answers="y\nn\nperhaps\ny\nq\n")
    assert "PRIVATE" in shown.stderr and " mg" in shown.stderr and " mg" not in shown.stdout
    schema = Schema.load("t.schema.yaml")
    assert schema.columns["start"].to_dict() == {"kind": "date", "format": "%d.%m.%Y", "seen": True}
    assert schema.columns["dose"].to_dict() == {"kind": "count", "text": "{} mg", "seen": True}
    assert schema.seen == 2 and {"sex", "stop", "told", "sick"} <= {*schema.open}


def test_all_others_are_taken_at_once(table: Path, terminal: None) -> None:
    drafted(answers="a\n")
    asked = Path("t.schema.yaml").read_text()
    drafted("--accept-looks", "--force")
    assert Path("t.schema.yaml").read_text() == asked


@pytest.mark.parametrize("word", ["--json", "--yes"])
def test_nothing_is_shown_or_asked_outside_a_terminal(word: str, table: Path, terminal: None) -> None:
    told = drafted(word)
    assert "PRIVATE" not in told.output and "mg" not in told.output
    schema = Schema.load("t.schema.yaml")
    assert not schema.seen and {"dose", "start", "stop", "told", "sick"} <= {*schema.open}


def test_what_is_taken_is_marked_and_the_claim_says_so(table: Path) -> None:
    assert "entries are declared after a look" in drafted("--accept-looks").stdout
    text = Path("t.schema.yaml").read_text()
    schema = Schema.from_yaml(text)
    assert schema.rules == ("`BMI (kg/m2)` = `weight (kg)` / `height (cm)` / `height (cm)` * 10000",)
    after = {"kind": "date", "after": "start", "format": "%d.%m.%Y", "seen": True}  # the days between are learned
    assert schema.columns["stop"].to_dict() == after and "stop >= start" not in text
    assert schema.seen == text.count("seen: true}") >= 7
    assert Schema.from_yaml(schema.to_yaml()) == schema
    cells = pd.read_csv("t.csv", dtype=str)
    private = {cell for name in ("dose", "start", "told") for cell in cells[name]}
    assert not any(cell in text for cell in private)
    model = medsynth.fit("t.csv", epsilon=50, method="independent", anyway=True)
    said = f"Entries declared after a look at the table: {schema.seen}"
    assert said in str(model) or said in medsynth.artifact.claim(model)
    assert any("after a look at the table" in note for note in model.ledger.notes)
    model.save("t.medsynth")
    assert medsynth.load("t.medsynth").seen == schema.seen


def test_decimal_commas_are_declared_and_come_back(table: Path) -> None:
    frame = pd.read_csv("t.csv", dtype=str)[["weight (kg)", "sick"]]
    commas = frame.assign(**{"weight (kg)": frame["weight (kg)"].str.replace(".", ",")})
    commas.to_csv("t.csv", sep=";", index=False)
    drafted("--accept-looks")
    text = Path("t.schema.yaml").read_text()
    schema = Schema.load("t.schema.yaml")
    assert "decimal_comma: seen" in text and schema.seen == text.count("seen: true}") + 1
    medsynth.fit("t.csv", epsilon=50, method="independent", anyway=True).save("t.medsynth")
    run = CliRunner().invoke
    assert run(app, ["sample", "t.medsynth", "-n", "50", "--output", "made.csv"]).exit_code == 0
    made = pd.read_csv("made.csv", sep=";", dtype=str)["weight (kg)"].dropna()
    assert made.str.fullmatch(r"\d+,\d").all()


def test_a_drafted_column_can_name_the_patients(table: Path) -> None:
    frame = pd.read_csv("t.csv", dtype=str).assign(place=[str(k // 2) for k in range(N)])
    frame[["place", "sex", "sick"]].to_csv("t.csv", index=False)
    drafted("--accept-looks")
    assert Schema.load("t.schema.yaml").columns["place"].modelled
    model = medsynth.fit("t.csv", epsilon=50, method="independent", anyway=True, unit="place", max_rows=2)
    assert model.schema.unit == "place" and not model.schema.columns["place"].modelled


def test_both_answers_at_once_are_refused(table: Path) -> None:
    result = CliRunner().invoke(app, ["schema", "draft", "t.csv", "--yes", "--accept-looks"])
    assert result.exit_code == 2 and not Path("t.schema.yaml").exists()


def test_rules_that_rows_break_are_not_proposed(table: Path) -> None:
    frame = pd.read_csv("t.csv", dtype=str)
    frame.loc[:40, ["start", "stop"]] = frame.loc[:40, ["stop", "start"]].to_numpy()
    frame.to_csv("t.csv", index=False)
    data = table_to_look_at(table)
    entries = {name: found.entry for name, found in looks(data).items()}
    assert rules_that_hold(data, entries, ["`BMI (kg/m2)` = `weight (kg)` * 2"]) == {}


def test_a_date_long_before_another_stays_a_rule(table: Path) -> None:
    frame = pd.read_csv("t.csv", dtype=str)
    days = pd.to_timedelta(np.random.default_rng(1).integers(0, 30_000, N), unit="D")
    frame.insert(0, "born", (pd.Timestamp("1920-01-01") + days).strftime("%d.%m.%Y"))
    frame.to_csv("t.csv", index=False)
    drafted("--accept-looks")
    schema = Schema.load("t.schema.yaml")
    assert "start >= born" in schema.rules and "after" not in schema.columns["start"].to_dict()
    assert schema.columns["stop"].to_dict()["after"] == "start"


def test_several_tables_are_looked_at_one_by_one(table: Path) -> None:
    frame = pd.read_csv("t.csv", dtype=str)
    folder = Path("ward")
    folder.mkdir()
    keyed = frame.assign(pid=[f"P{k}" for k in range(N)])
    keyed[["pid", "sex"]].to_csv(folder / "patients.csv", index=False)
    keyed[["pid", "dose", "start"]].to_csv(folder / "visits.csv", index=False)
    result = CliRunner().invoke(app, ["schema", "draft", "ward", "--accept-looks", "--json"])
    assert result.exit_code == 0 and json.loads(result.stdout)["tables"] == "ward/ward.tables.yaml"
    text = Path("ward/ward.tables.yaml").read_text()
    assert "dose: {kind: count, text: '{} mg', seen: true}" in text and "key: pid" in text


def test_a_column_that_is_declared_in_another_form_is_said(table: Path) -> None:
    """`--yes` declares an age by its name. Cells such as `67 ans` are then missing in every row."""
    frame = pd.read_csv("t.csv", dtype=str)[["sick"]].assign(age=[f"{k % 60 + 20} ans" for k in range(N)], crp="")
    frame[["age", "crp", "sick"]].to_csv("t.csv", index=False)
    drafted("--yes")
    told: list[str] = []
    model = medsynth.fit("t.csv", epsilon=50, method="independent", anyway=True, notice=told.append)
    said = [one for one in told if "no value in" in one]
    assert len(said) == 1 and "no value in age." in said[0]  # crp is open, and said to be lost
    assert said[0] in model.ledger.notes
    checked = CliRunner().invoke(app, ["schema", "check", "t.csv"])
    assert checked.exit_code == 4 and "`text` or `format`" in checked.stderr.replace("\n", " ")
