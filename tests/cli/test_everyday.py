"""What a person meets in everyday use: the target, the length of the output, the two groups of options."""

import json
import os
import pty
import re
import select
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from commands import good, run

import medsynth
from medsynth import fit, plan, sample
from medsynth import rng as rng_module
from medsynth.artifact import load
from medsynth.errors import MedsynthWarning, SchemaError, TargetError, UsageError, brief, some
from medsynth.fitting import pipeline, settings
from medsynth.methods.registry import METHODS

pytestmark = pytest.mark.usefixtures("quick")
ROWS = 900


def ward(**more: object) -> pd.DataFrame:
    """A table of four columns; `sick` is the last."""
    rng = np.random.default_rng(5)
    columns = {
        "age": rng.integers(20, 90, ROWS),
        "sex": rng.choice(["f", "m"], ROWS),
        "bp": rng.integers(90, 180, ROWS),
    }
    return pd.DataFrame({**columns, **more, "sick": rng.choice(["no", "yes"], ROWS)})


SCHEMA = """name: ward
columns:
  age: {kind: count, bounds: [20, 90]}
  sex: {kind: binary, levels: [f, m]}
  bp: {kind: count, bounds: [90, 180]}
  sick: {kind: binary, levels: ['no', 'yes']}
"""


@pytest.fixture(params=["bare", "declared", "declared with a target"])
def table(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The table in an empty folder, which is the current one, without and with a schema."""
    monkeypatch.chdir(tmp_path)
    ward().to_csv("ward.csv", index=False)
    if request.param != "bare":
        target = "target: sex\n" if "with" in request.param else ""
        Path("ward.schema.yaml").write_text(SCHEMA.replace("columns:", f"{target}columns:"))
    return tmp_path / "ward.csv"


@pytest.mark.nightly
@pytest.mark.nightly_for("declared", "declared with a target")
@pytest.mark.usefixtures("few_trees")
def test_no_target_from_the_fit_to_the_report(table: Path) -> None:
    good("fit", "ward.csv", "--epsilon", "5", "--target", "none", "--holdout", "0.3")
    assert load("ward.medsynth").schema.target is None
    good("sample", "-n", "400")
    assert list(pd.read_csv("ward.synthetic.csv").columns) == list(ward().columns)
    good("report")
    found = json.loads(Path("ward.report.json").read_text())
    assert "utility" not in found["sections"] or found["sections"]["utility"] is None
    assert any("No column is the target" in note for note in found["notes"])
    good("report", "--target", "sex", "--force")
    assert json.loads(Path("ward.report.json").read_text())["sections"]["utility"]["target"] == "sex"


def test_no_target_in_python() -> None:
    model = fit(ward(), epsilon=5, target="none", notice=lambda text: None)
    assert model.schema.target is None and len(sample(model, 7, where={"sex": "f"})) == 7
    assert "schema: target levels" not in {entry.label for entry in model.ledger.entries}
    with pytest.raises(UsageError, match="dp-merf needs a target"):
        fit(ward(), epsilon=5, target="none", method="dp-merf", notice=lambda text: None)
    with pytest.raises(UsageError, match="dp-gan needs a target"):
        plan(ward(), epsilon=5, target="none", method="dp-gan")


def test_no_target_in_a_wide_table() -> None:
    """Matrices of second moments in place of pairs."""
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({f"c{k}": rng.choice(["a", "b"], 1000) for k in range(105)})
    model = fit(frame, epsilon=50, target="none", notice=lambda text: None)
    assert sample(model, 20).shape == (20, 105)


def test_a_column_of_the_name_none_is_the_target() -> None:
    told: list[str] = []
    model = fit(ward(none=ward().sex), epsilon=5, target="none", notice=told.append)
    assert model.schema.target == "none" and any("rename the column" in text for text in told)


PROMPT = re.compile(r"\]: |Several rows: |Column of patients: ")


def fit_in_a_terminal(answers: list[str], *words: str) -> tuple[str, int]:
    """Return what a fit prints in a terminal, and its exit code, if a person types `answers`."""
    leader, follower = pty.openpty()
    words = ("fit", "ward.csv", "--epsilon", "5", "--method", "independent", "--set", "steps=20", *words)
    program = [sys.executable, "-c", "from medsynth_cli.main import main; main()", *words]
    process = subprocess.Popen(program, stdin=follower, stderr=follower, stdout=follower, close_fds=True)
    os.close(follower)
    seen, waiting, end = "", list(answers), time.monotonic() + 120
    while time.monotonic() < end:
        if not select.select([leader], [], [], 0.5)[0]:
            continue
        try:
            seen += os.read(leader, 4096).decode(errors="replace")
        except OSError:
            break
        if waiting and len(PROMPT.findall(seen)) > len(answers) - len(waiting):
            os.write(leader, waiting.pop(0).encode() + b"\n")
    return seen, process.wait(30)


@pytest.mark.nightly
@pytest.mark.matrix
@pytest.mark.parametrize(
    ("answers", "target"),
    [([""], "sick"), (["sex"], "sex"), (["none"], None), (["sexx", "sex"], "sex")],
)
def test_in_a_terminal_the_fit_asks_for_the_target(
    answers: list[str], target: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ward().to_csv("ward.csv", index=False)
    seen, code = fit_in_a_terminal(["no", *answers])
    assert code == 0, seen
    assert seen.index("TARGET: 'sick'") < seen.index("Public: ")
    assert load("ward.medsynth").schema.target == target
    assert ("Did you mean 'sex'?" in seen) == (len(answers) == 2)


@pytest.mark.nightly
@pytest.mark.parametrize("given", [["--target", "sex"], ["--quiet"], ["--json"], ["--target", "none"]])
def test_the_fit_asks_nobody_who_has_answered(
    given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ward().to_csv("ward.csv", index=False)
    seen, code = fit_in_a_terminal([], *given, *["--one-row-a-patient"] * ("--target" in given))
    assert code == 0 and "Target [" not in seen and "Several rows: " not in seen


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("answers", "claim"),
    [
        pytest.param(["no"], "for one patient, declared to have one row", id="no"),
        pytest.param(["maybe", "yes", "idd", "id"], "for one patient with up to 1 row", id="yes, a column"),
        pytest.param(["?"], None, id="unknown"),
    ],
)
def test_in_a_terminal_the_fit_asks_who_a_row_is(
    answers: list[str], claim: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ward(id=range(ROWS)).to_csv("ward.csv", index=False)
    seen, code = fit_in_a_terminal([*answers, ""] if claim else answers)
    if claim is None:
        assert code == 2 and "Nothing was measured. Find out" in seen and not Path("ward.medsynth").exists()
    else:
        assert code == 0 and claim in load("ward.medsynth").__repr__() and "UNIT: one row" not in seen
        assert seen.index("PATIENTS: ") < seen.index("TARGET: ") < seen.index("Public: ")
        assert ("Did you mean 'id'?" in seen) == ("is not an answer" in seen) == (len(answers) > 1)


def test_elsewhere_the_fit_says_so_first_and_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    ward().to_csv("ward.csv", index=False)
    _, first, *_ = good("fit", "ward.csv", "--epsilon", "5").stderr.splitlines()  # the first line says who a row is
    assert re.match(r"TARGET: 'sick', the last column\..*--target.*none", first)


MOST_LINES = 20


def many_columns() -> pd.DataFrame:
    """Thirty columns of one frequent level and rare ones, thirty of decimals, and a person's key."""
    rng = np.random.default_rng(1)
    levels = {f"drug_{k}": np.where(rng.random(ROWS) < 0.02, "yes", "no") for k in range(30)}
    numbers = {f"lab_{k}": rng.normal(5, 2, ROWS).round(2) for k in range(30)}
    return ward(patient_id=rng.integers(0, 500, ROWS), **levels, **numbers)


@pytest.mark.matrix
@pytest.mark.parametrize("frame", [ward(), many_columns()], ids=["few columns", "many columns"])
@pytest.mark.parametrize("more", [[], ["--holdout", "0.3"]], ids=["whole", "held out"])
def test_a_fit_prints_a_page_and_verbose_the_rest(
    frame: pd.DataFrame, more: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seeded_entropy: None
) -> None:
    """The noise is fixed, and what a fit learns with it."""
    monkeypatch.setattr(rng_module.SeededEntropy, "source", rng_module.SystemEntropy.source)
    monkeypatch.chdir(tmp_path)
    frame.to_csv("ward.csv", index=False)
    words = ["fit", "ward.csv", "--epsilon", "15", "--method", "independent", "--force", *more]
    short, full = good(*words).output, good(*words, "--verbose").output
    assert len(short.splitlines()) <= MOST_LINES < len(full.splitlines())
    assert not [line for line in short.splitlines() if len(line) >= 200]
    for start in ("TARGET: 'sick'", "Public: the header", "Fits on this table", "Learned from noisy", "Next: medsynth"):
        assert start in short
    if "patient_id" in frame:
        assert "WARNING: 'patient_id' reads like a patient's key" in short
        assert "(--verbose)" in short and "(--verbose)" not in full
    assert "columns:\n" in full and "columns:\n" not in short


def test_some_words_and_how_many_more() -> None:
    assert some(["a"]) == "a" and some("abcdefg") == "a, b, c, d and 3 more (`verbose`)"
    assert brief("a plain text") == "a plain text"


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("epsilon", "anyway", "told"),
    [(20, False, None), (20.5, False, "weak"), (100, False, "weak"), (101, False, "anyway"), (101, True, "weak"),
     (1e6, False, "anyway")],
)  # fmt: skip
def test_a_large_epsilon_is_warned_of_and_a_huge_one_needs_a_word(
    epsilon: float, anyway: bool, told: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ward().to_csv("ward.csv", index=False)
    done = run("fit", "ward.csv", "--epsilon", str(epsilon), "--method", "independent", *["--anyway"] * anyway)
    assert done.exit_code == (2 if told == "anyway" else 0)
    assert ("--anyway" in done.stderr) == (told == "anyway") and ("weak promise" in done.stderr) == (told == "weak")
    if told == "anyway":
        with pytest.raises(UsageError, match="`anyway`"):
            plan(ward(), epsilon=epsilon)


def test_python_warns_of_a_large_epsilon() -> None:
    with pytest.warns(MedsynthWarning, match="`epsilon` 30"):
        fit(ward(), epsilon=30, method="independent")


def test_a_notebook_shows_each_message_once_and_a_bar(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bars: list[bool] = []
    true = settings.progress_bar
    monkeypatch.setattr(pipeline, "in_notebook", lambda: True)
    monkeypatch.setattr(pipeline, "progress_bar", lambda show: (bars.__iadd__([show]), true(False))[1])
    fit(ward(), epsilon=30, method="independent")  # raises if the message were a warning, too
    shown = capsys.readouterr().out
    assert shown.count("weak promise") == 1 and "TARGET: 'sick'" in shown and "columns:\n" not in shown
    fit(ward(), epsilon=5, method="independent", verbose=True, progress=False)
    assert "columns:\n" in capsys.readouterr().out and bars == [True, False]
    fit(ward(), epsilon=5, method="independent", notice=lambda text: None)
    assert capsys.readouterr().out == ""


@pytest.mark.matrix
@pytest.mark.parametrize("command", ["fit", "report"])
def test_help_has_examples_first_and_two_groups(command: str) -> None:
    shown = good(command, "--help").stdout
    assert shown.index("Examples") < shown.index("─ Options ─") < shown.index("─ Advanced options ─")
    common = shown[shown.index("─ Options ─") : shown.index("─ Advanced options ─")]
    assert "--force" in common and "--json" not in common and len(common.splitlines()) < 25
    assert not any(entry.summary[:20] in shown for entry in METHODS.values())


def test_methods_are_listed_and_described() -> None:
    shown = good("methods").stdout
    for name, entry in METHODS.items():
        assert f"\n{name}" in shown and entry.summary in shown
        assert entry.summary in good("methods", name).stdout
        assert all(preset in shown and facts.summary in good("methods", preset).stdout
                   for preset, facts in entry.presets.items())  # fmt: skip
    found = json.loads(good("methods", "--json").stdout)["methods"]
    assert [one["name"] for one in found] == list(METHODS)
    assert {"name", "default", "about", "bounds"} == set(
        json.loads(good("methods", "dp-gan", "--json").stdout)["settings"][0]
    )
    wrong = run("methods", "dpgan")
    assert wrong.exit_code == 2 and "Did you mean 'dp-gan'?" in wrong.stderr


@pytest.mark.matrix
@pytest.mark.parametrize("words", [["plan", "3772"], ["plan", "400", "--method", "independent"], ["plan", "90000"]])
@pytest.mark.parametrize("epsilon", ["0.7", "3.7", "9.3"])
def test_shares_add_up_to_a_hundred_as_printed(words: list[str], epsilon: str) -> None:
    shown = good(*words, "--epsilon", epsilon).stdout
    shares = [float(share) for share in re.findall(r"([0-9.]+)%$", shown, re.MULTILINE)]
    assert len(shares) > 2 and round(sum(shares), 6) == 100


MISSPELLED: dict[str, tuple[Callable[[], object], str]] = {
    "a keyword of fit": (lambda: fit(ward(), epsilom=3), "'epsilon'"),  # type: ignore[call-arg]
    "a keyword of plan": (lambda: plan(ward(), epsilon=3, targt="sick"), "'target'"),  # type: ignore[call-arg]
    "a keyword of sample": (lambda: sample("no.medsynth", 3, wher="sex=f"), "'where'"),  # type: ignore[call-arg]
    "a keyword of combine": (lambda: medsynth.combine([1.0, 2.0], levl=0.9), "'level'"),  # type: ignore[call-arg]
    "a keyword of the settings": (lambda: medsynth.FitSettings(epsilon=3, metod="mixture"), "'method'"),  # type: ignore[call-arg]
    "a keyword of the synthesizer": (lambda: medsynth.Synthesizer(epsilom=3), "'epsilon'"),  # type: ignore[call-arg]
    "a parameter of the synthesizer": (lambda: medsynth.Synthesizer(epsilon=3).set_params(targett="x"), "'target'"),
    "a method": (lambda: plan(400, epsilon=3, method="mixtur"), "'mixture'"),
    "a preset": (lambda: plan(400, epsilon=3, preset="thyroid-stud"), "'thyroid-study'"),
    "a setting": (lambda: plan(400, epsilon=3, settings={"step": 3}), "'steps'"),
    "a target": (lambda: plan(ward(), epsilon=3, target="sik"), "'sick'"),
    "a unit": (lambda: plan(ward(), epsilon=3, unit="ages"), "'age'"),
    "a name of the package": (lambda: medsynth.smaple, "'sample'"),
}


@pytest.mark.matrix
@pytest.mark.parametrize("case", MISSPELLED)
def test_python_suggests_the_name_that_was_meant(case: str) -> None:
    call, meant = MISSPELLED[case]
    with pytest.raises((UsageError, SchemaError, AttributeError), match=f"Did you mean {meant}"):
        call()


@pytest.mark.matrix
@pytest.mark.parametrize("n", ["3", 2.5, True])
def test_a_number_of_rows_is_a_whole_number(n: Any) -> None:
    model = fit(ward(), epsilon=5, method="independent", notice=lambda text: None)
    with pytest.raises(UsageError, match="`n` must be a whole number"):
        model.sample(n)


def test_a_named_target_of_one_value_is_refused_and_may_be_no_target() -> None:
    frame = ward().assign(sick="x")
    with pytest.raises(TargetError, match=r"one class.*another column, or to none"):
        fit(frame, epsilon=5, method="independent", target="sick", notice=lambda text: None)
    model = fit(frame, epsilon=5, method="independent", target="none", notice=lambda text: None)
    assert model.schema.columns["sick"].categorical


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("lines", "cure"),
    [
        (["group,,", "age,sex,sick"], "set --skip-lines to the number"),
        (["1,2,3"], "set --header-is-names"),
        (["age,sex,age"], "columns 1 and 3 have the same name"),
    ],
)
def test_odd_headers_are_refused_with_the_cure(
    lines: list[str], cure: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [f"{row.age},{row.sex},{row.sick}" for row in ward().itertuples()]
    Path("t.csv").write_text("\n".join([*lines, *rows]))
    done = run("fit", "t.csv", "--epsilon", "5")
    assert done.exit_code == 1 and cure in done.stderr


VISITS = {"name": "v", "unit": "id", "max_rows": 3, "target": "sick", "columns": {
    "id": {"kind": "identifier"}, "age": {"kind": "count", "bounds": [20, 90]},
    "sex": {"kind": "binary", "levels": ["f", "m"]}, "bp": {"kind": "count", "bounds": [90, 180]},
    "sick": {"kind": "binary", "levels": ["no", "yes"]},
}}  # fmt: skip
ROWS_OF_PATIENTS: dict[str, tuple[dict[str, Any], bool]] = {
    "bare": ({"unit": "id", "max_rows": 3}, True),
    "bare, one row each": ({"unit": "id"}, False),
    "bare, rows as the unit": ({"one_row_a_patient": True}, False),
    "declared": ({"schema": VISITS}, True),
    "declared, with constant columns": ({"schema": {**VISITS, "constant": ["sex"]}}, False),
    "declared, one row each": ({"schema": {**VISITS, "max_rows": 1}}, False),
    "declared, in order": ({"schema": {**VISITS, "order": "bp"}}, False),
}


@pytest.mark.matrix
@pytest.mark.parametrize("case", ROWS_OF_PATIENTS)
def test_rows_that_are_drawn_one_by_one_are_warned_of(case: str) -> None:
    """With the line for the schema: columns that by their names describe a person. No cell decides it."""
    options, warned = ROWS_OF_PATIENTS[case]
    frame, told = ward(id=np.arange(ROWS) // 3)[["id", "age", "sex", "bp", "sick"]], list[str]()
    fit(frame, epsilon=9, method="independent", notice=told.append, **options)
    found = [text for text in told if "aged 34, 32 and 40" in text]
    assert len(found) == warned and all("constant: [age, sex]" in text and brief(text) for text in found)
