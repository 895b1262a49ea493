"""The folder that is handed over: what it contains, what it states, and what it refuses."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from commands import good, run

import medsynth
from medsynth.sampling.structure import structure_model
from medsynth.schema import Schema

NAMES = {
    "README.md",
    "croissant.json", "data-dictionary.csv", "datapackage.json", "healthdcat-ap.jsonld", "ro-crate-metadata.json",
    "small.synthetic.csv", "small.synthetic.csv.provenance.json",
}  # fmt: skip


def made(*words: object) -> Path:
    good("metadata", *words)
    return Path("small.package")


def dictionary(folder: Path) -> dict[str, dict[str, str]]:
    """The lines of the data dictionary, by column."""
    with (folder / "data-dictionary.csv").open(newline="", encoding="utf-8") as file:
        return {line["column"]: line for line in csv.DictReader(file)}


def test_the_folder_has_the_table_and_its_descriptions(small: Path) -> None:
    facts = json.loads(good("metadata", "--json").stdout)
    assert {path.name for path in Path("small.package").iterdir()} == NAMES
    assert {Path(name).name for name in facts["files"]} == NAMES
    assert facts["rows"] == 60 and facts["claims"] and "catalogue.identifier" in facts["unfilled"]
    assert Path("small.package/small.synthetic.csv").read_bytes() == Path("small.synthetic.csv").read_bytes()


def test_each_description_states_the_claim_and_that_rows_are_synthetic(small: Path) -> None:
    folder = made("--review", "review.yaml")
    claim = json.loads((folder / "small.synthetic.csv.provenance.json").read_text())["claim"]
    for name in sorted(NAMES - {"small.synthetic.csv", "small.synthetic.csv.provenance.json", "README.md"}):
        text = (folder / name).read_text()
        for word in ("SYNTHETIC", claim, "method independent", "row", "1e-05"):
            assert word in text, (name, word)
    readme = (folder / "README.md").read_text()
    assert claim in readme and "The rows are synthetic." in readme
    for name in sorted(name for name in NAMES if "json" in name and "provenance" not in name):
        text = (folder / name).read_text()
        for word in ("teaching", "University of X", "creativecommons"):
            assert word in text, (name, word)


def test_what_only_people_know_is_asked_for_and_never_invented(small: Path) -> None:
    result = good("metadata")
    for word in ("access (public", "contact", "licence", "catalogue.legislation", "catalogue.access_body_contact"):
        assert word in result.stderr, word
    content = json.loads(Path("small.package/healthdcat-ap.jsonld").read_text())
    absent = ("dct:accessRights", "dct:identifier", "dcatap:applicableLegislation", "healthdcatap:hdab")
    assert not set(absent) & set(content) and "dct:license" not in content["dcat:distribution"][0]
    assert "license" not in json.loads(Path("small.package/croissant.json").read_text())
    assert "need facts" not in good("metadata", "--review", "review.yaml", "--force").stderr


@pytest.mark.parametrize(
    ("line", "entry"),
    [
        ("access: whoever asks", "access"),
        ("contact: ask at the desk", "contact"),
        ("catalogue: {legislation: [the law]}", "catalogue.legislation"),
        ("catalogue: {access_url: by post}", "catalogue.access_url"),
        ("catalogue: {access_body: B, access_body_contact: by post}", "catalogue.access_body_contact"),
    ],
)
def test_an_entry_that_a_catalogue_cannot_use_is_asked_for(small: Path, line: str, entry: str) -> None:
    Path("review.yaml").write_text(line)
    facts = json.loads(good("metadata", "--review", "review.yaml", "--json").stdout)
    assert any(one.startswith(entry) for one in facts["unfilled"])


def test_the_dictionary_describes_each_column(small: Path) -> None:
    found = dictionary(made("--review", "review.yaml"))
    assert list(found) == list(pd.read_csv("small.synthetic.csv", nrows=0))
    expected: dict[str, dict[str, str]] = {
        "patient": {"kind": "identifier", "key": "yes", "synthetic_median": ""},
        "seen": {
            "minimum_allowed": "01.01.2020",
            "maximum_allowed": "31.12.2020",
            "format": "%d.%m.%Y",
            "type": "date",
        },
        "left": {"minimum_allowed": "0", "maximum_allowed": "30", "missing_codes": "(empty)"},
        "age": {"minimum_allowed": "18", "maximum_allowed": "110", "unit": "years", "role": "quasi identifier"},
        "score": {"missing_codes": "-9; refused", "type": "integer"},
        "tsh": {"decimals": "2", "unit": "mIU/l", "role": "sensitive", "maximum_allowed": "50.00"},
        "grade": {"levels": "low; mid; high", "levels_in_order": "yes", "role": "target"},
        "ward": {"levels": 'A, "B"; C; D; E', "levels_in_order": "", "declared_or_learned": "declared"},
    }
    for column, cells in expected.items():
        for name, cell in cells.items():
            assert found[column][name] == cell, (column, name)


def test_labels_are_in_every_description(small: Path) -> None:
    folder = made()
    cells = dictionary(folder)["sex"]
    assert (
        cells["label"] == "'=Sex at birth"
        and cells["levels"] == "0=f, x; 1=m"
        and dictionary(folder)["age"]["label"] == ""
    )
    assert cells["missing_codes"] == "9=not known"
    fields = json.loads((folder / "datapackage.json").read_text())["resources"][0]["schema"]["fields"]
    field = next(one for one in fields if one["name"] == "sex")
    assert field["title"] == "=Sex at birth"
    assert field["categories"] == [{"value": 0, "label": "f; x"}, {"value": 1, "label": "m"}]
    for name in ("croissant.json", "ro-crate-metadata.json", "healthdcat-ap.jsonld"):
        assert "SYNTHETIC. =Sex at birth; binary; levels 0 (f; x), 1 (m)" in (folder / name).read_text()


def test_no_cell_of_the_dictionary_is_a_formula(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Names, units and levels may come from somebody's dictionary. Numbers stay numbers."""
    monkeypatch.chdir(tmp_path)
    frame = pd.DataFrame({"=1+1": [-1, 2, 3] * 20, "+a": ["@SUM(A1)", "b", "b"] * 20, "x": ["p", "q", "q"] * 20})
    frame.to_csv("small.csv", index=False)
    Path("small.schema.yaml").write_text(
        """name: small
columns:
  "=1+1": {kind: count, bounds: [-5, 9], unit: "=cmd|' /C calc'!A0"}
  "+a": {kind: binary, levels: ["@SUM(A1)", b]}
  x: {kind: binary, levels: [p, q]}
"""
    )
    good("fit", "small.csv", "--epsilon", "3", "--rows", "60", "--method", "independent")
    good("sample", "-n", "60")
    cells = dictionary(made())
    assert list(cells) == ["'=1+1", "'+a", "x"]
    assert cells["'=1+1"]["unit"] == "'=cmd|' /C calc'!A0" and cells["'=1+1"]["minimum_allowed"] == "-5"
    assert cells["'+a"]["levels"] == "'@SUM(A1); b"


