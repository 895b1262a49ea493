"""What public dictionaries of real studies look like: each case is a kind that some of them showed."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pytest
from redcap_lines import HEADER, field

from medsynth.dictionaries.codebook import is_codebook
from medsynth.dictionaries.importing import ImportedSchema, import_schema
from medsynth.errors import SchemaError, UsageError
from medsynth.sampling.structure import structure_model
from medsynth.schema import Schema


def of_lines(folder: Path, *lines: str, table: list[str] | None = None) -> ImportedSchema:
    """The import of a codebook with these lines, whose cells are separated by bars."""
    text = io.StringIO()
    csv.writer(text).writerows([cell.strip() for cell in line.split("¦")] for line in lines)
    (folder / "codebook.csv").write_text(text.getvalue())
    return import_schema([folder / "codebook.csv"], table)


def of_json(folder: Path, content: dict[str, Any]) -> ImportedSchema:
    (folder / "dictionary.json").write_text(json.dumps(content, indent=1))
    return import_schema([folder / "dictionary.json"])


def test_data_elements_have_their_names_as_id(tmp_path: Path) -> None:
    found = of_lines(
        tmp_path, "Id ¦ Label ¦ Datatype ¦ Unit ¦ Enumeration ¦ MissingValueCodes",
        'sex ¦ Sex ¦ integer ¦ ¦ "1"=[Male] | "2"=[Female] | "9"=[Not asked, or refused] ¦ "9"=[Not asked]',
        "weight ¦ Weight ¦ decimal ¦ kg ¦ ¦",
    )  # fmt: skip
    assert found.outcomes["sex"].column == {
        "kind": "binary", "levels": [1, 2], "missing": [9, ""], "label": "Sex",
        "value_labels": {1: "Male", 2: "Female", 9: "Not asked, or refused"},
    }  # fmt: skip
    assert not is_codebook(["id", "type", "value"]) and not is_codebook(["Id", "Datatype", "Pattern"])


def test_constraints_in_titles(tmp_path: Path) -> None:
    found = of_lines(
        tmp_path, "name ¦ type ¦ constraints.enum ¦ constraints.minimum ¦ constraints.maximum ¦ constraints.required",
        "race ¦ string ¦ A long name of a group|Other ¦ ¦ ¦ yes", "age ¦ integer ¦ ¦ 0 ¦ 90 ¦ no",
    )  # fmt: skip
    race = {"kind": "binary", "levels": ["A long name of a group", "Other"]}
    assert found.outcomes["race"].column == race
    assert found.outcomes["age"].column == {"kind": "count", "bounds": [0, 90], "missing": True}


def test_the_table_shows_which_title_has_the_names_and_cells_which_has_the_types(tmp_path: Path) -> None:
    lines = ("Variable ¦ colname ¦ Type ¦ Data type ¦ Range", "Age of patient ¦ age ¦ main ¦ integer ¦ 18-105")
    found = of_lines(tmp_path, *lines, table=["age"])
    assert found.outcomes["age"].column == {"kind": "count", "bounds": [18, 105], "missing": True}
    assert list(of_lines(tmp_path, *lines).outcomes) == ["Age of patient"]


@pytest.mark.parametrize("text", ["0 - 0,5", "[0; 0.5]", "0 to 0.5", "0..0.5", "0–0.5"])
def test_ranges(text: str, tmp_path: Path) -> None:
    found = of_lines(tmp_path, "name ¦ type ¦ range", f"dose ¦ number ¦ {text}")
    assert found.outcomes["dose"].column["bounds"] == [0, 0.5]


def test_values_in_words_are_no_levels(tmp_path: Path) -> None:
    found = of_lines(
        tmp_path, "variable ¦ label ¦ values", "bmi ¦ Body mass ¦ continuous", "sex ¦ Sex ¦ 1= male; 2= female",
        "who ¦ Number ¦ Each participant's own number, as in the form", "ward ¦ Ward ¦ A, B", "town ¦ Town ¦ various",
    )  # fmt: skip
    kinds = {name: one.column["kind"] for name, one in found.outcomes.items()}
    assert {**kinds, "who": "", "town": ""} == {
        "bmi": "continuous",
        "sex": "binary",
        "who": "",
        "ward": "binary",
        "town": "",
    }
    assert found.outcomes["who"].fate == found.outcomes["town"].fate == "TODO"


def test_a_code_that_means_missing_and_a_label_that_has_another_code(tmp_path: Path) -> None:
    found = of_lines(
        tmp_path,
        "variable ¦ label ¦ values",
        "wed ¦ Married ¦ 1=yes; 2=no; NA=refused",
        "fed ¦ Fed ¦ 1=yes, 2=no; 3=other",
    )
    wed, fed = found.outcomes["wed"], found.outcomes["fed"]
    assert (wed.column["levels"], wed.column["missing"]) == ([1, 2], ["NA", ""]) and "NA means" in wed.guesses[0]
    assert fed.column["levels"] == [1, 3] and "a label has another code" in fed.guesses[0]


def test_labels_may_contain_other_signs_and_a_scale_may_have_labels_at_its_ends_alone(tmp_path: Path) -> None:
    found = of_lines(
        tmp_path,
        "variable ¦ label ¦ type ¦ minimum ¦ maximum ¦ values ¦ missing codes",
        "drug ¦ Drug ¦ levels ¦ ¦ ¦ 1=A|B (both); 2=C; 3=D|E ¦",
        "vas ¦ Pain ¦ ordinal ¦ ¦ ¦ 0 = none ... 3 = worst ¦ 99",
        "nrs ¦ Pain ¦ integer ¦ 0 ¦ 10 ¦ 0=none; 10=worst; -1=fehlend ¦ 99",
    )
    drug, vas, nrs = (found.outcomes[name].column for name in ("drug", "vas", "nrs"))
    assert drug["value_labels"] == {1: "A|B (both)", 2: "C", 3: "D|E"} and drug["levels"] == [1, 2, 3]
    assert (vas["kind"], vas["levels"], vas["missing"]) == ("ordinal", [0, 1, 2, 3], [99, ""])
    assert (nrs["kind"], nrs["bounds"], nrs["missing"]) == ("count", [0, 10], [99, -1, ""])


@pytest.mark.parametrize(
    ("title", "cell"),
    [("Non_Null_Count", "12"), ("Unique Values", "3"), ("Sample values", "7"), ("Null count original", "0")],
)
def test_more_titles_of_statistics(title: str, cell: str, tmp_path: Path) -> None:
    found = of_lines(tmp_path, f"name ¦ type ¦ range ¦ min ¦ {title}", f"age ¦ integer ¦ 18-105 ¦ 19 ¦ {cell}")
    assert "it gives statistics" in found.message and not any(number in found.text for number in ("18", "19", "105"))


def test_an_observed_range_is_a_statistic(tmp_path: Path) -> None:
    lines = ("name ¦ type ¦ range", "age ¦ integer ¦ 18-105", "days ¦ number ¦ Observed range: 0.1-2543")
    found = of_lines(tmp_path, *lines)
    assert "it gives statistics" in found.message and "105" not in found.text and "2543" not in found.text


def test_a_format_without_types_is_the_type(tmp_path: Path) -> None:
    found = of_lines(tmp_path, "Field ¦ Format ¦ Definition", "a ¦ Boolean ¦ x", "b ¦ number ¦ y", "c ¦ roman ¦ z")
    assert [one.column["kind"] == "binary" for one in found.outcomes.values()] == [True, False, False]
    assert "the type 'roman' is not known" in found.outcomes["c"].open[0]


def test_a_redcap_dictionary_without_forms(tmp_path: Path) -> None:
    lines = f"{HEADER}\n{field('record_id')}{field('sex', 'radio', '0, f | 1, m')}"
    whole = list(csv.reader(io.StringIO(lines)))
    text = io.StringIO()
    csv.writer(text).writerows(row[:1] + row[2:] for row in whole)
    (tmp_path / "d.csv").write_text(text.getvalue())
    found = import_schema([tmp_path / "d.csv"])
    assert found.form == "REDCap data dictionary" and list(found.outcomes) == ["record_id", "sex"]


def test_a_missing_value_among_the_levels_of_a_table_schema(tmp_path: Path) -> None:
    one = {
        "name": "sex",
        "type": "string",
        "missingValues": ["unknown"],
        "constraints": {"enum": ["F", "M", "unknown"]},
    }
    found = of_json(tmp_path, {"fields": [one]})
    assert found.outcomes["sex"].column == {"kind": "binary", "levels": ["F", "M"], "missing": ["unknown"]}


def test_a_blank_title_of_csvw_is_none(tmp_path: Path) -> None:
    columns = [{"titles": " ", "name": name, "datatype": "boolean"} for name in ("a", "b")]
    assert list(of_json(tmp_path, {"tableSchema": {"columns": columns}}).outcomes) == ["a", "b"]


def test_splits_and_fields_of_one_column_in_croissant(tmp_path: Path) -> None:
    text, part = {"dataType": "sc:Boolean"}, {"source": {"extract": {"column": "code"}}}
    splits = {"name": "splits", "dataType": "cr:Split", "field": [{"name": "split", **text}]}
    fields = [{"name": "code", **text, **part}, {"name": "start", **text, **part}, {"name": "code of ward", **text}]
    found = of_json(tmp_path, {"recordSet": [splits, {"name": "rows", "field": fields}]})
    assert list(found.outcomes) == ["code", "code of ward"]


def test_an_xml_file_alone_says_where_the_dictionary_is(tmp_path: Path) -> None:
    (tmp_path / "p.xml").write_text("<ODM></ODM>")
    with pytest.raises(SchemaError, match="REDCap exports the data dictionary as a CSV file"):
        import_schema([tmp_path / "p.xml"])


def test_a_schema_of_keys_alone_has_no_structure(tmp_path: Path) -> None:
    found = of_lines(tmp_path, "column ¦ type ¦ label", "record ¦ key ¦ number", "note ¦ text ¦ remarks")
    with pytest.raises(UsageError, match="has only identifiers"):
        structure_model(Schema.from_yaml(found.text))
