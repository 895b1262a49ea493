"""A field that a dictionary does not describe well stays open and is listed; the rest is imported."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from redcap_lines import FILES, HEADER, field

from medsynth.dictionaries.importing import import_schema
from medsynth.schema import Schema
from medsynth.schema.columns.open import Open

REST = field("sex", "radio", "F, female | M, male")
REDCAP = {
    "no code": (field("a", "radio", "1, Mild | Severe"), "choice 2 must be a code, a comma and a label"),
    "words alone": (field("a", "dropdown", "Mild | Severe"), "choice 1 must be"),
    "a pipe in a label": (field("a", "radio", "1, left|right | 2, none"), "choice 2 must be"),
    "a pipe and a comma in a label": (field("a", "radio", "1, left | or right, or both | 2, none"), "choice 2 must be"),
    "a code twice": (field("a", "radio", "1, Mild | 1, Severe"), "two choices have the code '1'"),
    "no choice": (field("a", "radio"), "choice 1 must be"),
    "ends turned": (field("a", check="integer", low="9", high="1"), "the minimum 9 must be below"),
    "days turned": (field("a", check="date_ymd", low="2024-01-01", high="2015-01-01"), "the minimum 2024-01-01"),
    "no number": (field("a", check="number", low="1-2", high="3"), "the limit '1-2' is not"),
    "no such type": (field("a", "number"), "'number' is not a REDCap field type"),
    "no type": (field("a", ""), "no field type"),
}
JSON: dict[str, tuple[dict[str, Any], str]] = {
    "type": ({"type": "int"}, "'int' is not a type of Frictionless"),
    "bounds": ({"type": "number", "constraints": {"minimum": 9, "maximum": 1}}, "the minimum 9 must be"),
    "a level twice": ({"type": "string", "constraints": {"enum": ["x", "x"]}}, "a level is given twice"),
    "many levels": ({"type": "string", "constraints": {"enum": [*range(99_999)]}}, "at most 10000"),
}
CODEBOOKS = {
    "a code twice": ("a,factor,1=x; 1=y,,,", "a code is empty or given twice"),
    "infinite": ("a,number,,-inf,nan,", "the limit '-inf' is not a number"),
    "a missing code within": ("a,int,,0,9,7", "a code of missing"),
}


def stays_open(path: Path, why: str) -> Schema:
    """The schema of a dictionary that describes `sex` well, and `a` not."""
    found = import_schema([path])
    assert found.unfinished and found.outcomes["a"].fate == "TODO" and why in str(found.outcomes["a"].open)
    assert "a: TODO (" in found.message and why in found.message
    schema = Schema.from_yaml(found.text)
    assert isinstance(schema.columns["a"], Open) and set(schema.columns["sex"].levels) == {"F", "M"}
    return schema


@pytest.mark.parametrize("name", REDCAP)
def test_a_field_of_redcap_stays_open(name: str, tmp_path: Path) -> None:
    line, why = REDCAP[name]
    path = tmp_path / "dictionary.csv"
    path.write_text(f"{HEADER}\n{field('record_id')}{line}{REST}")
    stays_open(path, why)


def test_checkboxes_whose_choices_are_not_understood_are_listed(tmp_path: Path) -> None:
    path = tmp_path / "dictionary.csv"
    path.write_text(f"{HEADER}\n{field('record_id')}{field('a', 'checkbox', 'Mild | Severe')}{REST}")
    found = import_schema([path])
    assert "a: its columns are not declared, since choice 1 must be" in found.message and "sex" in found.outcomes
    assert import_schema([path], ["sex", "a___1"]).outcomes["a___1"].fate == "TODO"


@pytest.mark.parametrize("name", JSON)
def test_a_field_of_frictionless_stays_open(name: str, tmp_path: Path) -> None:
    content, why = JSON[name]
    sex = {"name": "sex", "type": "string", "constraints": {"enum": ["F", "M"]}}
    path = tmp_path / "schema.json"
    path.write_text(json.dumps({"fields": [{"name": "a", **content}, sex]}))
    stays_open(path, why)


@pytest.mark.parametrize("name", CODEBOOKS)
def test_a_line_of_a_codebook_stays_open(name: str, tmp_path: Path) -> None:
    line, why = CODEBOOKS[name]
    path = tmp_path / "codebook.csv"
    path.write_text(f"column,type,codes,min,max,missing codes\n{line}\nsex,factor,F=female; M=male,,,\n")
    stays_open(path, why)


def test_data_types_that_do_not_exist_stay_open(tmp_path: Path) -> None:
    path = tmp_path / "omop.csv"
    path.write_text(
        (FILES / "omop.csv").read_text().replace("gender_concept_id,TRUE,integer", "gender_concept_id,TRUE,banana", 1)
    )
    found = import_schema([path], of="person")
    assert any("'banana' is not a data type" in str(one.open) for one in found.outcomes.values())
    csvw = tmp_path / "table.json"
    csvw.write_text(json.dumps({"tableSchema": {"columns": [{"name": "a", "datatype": "banana"}, {"name": "b"}]}}))
    assert "'banana' is not a datatype" in str(import_schema([csvw]).outcomes["a"].open)


def test_codes_that_mean_missing_and_scales_with_labels_at_both_ends(tmp_path: Path) -> None:
    path = tmp_path / "codebook.csv"
    path.write_text(
        "Variable;Beschreibung;Werte;Fehlend\n"
        "smoker;Raucher;0=nein, 1=ja, 9=fehlend;\n"
        "married;Familienstand;1=ledig, 2=verheiratet;99\n"
        'pain;Schmerz;"0=keiner, 10=stärkster";k.A.\n'
        "grade;Grad;1=leicht, 2=mittel, 4=schwer;\n"
    )
    found = {name: one.column for name, one in import_schema([path]).outcomes.items()}
    assert (found["smoker"]["levels"], found["smoker"]["missing"]) == ([0, 1], [9, ""])
    assert (found["married"]["levels"], found["married"]["missing"]) == ([1, 2], [99, ""])
    assert (found["pain"]["kind"], found["pain"]["levels"]) == ("ordinal", [*range(11)])
    assert found["pain"]["value_labels"] == {0: "keiner", 10: "stärkster"} and found["grade"]["levels"] == [1, 2, 4]


def test_labelled_missing_values_of_a_data_package(tmp_path: Path) -> None:
    """Version 2: a list of values with labels, for all fields or for one."""
    refused, lost = {"value": "-99", "label": "refused"}, {"value": "-98", "label": "lost"}
    fields = [
        {"name": "age", "type": "integer", "constraints": {"minimum": 0, "maximum": 120}},
        {"name": "smoker", "type": "boolean", "trueValues": ["1"], "falseValues": ["0"], "missingValues": [lost, ""]},
        {"name": "sex", "type": "string", "categories": [{"value": "F", "label": "female"}, "M"]},
    ]
    schema = {"fields": fields, "missingValues": ["", refused]}
    path = tmp_path / "datapackage.json"
    path.write_text(json.dumps({"resources": [{"name": "t", "schema": schema}]}))
    found = {name: one.column for name, one in import_schema([path]).outcomes.items()}
    assert found["age"]["missing"] == [-99, ""] and found["age"]["value_labels"] == {-99: "refused"}
    assert found["smoker"]["missing"] == [-98, ""] and found["smoker"]["levels"] == [0, 1]
    assert found["sex"]["missing"] == [-99, ""] and found["sex"]["levels"] == ["F", "M"]


def test_missing_data_codes_are_read_in_fields_of_yes_and_no(tmp_path: Path) -> None:
    path = tmp_path / "dictionary.csv"
    path.write_text(f"{HEADER}\n{field('record_id')}{field('smoker', 'yesno')}{field('alive', 'truefalse')}")
    column = Schema.from_yaml(import_schema([path, FILES / "project.xml"], ["smoker", "alive"]).text).columns["smoker"]
    assert column.levels == (0, 1) and column.gap_words == ("-999", "UNK", "")
    codes = column.read(np.array(["0", "1", "-999", "UNK", ""], object)).codes
    assert codes.tolist() == [0, 1, 2, 3, 4]