def test_summaries_are_those_of_the_synthetic_rows(small: Path) -> None:
    found, rows = dictionary(made()), pd.read_csv("small.synthetic.csv")
    assert float(found["tsh"]["synthetic_share_missing"]) == pytest.approx(rows["tsh"].isna().mean(), abs=1e-4)
    ages = sorted(rows["age"])
    assert [int(found["age"][f"synthetic_{name}"]) for name in ("quartile_1", "median", "quartile_3")] == [
        ages[14], ages[29], ages[44]
    ]  # fmt: skip
    shares = dict(part.split(": ") for part in found["grade"]["synthetic_level_shares"].split("; "))
    assert {k: float(v) for k, v in shares.items()} == pytest.approx(
        {level: (rows["grade"] == level).mean() for level in ("low", "mid", "high")}, abs=1e-4
    )
    codes = rows["score"].isin(["-9", "refused"]).mean()
    assert float(found["score"]["synthetic_share_missing"]) == pytest.approx(codes, abs=1e-4)


def test_rows_that_the_model_did_not_draw_are_not_described(small: Path) -> None:
    """Not even one other cell: a table of real rows under the name of a synthetic one is never summarised."""
    text = Path("small.synthetic.csv").read_text()
    Path("small.synthetic.csv").write_text(text.replace("low", "mid", 1))
    result = run("metadata")
    assert result.exit_code == 2 and "Nothing proves" in result.stderr and not Path("small.package").exists()
    Path("small.synthetic.csv").write_text(text)
    Path("small.synthetic.csv.provenance.json").unlink()
    assert run("metadata").exit_code == 2 and not Path("small.package").exists()


