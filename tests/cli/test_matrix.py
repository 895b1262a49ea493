"""What a hostile tester tried, class by class: the exit code, no traceback, no cell of the table, nothing lost.

A case is a command in a folder that holds a table, its schema, a model and what else the case adds. Whatever was there
before stays byte for byte, and a refused command leaves nothing new. All cases run in this process.
"""

import io
import os
import shlex
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd
import pytest
from medsynth_cli.console import OWN_FAULT
from medsynth_cli.main import app
from typer.testing import CliRunner

import medsynth

CANARY = "7431"  # in every cell that is odd: no message may hold it
SCHEMA = """\
name: small
target: y
columns:
  age: {kind: count, bounds: [0, 120], out_of_range: error}
  dose: {kind: continuous, bounds: [0, 9], decimals: 1, out_of_range: error}
  sex: {kind: categorical, levels: [F, O, M, "=cmd|x"]}
  seen: {kind: date, bounds: [2020-01-01, 2020-12-31], out_of_range: error}
  y: {kind: binary, levels: [0, 1]}
"""
ROW = {"age": "40", "dose": "1.5", "sex": "F", "seen": "2020-02-03", "y": "0"}
HEAD = ",".join(ROW) + "\n"
GOOD = HEAD + "".join(
    f"{40 + k % 20},{1.5 + k % 3},{'FOM'[k % 3]},2020-02-{1 + k % 28:02},{k % 2}\n" for k in range(60)
)
AGE, DOSE, SEX, SEEN, Y = SCHEMA.splitlines()[3:]
CHECK, FIT = "schema check t.csv", "fit t.csv --epsilon 3.7 --method independent --force"
LATER = {"t.medsynth-ledger.lock"}  # beside a budget file that was opened


@dataclass(frozen=True)
class Case:
    """`text`: words that standard error must hold, separated by " & ". `files`: what the folder holds besides."""

    command: str | list[str]
    code: int
    text: str = ""
    table: str | bytes = GOOD
    schema: str | None = SCHEMA
    files: dict[str, str | bytes] = field(default_factory=dict)


CASES: dict[str, Case] = {}


def add(group: str, cases: Iterator[tuple[str, Case]]) -> None:
    CASES.update({f"{group}: {name}": case for name, case in cases})


# Cells. A number within the bounds is read; all others are refused with their place.

NUMBERS_OF_NOBODY = {
    "arabic digits": "٧٤٣١",
    "digits of full width": "７４３１",
    "superscript": "7431²",
    "circled": "①7431",
    "infinity by exponent": "7431e400",
    "minus infinity": "-7431e400",
    "hexadecimal": "0x7431",
    "underscores": "7_431",
    "blanks within": "7 431",
    "two points": "7.4.31",
    "an apostrophe": "7'431",
    "a zero-width blank": "\u200b7431",
    "right to left": "\u202e7431",
    "a formula": "=7431|' /C calc'!A0",
    "a date": "7431-01-01",
    "a word of 100,000": "7431" * 25_000,
    "an escape": "\x1b[31m7431",
    "inf": "inf",
    "400 digits": "7431" * 100,
    "two lines": '"7431\n7431"',
    "a lone surrogate": "\\udc80 7431",
}
NUMBERS_TOO_LARGE = {
    "30 digits": "743174317431743174317431743174",
    "1e308": "1.7431e308",
    "-1e308": "-1.7431e308",
    "15 digits": "743174317431743",
    "2^63": "9223372036854775808",
    "-2^63": "-9223372036854775809",
    "1e20": "7431e20",
}


def with_cell(cell: str, column: str) -> str:
    return GOOD + ",".join((ROW | {column: cell}).values()) + "\n"


