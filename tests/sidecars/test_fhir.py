"""FHIR resources of synthetic OMOP tables: valid in R4 and R4B, labelled, linked, and whole or not at all."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from commands import good, run

from medsynth.dictionaries.concepts import Concept, read_concepts
from medsynth.errors import TableError

pytest.importorskip("fhir.resources", reason="pip install -c constraints.txt 'medsynth[fhir]'")
R4 = Path(__file__).parents[1] / "fixtures" / "fhir-r4.schema.json"
TYPES = {"Patient": "person", "Encounter": "visit_occurrence", "Condition": "condition_occurrence",
         "MedicationStatement": "drug_exposure", "Observation": "measurement"}  # fmt: skip
HEADER = "concept_id\tconcept_name\tdomain_id\tvocabulary_id\tconcept_class_id\tstandard_concept\tconcept_code\n"
CONCEPTS = (
    HEADER + '80809\tRheumatoid "arthritis"\tCondition\tSNOMED\tx\tS\t69896004\n'
    "3016723\tCreatinine\tMeasurement\tLOINC\tx\tS\t2160-0\n9202\tOutpatient Visit\tVisit\tVisit\tVisit\tS\tOP\n"
)


def resources(folder: str = "cdm.fhir") -> dict[str, list[Any]]:
    return {path.stem: [*map(json.loads, path.read_text().splitlines())] for path in Path(folder).glob("*.ndjson")}


@pytest.mark.nightly
def test_each_row_is_a_labelled_resource_that_is_valid_in_both_versions(cdm: Path) -> None:
    jsonschema = pytest.importorskip("jsonschema", reason="pip install -c constraints.txt 'medsynth[metadata]'")
    schema = json.loads(R4.read_text())
    facts = json.loads(good("export", "fhir", "--json").stdout)
    found = resources()
    assert set(found) == {*TYPES, "Provenance"} and facts["counts"] == {name: len(of) for name, of in found.items()}
    ids = {f"{one['resourceType']}/{one['id']}" for of in found.values() for one in of}
    assert len(ids) == sum(map(len, found.values()))
    for name, of in found.items():
        valid = jsonschema.Draft6Validator({**schema, "oneOf": [{"$ref": f"#/definitions/{name}"}]})
        made = getattr(import_module(f"fhir.resources.R4B.{name.lower()}"), name)
        for one in of:
            assert one["resourceType"] == name and not [*valid.iter_errors(one)], one
            assert json.loads(made.model_validate(one).model_dump_json()) == one
            assert [label["code"] for label in one.get("meta", {}).get("security", [])] == ["HTEST", "synthetic"]
            links = [one[place]["reference"] for place in ("subject", "encounter", "context") if place in one]
            assert ids >= {*links}, links
    broken = {**found["Patient"][0], "triggeredBy": "R5"}
    assert [*jsonschema.Draft6Validator({**schema, "oneOf": [{"$ref": "#/definitions/Patient"}]}).iter_errors(broken)]


@pytest.mark.nightly
def test_the_resources_say_what_the_rows_say(cdm: Path) -> None:
    good("export", "fhir", "-o", "out")
    found = resources("out")
    rows = {name: pd.read_csv(f"cdm.synthetic/{name}.csv", dtype=str) for name in (*TYPES.values(), "death")}
    assert {name: len(found[name]) for name in TYPES} == {name: len(rows[table]) for name, table in TYPES.items()}
    born = rows["person"]["year_of_birth"].tolist()
    assert [one["birthDate"] for one in found["Patient"]] == born
    died = rows["person"].merge(rows["death"].drop_duplicates("person_id"), how="left")["death_date"].fillna("")
    stated = pd.Series([one.get("deceasedDateTime", "") for one in found["Patient"]])
    assert (stated >= died).all() and ((stated != "") == (died != "")).all() and (died != "").any()
    values = [str(one.get("valueQuantity", {}).get("value", "")) for one in found["Observation"]]
    assert pd.to_numeric(pd.Series(values)).equals(pd.to_numeric(rows["measurement"]["value_as_number"]))
    visits = rows["visit_occurrence"]
    ends = pd.Series([one["period"]["end"] for one in found["Encounter"]])
    alive = ~visits["person_id"].isin(rows["death"]["person_id"])
    assert (ends <= visits["visit_end_date"]).all() and ends[alive].equals(visits["visit_end_date"][alive])
    assert {one["status"] for one in found["MedicationStatement"]} == {"unknown"}
    words = found["Provenance"][0]["text"]["div"]
    assert len(found["Provenance"]) == 1 and "SYNTHETIC" in words and "-differential privacy" in words


@pytest.mark.nightly
def test_codes_come_from_the_stewards_file(cdm: Path) -> None:
    Path("CONCEPT.csv").write_text(CONCEPTS)
    told = json.loads(good("export", "fhir", "--concepts", "CONCEPT.csv", "--json").stdout)
    codings = [one["code"].get("coding", [{}])[0] for name in ("Condition", "Observation") for one in resources()[name]]
    named = {one.get("display"): (one.get("system"), one.get("code")) for one in codings}
    assert named["Creatinine"] == ("http://loinc.org", "2160-0")
    assert named['Rheumatoid "arthritis"'] == ("http://snomed.info/sct", "69896004")
    visit = [one["type"][0]["coding"][0] for one in resources()["Encounter"] if one["class"]["code"] == "AMB"][0]
    assert visit == {"system": "https://fhir-terminology.ohdsi.org", "code": "9202", "display": "Outpatient Visit"}
    assert "9202" in told["uncoded"] and "80809" not in told["uncoded"]
    assert told["left_out"] == ["person.race_concept_id", "death.cause_concept_id"]
    words = good("export", "fhir", "--force").stderr
    assert "person.race_concept_id" in words and "pass --concepts" in words
    systems = {one["system"] for each in resources()["Condition"] for one in each["code"].get("coding", [])}
    assert systems == {"https://fhir-terminology.ohdsi.org"}


@pytest.mark.nightly
def test_only_what_the_model_drew_is_called_synthetic(cdm: Path) -> None:
    path = Path("cdm.synthetic/person.csv")
    path.write_text(path.read_text().replace(",1", ",2", 1))
    result = run("export", "fhir")
    assert result.exit_code == 2 and "Nothing proves" in result.stderr and not Path("cdm.fhir").exists()


@pytest.mark.nightly
def test_nothing_is_overwritten_or_mixed(cdm: Path) -> None:
    good("export", "fhir")
    assert run("export", "fhir").exit_code == 1
    Path("cdm.fhir/private.csv").write_text("a\n1\n")
    result = run("export", "fhir", "--force")
    assert result.exit_code == 1 and "other files" in result.stderr


@pytest.mark.nightly
def test_a_failure_leaves_no_folder_and_an_old_one_as_it_was(cdm: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from medsynth.sidecars import fhir

    good("export", "fhir", "-o", "old")
    before = {path.name: path.read_bytes() for path in Path("old").iterdir()}

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(fhir, "_provenance", full)
    for folder in ("new", "old"):
        result = run("export", "fhir", "-o", folder, "--force")
        assert result.exit_code == 1 and "No space left" in result.stderr
    assert not Path("new").exists()
    assert {path.name: path.read_bytes() for path in Path("old").iterdir()} == before


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "cannot be read"),
        (b"", "no column 'concept_id'"),
        (b"concept_id\tconcept_name\n1\tx\n", "no column 'vocabulary_id'"),
        (HEADER.encode() + b"1\tx\n", "line 2: fewer cells"),
        (HEADER.encode() + b"\xff\t\t\t\t\t\t\n", "not valid UTF-8"),
        (HEADER.encode() + b"1\t" + b"x" * 200_000, "not a table in text"),
    ],
)
def test_a_wrong_file_of_concepts_is_refused_by_line(tmp_path: Path, content: bytes | None, message: str) -> None:
    path = tmp_path / "CONCEPT.csv"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(TableError, match=message):
        read_concepts(path, {"1"})


def test_concepts_with_commas_and_quotes_are_read(tmp_path: Path) -> None:
    path = tmp_path / "CONCEPT.csv"
    path.write_text('"concept_id","concept_name","vocabulary_id","concept_code"\n1,"a, b",LOINC,1-1\n2,c,LOINC,2-2\n')
    assert read_concepts(path, {"1"}) == {"1": Concept(name="a, b", vocabulary="LOINC", code="1-1")}


def test_other_models_are_refused(small: Path) -> None:
    result = run("export", "fhir")
    assert result.exit_code == 2 and "OMOP" in result.stderr and not Path("small.fhir").exists()
