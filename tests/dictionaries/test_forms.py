"""Frictionless, CSVW, Croissant, OMOP, White Rabbit and codebooks: what is taken from each, and what never is."""

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from medsynth.dictionaries.codebook import is_codebook, template
from medsynth.dictionaries.importing import ImportedSchema, import_schema
from medsynth.errors import SchemaError
from medsynth.schema import Schema

FILES = Path(__file__).parent / "files"


def fates(found: ImportedSchema) -> dict[str, str]:
    return {name: one.fate for name, one in found.outcomes.items()}


def declared(found: ImportedSchema) -> dict[str, Any]:
    return {name: one.column for name, one in found.outcomes.items()}


def written(folder: Path, content: dict[str, Any]) -> Path:
    path = folder / "dictionary.json"
    path.write_text(json.dumps(content, indent=1))
    return path


def test_frictionless() -> None:
    found = import_schema([FILES / "datapackage.json"], of="patients")
    schema = Schema.from_yaml(found.text)
    assert schema.name == "patients" and fates(found)["alive"] == "guessed"
    assert declared(found) | {"tsh": 0, "admitted": 0} == {
        "id": {"kind": "identifier", "shape": "########"},
        "age": {"kind": "count", "bounds": [18, 110], "unit": "years", "label": "Age at admission"},
        "tsh": 0,
        "sex": {"kind": "binary", "levels": ["F", "M"]},
        "severity": {
            "kind": "ordinal",
            "levels": [1, 2, 3],
            "missing": [-9, ""],
            "value_labels": {1: "mild", 2: "moderate", 3: "severe"},
        },
        "admitted": 0,
        "smoker": {"kind": "binary", "levels": ["no", "yes"], "missing": [-9, ""]},
        "alive": {"kind": "binary", "levels": [False, True]},
        "born": {"kind": "count", "bounds": [1900, 2024], "missing": [-9, ""]},
    }
    assert schema.columns["admitted"].text(0) == "01.01.2015" and schema.columns["tsh"].gap_words == ("-9", "")


def test_one_of_several_tables_is_named_or_follows_from_the_table() -> None:
    with pytest.raises(SchemaError, match="describes 2 tables: patients, visits. Set `of`"):
        import_schema([FILES / "datapackage.json"])
    with pytest.raises(SchemaError, match="Did you mean 'visits'"):
        import_schema([FILES / "datapackage.json"], of="visit")
    by_name = import_schema([FILES / "datapackage.json"], ["id"], "visits")
    by_header = import_schema([FILES / "datapackage.json"], ["ward", "id"])
    assert list(by_name.outcomes) == ["id"] and list(by_header.outcomes) == ["ward", "id"]
    assert fates(by_header) == {"ward": "TODO", "id": "guessed"}  # a key by its name


def test_csvw() -> None:
    found = import_schema([FILES / "csvw.json"])
    schema = Schema.from_yaml(found.text)
    assert set(fates(found).values()) == {"taken"} and "page" not in schema.columns
    assert schema.columns["Record number"].kind == "identifier" and schema.columns["Age"].bounds == (0, 110)
    assert schema.columns["Sodium"].places == 1 and schema.columns["Sodium"].gap_words == ("-9", "")
    assert schema.columns["Sex"].levels == ("F", "M", "X") and schema.columns["Smoker"].levels == ("N", "Y")
    assert schema.columns["Admitted"].text(30) == "31.01.2015" and schema.columns["Seen"].text(61) == "2015-01-01 01:01"
    assert schema.columns["Beds"].bounds == (1, 99) and not schema.columns["Beds"].missing
    assert list(import_schema([FILES / "csvw.json"], ["sex", "Age"]).outcomes) == ["sex", "Age"]  # name, or title


def test_croissant() -> None:
    found = import_schema([FILES / "croissant.json"])
    assert fates(found) == {"Record number": "taken", "sex": "guessed", "age": "TODO", "alive": "guessed"}
    sex = {"kind": "binary", "levels": ["F", "M"], "missing": True, "label": "Sex at birth"}
    assert declared(found)["sex"] == sex
    assert "PATIENT-ONE" not in found.text


