"""Several tables in one folder to hand over: one resource each, with the keys that link them."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest
from commands import good

import medsynth

EXTRA = "pip install -c constraints.txt 'medsynth[metadata]'"


@pytest.fixture
def package(model: medsynth.Model, once: Callable[..., Path], tmp_path: Path) -> Path:
    def make(folder: Path) -> None:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            model.save(folder / "ward.medsynth")
            good("sample", "-n", "40", "--seed", "1", "--mark")
            good("metadata")

    return shutil.copytree(once("linked_package", make) / "ward.package", tmp_path / "ward.package")


@pytest.mark.nightly
def test_each_table_is_a_resource_with_its_keys(package: Path) -> None:
    content = json.loads((package / "datapackage.json").read_text())
    found = {one["name"]: one["schema"] for one in content["resources"]}
    assert list(found) == ["patients", "stays", "tests", "consent"]
    assert found["patients"]["primaryKey"] == ["patient"] and "foreignKeys" not in found["patients"]
    links = {(one["fields"][0], one["reference"]["resource"]) for one in found["tests"]["foreignKeys"]}
    assert links == {("patient", "patients"), ("stay", "stays")}
    lines = pd.read_csv(package / "data-dictionary.csv", dtype=str, keep_default_na=False)
    taken = lines[(lines["table"] == "tests") & (lines["column"] == "taken")].iloc[0]
    assert "orders the rows" in taken["notes"]
    key = lines[(lines["table"] == "stays") & (lines["column"] == "patient")].iloc[0]
    assert key["refers_to"] == "patients.patient" and "key of the patient" in key["notes"]
    for name in found:
        assert set(pd.read_csv(package / f"{name}.csv")["synthetic"]) == {"yes"}


@pytest.mark.nightly
@pytest.mark.filterwarnings("ignore")
def test_the_libraries_read_them(package: Path) -> None:
    frictionless = pytest.importorskip("frictionless", reason=EXTRA)
    croissant = pytest.importorskip("mlcroissant", reason=EXTRA)
    report = frictionless.validate(str(package / "datapackage.json"))
    assert report.valid, report.flatten(["rowNumber", "fieldName", "type", "message"])[:5]
    found = croissant.Dataset(str(package / "croissant.json"))
    assert not found.metadata.issues.errors
    rows = pd.read_csv(package / "stays.csv")
    assert len(list(found.records("stays"))) == len(rows)
    shutil.rmtree(package)
