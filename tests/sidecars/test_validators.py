"""The descriptions as the libraries of their standards read them. They are not installed with medsynth itself."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pandas as pd
import pytest
from commands import good

from medsynth.sidecars.healthdcat import period

EXTRA = "pip install -c constraints.txt 'medsynth[metadata]'"
ENDINGS = ["csv", "csv.gz", "parquet"]
# Mandatory in HealthDCAT-AP, release 8: its shapes for datasets that are not public, and DCAT-AP's for distributions.
OF_DATASETS = (
    "dct:title", "dct:description", "dct:accessRights", "dcatap:applicableLegislation", "dcat:distribution",
    "dct:identifier", "dcat:theme", "healthdcatap:hdab", "healthdcatap:healthCategory",
    "healthdcatap:hasStructuredData", "healthdcatap:hasVariables", "dcat:contactPoint", "dcat:keyword", "dct:type",
    "dct:provenance",
)  # fmt: skip
MANDATORY = {
    "dcat:Dataset": OF_DATASETS,
    "dcat:Distribution": ("dcat:accessURL", "dcatap:applicableLegislation"),
    "csvw:TableGroup": ("dct:title", "csvw:table"),
    "csvw:Table": ("dct:title", "csvw:column"),
    "csvw:Column": ("csvw:name", "csvw:title", "csvw:datatype", "dct:description"),
    "foaf:Agent": ("foaf:name", "cv:contactPoint"),
}


def described(ending: str, *words: str) -> Path:
    good("sample", "-n", "60", "--seed", "2", *words, "-o", f"my rows.{ending}", "--force")
    good("metadata", "--synthetic", f"my rows.{ending}", "--review", "review.yaml", "--force")
    return Path("small.package")


def croissant_issues(folder: Path) -> tuple[Any, set[str], set[str]]:
    croissant = pytest.importorskip("mlcroissant", reason=EXTRA)
    found = croissant.Dataset(str(folder / "croissant.json"))
    return found, set(found.metadata.issues.errors), set(found.metadata.issues.warnings)


@pytest.mark.matrix
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("ending", ENDINGS)
def test_croissant_loads_the_rows(small: Path, ending: str) -> None:
    found, errors, warnings = croissant_issues(folder := described(ending, "--mark"))
    assert not errors and all("citeAs" in one or "version" in one for one in warnings), warnings
    records = list(found.records("my_rows"))
    read = pd.read_parquet if ending == "parquet" else pd.read_csv
    rows = read(folder / f"my rows.{ending}")
    assert [record["my_rows/age"] for record in records] == list(rows["age"])
    assert {record["my_rows/synthetic"] for record in records} == {b"yes"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("ending", ENDINGS)
def test_frictionless_finds_every_cell_valid(small: Path, ending: str) -> None:
    frictionless = pytest.importorskip("frictionless", reason=EXTRA)
    folder = described(ending, "--mark")
    report = frictionless.validate(str(folder / "datapackage.json"))
    assert report.valid, report.flatten(["rowNumber", "fieldName", "type", "message"])[:5]
    assert report.tasks[0].stats["rows"] == 60


@pytest.mark.filterwarnings("ignore")
def test_frictionless_finds_a_wrong_cell(small: Path) -> None:
    frictionless = pytest.importorskip("frictionless", reason=EXTRA)
    folder = described("csv")
    rows = pd.read_csv(folder / "my rows.csv", dtype=str, keep_default_na=False)
    rows.loc[0, ["age", "ward", "seen", "score"]] = ["17", "F", "2020-01-01", "lost"]
    rows.to_csv(folder / "my rows.csv", index=False)
    report = frictionless.validate(str(folder / "datapackage.json"))
    assert {"age", "ward", "seen", "score"} <= {name for (name,) in report.flatten(["fieldName"])}


@pytest.mark.filterwarnings("ignore")
def test_a_crate_opens(small: Path) -> None:
    rocrate = pytest.importorskip("rocrate.rocrate", reason=EXTRA)
    folder = described("csv")
    crate = rocrate.ROCrate(str(folder))
    names = {path.name for path in folder.iterdir()} - {"ro-crate-metadata.json"}
    assert {unquote(entity.id) for entity in crate.data_entities} == names
    root = crate.root_dataset
    assert root["license"].id.startswith("https://creativecommons.org") and root["datePublished"]
    assert crate.mainEntity.id == "my%20rows.csv"
    ids = {entity["@id"] for entity in json.loads((folder / "ro-crate-metadata.json").read_text())["@graph"]}
    assert {f"#variable/my%20rows/{name}" for name in ("age", "ward", "tsh")} <= ids


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("reviewed", [True, False], ids=["reviewed", "bare"])
def test_health_catalogues_find_what_is_mandatory(small: Path, reviewed: bool) -> None:
    rdflib = pytest.importorskip("rdflib", reason=EXTRA)
    good("metadata", *(["--review", "review.yaml"] if reviewed else []))
    graph = rdflib.Graph().parse("small.package/healthdcat-ap.jsonld", format="json-ld")
    spaces = json.loads(Path("small.package/healthdcat-ap.jsonld").read_text())["@context"]

    def name(word: str) -> Any:
        space, _, rest = word.partition(":")
        return rdflib.URIRef(spaces[space] + rest)

    lacking = {
        (kind, path)
        for kind, paths in MANDATORY.items()
        for node in graph.subjects(rdflib.RDF.type, name(kind))
        for path in paths
        if graph.value(node, name(path)) is None
    }
    people = {"dct:accessRights", "dcatap:applicableLegislation", "dct:identifier", "healthdcatap:hdab",
              "healthdcatap:healthCategory", "dcat:contactPoint", "dcat:accessURL"}  # fmt: skip
    assert {path for _, path in lacking} == (set() if reviewed else people)
    types = [str(one) for one in graph.objects(None, name("dct:type"))]
    assert types == ["http://publications.europa.eu/resource/authority/dataset-type/SYNTHETIC_DATA"]
    assert len(list(graph.subjects(rdflib.RDF.type, name("csvw:Column")))) == 17


# The twelve elements of the draft on minimum metadata, and three of DCAT, as shapes: each is there, and of its class.
SHAPES = """
@prefix sh: <http://www.w3.org/ns/shacl#> . @prefix dct: <http://purl.org/dc/terms/> .
@prefix dcat: <http://www.w3.org/ns/dcat#> . @prefix h: <http://healthdataportal.eu/ns/health#> .
@prefix foaf: <http://xmlns.com/foaf/0.1/> . @prefix cv: <http://data.europa.eu/m8g/> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> . @prefix : <urn:shape:> .
:agent a sh:NodeShape ; sh:property
  [ sh:path foaf:name ; sh:minCount 1 ] , [ sh:path cv:contactPoint ; sh:minCount 1 ] .