def test_a_statistical_file_is_described_with_what_it_cannot_keep(small: Path) -> None:
    """Labels of codes, which an .xpt file has not; dates in the form that its reader shows."""
    pytest.importorskip("pyreadstat")
    schema = Schema.from_yaml(
        """name: t
columns:
  seen: {kind: date, bounds: [2020-01-01, 2020-12-31], format: "%d.%m.%Y"}
  sex: {kind: binary, levels: [0, 1], label: Sex, value_labels: {0: female, 1: male}}
"""
    )
    rows = structure_model(schema).sample(60, seed=1)
    medsynth.fit(rows, epsilon=3.0, schema=schema, method="independent", rows=60, anyway=True, notice=print).save(
        "t.medsynth"
    )
    good("sample", "--model", "t.medsynth", "-n", "60", "-o", "t.synthetic.xpt")
    good("metadata", "--model", "t.medsynth", "--synthetic", "t.synthetic.xpt")
    cells = dictionary(Path("t.package"))
    assert cells["sex"]["levels"] == "0=female; 1=male" and cells["seen"]["format"] == "%Y-%m-%d"
    resource = json.loads(Path("t.package/datapackage.json").read_text())["resources"][0]
    assert resource["format"] == "xpt" and resource["mediatype"] == "application/octet-stream"
    assert Path("t.package/t.synthetic.xpt").read_bytes() == Path("t.synthetic.xpt").read_bytes()


def test_a_folder_with_other_files_is_refused(small: Path) -> None:
    """A crate describes its whole folder, and who receives the folder receives every file in it."""
    for words in (["-o", "."], ["-o", ".", "--force"]):
        result = run("metadata", *words)
        assert result.exit_code == 1 and "other files" in result.stderr
    assert not Path("croissant.json").exists()


def test_nothing_is_overwritten_without_force(small: Path) -> None:
    folder = made()
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    result = run("metadata", "--review", "review.yaml")
    assert result.exit_code == 1 and "--force" in result.stderr
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    made("--review", "review.yaml", "--force")
    assert (folder / "healthdcat-ap.jsonld").read_bytes() != before["healthdcat-ap.jsonld"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--synthetic", "nothing.csv"], "There is no synthetic table"),
        (["--synthetic", "."], "needs a file"),
        (["-o", "review.yaml"], "is a file"),
        (["-o", "nowhere/there"], "no folder nowhere"),
        (["--review", "small.schema.yaml"], "The keys are"),
        (["--review", "roles.yaml"], "`roles` names columns"),
    ],
)
def test_faults_of_the_user_are_explained(small: Path, words: list[str], message: str) -> None:
    Path("roles.yaml").write_text("roles: {nothing: sensitive}")
    result = run("metadata", *words)
    assert result.exit_code in (1, 2, 4) and message in result.stderr and "bug" not in result.stderr, result.stderr


def test_a_draw_under_conditions_is_stated(small: Path) -> None:
    good("sample", "-n", "20", "--where", "grade=low", "-o", "low.csv")
    good("metadata", "--synthetic", "low.csv")
    content: dict[str, Any] = json.loads(Path("small.package/datapackage.json").read_text())
    assert "Only rows with grade=low." in content["description"]
    assert "1.0000" in dictionary(Path("small.package"))["grade"]["synthetic_level_shares"]


@pytest.mark.nightly
def test_replicates_are_described_with_their_column(small: Path) -> None:
    good("sample", "-n", "20", "--replicates", "2", "--mark", "-o", "two.csv")
    good("metadata", "--synthetic", "two.csv")
    found = dictionary(Path("small.package"))
    assert list(found) == list(pd.read_csv("two.csv", nrows=0)) and "two" in found["replicate"]["table"]
    assert "2 replicates" in found["age"]["statement"]
    good("sample", "-n", "20", "--replicates", "2", "-o", "part-{replicate}.csv")
    good("metadata", "--synthetic", "part-2.csv", "-o", "second")
    found = dictionary(Path("second"))
    assert "replicate" not in found and "Replicate 2 of 2." in found["age"]["statement"]


def test_rows_without_privacy_are_described_as_such(small: Path, rows: pd.DataFrame) -> None:
    rows.to_csv("bare.csv", index=False)
    Path("bare.schema.yaml").write_text(Path("small.schema.yaml").read_text())
    good("fit", "bare.csv", "--no-dp", "--rows", "80", "--method", "independent")
    good("sample", "bare.medsynth", "-n", "20")
    result = good("metadata", "bare.medsynth")
    assert "NOT DIFFERENTIALLY PRIVATE" in result.stderr
    for path in sorted(Path("bare.package").iterdir()):
        assert path.name == "bare.synthetic.csv" or "NOT DIFFERENTIALLY PRIVATE" in path.read_text(), path.name