def test_omop() -> None:
    found = import_schema([FILES / "omop.csv"], of="PERSON")
    columns = declared(found)
    key = {"kind": "identifier", "shape": "########"}
    assert columns["person_id"] == key | {"label": "One number per person."} and columns["provider_id"] == key
    assert "concept identifiers of the domain Gender" in str(found.outcomes["gender_concept_id"].open)
    assert columns["birth_datetime"]["missing"] is True and "missing" not in columns["year_of_birth"]
    note = import_schema([FILES / "omop.csv"], ["note_id", "note_text"], "note")
    assert declared(note)["note_text"] | {"label": ""} == {"kind": "identifier", "drop": True, "label": ""}


def test_a_scan_report_gives_names_and_types_alone(tmp_path: Path) -> None:
    """Its counts and lengths may be anything: the schema is the same, byte for byte."""
    found = import_schema([FILES / "scan.csv"])
    assert set(fates(found).values()) == {"guessed", "TODO"} and "counts follow the rows" in found.text
    lines = (FILES / "scan.csv").read_text().splitlines()
    other = [",".join([*line.split(",")[:4], "99", "1", "1", "0.5", "3", "0.1"]) for line in lines[1:]]
    (tmp_path / "scan.csv").write_text("\n".join([lines[0], *other]))
    assert import_schema([tmp_path / "scan.csv"]).text == found.text


def test_a_codebook_is_matched_loosely() -> None:
    found = import_schema([FILES / "codebook.csv"])
    schema = Schema.from_yaml(found.text)
    assert schema.columns["tsh"].bounds == (0, 500.5) and schema.columns["tsh"].gap_words == ("-9", "")
    assert schema.columns["sex"].levels == ("F", "M") and schema.columns["severity"].kind == "ordinal"
    assert schema.columns["severity"].value_labels == {"1": "mild", "2": "moderate", "3": "severe"}
    assert schema.columns["sex"].label == "Sex at birth" and not schema.columns["notes"].written


@pytest.mark.parametrize("extra", ["N", "Mean", "SD", "Observed min", "% missing", "n missing", "P25", "Count"])
def test_a_codebook_with_statistics_gives_no_bounds_and_no_levels(extra: str, tmp_path: Path) -> None:
    """Whatever its minima, maxima, levels and missing cells are, the schema is the same, byte for byte."""
    texts = []
    for age, codes in (("19,97", "F=female; M=male"), ("22,88", "F=female")):
        lines = [
            f"Variable,Type,Min,Max,Values,Missing,{extra}",
            f"age,integer,{age},,3,9",
            f"sex,categorical,,,{codes},,9",
        ]
        (tmp_path / "codebook.csv").write_text("\n".join(lines))
        found = import_schema([tmp_path / "codebook.csv"])
        assert set(fates(found).values()) == {"TODO"} and "statistics of the rows" in found.message
        texts.append(found.text)
    assert texts[0] == texts[1]


def test_codes_of_a_limited_number_are_missing_values_and_an_unknown_type_is_to_do(tmp_path: Path) -> None:
    lines = [
        "column,type,min,max,codes,required",
        "age,integer,0,110,-9=unknown,yes",
        "x,banana,,,,",
        "y,banana,,,1;2,",
    ]
    (tmp_path / "codebook.csv").write_text("\n".join(lines))
    found = import_schema([tmp_path / "codebook.csv"])
    labelled = {"missing": [-9], "value_labels": {-9: "unknown"}}
    assert declared(found)["age"] == {"kind": "count", "bounds": [0, 110], **labelled}
    assert fates(found) == {"age": "guessed", "x": "TODO", "y": "guessed"} and "'banana' is not known" in found.message


def test_counts_among_the_codes_are_statistics_too(tmp_path: Path) -> None:
    (tmp_path / "codebook.csv").write_text("name;type;codes;valid min\nsex;factor;F (n=12) | M (n=1);\nage;int;;18\n")
    found = import_schema([tmp_path / "codebook.csv"])
    assert "levels" in str(found.outcomes["sex"].open) and "n=12" not in found.text
    assert declared(found)["age"]["bounds"][0] == 18  # a limit that names itself as allowed


