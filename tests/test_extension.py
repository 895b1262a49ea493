"""The house can be extended: the how-to pages' own column kind, method, section and attack work everywhere."""

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from commands import good
from medsynth_cli.main import app
from typer.testing import CliRunner

from medsynth.methods.registry import METHODS
from medsynth.report.sections.attacks import ATTACKS
from medsynth.report.sections.registry import SECTIONS
from medsynth.schema import Schema
from medsynth.schema.columns.registry import KINDS

PAGES = Path(__file__).parents[1] / "docs" / "how-to"
BLOCK = re.compile(r"```python(?: title=\"(.+?)\")?\n(.*?)```", re.DOTALL)
ORDER = ("column-kind", "method", "report-section", "attack")
SCHEMA = """\
name: ward
target: outcome
columns:
  age: {kind: count, bounds: [0, 110]}
  blood: {kind: blood_group, missing: true}
  outcome: {kind: categorical, levels: [home, ward, icu]}
"""


def extensions(folder: Path) -> str:
    """The code that registers, from all pages; modules that a page names are written into the folder."""
    code = []
    for page in ORDER:
        for title, block in BLOCK.findall((PAGES / f"{page}.md").read_text()):
            if title:
                (folder / title).write_text(block)
            else:
                code.append(block)
    return "\n".join(code)


@pytest.fixture
def extended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The four extensions in place, in an empty folder that is the current one; all gone afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    registries: list[dict[str, Any]] = [KINDS, METHODS, SECTIONS, ATTACKS]
    before = [dict(registry) for registry in registries]
    code = extensions(tmp_path)
    (tmp_path / "extension.py").write_text(code)
    exec(compile(code, "extension.py", "exec"), {"__name__": "extension"})
    yield tmp_path
    for registry, was in zip(registries, before, strict=True):
        registry.clear()
        registry.update(was)


def ward(rows: int) -> pd.DataFrame:
    rng = np.random.default_rng(rows)
    blood = rng.choice(["0", "A", "AB", "B", ""], rows, p=[0.4, 0.4, 0.05, 0.1, 0.05])
    age = np.clip(rng.normal(55, 20, rows), 0, 110).astype(int)
    outcome = np.where(age > 70, "icu", np.where(rng.random(rows) < 0.5, "home", "ward"))
    return pd.DataFrame({"age": age, "blood": blood, "outcome": outcome})


@pytest.mark.nightly
@pytest.mark.usefixtures("few_trees")
def test_a_kind_a_method_a_section_and_an_attack_work_through_every_command(extended: Path, quick: None) -> None:
    (extended / "ward.schema.yaml").write_text(SCHEMA)
    ward(400).to_csv("ward.csv", index=False)
    good("schema", "check", "ward.csv")
    assert "class counts" in good("plan", "ward.csv", "--epsilon", "3", "--method", "uniform").stdout
    fitted = good(
        "fit", "ward.csv", "--epsilon", "3", "--method", "uniform", "--holdout", "0.3", "--set", "smoothing=2"
    )
    assert "uniform" in good("inspect", "ward.medsynth").stdout and "ward.medsynth" in fitted.stdout
    events = json.loads(good("ledger", "ward.medsynth", "--json").stdout)["events"]
    assert [event["label"] for event in events] == ["class counts"]
    good("sample", "-n", "300")
    drawn = pd.read_csv("ward.synthetic.csv", dtype=str, keep_default_na=False)
    assert list(drawn) == ["age", "blood", "outcome"] and set(drawn["blood"]) <= {"0", "A", "AB", "B", ""}
    good("report")
    page, twin = (extended / "ward.report.html").read_text(), json.loads((extended / "ward.report.json").read_text())
    assert "Repeated synthetic rows" in page and "five nearest rows" in page and "0, A, AB or B" in page
    assert twin["sections"]["duplicates"]["rows"] == 300
    assert "five nearest rows" in [attack["name"] for attack in twin["sections"]["attacks"]["membership"]]


def test_the_kind_works_with_the_default_method_and_its_conditions(extended: Path, quick: None) -> None:
    (extended / "ward.schema.yaml").write_text(SCHEMA)
    ward(400).to_csv("ward.csv", index=False)
    good("fit", "ward.csv", "--epsilon", "5")
    good("sample", "-n", "80", "--where", "blood=AB")
    drawn = pd.read_csv("ward.synthetic.csv", dtype=str, keep_default_na=False)
    assert set(drawn["blood"]) == {"AB"}
    done = CliRunner().invoke(app, ["sample", "-n", "9", "--where", "blood=C", "--force"])
    assert done.exit_code == 2 and "no such level" in done.stderr


@pytest.mark.nightly
def test_help_names_the_method(extended: Path) -> None:
    """In a process of its own: the list is made from the registry when the command line is first imported."""
    script = "import extension, sys; from medsynth_cli.main import main; sys.argv = ['medsynth', 'methods']; main()"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=extended)
    assert "uniform" in done.stdout


def test_nothing_of_it_stays(tmp_path: Path) -> None:
    assert "blood_group" not in KINDS and "uniform" not in METHODS and "duplicates" not in SECTIONS
    assert "five nearest rows" not in ATTACKS
    assert Schema.from_yaml(SCHEMA.replace("blood_group, missing: true", "binary, levels: [A, B]")).target == "outcome"
