"""Every mistake a user can make: one clear message, the right exit code, no cell, no traceback, nothing touched."""

import gzip
import io
import json
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest
from medsynth_cli.main import app
from typer.testing import CliRunner, Result

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

EXTRA = b"who,seen,grade,lab,y\nP1,2020-01-05,mild,refused,0\nP2,2020-02-05,severe,1.5,1\n"


def packed(*names: str) -> bytes:
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, GOOD)
    return file.getvalue()


# name: (bytes of the table, words that the message must contain, exit code)
TABLES = {
    "empty file": (b"", ["empty"], 1),
    "header without rows": (b"age,dose,y\n", ["rows"], 1),
    "one row": (b"age,dose,y\n40,1.5,0\n", ["rows"], 1),
    "no header": (b"40,1.5,0\n41,2.5,1\n42,2.5,1\n", ["no header line, add one"], 4),
    "too few fields": (f"age,dose,y\n40,{CANARY}\n41,2,1\n".encode(), ["row 1", "line 2", "fewer"], 1),
    "too many fields": (f"age,dose,y\n40,1,0\n41,2,1,{CANARY}\n".encode(), ["row 2", "line 3", "more"], 1),
    "binary junk": (bytes(range(128, 256)) * 9, ["not valid"], 1),
    "nul bytes": (b"age,dose,y\n40,1\x00,0\n41,2,1\n", ["line 2", "binary"], 1),
    "duplicate columns": (b"age,age,y\n40,1,0\n41,2,1\n", ["columns 1 and 2"], 1),
    "open quote": (f'age,dose,y\n40,"{CANARY},0\n41,2,1\n'.encode(), [], 1),
    "missing target": (b"age,dose,z\n40,1.5,0\n41,2.5,1\n", ["'y'"], 4),
    "extra column": (b"age,dose,y,more\n40,1.5,0,1\n41,2.5,1,1\n", ["column 4"], 4),
    "level outside the schema": (f"age,dose,y\n40,1.5,{CANARY}\n41,2.5,1\n".encode(), ["'y'", "row 1", "level"], 4),
    "value outside bounds": (b"age,dose,y\n40,1.5,0\n7431,2.5,1\n", ["'age'", "row 2", "bounds"], 4),
    "units under the names": (b"age,dose,y\nyears,mg,\n41,2,1\n", ["'age'", "row 1", "second header row"], 4),
    "missing value": (b"age,dose,y\n40,,0\n41,2.5,1\n", ["'dose'", "row 1", "missing"], 4),
    "text in a number column": (f"age,dose,y\n40,1,0\n41,{CANARY},1\n".encode(), ["'dose'", "row 2", "number"], 4),
    "infinite number": (b"age,dose,y\n40,1,0\n41,inf,1\n", ["'dose'", "row 2", "number"], 4),
    "blank lines alone": (b"\n\n\n", ["empty"], 1),
    "half utf-16": (GOOD.encode("utf-16")[:-1], ["not valid"], 1),
    "utf-16 without its mark": (GOOD.encode("utf-16-le"), ["binary"], 1),
    "workbook": (packed("[Content_Types].xml"), ["workbook"], 1),
    "old workbook": (b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" * 9, ["workbook"], 1),
    "archive of two": (packed("a.csv", "b.csv"), ["archive of 2"], 1),
    "archive of none": (packed(), ["archive of 0"], 1),
    "half a gzip": (gzip.compress(GOOD.encode() * 99)[:50], ["damaged"], 1),
    "parquet that is none": (b"PAR1" + CANARY.encode() * 9, ["damaged"], 1),
    "semicolons within commas": (b"age,dose,y\n40;1.5;0\n41;2.5;1\n", ["row 1", "fewer"], 1),
    "three columns of one name": (b"y,y,y\n1,2,3\n4,5,6\n", ["the same name"], 1),
    "a column without a name": (b"age,,y\n40,1,0\n41,2,1\n", ["column 2"], 1),
    "decimal commas in a comma table": (b"age,dose,y\n40,1,5,0\n41,2,5,1\n", ["row 1", "more"], 1),
    "thousands": (b'age,dose,y\n"1,040",1,0\n41,2,1\n', ["'age'", "row 1", "number"], 4),
    "not a number": (b"age,dose,y\n40,1,0\n41,1e999,1\n", ["'dose'", "row 2", "number"], 4),
    "a percent sign": (b"age,dose,y\n40,7431%,0\n41,2,1\n", ["'dose'", "row 1", "number"], 4),
    "no value at all": (b"age,dose,y\n,,\n,,\n", ["'age'", "row 1", "missing"], 4),
    "not a date": (EXTRA.replace(b"2020-01-05", b"7431-31-31"), ["'seen'", "row 1", "date"], 4),
    "a date beyond its bounds": (EXTRA.replace(b"2020-01-05", b"1999-07-04"), ["'seen'", "row 1", "bounds"], 4),
    "a level with a typing error": (EXTRA.replace(b"mild", CANARY.encode()), ["'grade'", "row 1", "level"], 4),
    "an undeclared empty cell": (EXTRA.replace(b"refused", b""), ["'lab'", "row 1", 'Add ""'], 4),
    "an undeclared code": (EXTRA.replace(b"refused", CANARY.encode()), ["'lab'", "row 1", "number"], 4),
    "no patient": (EXTRA.replace(b"P1", b""), ["'who'", "row 1", "no patient"], 4),
    "a column of the schema too few": (EXTRA.replace(b"grade", b"stage"), ["'grade'"], 4),
}
SCHEMA_EXTRA = """\
name: extra
target: y
unit: who
max_rows: 2
columns:
  who: {kind: identifier, shape: "P#"}
  seen: {kind: date, bounds: [2019-01-01, 2021-12-31], out_of_range: error}
  grade: {kind: ordinal, levels: [mild, severe]}
  lab: {kind: continuous, bounds: [0, 9], decimals: 1, missing: [-9, refused]}
  y: {kind: binary, levels: [0, 1]}
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "t.schema.yaml").write_text(SCHEMA)
    (tmp_path / "t.csv").write_text(GOOD)
    return tmp_path


def refused(code: int, words: list[str], *command: str) -> Result:
    result = CliRunner().invoke(app, list(command))
    text = result.stdout + result.stderr
    assert result.exit_code == code, text
    assert result.exception is None or isinstance(result.exception, SystemExit)
    for word in words:
        assert word in text, text
    for secret in (CANARY, "7431", "Traceback"):
        assert secret not in text
    return result


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("command", ["fit", "check"])
def test_tables(folder: Path, name: str, command: str) -> None:
    content, words, code = TABLES[name]
    (folder / "t.csv").write_bytes(content)
    if content.startswith(b"who"):
        (folder / "t.schema.yaml").write_text(SCHEMA_EXTRA)
    (folder / "t.medsynth").write_text("precious")
    line = ["fit", "t.csv", "--epsilon", "3.7", "--force"] if command == "fit" else ["schema", "check", "t.csv"]
    refused(code, ["t.csv", *words], *line)
    assert (folder / "t.medsynth").read_text() == "precious"
    assert {p.name for p in folder.iterdir()} == {"t.csv", "t.schema.yaml", "t.medsynth"}


# name: (what is changed in the schema, into what, words that the message must contain)
AGE, DOSE, Y = SCHEMA.splitlines()[3:6]
SCHEMAS = {
    "no yaml": ("name: small", "name: [", ["line", "YAML"]),
    "a list": (SCHEMA, "- 1\n- 2\n", ["top level"]),
    "nothing": (SCHEMA, "", ["top level"]),
    "half a range": ("[0, 9]", "[TODO]", ["dose", "two"]),
    "an unknown key": ("decimals: 1", "decimal: 1", ["dose", "decimal"]),
    "an unknown key at the top": ("name: small", "name: small\nversion: 2", ["version"]),
    "a kind of nobody's": ("binary", "boolean", ["y", "binary"]),
    "columns twice": (DOSE, DOSE + "\n" + DOSE, ["line", "twice"]),
    "no columns": ("\n".join([AGE, DOSE, Y]), "", ["columns"]),
    "a target of nobody's": ("target: y", "target: z", ["target"]),
    "a target that is a key": (Y, "  y: {kind: identifier}", ["identifier"]),
    "bounds the wrong way": ("[0, 9]", "[9, 0]", ["dose", "lower one first"]),
    "one bound": ("[0, 9]", "[0]", ["dose", "bounds"]),
    "bounds that are words": ("[0, 120]", "[young, old]", ["age", "bounds"]),
    "endless bounds": ("[0, 9]", "[0, 1e999]", ["dose", "finite"]),
    "bounds not a number": ("[0, 9]", "[0, .nan]", ["dose", "bounds"]),
    "fractions of a count": ("[0, 120]", "[0, 120.5]", ["age", "bounds"]),
    "log below zero": ("bounds: [0, 9]", "bounds: [-1, 9], scale: log", ["dose", "log"]),
    "a scale of nobody's": ("bounds: [0, 9]", "bounds: [0, 9], scale: cubic", ["dose", "scale"]),
    "negative decimals": ("decimals: 1", "decimals: -13", ["dose", "decimals"]),
    "decimals beyond reason": ("decimals: 1", "decimals: 12", ["dose", "decimals"]),
    "three levels of two": ("levels: [0, 1]", "levels: [0, 1, 2]", ["y", "levels"]),
    "a level twice": ("levels: [0, 1]", 'levels: [1, "1"]', ["y", "differ"]),
    "a level in blanks": ("levels: [0, 1]", 'levels: [" a", b]', ["y", "blanks"]),
    "a level that is a list": ("levels: [0, 1]", "levels: [[1], 2]", ["y", "levels"]),
    "a level that is a number with a point": ("levels: [0, 1]", "levels: [0.5, 1.5]", ["y", "levels"]),
    "unknown is no level": ("levels: [0, 1]", "levels: [0, 1], unknown: 2", ["y", "unknown"]),
    "missing is a word": ("decimals: 1", "decimals: 1, missing: maybe", ["dose", "missing"]),
    "missing code among values": ("decimals: 1", "decimals: 1, missing: [3]", ["dose", "within the bounds"]),
    "a date as a number": (AGE, "  age: {kind: date, bounds: [0, 9]}", ["age", "two days"]),
    "a date that is none": (AGE, "  age: {kind: date, bounds: [2020-02-30, 2021-01-01]}", ["age", "bounds"]),
    "a format without a year": (
        AGE,
        '  age: {kind: date, bounds: [2020-01-01, 2021-01-01], format: "%d.%m."}',
        ["age", "year"],
    ),
    "after nothing": (AGE, "  age: {kind: date, after: dose, bounds: [0, 9]}", ["age", "after"]),
    "a shape without a digit": (AGE, "  age: {kind: identifier, shape: MRN}", ["age", "shape"]),
    "a hierarchy of nobody's": (AGE, "  age: {kind: categorical, hierarchy: icd9, unknown: o}", ["age", "icd10"]),
    "a tree with a twin": (AGE, "  age: {kind: categorical, hierarchy: {a: [b, b]}, unknown: o}", ["age", "twice"]),
    "a unit that is no key": ("target: y", "target: y\nunit: age\nmax_rows: 3", ["unit", "identifier"]),
    "a unit without a cap": ("target: y", "target: y\nunit: age", ["max_rows"]),
    "a cap of none": ("target: y", "target: y\nunit: age\nmax_rows: 0", ["max_rows"]),
    "a rule that is none": (Y, Y + "\nrules:\n  - age is high", ["rule"]),
    "a rule about nobody": (Y, Y + "\nrules:\n  - weight > 3", ["weight"]),
    "a rule that calls": (Y, Y + "\nrules:\n  - age = __import__('os')", ["rule"]),
    "rules in a circle": (Y, Y + "\nrules:\n  - age = dose * 2\n  - dose = age / 2", ["later rule"]),
    "rules without end": (Y, Y + "\nrules: [" + "age > 3, " * 201 + "]", ["rules"]),
    "deeper than anybody needs": ("name: small", "name: " + "[" * 3000, ["YAML"]),
    "an object": ("name: small", "name: !!python/object/apply:os.getcwd []", ["YAML"]),
    "an anchor that loops": ("name: small", "name: &a [*a]", []),
}


@pytest.mark.parametrize("name", SCHEMAS)
def test_schemas(folder: Path, name: str) -> None:
    old, new, words = SCHEMAS[name]
    assert old in SCHEMA
    (folder / "t.schema.yaml").write_text(SCHEMA.replace(old, new))
    refused(4, ["t.schema.yaml", *words], "schema", "check", "t.csv")
    refused(4, ["t.schema.yaml", *words], *FIT, "--epsilon", "1")


FIT = ("fit", "t.csv")
OPTIONS: dict[str, Any] = {
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
    "unknown method": (2, ["dp-cgan"], *FIT, "--epsilon", "1", "--method", "wizardry"),
    "unknown preset": (2, ["thyroid-study"], *FIT, "--epsilon", "1", "--preset", "wizardry"),
    "unknown target": (4, ["wizardry", "age"], *FIT, "--epsilon", "1", "--target", "wizardry"),
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
    "no such command": (2, ["wizardry"], "wizardry"),
    "no such schema": (2, ["thyroid"], "schema", "show", "wizardry"),
    "plan of a missing table": (1, ["none.csv"], "plan", "none.csv", "--epsilon", "1"),
    "plan of one row": (2, ["two rows"], "plan", "1", "--epsilon", "1"),
    "delta of a word": (2, ["delta"], *FIT, "--epsilon", "1", "--delta", "small"),
    "rows one": (2, ["--rows"], *FIT, "--epsilon", "1", "--rows", "1"),
    "holdout zero": (2, ["--holdout"], *FIT, "--epsilon", "1", "--holdout", "0"),
    "holdout nan": (2, ["--holdout"], *FIT, "--epsilon", "1", "--holdout", "nan"),
    "an option of nobody's": (2, ["--budget"], *FIT, "--budget", "1"),
    "no table named": (2, ["argument"], "fit", "--epsilon", "1"),
    "a preset of another method": (
        2,
        ["--preset"],
        *FIT,
        "--epsilon",
        "1",
        "--preset",
        "thyroid-study",
        "--method",
        "independent",
    ),
    "a setting of nobody's": (2, ["one_way_share"], *FIT, "--epsilon", "1", "--set", "magic=1"),
    "a setting without a value": (2, ["NAME=VALUE"], *FIT, "--epsilon", "1", "--set", "steps"),
    "a setting that is no number": (2, ["steps"], *FIT, "--epsilon", "1", "--set", "steps=many"),
    "a setting below zero": (2, ["above 0"], *FIT, "--epsilon", "1", "--method", "dp-gan", "--set", "lots=-1"),
    "a setting of three": (2, ["global"], *FIT, "--epsilon", "1", "--method", "dp-gan", "--set", "groups=magic"),
    "shares beyond one": (2, ["less than 1"], *FIT, "--epsilon", "1", "--method", "dp-gan", "--set", "class_share=0.9"),
    "public rows by setting": (
        2,
        ["--public"],
        *FIT,
        "--epsilon",
        "1",
        "--method",
        "dp-gan",
        "--set",
        "public=1",
    ),
    "a share of nothing": (2, ["share above 0"], *FIT, "--epsilon", "1", "--set", "one_way_share=0"),
    "public rows for another method": (
        2,
        ["dp-gan"],
        *FIT,
        "--epsilon",
        "1",
        "--method",
        "gs-wgan",
        "--public",
        "t.csv",
        "--citation",
        "c",
    ),
    "public rows without a citation": (2, ["--citation"], *FIT, "--epsilon", "1", "--public", "t.csv"),
    "a citation of nothing": (2, ["--public"], *FIT, "--epsilon", "1", "--citation", "c"),
    "no public rows": (1, ["none.csv"], *FIT, "--epsilon", "1", "--public", "none.csv", "--citation", "c"),
    "loss-noise with a claim": (2, ["--no-dp alone"], *FIT, "--epsilon", "1", "--method", "loss-noise"),
    "loss-noise planned": (2, ["--no-dp alone"], "plan", "100", "--epsilon", "1", "--method", "loss-noise"),
    "sample into nowhere": (1, ["none.medsynth"], "sample", "--model", "none.medsynth"),
    "sample of a table": (1, ["t.csv"], "sample", "--model", "t.csv"),
    "json and dash": (2, ["--json"], "sample", "--json", "--output", "-"),
    "report of nothing": (1, ["Fit"], "report"),
    "report of no table": (1, ["none.csv"], "report", "--synthetic", "none.csv", "--real", "t.csv"),
    "report without real rows": (1, ["real rows", "--holdout"], "report", "--synthetic", "t.csv"),
    "shareable with real rows": (
        2,
        ["--shareable"],
        "report",
        "--synthetic",
        "t.csv",
        "--shareable",
        "--real",
        "t.csv",
    ),
    "draft of no table": (1, ["none.csv"], "schema", "draft", "none.csv"),
    "ledger of table and model": (2, ["--table"], "ledger", "x.medsynth", "--table", "t.csv"),
    "ledger of an unfitted table": (1, ["t.csv"], "ledger", "--table", "t.csv"),
}


@pytest.mark.parametrize("name", OPTIONS)
def test_options(folder: Path, name: str) -> None:
    code, words, *command = OPTIONS[name]
    refused(code, words, *command)
    assert {p.name for p in folder.iterdir()} == {"t.csv", "t.schema.yaml"}


def test_cuda_without_a_device(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    refused(1, ["--device cpu"], *FIT, "--epsilon", "1", "--device", "cuda")


def test_one_class(folder: Path) -> None:
    schema = SCHEMA.replace("{kind: binary, levels: [0, 1]}", "{kind: categorical, levels: [1]}")
    (folder / "t.schema.yaml").write_text(schema)
    (folder / "t.csv").write_text("age,dose,y\n40,1.5,1\n41,2.5,1\n")
    refused(4, ["one class"], *FIT, "--epsilon", "1")


def test_check_without_a_schema_names_the_command_that_drafts_one(folder: Path) -> None:
    (folder / "t.schema.yaml").unlink()
    refused(4, ["schema draft"], "schema", "check", "t.csv")


def test_unknown_kind(folder: Path) -> None:
    (folder / "t.schema.yaml").write_text(SCHEMA.replace("continuous", "wavelet"))
    refused(4, ["t.schema.yaml", "dose"], *FIT, "--epsilon", "1")


def test_errors_are_json_under_json(folder: Path) -> None:
    result = refused(2, [], *FIT, "--epsilon", "0", "--json")
    assert result.stdout == "" and json.loads(result.stderr)["exit_code"] == 2


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.nightly)])
def test_mistakes_are_refused_before_torch_is_imported(folder: Path, every: int) -> None:
    """A quarter of them, and all at night, in one fresh process, in which nothing but the refusals ran."""
    script = f"""
import sys; sys.path.insert(0, {str(Path(__file__).parent)!r})
from pathlib import Path
import test_bad_input as cases
for name, (content, words, code) in list(cases.TABLES.items())[::{every}]:
    Path('t.csv').write_bytes(content)
    schema = cases.SCHEMA_EXTRA if content.startswith(b'who') else cases.SCHEMA
    Path('t.schema.yaml').write_text(schema)
    cases.refused(code, ['t.csv', *words], 'fit', 't.csv', '--epsilon', '3.7')
    assert 'torch' not in sys.modules, name
Path('t.csv').write_text(cases.GOOD)
for name, (old, new, words) in list(cases.SCHEMAS.items())[::{every}]:
    Path('t.schema.yaml').write_text(cases.SCHEMA.replace(old, new))
    cases.refused(4, words, 'fit', 't.csv', '--epsilon', '1')
    assert 'torch' not in sys.modules, name
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
