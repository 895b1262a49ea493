"""Every mistake a user can make: one clear message, the right exit code, no cell, no traceback, nothing touched."""

import json

import pytest
from medsynth_cli.app import app
from typer.testing import CliRunner

CANARY = "CANARY7431"
SCHEMA = """\
name: small
target: y
columns:
  age: {kind: count, bounds: [0, 120], out_of_range: error}
  dose: {kind: continuous, bounds: [0, 9], decimals: 1}
  y: {kind: binary, levels: [0, 1]}
"""
GOOD = "age,dose,y\n40,1.5,0\n41,2.5,1\n"

# name: (bytes of the table, words that the message must hold, exit code)
TABLES = {
    "empty file": (b"", ["empty"], 1),
    "header without rows": (b"age,dose,y\n", ["rows"], 1),
    "one row": (b"age,dose,y\n40,1.5,0\n", ["rows"], 1),
    "no header": (b"40,1.5,0\n41,2.5,1\n", ["no header"], 1),
    "too few fields": (f"age,dose,y\n40,{CANARY}\n41,2,1\n".encode(), ["row 1", "line 2", "fewer"], 1),
    "too many fields": (f"age,dose,y\n40,1,0\n41,2,1,{CANARY}\n".encode(), ["row 2", "line 3", "more"], 1),
    "binary junk": (bytes(range(128, 256)) * 9, ["no text"], 1),
    "nul bytes": (b"age,dose,y\n40,1\x00,0\n41,2,1\n", ["line 2", "binary"], 1),
    "duplicate columns": (b"age,age,y\n40,1,0\n41,2,1\n", ["columns 1 and 2"], 1),
    "open quote": (f'age,dose,y\n40,"{CANARY},0\n41,2,1\n'.encode(), [], 1),
    "missing target": (b"age,dose,z\n40,1.5,0\n41,2.5,1\n", ["'y'"], 4),
    "extra column": (b"age,dose,y,more\n40,1.5,0,1\n41,2.5,1,1\n", ["column 4"], 4),
    "level outside the schema": (f"age,dose,y\n40,1.5,{CANARY}\n41,2.5,1\n".encode(), ["'y'", "row 1", "level"], 4),
    "value outside bounds": (b"age,dose,y\n40,1.5,0\n7431,2.5,1\n", ["'age'", "row 2", "bounds"], 4),
    "missing value": (b"age,dose,y\n40,,0\n41,2.5,1\n", ["'dose'", "row 1", "missing"], 4),
    "text in a number column": (f"age,dose,y\n40,1,0\n41,{CANARY},1\n".encode(), ["'dose'", "row 2", "number"], 4),
    "infinite number": (b"age,dose,y\n40,1,0\n41,inf,1\n", ["'dose'", "row 2", "number"], 4),
}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.schema.yaml").write_text(SCHEMA)
    (tmp_path / "t.csv").write_text(GOOD)
    return tmp_path


def refused(code, words, *command):
    answer = CliRunner().invoke(app, list(command))
    text = answer.stdout + answer.stderr
    assert answer.exit_code == code, text
    assert answer.exception is None or isinstance(answer.exception, SystemExit)
    for word in words:
        assert word in text, text
    for secret in (CANARY, "7431", "Traceback"):
        assert secret not in text
    return answer


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("command", ["fit", "check"])
def test_tables(folder, name, command):
    content, words, code = TABLES[name]
    (folder / "t.csv").write_bytes(content)
    (folder / "t.medsynth").write_text("precious")
    line = ["fit", "t.csv", "--epsilon", "3.7", "--force"] if command == "fit" else ["schema", "check", "t.csv"]
    refused(code, ["t.csv", *words], *line)
    assert (folder / "t.medsynth").read_text() == "precious"
    assert {p.name for p in folder.iterdir()} == {"t.csv", "t.schema.yaml", "t.medsynth"}