def cells() -> Iterator[tuple[str, Case]]:
    for column in ("age", "dose"):
        place = f"'{column}' & row 61"
        for name, cell in NUMBERS_OF_NOBODY.items():
            yield f"{name} in {column}", Case(CHECK, 4, f"{place} & number", with_cell(cell, column))
        for name, cell in NUMBERS_TOO_LARGE.items():
            yield f"{name} in {column}", Case(CHECK, 4, f"{place} & bounds", with_cell(cell, column))
    for column, what in (("sex", "level"), ("seen", "date"), ("y", "level")):
        for name, cell in (NUMBERS_OF_NOBODY | NUMBERS_TOO_LARGE).items():
            if (column, name) != ("seen", "a date"):
                yield f"{name} in {column}", Case(CHECK, 4, f"'{column}' & row 61 & {what}", with_cell(cell, column))


def fits() -> Iterator[tuple[str, Case]]:
    """A fit refuses what the check does, and leaves the model that was there."""
    for name in ("arabic digits", "infinity by exponent", "a formula"):
        yield f"{name} in a fit", Case(FIT, 4, "row 61", with_cell(NUMBERS_OF_NOBODY[name], "age"))
        held = Case(f"{FIT} --holdout 0.5", 4, "row 61", with_cell(NUMBERS_OF_NOBODY[name], "age"))
        yield f"{name} in a fit with hold-out", held
    every = {n: c for n, c in (NUMBERS_OF_NOBODY | NUMBERS_TOO_LARGE).items() if "lines" not in n}
    for column in ("age", "dose", "y"):
        odd = "".join(",".join((ROW | {column: cell}).values()) + "\n" for cell in every.values())
        yield f"every odd cell in {column}, no schema", Case(f"{FIT} --anyway", 0, "", GOOD + odd, None)
    for name, cell in {"empty": "", "30 digits": "9" * 30, "1e308": "1e308", "7e400": "7e400"}.items():
        rows = [(ROW | {"age": cell, "y": str(k % 2)}).values() for k in range(90)]
        table = HEAD + "".join(",".join(row) + "\n" for row in rows)
        yield f"a column of {name}, no schema", Case(f"{FIT} --anyway", 0, "", table, None)


add("cell", cells())
add("cell", fits())

# Schemas.


def changed(group: str, cases: dict[str, tuple[str, str, str]]) -> None:
    for name, (old, new, text) in cases.items():
        assert old in SCHEMA
        CASES[f"{group}: {name}"] = Case(CHECK, 4, text, schema=SCHEMA.replace(old, new))


BOUNDS = ["[1e308, -1e308]", "[-1e308, 1e308]", "[0, 1e308]", "[0, 1e300]", "[0, 1e-320]", "[0, 3, 9]", "[1e17, 2e17]",
          "[9007199254740993, 9007199254740995]", "[[0], [1]]", "[.nan, 1]", "[0, 99999999999999999999999]",
          "{}", "[x, y]", "[2020-01-01, 2021-01-01]", "[0, 2147483648]"]  # fmt: skip
for bounds in BOUNDS:
    changed("bounds", {
        f"of a count {bounds}": (AGE, f"  age: {{kind: count, bounds: {bounds}}}", "age"),
        f"of decimals {bounds}": (DOSE, f"  dose: {{kind: continuous, bounds: {bounds}, decimals: 1}}", "dose"),
        f"log {bounds}": (DOSE, f"  dose: {{kind: continuous, bounds: {bounds}, decimals: 9, scale: log}}", "dose"),
        f"of days {bounds}": (SEEN, f"  seen: {{kind: date, bounds: {bounds}}}", "seen"),
    })  # fmt: skip
    if bounds == "[2020-01-01, 2021-01-01]":
        del CASES[f"bounds: of days {bounds}"]
changed("decimals", {d: ("decimals: 1", f"decimals: {d}", "dose & decimals")
                     for d in ("-13", "13", "1.5", "x", "[]", "9" * 30, "1e3")})  # fmt: skip
FORMATS = ["%Y-%m-%d %Y", "%Y%Y", "%", "%Q", "", "%y", "%Y-%m-%d %d", "%d.%m.", "%5Y-%m-%d", "%d/%m",
           "%H:%M", "%Y-%m-%d%"]  # fmt: skip
