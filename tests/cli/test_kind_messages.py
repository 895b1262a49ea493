"""Messages that name the very thing: the column, the version, the model, the file."""

import json
import os
import struct
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from medsynth_cli import demo
from medsynth_cli.console import newest_model
from medsynth_cli.main import app
from typer.testing import CliRunner

from medsynth.artifact import load
from medsynth.errors import ArtifactError, SchemaError, TableError
from medsynth.io.formats import FileForm
from medsynth.io.table import Table
from medsynth.report.data.tables import read
from medsynth.schema import Schema
from medsynth.schema.codec import check_header
from medsynth.sidecars.facts import Facts


def model_file(path: Path, form: int, version: str) -> None:
    body = json.dumps({"format": form, "versions": {"medsynth": version}})
    head = json.dumps({"__metadata__": {"medsynth": body, "sha256": ""}}).encode()
    path.write_bytes(struct.pack("<Q", len(head)) + head)


@pytest.mark.parametrize(("version", "named"), [("0.1.3", "medsynth 0.1.3"), ("a b\x1b", "another version")])
def test_a_model_of_another_version_says_which(version: str, named: str, tmp_path: Path) -> None:
    model_file(path := tmp_path / "old.medsynth", 1, version)
    with pytest.raises(ArtifactError, match=f"was written by {named}"):
        load(path)


def test_the_newest_model_that_can_be_read_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for seconds, name in enumerate(("good", "old", "broken")):
        model_file(path := tmp_path / f"{name}.medsynth", 1, "0.1")
        os.utime(path, (seconds, seconds))
    monkeypatch.setattr("medsynth.artifact.load", lambda path: path.stem == "good" or load(path))
    assert newest_model() == Path("good.medsynth")
    assert capsys.readouterr().err.count("Skipped") == 2


def test_a_file_name_has_a_suggestion(tmp_path: Path) -> None:
    (tmp_path / "patients.csv").write_text("a\n1\n")
    with pytest.raises(TableError, match=r"Did you mean patients.csv\?"):
        read(tmp_path / "patient.csv")
    with pytest.raises(TableError, match="Check the name"):
        read(tmp_path / "zzz.csv")
    with pytest.raises(ArtifactError, match="Fit a model first"):
        load(tmp_path / "patient.medsynth")
    (tmp_path / "patients.medsynth").touch()
    with pytest.raises(ArtifactError, match=r"Did you mean patients.medsynth\?"):
        load(tmp_path / "patient.medsynth")
    for names in ({"synthetic": "patient.csv"}, {"real": "patient.csv", "synthetic": "patients.csv"}):
        words = [word for name, file in names.items() for word in (f"--{name}", str(tmp_path / file))]
        assert "Did you mean patients.csv?" in CliRunner().invoke(app, ["report", *words]).stderr


def test_the_demo_names_a_command_of_this_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.argv", [".venv/bin/medsynth", "demo"])
    monkeypatch.setenv("PATH", "")
    assert demo._program() == ".venv/bin/medsynth"
    monkeypatch.setattr("sys.argv", ["/x/medsynth_cli/__main__.py"])
    assert demo._program().endswith(" -m medsynth_cli")


SCHEMA = Schema.from_dict({"name": "t", "columns": {"age": {"kind": "count", "bounds": [0, 9]}}})


def test_a_column_that_is_not_declared_is_named() -> None:
    cells = pd.DataFrame({"age": ["1"], "weight": ["2"]})
    with pytest.raises(SchemaError, match="column 2, 'weight', is not in the schema"):
        check_header(Table("t.csv", tuple(cells), cells), SCHEMA)


def test_a_cell_in_the_place_of_a_name_is_not_printed() -> None:
    """Nothing of a schema that writes no column shows whether the first line is a header."""
    keys = Schema.from_dict({"name": "t", "columns": {"id": {"kind": "identifier", "drop": True}}})
    cells = pd.DataFrame({"Mrs Smith": ["1"]})
    with pytest.raises(SchemaError) as raised:
        check_header(Table("t.csv", tuple(cells), cells), keys)
    assert "Smith" not in str(raised.value)


@pytest.mark.parametrize(
    ("form", "text", "there"),
    [("csv", FileForm(), True), ("csv", FileForm(delimiter="\t"), True), ("csv", FileForm(delimiter=";"), False),
     ("csv", FileForm(decimal=","), False), ("csv", FileForm(encoding="cp1252"), False),
     ("parquet", FileForm(delimiter=";"), True)],
)  # fmt: skip
def test_croissant_describes_what_its_readers_can_read(form: str, text: FileForm, there: bool) -> None:
    facts: Any = SimpleNamespace(tables=[SimpleNamespace(form=form, text=text)])
    assert Facts.for_croissant.fget(facts) is there  # type: ignore[attr-defined]
