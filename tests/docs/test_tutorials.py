"""The tutorials work: their commands and code run in order, as printed, on the simulated cohort."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from medsynth_cli.app import app
from typer.testing import CliRunner

TUTORIALS = Path(__file__).parents[2] / "docs" / "tutorials"
FENCE = re.compile(r'^```(console|python|yaml)(?: title="([^"]+)")?\n(.*?)^```$', re.MULTILINE | re.DOTALL)
pytestmark = pytest.mark.slow


def blocks(name: str) -> list[tuple[str, str, str]]:
    """(language, title, text) of every block of a page that is to be run or written, in order."""
    found = FENCE.findall((TUTORIALS / name).read_text())
    assert found, name
    return found


def run(name: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Run a page in `folder`: yaml with a title is written, console commands must exit 0, python must not raise."""
    monkeypatch.chdir(folder)
    names: dict[str, object] = {"__name__": "tutorial"}
    printed: list[str] = []
    for language, title, text in blocks(name):
        if language == "yaml":
            if title:
                Path(title).write_text(text)
        elif language == "python":
            exec(compile(text, name, "exec"), names)
        else:
            for line in text.splitlines():
                assert line.startswith("$ "), f"{name}: a console block holds commands alone, each after '$ '"
                printed.append(command(line[2:]))
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
    assert any("Verified" in text for text in printed)
    assert "1" in printed[-1] and "patients.medsynth" in printed[-1]


def test_the_draft_in_the_steward_page_is_the_one_that_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (TUTORIALS / "steward.md").read_text()
    shown = re.search(r"^tsh_miu_l: .*$", page, re.MULTILINE)
    monkeypatch.chdir(tmp_path)
    from medsynth_sample_data import simulate

    from medsynth.fitting.private_table import table_kinds
    from medsynth.schema.header import draft

    simulate.cohort(5, 1).to_csv("patients.csv", index=False)
    assert shown and shown[0] in draft("patients", table_kinds(Path("patients.csv")))


@pytest.mark.nightly
@pytest.mark.usefixtures("few_trees")
def test_reviewer(steward: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, _ = steward
    work = tmp_path / "reviewer"
    shutil.copytree(folder, work)
    printed = run("reviewer.md", work, monkeypatch)
    assert "differential privacy" in printed[0].splitlines()[0]
    assert "operating system" in printed[0]
    assert "sex_at_birth" in printed[1]
    assert "our data board" in (work / "open.report.html").read_text()


@pytest.mark.nightly
def test_researcher(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run("researcher.md", tmp_path, monkeypatch)
    assert (tmp_path / "clinic.medsynth").exists()
