"""`schema import` and `schema template`: only the header is read, and the way from a dictionary to a sample works."""

import json
from pathlib import Path

import pytest
from commands import good, run
from simulated_rows import simulated_rows

from medsynth.dictionaries.importing import import_schema
from medsynth.schema import Schema

FILES = Path(__file__).parent / "files"
COLUMNS = "record,age,tsh,sex,severity,admitted,notes"


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_only_the_header_line_of_the_table_is_read(here: Path) -> None:
    """Rows that no reader accepts change nothing: undecodable, of other lengths, with an open quote."""
    made = set()
    for rows in (b"", b"1,40,2.1,F,1,01.02.2020,x\n", b'\xff\xfe\0"1,2,3\n', b"9\n" * 100_000):
        (here / "patients.csv").write_bytes(f"{COLUMNS}\n".encode() + rows)
        good("schema", "import", FILES / "codebook.csv", "--table", "patients.csv", "--force")
        made.add((here / "patients.schema.yaml").read_text())
    assert len(made) == 1 and "name: patients\n" in made.pop()


def test_the_pieces_of_a_table_are_never_asked_for(here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("rows are read")

    for name in ("io.text._pieces", "io.text._cells", "io.reader.read", "io.reader.read_large"):
        monkeypatch.setattr(f"medsynth.{name}", refuse)
    (here / "patients.csv").write_text(f"{COLUMNS}\n1,40,2.1,F,1,01.02.2020,x\n")
    good("schema", "import", FILES / "codebook.csv", "--table", "patients.csv")
    good("schema", "template", "--table", "patients.csv")
    assert (here / "codebook.csv").read_text().splitlines()[1:] == [f"{name},,,,,,,,,," for name in COLUMNS.split(",")]


def test_the_header_of_a_workbook(here: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    book.active.append(["age"])
    book.save("patients.xlsx")
    good("schema", "import", FILES / "codebook.csv", "--table", "patients.xlsx")
    assert list(Schema.load(here / "patients.schema.yaml").columns) == ["age"]


def test_the_command_says_what_became_of_each_entry(here: Path) -> None:
    words = ["schema", "import", FILES / "redcap.csv"]
    result = good(*words, FILES / "project.xml", "-o", "clinic.schema.yaml")
    assert "redcap_repeat_instance: TODO" in result.stdout and "Fill in each TODO that you know" in result.stdout
    assert run(*words, "-o", "clinic.schema.yaml").exit_code == 1  # it exists
    told = json.loads(good(*words, "-o", "clinic.schema.yaml", "--force", "--json").stdout)
    assert told["entries"]["bmi"] == {
        "fate": "guessed", "guesses": ["its bounds follow from those of its fields"], "open": [],
    }  # fmt: skip
    assert told["form"] == "REDCap data dictionary" and told["remarks"] == ["info: a text on the form, not a column"]
    again = run(*words, "-o", FILES / "redcap.csv", "--force")
    assert again.exit_code == 1 and "would overwrite it" in " ".join(again.stderr.split())


def test_an_encoding_is_declared(here: Path) -> None:
    (here / "codebook.csv").write_bytes("column,type,codes\nGröße,factor,groß;klein\n".encode("cp1252"))
    good("schema", "import", "codebook.csv", "--encoding", "cp1252")
    assert Schema.load(here / "codebook.schema.yaml").columns["Größe"].levels == ("groß", "klein")


@pytest.mark.parametrize(("file", "of"), [("redcap.csv", None), ("datapackage.json", "patients"), ("csvw.json", None)])
def test_rows_by_the_dictionary_meet_the_imported_schema(file: str, of: str | None, here: Path) -> None:
    """No YAML is edited: an import, and a check of simulated rows."""
    _prepare(file, of, 60)
    assert good("schema", "check", "patients.csv").stdout.startswith("patients.csv meets the schema 'patients'.")


@pytest.mark.nightly
@pytest.mark.parametrize(("file", "of"), [("redcap.csv", None), ("datapackage.json", "patients"), ("csvw.json", None)])
def test_from_a_dictionary_to_a_sample(file: str, of: str | None, here: Path) -> None:
    """No YAML is edited: an import, a fit of simulated rows, and a sample that obeys the schema and its rules."""
    schema = _prepare(file, of, 500)
    good("fit", "patients.csv", "--epsilon", "3", "--rows", "500", "--one-row-a-patient")
    good("sample", "-n", "300", "--seed", "1")
    good("schema", "check", "patients.synthetic.csv", "--schema", "written.schema.yaml")
    drawn = (here / "patients.synthetic.csv").read_text().splitlines()
    assert drawn[0].split(",") == [name for name, column in schema.columns.items() if column.written]
    assert len(drawn) == 301


def _prepare(file: str, of: str | None, rows: int) -> Schema:
    """Import a dictionary for a table of simulated rows. `written.schema.yaml` has the columns of a sample."""
    found = import_schema([FILES / file], of=of)
    simulated_rows(Schema.from_yaml(found.text), rows).to_csv("patients.csv", index=False)
    good("schema", "import", FILES / file, "--table", "patients.csv", *(["--of", of] if of else []))
    schema = Schema.load("patients.schema.yaml")
    columns = {name: column for name, column in schema.columns.items() if column.written}
    Path("written.schema.yaml").write_text(schema.model_copy(update={"columns": columns}).to_yaml())
    return schema
