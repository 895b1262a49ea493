"""The descriptions as the libraries of their standards read them. They are not installed with medsynth itself."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pandas as pd
import pytest
from commands import good

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