changed("format", {f or "nothing": (SEEN, f"  seen: {{kind: date, bounds: [2020-01-01, 2020-12-31], format: {f!r}}}",
                                    "seen & format") for f in FORMATS})  # fmt: skip
RULES = {
    "240 brackets": "(" * 240 + "age" + ")" * 240 + " > 3",
    "240 open brackets": "(" * 240,
    "400 minus signs": "age > " + "-" * 400 + "1",
    "a bracket too many": "age > 3)",
    "not closed": "`age > 3",
    "a column of nobody's": "weight > 3",
    "two signs": "age > > 3",
    "no comparison": "age + 3",
    "an order of levels": "sex > F",
    "501 characters": "age > 1" + " " * 500 + "and age > 2",
}
changed("rule", {name: (Y, Y + f'\nrules: ["{rule}"]', "rule") for name, rule in RULES.items()})
TREE = "a: &a [x, y]\n" + "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdefghi", "bcdefghij", strict=True)
)
YAML = {
    "an alias tree at the top": ("name: small", TREE + "name: small", "YAML & values"),
    "an alias tree of levels": ("name: small", f"name: small\n{TREE}k: *j", "YAML & values"),
    "an alias within itself": ("name: small", "name: &a {b: *a}", "YAML & itself"),
    "240 brackets": ("name: small", "name: " + "[" * 240 + "]" * 240, ""),
    "20,000 open brackets": ("name: small", "name: " + "[" * 20_000, "YAML"),
    "240 braces": ("name: small", "name: " + "{a: " * 240 + "1" + "}" * 240, ""),
    "a deep tree": (
        SEX,
        "  sex: {kind: categorical, unknown: o, hierarchy: {a: " + "[" * 300 + "]" * 300 + "}}",
        "YAML",
    ),
    "deep codes": ("decimals: 1", "decimals: 1, missing: " + "[" * 90 + "]" * 90, "dose"),
    "no number": ("name: small", "name: !!int zz", "YAML"),
    "no decimal": ("name: small", "name: !!float zz", "YAML"),
    "no truth": ("name: small", "name: !!bool zz", "YAML"),
    "no day": ("name: small", "name: !!timestamp 2020-99-99", "YAML"),
    "5,000 digits": ("name: small", "name: " + "9" * 5000, "YAML"),
    "a level of 5,000 digits": ("[0, 1]", "[0, " + "9" * 5000 + "]", "YAML"),
    "a list as a key": ("name: small", "name: small\n? [a]\n: b", "YAML"),
    "an unknown tag": ("name: small", "name: !x y", "YAML"),
    "another version": ("name: small", "%YAML 9.9\n---\nname: small", "YAML"),
    "two documents": ("name: small", "---\na: 1\n---\nname: small", "YAML"),
    "a null character": ("name: small", "name: a\0b", "YAML"),
    "a tab": ("name: small", "\tname: small", "YAML"),
    "a merge": ("name: small", "name: small\n<<: 5", ""),
    "an unknown of 1e308": ("decimals: 1", "decimals: 1, unknown: 1e308", "unknown"),
    "an unknown of 400 digits": ("decimals: 1", f"decimals: 1, unknown: {'9' * 400}", "unknown"),
    "an endless unknown": ("decimals: 1", "decimals: 1, unknown: .inf", "dose"),
    "a shape of 40": (AGE, f"  age: {{kind: identifier, shape: '{'#' * 40}'}}", "age & shape"),
    "patients without end": (AGE, AGE + "\nmax_rows: 99999999999999999999", ""),
    "a name of 100,000": ("name: small", f"names: {'x' * 100_000}", "name & required"),
}
changed("yaml", YAML)

# Options.