FIT = ("fit", "t.csv")
OPTIONS = {
    "no epsilon": (2, ["--epsilon"], *FIT),
    "both": (2, ["exactly one"], *FIT, "--epsilon", "1", "--no-dp"),
    "epsilon zero": (2, ["positive"], *FIT, "--epsilon", "0"),
    "epsilon negative": (2, ["positive"], *FIT, "--epsilon", "-1"),
    "epsilon nan": (2, ["positive"], *FIT, "--epsilon", "nan"),
    "epsilon infinite": (2, ["positive"], *FIT, "--epsilon", "inf"),
    "epsilon text": (2, ["epsilon"], *FIT, "--epsilon", "much"),
    "epsilon too small": (3, ["too small"], *FIT, "--epsilon", "1e-9"),
    "delta zero": (2, ["delta"], *FIT, "--epsilon", "1", "--delta", "0"),
    "delta one": (2, ["delta"], *FIT, "--epsilon", "1", "--delta", "1"),
    "delta nan": (2, ["delta"], *FIT, "--epsilon", "1", "--delta", "nan"),
    "unknown method": (2, ["dp-cgan"], *FIT, "--epsilon", "1", "--method", "magic"),
    "unknown preset": (2, ["thyroid-study"], *FIT, "--epsilon", "1", "--preset", "magic"),
    "unknown target": (4, ["magic", "age"], *FIT, "--epsilon", "1", "--target", "magic"),
    "unknown schema": (4, ["none.yaml"], *FIT, "--epsilon", "1", "--schema", "none.yaml"),
    "unknown device": (2, ["cuda"], *FIT, "--epsilon", "1", "--device", "tpu"),
    "rows zero": (2, ["--rows"], *FIT, "--epsilon", "1", "--rows", "0"),
    "holdout one": (2, ["--holdout"], *FIT, "--epsilon", "1", "--holdout", "1"),
    "microbatches zero": (2, ["--microbatches"], *FIT, "--epsilon", "1", "--microbatches", "0"),
    "no table": (1, ["none.csv"], "fit", "none.csv", "--epsilon", "1"),
    "a folder": (1, ["folder"], "fit", ".", "--epsilon", "1", "--output", "x.medsynth"),
    "no model": (1, ["medsynth fit"], "sample"),
    "no such model": (1, ["none.medsynth"], "ledger", "none.medsynth"),
    "not a model": (1, ["t.csv"], "inspect", "t.csv"),
    "n zero": (2, ["-n"], "sample", "-n", "0"),
    "n negative": (2, ["-n"], "sample", "-n", "-5"),
    "n text": (2, ["-n"], "sample", "-n", "many"),
    "no such command": (2, ["magic"], "magic"),
    "no such schema": (2, ["thyroid"], "schema", "show", "magic"),
    "plan of a missing table": (1, ["none.csv"], "plan", "none.csv", "--epsilon", "1"),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options(folder, name):
    code, words, *command = OPTIONS[name]
    refused(code, words, *command)
    assert {p.name for p in folder.iterdir()} == {"t.csv", "t.schema.yaml"}


def test_cuda_without_a_device(folder, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    refused(1, ["--device cpu"], *FIT, "--epsilon", "1", "--device", "cuda")


def test_one_class(folder):
    schema = SCHEMA.replace("{kind: binary, levels: [0, 1]}", "{kind: categorical, levels: [1]}")
    (folder / "t.schema.yaml").write_text(schema)
    (folder / "t.csv").write_text("age,dose,y\n40,1.5,1\n41,2.5,1\n")
    refused(4, ["one class"], *FIT, "--epsilon", "1")


def test_check_without_a_schema_says_how_to_make_one(folder):
    (folder / "t.schema.yaml").unlink()
    refused(4, ["schema draft"], "schema", "check", "t.csv")


def test_unknown_kind(folder):
    (folder / "t.schema.yaml").write_text(SCHEMA.replace("continuous", "wavelet"))
    refused(4, ["t.schema.yaml", "dose"], *FIT, "--epsilon", "1")


def test_errors_are_json_under_json(folder):
    answer = refused(2, [], *FIT, "--epsilon", "0", "--json")
    assert answer.stdout == "" and json.loads(answer.stderr)["exit_code"] == 2