def test_the_template_is_a_codebook(tmp_path: Path) -> None:
    (tmp_path / "codebook.csv").write_text(template())
    Schema.from_yaml(import_schema([tmp_path / "codebook.csv"]).text)
    (tmp_path / "codebook.csv").write_text(template(["age", "=cmd()", "ward"]))
    assert "'=cmd()" in (tmp_path / "codebook.csv").read_text()  # inert in a spreadsheet
    assert fates(import_schema([tmp_path / "codebook.csv"])) == {"age": "TODO", "=cmd()": "TODO", "ward": "TODO"}


@pytest.mark.parametrize("header", ["name,age,sex,city", "id,age,type", "patient,sex,label", "name,sex,age,type,ward"])
def test_a_table_of_patients_is_not_a_codebook(header: str) -> None:
    assert not is_codebook(header.split(","))


def test_a_workbook_is_read_up_to_its_first_sheet_with_content(tmp_path: Path) -> None:
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    sheet = book.create_sheet("Codebook")
    for row in (
        ["Column", "Type", "Minimum", "Maximum"],
        ["age", "integer", 18, 110.0],
        ["day", "date", "2020-01-01", None],
    ):
        sheet.append(row)
    book.create_sheet("Patients").append(["PATIENT-ONE"])
    book.save(tmp_path / "codebook.xlsx")
    found = import_schema([tmp_path / "codebook.xlsx"])
    assert declared(found)["age"]["bounds"] == [18, 110] and fates(found)["day"] == "TODO"
    with zipfile.ZipFile(tmp_path / "codebook.xlsx", "a") as archive:
        archive.writestr("xl/more.xml", '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa">]><x>&a;</x>')
    with pytest.raises(SchemaError, match="declares XML entities"):
        import_schema([tmp_path / "codebook.xlsx"])


HOSTILE = [
    "=cmd|' /C calc'!A0",
    "+1+1",
    "-2+3",
    "@SUM(A1)",
    "TODO",
    "yes",
    "# no",
    "a: b",
    "{x}",
    "1e5",
    "0x1F",
    "~",
    "é",
]


def test_any_text_comes_back_as_itself_and_harmless(tmp_path: Path) -> None:
    """Names, levels, units and labels: quoted in the schema, and no line of it ends early."""
    fields = [
        {
            "name": f"{text} {k}",
            "title": f"{text}\n{text}\x00<script>",
            "type": "string",
            "constraints": {"enum": HOSTILE},
        }
        for k, text in enumerate(HOSTILE)
    ]
    fields.append({"name": "x", "type": "number", "unit": "=1+1", "constraints": {"minimum": 0, "maximum": 1e-7}})
    found = import_schema([written(tmp_path, {"fields": fields})])
    schema = Schema.from_yaml(found.text)
    assert schema.names == tuple(str(field["name"]) for field in fields) and not schema.open
    assert {schema.columns[name].levels for name in schema.names[:-1]} == {tuple(HOSTILE)}
    assert schema.columns["x"].bounds == (0, 1e-7) and "\x00" not in found.text and "<script>" not in found.text


def test_nothing_is_fetched(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("a connection")

    monkeypatch.setattr("socket.socket", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)
    for content in (
        {"@context": "http://www.w3.org/ns/csvw", "url": "a.csv", "tableSchema": "http://example.org/schema.json"},
        {"resources": [{"name": "a", "schema": "http://example.org/schema.json"}]},
        {"resources": [{"name": "a", "schema": "../../etc/passwd"}]},
    ):
        with pytest.raises(SchemaError, match="which is not fetched"):
            import_schema([written(tmp_path, content)])
    with pytest.raises(SchemaError, match="no resource has a schema with fields"):
        import_schema([written(tmp_path, {"resources": [{"name": "a", "schema": {"$ref": "http://example.org"}}]})])
    import_schema([FILES / "csvw.json"])