OPTIONS = {
    "thirty nines of rows": (f"{FIT} --rows {'9' * 30}", 2, "rows"),
    "rows in arabic digits": (f"{FIT} --rows ٣٠٠", 2, "rows"),
    "rows of 1e40": (f"{FIT} --rows 1e40", 2, "rows"),
    "rows of 1.5": (f"{FIT} --rows 1.5", 2, "rows"),
    "rows beyond all tables": (f"{FIT} --rows 1e17", 2, "--rows"),
    "5,000 digits of rows": (f"{FIT} --rows {'9' * 5000}", 2, "rows"),
    "a hold-out that leaves nothing": (f"{FIT} --holdout 0.9999999999", 1, "--holdout"),
    "a hold-out of nan": (f"{FIT} --holdout nan --rows 100", 2, "--holdout"),
    "an empty encoding": (f"{FIT} --encoding ''", 2, "--encoding"),
    "an encoding that is none": (f"{FIT} --encoding base64", 2, "--encoding"),
    "a long encoding": (f"{FIT} --encoding {'x' * 500}", 2, "--encoding"),
    "a setting of 5,000 digits": (f"{FIT} --set steps={'9' * 5000}", 2, "--set"),
    "a setting without end": (f"{FIT} --set coarse_share=1e999", 2, "coarse_share"),
    "an empty target": (f"{FIT} --target ''", 2, "--target"),
    "a plan of ²": ("plan ² --epsilon 1", 1, "no file"),
    "a plan of 5,000 digits": (f"plan {'9' * 5000} --epsilon 1", 2, ""),
    "a plan of a long name": (f"plan {'x' * 5000} --epsilon 1", 1, "name"),
    "a plan of 10_000": ("plan 10_000 --epsilon 1", 0, ""),
    "a plan of 1e4": ("plan 1e4 --epsilon 1", 0, ""),
    "a plan of tiny epsilon": ("plan 1000 --epsilon 1e-300", 3, "too small"),
    "a plan of tiny delta": ("plan 1000 --epsilon 1 --delta 1e-320", 0, ""),
    "a plan of too many rows": ("plan 1e12 --epsilon 1", 2, "--rows"),
    "a table of a long name": (f"fit {'x' * 5000} --epsilon 3", 1, "longer"),
    "a table of no name": ("fit '' --epsilon 3", 1, ""),
    "a table of /dev/null": ("fit /dev/null --epsilon 3 -o x.medsynth", 1, "device"),
    "a table of a pipe": ("fit pipe --epsilon 3", 1, "pipe"),
    "a schema of a pipe": (f"{FIT} --schema pipe", 4, "pipe"),
    "a schema of a folder": (f"{FIT} --schema folder", 4, "folder"),
    "a schema of a table": (f"{FIT} --schema t.csv", 4, "top level"),
    "a draft of a folder": ("schema draft folder", 1, "folder"),
    "a draft of a long name": (f"schema draft {'x' * 300}", 1, "longer"),
    "a schema shown of a long name": (f"schema show {'x' * 5000}", 2, "no bundled schema"),
    "an audit without confidence": ("audit --quick --confidence nan", 2, "--confidence"),
    "an audit into a folder": ("audit --quick -o folder", 1, "a folder"),
    "an audit into nowhere": ("audit --quick -o nowhere/a.html", 1, "no folder"),
    "a demo into a file": ("demo -o t.csv", 1, "t.csv"),
    "short help": ("fit -h", 0, ""),
}
add("option", ((name, Case(line, code, text)) for name, (line, code, text) in OPTIONS.items()))
CASES["option: a null character in the name of a table"] = Case(["fit", "a\0b.csv", "--epsilon", "3"], 2, "null")

# Outputs.

OUTPUTS = {
    "the folder itself": (".", "not a file name"),
    "the folder above": ("..", "not a file name"),
    "the root": ("/", "not a file name"),
    "a folder": ("folder", "a folder"),
    "the table": ("t.csv", ".medsynth"),
    "its schema": ("t.schema.yaml", ".medsynth"),
    "its budget": ("t.medsynth-ledger", "would overwrite it"),
    "a link to the table": ("link", "a link"),
    "a link to nothing": ("lost", "a link"),
    "a pipe": ("pipe", "a device or a pipe"),
    "a name of 300": ("x" * 300, "longer"),
    "no folder": ("nowhere/x.medsynth", "no folder"),
    "within a file": ("t.csv/x.medsynth", "t.csv"),
    "a null character": ("a\0b", "null"),
}
for name, (output, text) in OUTPUTS.items():
    code = 2 if text in (".medsynth", "null") else 1
    held = [*FIT.split(), "--output", output, "--holdout", "0.5"]
    CASES[f"output: of a fit with hold-out is {name}"] = Case(held, code, text)
    CASES[f"output: of a fit is {name}"] = Case([*FIT.split(), "-o", output], code, text)
