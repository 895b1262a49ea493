"""The tutorials work: their commands and code run in order, as printed, on the simulated cohort."""

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from medsynth_cli.main import app
from typer.testing import CliRunner

from medsynth import Schema, combine, fit, sample

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"
FENCE = re.compile(r'^```(console|python|yaml)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
pytestmark = pytest.mark.slow


def blocks(name: str) -> list[tuple[str, str, str]]:
    """(language, title, text) of every block of a page that is to be run or written, in order."""
    found = FENCE.findall((TUTORIALS / name).read_text())
    assert found, name
    return found


def run(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """Run a page in `folder`: yaml with a title is written, console commands must exit 0, python must not raise.

    Returns what each console command printed.
    """
    monkeypatch.chdir(folder)
    names: dict[str, object] = {"__name__": "tutorial"}
    printed: dict[str, str] = {}
    for language, title, text in blocks(name):
        if language == "yaml":
            if title:
                Path(title).write_text(text)
        elif language == "python":
            exec(compile(text, name, "exec"), names)
        else:
            for line in text.splitlines():
                assert line.startswith("$ "), f"{name}: a console block holds commands alone, each after '$ '"
                printed[line[2:]] = command(line[2:])
    return printed


def command(line: str) -> str:
    """What one command prints. medsynth's own run in this process, which spares a dozen imports of PyTorch."""
    if line.startswith("medsynth "):
        done = CliRunner().invoke(app, shlex.split(line)[1:])
        assert done.exit_code == 0, (line, done.output)
        return done.stdout
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    shell = subprocess.run(line, shell=True, env=os.environ | {"PATH": tools}, capture_output=True, text=True)
    assert shell.returncode == 0, (line, shell.stdout, shell.stderr)
    return shell.stdout


@pytest.fixture(scope="module")
def steward(tmp_path_factory: pytest.TempPathFactory, with_few_trees: Any) -> Any:
    """The folder that the steward's page leaves behind, and what its commands printed."""
    folder = tmp_path_factory.mktemp("steward")
    with pytest.MonkeyPatch.context() as patch:
        with_few_trees(patch)
        return folder, run("steward.md", folder, patch)


@pytest.mark.nightly
def test_steward(steward: Any) -> None:
    folder, printed = steward
    for name in ("schema.yaml", "train.csv", "heldout.csv", "medsynth", "synthetic.csv", "report.html", "report.json"):
        assert (folder / f"patients.{name}").stat().st_size, name
    assert len((folder / "patients.synthetic.csv").read_text().splitlines()) == 2001
    assert len((folder / "women.csv").read_text().splitlines()) == 51
    assert "teaching a course on thyroid disease" in (folder / "patients.report.html").read_text()
    assert list(printed)[0] == "medsynth --help"
    assert "Verified" in printed["medsynth ledger --verify"]
    spent = printed["medsynth ledger --table patients.csv"]
    assert "1" in spent and "patients.medsynth" in spent


def test_the_steward_page_shows_the_draft_that_is_written_and_fills_its_todos(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page shows lines of the draft, and ends with a schema of every column, as public as the finished one."""
    from medsynth_sample_data import simulate

    from medsynth.schema.drafts import draft

    page = (TUTORIALS / "steward.md").read_text()
    monkeypatch.chdir(tmp_path)
    written = draft("patients", [*simulate.cohort(50, 1)])
    shown = re.findall(r"^\| `(\w+: (?:TODO|\{kind: [^`]*\}))` ", page, re.MULTILINE)
    shown.remove("order: TODO")  # of several tables
    assert len(shown) > 4 and all(f"  {line}" in written for line in shown)
    (text,) = (text for _, title, text in blocks("steward.md") if title == "patients.schema.yaml")
    mine, finished = Schema.from_yaml(text), Schema.from_yaml(simulate.schema_text())
    assert mine.names == finished.names and mine.target == finished.target
    for name, column in mine.columns.items():
        assert (column.levels, column.missing) == (finished.columns[name].levels, finished.columns[name].missing), name
        assert column.bounds == finished.columns[name].bounds, name


def test_a_reviewer_runs_nothing() -> None:
    assert not FENCE.findall((TUTORIALS / "reviewer.md").read_text())


@pytest.mark.nightly
def test_reviewer(steward: Any) -> None:
    """The steward's page prints what the board asks for; the reviewer's page shows lines of this ledger."""
    folder, printed = steward
    ledger = printed["medsynth ledger --verify"].splitlines()
    assert "differential privacy" in ledger[0]
    assert "Random source: operating system." in ledger
    assert "sex_at_birth" in printed["medsynth inspect patients.medsynth"]
    page = (TUTORIALS / "reviewer.md").read_text()
    claim, table, verified = re.findall(r"^```text\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    assert claim.split() == ledger[0].split() and verified.split() == ledger[-1].split()
    assert set(table.splitlines()) <= set(ledger)
    assert "our data board" in (folder / "open.report.html").read_text()
    shareable, internal = (json.loads((folder / f"{name}.report.json").read_text()) for name in ("open", "patients"))
    assert shareable["shareable"] and not internal["shareable"]
    assert shareable["sections"]["claim"]["epsilon"] == internal["sections"]["claim"]["epsilon"] <= 3.7
    assert {line["met"] for line in internal["sections"]["verdicts"]["lines"]} <= {True, False, None}


@pytest.mark.nightly
def test_a_cox_regression_by_the_two_regressions_that_the_researchers_page_declares() -> None:
    """On a simulated trial with a log hazard ratio of -0.6."""
    import statsmodels.api as sm

    declared = ["years ~ age + treated", "died ~ age + treated + years"]
    page = " ".join((TUTORIALS / "researcher.md").read_text().split())
    assert 'inference=["{}", "{}"]'.format(*declared) in page
    rng = np.random.default_rng(1)
    age, treated = rng.normal(62, 11, 1000).round().clip(18, 100).astype(int), rng.random(1000) < 0.5
    years = rng.exponential(4 / np.exp(0.04 * (age - 62) - 0.6 * treated))
    trial = pd.DataFrame({
        "age": age, "treated": np.where(treated, "yes", "no"),
        "years": years.clip(max=5).round(2), "died": np.where(years < 5, "yes", "no"),
    })  # fmt: skip
    schema = Schema.from_dict({
        "name": "trial",
        "target": "died",
        "columns": {
            "age": {"kind": "count", "bounds": [18, 100], "out_of_range": "clip"},
            "treated": {"kind": "binary", "levels": ["no", "yes"]},
            "years": {"kind": "continuous", "bounds": [0, 5], "decimals": 2, "out_of_range": "clip"},
            "died": {"kind": "binary", "levels": ["no", "yes"]},
        },
    })  # fmt: skip

    def log_hazard_ratio(table: pd.DataFrame) -> float:
        covariates = table[["age"]].assign(treated=table["treated"] == "yes").astype(float)
        died = (table["died"] == "yes").astype(float)
        cox = sm.PHReg(table["years"].astype(float), covariates, status=died, ties="efron")
        return float(cox.fit().params[1])

    model = fit(trial, schema=schema, epsilon=3.7, rows=len(trial), inference=declared)
    replicates = sample(model, 2000, seed=1, replicates=5).groupby("replicate")
    combined = combine([log_hazard_ratio(table) for _, table in replicates])
    assert combined.low < combined.estimate < combined.high