:period a sh:NodeShape ; sh:property [ sh:path dcat:startDate ; sh:datatype xsd:date ; sh:minCount 1 ; sh:maxCount 1 ] ,
  [ sh:path dcat:endDate ; sh:datatype xsd:date ; sh:minCount 1 ; sh:maxCount 1 ] .
:dataset a sh:NodeShape ; sh:targetClass dcat:Dataset ; sh:property
  [ sh:path dct:identifier ; sh:minCount 1 ] , [ sh:path dct:title ; sh:minCount 1 ] ,
  [ sh:path dct:description ; sh:minCount 1 ] , [ sh:path dct:accessRights ; sh:minCount 1 ; sh:maxCount 1 ] ,
  [ sh:path <http://data.europa.eu/r5r/applicableLegislation> ; sh:minCount 1 ] ,
  [ sh:path h:healthCategory ; sh:minCount 1 ] , [ sh:path h:hdab ; sh:minCount 1 ; sh:node :agent ] ,
  [ sh:path dcat:contactPoint ; sh:minCount 1 ] , [ sh:path dcat:distribution ; sh:minCount 1 ] ,
  [ sh:path dct:provenance ; sh:minCount 1 ] , [ sh:path h:hasVariables ; sh:minCount 1 ] ,
  [ sh:path dct:temporal ; sh:minCount 1 ; sh:class dct:PeriodOfTime ; sh:node :period ] ,
  [ sh:path dct:spatial ; sh:minCount 1 ; sh:class dct:Location ] ,
  [ sh:path h:hasCodingSystem ; sh:minCount 1 ; sh:class dct:Standard ; sh:nodeKind sh:IRI ] ,
  [ sh:path <http://data.europa.eu/930/custodian> ; sh:minCount 1 ; sh:maxCount 1 ; sh:node :agent ] .
"""
ACCESS_LEVELS = ["public", "restricted", "non-public"]


def at_level(level: str) -> str:
    text = Path("review.yaml").read_text().replace("access: non-public", f"access: {level}")
    Path("review.yaml").write_text(text)
    good("metadata", "--review", "review.yaml", "--force")
    return Path("small.package/healthdcat-ap.jsonld").read_text()


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("level", ACCESS_LEVELS)
def test_the_twelve_elements_meet_their_shapes(small: Path, level: str) -> None:
    pyshacl = pytest.importorskip("pyshacl", reason=EXTRA)
    text = at_level(level)
    conforms, _, words = pyshacl.validate(text, data_graph_format="json-ld", shacl_graph=SHAPES,
                                          shacl_graph_format="turtle")  # fmt: skip
    assert conforms, words
    for name in ("dct:temporal", "dct:spatial", "healthdcatap:hasCodingSystem", "geodcatap:custodian",
                 "dct:provenance", "healthdcatap:hasVariables"):  # fmt: skip
        less = json.dumps({key: value for key, value in json.loads(text).items() if key != name})
        assert not pyshacl.validate(less, data_graph_format="json-ld", shacl_graph=SHAPES,
                                    shacl_graph_format="turtle")[0], name  # fmt: skip


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("level", ACCESS_LEVELS)
def test_the_description_meets_the_shapes_of_the_profile(small: Path, level: str) -> None:
    """The profile's own shapes for an access level: files in a folder of that name, or in the folder for all levels."""
    pyshacl, rdflib = pytest.importorskip("pyshacl", reason=EXTRA), pytest.importorskip("rdflib", reason=EXTRA)
    if not (folder := os.environ.get("MEDSYNTH_HEALTHDCAT_SHAPES")):
        pytest.skip("MEDSYNTH_HEALTHDCAT_SHAPES names no folder with the shapes of HealthDCAT-AP (.ttl): not shipped")
    shapes = rdflib.Graph()
    for path in [*Path(folder).glob("*.ttl"), *(Path(folder) / level).glob("*.ttl")]:
        shapes.parse(path)
    conforms, _, words = pyshacl.validate(at_level(level), data_graph_format="json-ld", shacl_graph=shapes)
    assert conforms, words


@pytest.mark.parametrize(("text", "days"), [
    ("2019", ("2019-01-01", "2019-12-31")), ("from 2019-03 to 2020-02", ("2019-03-01", "2020-02-29")),
    ("2019-01-05–2019-01-06", ("2019-01-05", "2019-01-06")), ("recently", None), (None, None), ("2020 to 2019", None),
    ("2019-13", None), ("2019, 2020 and 2021", None), ("ward 20190", None),
])  # fmt: skip
def test_a_period_is_read(text: str | None, days: tuple[str, str] | None) -> None:
    found = period(text)
    assert found is None if days is None else tuple(day.isoformat() for day in found or ()) == days