SAMPLED = {
    **{name: OUTPUTS[name] for name in OUTPUTS if name not in ("the table", "its schema", "its budget")},
    "the table": ("t.csv", "real rows"),
    "the training rows": ("t.train.csv", "real rows"),
    "the model": ("t.medsynth", "cannot be written"),
    "a workbook": ("t.xlsx", "Excel"),
    "an archive": ("t.zip", "zip"),
    "no folder": ("nowhere/x.csv", "no folder"),
    "a null character": ("a\0b", "not a file name"),
    "something else": ("t.feather", ".feather"),
}
for name, (output, text) in SAMPLED.items():
    code = 2 if text in ("real rows", "cannot be written", "Excel", "zip", ".feather") else 1
    CASES[f"output: of a sample is {name}"] = Case(["sample", "-n", "5", "--force", "-o", output], code, text)
REPORTED = {name: OUTPUTS[name] for name in ("the folder itself", "a folder", "a name of 300", "no folder")}
for name, (output, text) in (REPORTED | {"the table": ("t.csv", "would overwrite it")}).items():
    line = ["report", "--synthetic", "t.csv", "--real", "t.csv", "--force", "--output", output]
    CASES[f"output: of a report is {name}"] = Case(line, 1, text)
for command in ("ledger", "inspect", "sample --model"):
    for what in ("folder", "pipe", "t.csv", "nope", "link", "lost", "x" * 300, "/dev/null"):
        CASES[f"model: {command} of {what[:9]}"] = Case(f"{command} {what}", 1, "")

# Conditions and counts.

CONDITIONS = {
    "1e999999999": ("age=1e999999999", "no value"),
    "nan": ("age=nan", "not a number"),
    "inf": ("age=inf", "not a number"),
    "thirty digits": ("age=" + "9" * 30, "no value"),
    "the wrong way": ("age=60..40", "no value"),
    "three ends": ("age=1..2..3", "no value"),
    "no date": ("seen=2020-99-99", "not a number"),
    "words": ("age=old", "not a number"),
    "a level of nobody's": ("sex=F,X", "no such level"),
    "no column": ("weight=3", "not a column"),
    "no sign": ("sex", "not a column"),
    "a null character": ("a\0=1", "not a column"),
    "nothing": ("", "not a column"),
    "missing where none is": ("age=", "missing"),
}
DRAWN = {"an open end": "age=50..", "another open end": "age=..50", "two levels": "sex=F,M", "two numbers": "age=41,43",
         "a huge range": "age=-1e999999999..1e999999999", "days": "seen=2020-02-10.."}  # fmt: skip
for name, (word, text) in CONDITIONS.items():
    CASES[f"condition: {name}"] = Case(["sample", "-n", "5", "--where", word], 2, text)
for name, word in DRAWN.items():
    CASES[f"condition: {name}"] = Case(["sample", "-n", "5", "--output", "-", "--where", word], 0)
for name, word in {"²": "²", "thirty nines": "9" * 30, "1e40": "1e40", "a half": "0.5", "-1e3": "-1e3"}.items():
    CASES[f"condition: {name} rows"] = Case(["sample", "-n", word], 2, "-n")
CASES["condition: 1e1 rows"] = Case(["sample", "-n", "1e1", "--output", "-"], 0)
CASES["condition: 1_0 rows"] = Case(["sample", "-n", "1_0", "--output", "-"], 0)

# Files beside the table.

BUDGETS: dict[str, str | bytes] = {
    "no object": "[1]\n", "an empty object": "{}\n", "deep": "[" * 100_000 + "\n", "no text": b"\xff\xfe\n",
    "no json": "medsynth\n",
}  # fmt: skip
for name, content in BUDGETS.items():
    files: dict[str, str | bytes] = {"t.medsynth-ledger": content}
    CASES[f"budget: {name}, read"] = Case("ledger --table t.csv", 1, "damaged", files=files)
    CASES[f"budget: {name}, fitted"] = Case(FIT, 1, "damaged", files=files)
for name, junk in {"junk": b"junk" * 99, "an array": b"\0" * 40 + b"[]"}.items():
    files = {"t.medsynth-checkpoint": junk}
    CASES[f"checkpoint: {name}, resumed"] = Case(f"{FIT} --resume", 1, "not a checkpoint", files=files)
    CASES[f"checkpoint: {name}, not resumed"] = Case(FIT.removesuffix(" --force") + " -o u.medsynth", 0)
CASES["checkpoint: left by an interrupted fit"] = Case(
    "fit t.csv --epsilon 3.7 -o u.medsynth", 1, "--resume to continue & --force", files={"u.medsynth-checkpoint": b"x"}
)

# Parquet.


def parquet(values: list[object]) -> bytes:
    file = io.BytesIO()
    pd.DataFrame({"x": values, "y": [0, 1] * (len(values) // 2)}).to_parquet(file)
    return file.getvalue()


for name, value in {"lists": [7431], "structures": {"a": 7431}, "lists of lists": [[7431]]}.items():
    CASES[f"parquet: {name}"] = Case("plan t.csv --epsilon 1", 1, "column 'x' & lists", parquet([value] * 4), None)
CASES["parquet: half"] = Case("plan t.csv --epsilon 1", 1, "damaged", parquet([1, 2, 3, 4])[:200], None)


@pytest.fixture(scope="session")
def model(once: Callable[..., Path]) -> bytes:
    def make(folder: Path) -> None:
        schema = medsynth.Schema.from_yaml(SCHEMA)
        frame = pd.read_csv(io.StringIO(GOOD))
        medsynth.fit(frame, epsilon=30, schema=schema, method="independent", rows=60).save(folder / "t.medsynth")

    return (once("model_of_the_matrix", make) / "t.medsynth").read_bytes()


def written(path: Path, content: str | bytes) -> None:
    path.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass"))


@pytest.mark.matrix
@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("name", CASES)
def test_case(name: str, model: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES[name]
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MEDSYNTH_TRACEBACK", "1")  # a fault of medsynth itself shows as what it is
    written(Path("t.csv"), case.table)
    if case.schema is not None:
        written(Path("t.schema.yaml"), case.schema)
    written(Path("t.medsynth"), model)
    for file, content in case.files.items():
        written(Path(file), content)
    os.mkdir("folder")
    os.mkfifo("pipe")
    os.symlink("t.csv", "link")
    os.symlink("nothing", "lost")
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}

    words = shlex.split(case.command) if isinstance(case.command, str) else case.command
    result = CliRunner().invoke(app, words)

    text = result.stdout + result.stderr
    assert result.exception is None or isinstance(result.exception, SystemExit), repr(result.exception)
    assert result.exit_code == case.code, text
    assert "Traceback" not in text and OWN_FAULT not in text
    said = " ".join(result.stderr.replace("│", " ").split())
    assert all(word in said for word in filter(None, case.text.split(" & "))), result.stderr
    assert not any(mark in text for mark in (CANARY, "٧٤٣١", "７４３１", "7'431", "7_431")) or case.code == 0
    assert len(text) < 6000 or case.code == 0
    after = {path.name: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    changes = {file for file in before if after.get(file) != before[file]}
    assert changes <= ({"t.medsynth"} if case.code == 0 else set())
    assert case.code == 0 or set(after) - set(before) <= LATER
    assert not [file for file in os.listdir() if file.endswith((".part", ".lock")) and file not in LATER]


def test_the_matrix_is_large() -> None:
    assert len(CASES) >= 300
